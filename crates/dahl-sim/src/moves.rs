//! Transfers in virtual time: along their way link by link, waiting in line where one is busy.
//!
//! A transfer is a copy of parts of one array, or a batch of small ones that are started together.

use dahl_core::{Bytes, Link, Seconds};

use super::SimError;
use super::agenda::{Agenda, Event};
use super::copies::{Copies, Key};
use super::memories::{Memories, Want};
use super::prediction::TransferSpan;
use dahl_sched::policy::TaskRef;

/// A transfer under way or in line.
#[derive(Debug, Default)]
pub(super) struct Move {
    copies: Vec<Copy>,
    /// The cells of all copies, one after the other.
    pub cells: Vec<u32>,
    bytes: u64,
    pub from: usize,
    pub to: usize,
    /// Links of its way that are behind it.
    done: usize,
    started: f64,
    /// The task it is made for; none if room is made.
    for_task: Option<TaskRef>,
    ahead: bool,
    /// The launch and number of the transfer that was planned, if it was.
    pub planned: Option<(u64, u32)>,
    /// Units to tell.
    waiters: Vec<u16>,
}

/// What of one array is copied.
#[derive(Clone, Copy, Debug)]
struct Copy {
    key: Key,
    bytes: u64,
    /// How many of the transfer's cells are its own.
    cells: usize,
}

impl Move {
    /// The cells put in since the last copy are one of an array. From now on they count as moving, and both
    /// ends stay.
    pub(crate) fn close(&mut self, key: Key, copies: &mut Copies) {
        let before: usize = self.copies.iter().map(|c| c.cells).sum();
        let own = &self.cells[before..];
        let mut bytes = 0;
        for &cell in own {
            copies.moving[cell as usize] += 1;
            bytes += copies.cell_bytes(cell);
        }
        copies.pin(key, self.from);
        copies.pin(key, self.to);
        self.bytes += bytes;
        let cells = own.len();
        self.copies.push(Copy { key, bytes, cells });
    }

    /// Its copies, each with its cells.
    fn parts(&self) -> impl Iterator<Item = (&Copy, &[u32])> {
        let mut rest = &self.cells[..];
        self.copies.iter().map(move |copy| {
            let (own, others) = rest.split_at(copy.cells);
            rest = others;
            (copy, own)
        })
    }

    fn carries(&self, key: Key, cell: u32) -> bool {
        self.copies.iter().any(|c| c.key == key) && self.cells.contains(&cell)
    }

    /// Has a unit that waits told at the end.
    fn wake(&mut self, unit: u16, wants: &mut [Want]) {
        if !self.waiters.contains(&unit) {
            self.waiters.push(unit);
            wants[usize::from(unit)].transfers += 1;
        }
    }
}

/// All transfers, by number. Those that have ended carry nothing, and their places and room are used again.
#[derive(Debug, Default)]
pub(super) struct Moves {
    all: Vec<Move>,
    free: Vec<u32>,
}

impl Moves {
    /// A transfer that is yet to be loaded and sent.
    pub(crate) fn draw(&mut self, from: usize, to: usize) -> u32 {
        let id = self.free.pop().unwrap_or_else(|| {
            self.all.push(Move::default());
            self.all.len() as u32 - 1
        });
        let m = &mut self.all[id as usize];
        (m.from, m.to, m.done, m.bytes) = (from, to, 0, 0);
        m.planned = None;
        id
    }

    pub(crate) fn get(&mut self, id: u32) -> &mut Move {
        &mut self.all[id as usize]
    }

    /// The one that brings a cell of an array to a memory.
    pub(crate) fn bringing(&self, key: Key, cell: u32, memory: usize) -> Option<u32> {
        let brings = |m: &Move| m.to == memory && m.carries(key, cell);
        let place = self.all.iter().position(brings);
        place.map(|id| id as u32)
    }

    /// A unit waits until a transfer has ended.
    pub(crate) fn wait_for(&mut self, id: u32, unit: u16, wants: &mut [Want]) {
        self.all[id as usize].wake(unit, wants);
    }

    /// A unit waits for all transfers of a cell of an array.
    pub(crate) fn wait_for_all(&mut self, key: Key, cell: u32, unit: u16, wants: &mut [Want]) {
        let all = self.all.iter_mut().filter(|m| m.carries(key, cell));
        all.for_each(|m| m.wake(unit, wants));
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
        if self.routes.get(m.from, m.to).is_none() {
            let name = |memory: usize| self.machine.memories[memory].name.clone();
            return Err(SimError::NoRoute {
                from: name(m.from),
                to: name(m.to),
            });
        }
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
        let way = self.routes.get(m.from, m.to).expect("it was sent");
        way[m.done]
    }

    /// A transfer asks for the next link of its way.
    fn board(&mut self, id: u32, now: f64, agenda: &mut Agenda) {
        let link = self.link(id);
        if self.lanes.enter(link, id) {
            self.depart(id, link, now, agenda);
        }
    }

    fn depart(&mut self, id: u32, link: u16, now: f64, agenda: &mut Agenda) {
        let m = self.moves.get(id);
        m.started = now;
        let seconds = self
            .lanes
            .carry(self.machine, link, m.copies.len(), m.bytes);
        agenda.add(now + seconds, Event::Arrived(id));
    }

    /// A transfer has come to the end of a link. Collects the units that may try again.
    pub(crate) fn arrived(&mut self, id: u32, now: f64, agenda: &mut Agenda, again: &mut Vec<u16>) {
        let link = self.link(id);
        let mut begin = std::mem::take(&mut self.begin);
        self.lanes.leave(link, &mut begin);
        for (next, link) in begin.drain(..) {
            self.depart(next, link, now, agenda);
        }
        self.begin = begin;
        let m = self.moves.get(id);
        if let Some(log) = &mut self.log {
            note(m, link, &self.machine.links[usize::from(link)], now, log);
        }
        let here = usize::from(self.machine.links[usize::from(link)].to.0);
        for (copy, cells) in m.parts() {
            if !self.copies.has_buffer(copy.key, here) {
                continue;
            }
            for &cell in cells {
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
        self.send_planned(now, agenda, again);
    }

    fn end(&mut self, id: u32, again: &mut Vec<u16>) {
        let m = self.moves.get(id);
        for copy in m.copies.drain(..) {
            self.copies.unpin(copy.key, m.from);
            self.copies.unpin(copy.key, m.to);
        }
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
        let (ends, planned) = ([m.from, m.to], m.planned);
        self.moves.free.push(id);
        if let (Some(transfer), Some(planned)) = (planned, &mut self.planned) {
            planned.done(transfer, again);
        }
        ends.iter().for_each(|&memory| self.retry(memory, again));
    }
}

/// Notes copies that have come to the end of a link together. Each has its share of the time, by the link's
/// speed, and the first the start, as the runtime notes them.
fn note(m: &Move, number: u16, link: &Link, now: f64, log: &mut Vec<TransferSpan>) {
    let (mut bytes, mut start) = (0, Seconds(m.started));
    for (i, copy) in m.copies.iter().enumerate() {
        bytes += copy.bytes;
        let end = match i + 1 == m.copies.len() {
            true => Seconds(now),
            false => Seconds(m.started) + link.duration(Bytes(bytes)),
        };
        log.push(TransferSpan {
            link: number,
            bytes: Bytes(copy.bytes),
            for_task: m.for_task,
            ahead: m.ahead,
            batch: m.copies.len() as u32,
            start,
            end,
        });
        start = end;
    }
}
