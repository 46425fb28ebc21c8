//! Transfers in virtual time: along their way link by link, waiting in line where one is busy.

use dahl_core::{Bytes, Seconds};

use super::SimError;
use super::agenda::{Agenda, Event};
use super::copies::Key;
use super::memories::{Memories, Want};
use super::outcome::Transfer;
use crate::policy::TaskRef;

/// A transfer under way or in line.
#[derive(Debug, Default)]
pub(super) struct Move {
    pub key: Key,
    pub cells: Vec<u32>,
    bytes: u64,
    pub from: usize,
    pub to: usize,
    /// Links of its way that are behind it.
    done: usize,
    started: f64,
    /// The task it is made for; none if room is made.
    pub for_task: Option<TaskRef>,
    ahead: bool,
    /// Units to tell.
    waiters: Vec<u16>,
}

/// All transfers, by number. Those that have ended carry no cells, and their places and room are used again.
#[derive(Debug, Default)]
pub(super) struct Moves {
    all: Vec<Move>,
    free: Vec<u32>,
}

impl Moves {
    /// A transfer that is yet to be loaded and sent.
    pub fn draw(&mut self, key: Key, from: usize, to: usize) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.all.push(Move::default());
            self.all.len() as u32 - 1
        });
        let m = &mut self.all[id as usize];
        (m.key, m.from, m.to, m.done) = (key, from, to, 0);
        id
    }

    pub fn get(&mut self, id: u32) -> &mut Move {
        &mut self.all[id as usize]
    }

    /// The one that brings a cell of an array to a memory.
    pub fn bringing(&self, key: Key, cell: u32, memory: usize) -> Option<u32> {
        let brings = |m: &Move| m.key == key && m.to == memory && m.cells.contains(&cell);
        let place = self.all.iter().position(brings);
        place.map(|id| id as u32)
    }

    /// A unit waits until a transfer has ended.
    pub fn wait_for(&mut self, id: u32, unit: u16, wants: &mut [Want]) {
        self.all[id as usize].wake(unit, wants);
    }

    /// A unit waits for all transfers of a cell of an array.
    pub fn wait_for_all(&mut self, key: Key, cell: u32, unit: u16, wants: &mut [Want]) {
        let carries = |m: &&mut Move| m.key == key && m.cells.contains(&cell);
        let all = self.all.iter_mut().filter(carries);
        all.for_each(|m| m.wake(unit, wants));
    }
}

impl Move {
    /// Has a unit that waits told at the end.
    fn wake(&mut self, unit: u16, wants: &mut [Want]) {
        if !self.waiters.contains(&unit) {
            self.waiters.push(unit);
            wants[usize::from(unit)].transfers += 1;
        }
    }
}

impl Memories<'_> {
    /// Begins a transfer, or puts it in line; `unit` waits for it, or else it is made ahead.
    pub(super) fn send(
        &mut self,
        id: u32,
        unit: Option<u16>,
        for_task: Option<TaskRef>,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<(), SimError> {
        let m = self.moves.get(id);
        if self.ways.get(m.from, m.to).is_none() {
            let name = |memory: usize| self.machine.memories[memory].name.clone();
            return Err(SimError::NoWay {
                from: name(m.from),
                to: name(m.to),
            });
        }
        m.bytes = 0;
        for &cell in &m.cells {
            self.copies.moving[cell as usize] += 1;
            m.bytes += self.copies.cell_bytes(cell);
        }
        // Both ends stay until it has ended.
        self.copies.pin(m.key, m.from);
        self.copies.pin(m.key, m.to);
        (m.for_task, m.ahead, m.started) = (for_task, unit.is_none(), now);
        if let Some(unit) = unit {
            m.wake(unit, &mut self.wants);
        }
        self.board(id, now, agenda);
        Ok(())
    }

    /// The link that a transfer is on or waits for.
    fn link(&mut self, id: u32) -> u16 {
        let m = self.moves.get(id);
        let way = self.ways.get(m.from, m.to).expect("it was sent");
        way[m.done]
    }

    /// A transfer asks for the next link of its way.
    fn board(&mut self, id: u32, now: f64, agenda: &mut Agenda) {
        let link = self.link(id);
        if self.lanes.enter(self.machine, link, id) {
            self.depart(id, link, now, agenda);
        }
    }

    fn depart(&mut self, id: u32, link: u16, now: f64, agenda: &mut Agenda) {
        let m = self.moves.get(id);
        m.started = now;
        let seconds = self.lanes.carry(self.machine, link, m.bytes);
        agenda.add(now + seconds, Event::Arrived(id));
    }

    /// A transfer has come to the end of a link. Collects the units that may try again.
    pub fn arrived(&mut self, id: u32, now: f64, agenda: &mut Agenda, again: &mut Vec<u16>) {
        let link = self.link(id);
        if let Some(next) = self.lanes.leave(link) {
            self.depart(next, link, now, agenda);
        }
        let m = self.moves.get(id);
        if let Some(log) = &mut self.log {
            log.push(Transfer {
                link,
                bytes: Bytes(m.bytes),
                for_task: m.for_task,
                ahead: m.ahead,
                start: Seconds(m.started),
                end: Seconds(now),
            });
        }
        let here = usize::from(self.machine.links[usize::from(link)].to.0);
        if self.copies.has_buffer(m.key, here) {
            for &cell in &m.cells {
                // If it was given up where it came from, it has been written since, or forgotten.
                if self.copies.places(cell) & (1 << m.from) != 0 {
                    self.copies.arrived(cell, here);
                }
            }
        }
        m.done += 1;
        if here == m.to {
            self.end(id, again);
        } else {
            self.board(id, now, agenda);
        }
    }

    fn end(&mut self, id: u32, again: &mut Vec<u16>) {
        let m = self.moves.get(id);
        self.copies.unpin(m.key, m.from);
        self.copies.unpin(m.key, m.to);
        for cell in m.cells.drain(..) {
            self.copies.moving[cell as usize] -= 1;
        }
        for unit in m.waiters.drain(..) {
            let want = &mut self.wants[usize::from(unit)];
            want.transfers -= 1;
            if want.transfers == 0 {
                again.push(unit);
            }
        }
        let ends = [m.from, m.to];
        self.moves.free.push(id);
        ends.iter().for_each(|&memory| self.retry(memory, again));
    }
}
