//! What policies see of a simulated run: facts, and whom to wake.
//!
//! A unit without work is asleep at once; waking puts it on a list, from which the engine lets units look
//! for work one after the other, in the order they were woken.

use std::cell::RefCell;

use dahl_core::{Graph, Machine, Seconds, UnitId};

use super::MOST_MEMORIES;
use super::memories::Memories;
use super::times::Times;
use dahl_sched::policy::{TaskRef, World};

pub(super) struct Facts<'a> {
    graph: &'a Graph,
    times: &'a Times,
    uniform: bool,
    memory_of: Vec<u16>,
    /// Memories up to the last that has units.
    reached: usize,
    ring: usize,
    /// Copies in other memories, if the machine has any.
    pub memories: Option<RefCell<Memories<'a>>>,
    beds: RefCell<Beds>,
}

#[derive(Default)]
struct Beds {
    /// A bit for every unit that sleeps.
    asleep: Vec<u64>,
    woken: Vec<u16>,
}

impl<'a> Facts<'a> {
    /// All units are awake.
    pub(crate) fn new(
        graph: &'a Graph,
        machine: &'a Machine,
        times: &'a Times,
        ring: usize,
        memories: Option<Memories<'a>>,
    ) -> Self {
        let memory_of: Vec<u16> = machine.units.iter().map(|u| u.memory.0).collect();
        Facts {
            graph,
            times,
            uniform: times.is_uniform(),
            reached: usize::from(memory_of.iter().copied().max().unwrap_or(0)) + 1,
            memory_of,
            ring,
            memories: memories.map(RefCell::new),
            beds: RefCell::new(Beds {
                asleep: vec![0; machine.units.len().div_ceil(64)],
                woken: Vec::new(),
            }),
        }
    }

    /// A unit has found nothing to do.
    #[inline]
    pub(crate) fn sleep(&self, unit: u16) {
        self.beds.borrow_mut().asleep[usize::from(unit) / 64] |= 1 << (unit % 64);
    }

    /// The next unit that was woken.
    #[inline]
    pub(crate) fn next_woken(&self, done: usize) -> Option<u16> {
        let mut beds = self.beds.borrow_mut();
        let unit = beds.woken.get(done).copied();
        if unit.is_none() {
            beds.woken.clear();
        }
        unit
    }

    #[inline]
    fn class(&self, task: TaskRef) -> u32 {
        self.graph.tasks[task.task as usize].class
    }
}

impl Beds {
    fn rouse(&mut self, unit: u16) -> bool {
        let (word, bit) = (usize::from(unit) / 64, 1 << (unit % 64));
        if self.asleep[word] & bit == 0 {
            return false;
        }
        self.asleep[word] &= !bit;
        self.woken.push(unit);
        true
    }

    fn first(&self) -> Option<u16> {
        let word = self.asleep.iter().position(|w| *w != 0)?;
        Some((word * 64) as u16 + self.asleep[word].trailing_zeros() as u16)
    }
}

impl World for Facts<'_> {
    fn can_run(&self, task: TaskRef, unit: UnitId) -> bool {
        self.times.raw(self.class(task), unit).is_finite()
    }

    fn is_uniform(&self) -> bool {
        self.uniform
    }

    fn duration(&self, task: TaskRef, unit: UnitId) -> Seconds {
        Seconds(self.times.raw(self.class(task), unit))
    }

    fn transfer(&self, task: TaskRef, unit: UnitId) -> Seconds {
        let Some(memories) = &self.memories else {
            return Seconds(0.0);
        };
        let mut seconds = [0.0; MOST_MEMORIES];
        let slot = task.launch % self.ring;
        memories
            .borrow()
            .estimate(task, slot, &mut seconds[..self.reached]);
        Seconds(seconds[usize::from(self.memory_of[usize::from(unit.0)])])
    }

    fn lengths(&self, task: TaskRef, transfers: bool, out: &mut [f64]) {
        let row = out.iter_mut().zip(self.times.row(self.class(task)));
        let Some(memories) = self.memories.as_ref().filter(|_| transfers) else {
            row.for_each(|(out, seconds)| *out = seconds);
            return;
        };
        let mut waits = [0.0; MOST_MEMORIES];
        let slot = task.launch % self.ring;
        memories
            .borrow()
            .estimate(task, slot, &mut waits[..self.reached]);
        for ((out, seconds), memory) in row.zip(&self.memory_of) {
            *out = waits[usize::from(*memory)] + seconds;
        }
    }

    fn priority(&self, task: TaskRef) -> i32 {
        self.graph.tasks[task.task as usize].priority
    }

    fn has_dues(&self) -> bool {
        !self.graph.due.is_empty()
    }

    fn due(&self, task: TaskRef) -> i64 {
        self.graph.due_of(task.task, task.launch as u64)
    }

    fn origin(&self, task: TaskRef) -> (u64, u64) {
        (self.graph.id, task.launch as u64)
    }

    fn wake(&self, unit: Option<UnitId>) -> bool {
        let mut beds = self.beds.borrow_mut();
        match unit {
            Some(unit) => beds.rouse(unit.0),
            None if self.uniform => match beds.first() {
                Some(unit) => beds.rouse(unit),
                None => false,
            },
            // As in the runtime: the one that is woken might not be able to run it.
            None => {
                while let Some(unit) = beds.first() {
                    beds.rouse(unit);
                }
                true
            }
        }
    }
}
