//! Transfers in virtual time: along their way link by link, waiting in line where one is busy.

use dahl_core::{Bytes, Seconds};

use super::SimError;
use super::agenda::{Agenda, Event};
use super::copies::Key;
use super::memories::Memories;
use super::outcome::Transfer;
use crate::policy::TaskRef;

/// A transfer under way or in line.
#[derive(Debug)]
pub(super) struct Move {
    pub key: Key,
    pub cells: Vec<u32>,
    pub bytes: u64,
    pub from: usize,
    pub to: usize,
    /// Links still to go, the current one first.
    pub way: Vec<u16>,
    pub started: f64,
    pub for_task: Option<TaskRef>,
    pub ahead: bool,
    /// Units to tell.
    pub waiters: Vec<u16>,
}

/// What is to be moved.
pub(super) struct Order {
    pub key: Key,
    pub cells: Vec<u32>,
    pub from: usize,
    pub to: usize,
    /// The unit that waits for it; none if it is made ahead.
    pub unit: Option<u16>,
    /// The task it is made for; none if room is made.
    pub for_task: Option<TaskRef>,
}

impl Memories<'_> {
    /// Begins a transfer, or puts it in line.
    pub(super) fn send(
        &mut self,
        order: Order,
        now: f64,
        agenda: &mut Agenda,
    ) -> Result<(), SimError> {
        let Order {
            key,
            cells,
            from,
            to,
            unit,
            for_task,
        } = order;
        let Some(way) = self.ways.get(from, to) else {
            let name = |m: usize| self.machine.memories[m].name.clone();
            return Err(SimError::NoWay {
                from: name(from),
                to: name(to),
            });
        };
        let way = way.to_vec();
        for &cell in &cells {
            self.copies.moving[cell as usize] += 1;
        }
        // Both ends stay until it has ended.
        self.copies.pin(key, from);
        self.copies.pin(key, to);
        let bytes = cells.iter().map(|&c| self.copies.cell_bytes(c)).sum();
        let m = Move {
            key,
            cells,
            bytes,
            from,
            to,
            way,
            started: now,
            for_task,
            ahead: unit.is_none(),
            waiters: unit.into_iter().collect(),
        };
        if let Some(unit) = unit {
            self.wants[usize::from(unit)].transfers += 1;
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => {
                self.moves.push(None);
                self.moves.len() as u32 - 1
            }
        };
        self.moves[id as usize] = Some(m);
        self.board(id, now, agenda);
        Ok(())
    }

    /// A transfer asks for the next link of its way.
    fn board(&mut self, id: u32, now: f64, agenda: &mut Agenda) {
        if let Some(m) = &self.moves[id as usize]
            && self.lanes.enter(self.machine, m.way[0], id)
        {
            self.depart(id, now, agenda);
        }
    }

    fn depart(&mut self, id: u32, now: f64, agenda: &mut Agenda) {
        if let Some(m) = &mut self.moves[id as usize] {
            m.started = now;
            let seconds = self.lanes.carry(self.machine, m.way[0], m.bytes);
            agenda.add(now + seconds, Event::Arrived(id));
        }
    }

    /// A transfer has come to the end of a link. Collects the units that may try again.
    pub fn arrived(&mut self, id: u32, now: f64, agenda: &mut Agenda, again: &mut Vec<u16>) {
        let Some(mut m) = self.moves[id as usize].take() else {
            return;
        };
        let link = m.way.remove(0);
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
        if let Some(next) = self.lanes.leave(link) {
            self.depart(next, now, agenda);
        }
        let here = usize::from(self.machine.links[usize::from(link)].to.0);
        if here == 0 || self.copies.has_buffer(m.key, here) {
            for &cell in &m.cells {
                // If it was given up where it came from, it has been written since, or forgotten.
                if self.copies.places(cell) & (1 << m.from) != 0 {
                    self.copies.arrived(cell, here);
                }
            }
        }
        if !m.way.is_empty() {
            self.moves[id as usize] = Some(m);
            self.board(id, now, agenda);
            return;
        }
        self.copies.unpin(m.key, m.from);
        self.copies.unpin(m.key, m.to);
        for &cell in &m.cells {
            self.copies.moving[cell as usize] -= 1;
        }
        self.free.push(id);
        for unit in m.waiters {
            let want = &mut self.wants[usize::from(unit)];
            want.transfers -= 1;
            if want.transfers == 0 {
                again.push(unit);
            }
        }
        self.retry(m.from, again);
        self.retry(m.to, again);
    }
}
