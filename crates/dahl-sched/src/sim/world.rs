//! What policies see of a simulated run: facts, and whom to wake.
//!
//! A unit without work is asleep at once; waking puts it on a list, from which the engine lets units look
//! for work one after the other, in the order they were woken.

use std::cell::RefCell;

use dahl_core::{Graph, Machine, Seconds, UnitId};

use super::memories::Memories;
use super::times::Times;
use crate::policy::{TaskRef, World};

/// See the module.
pub(super) struct Facts<'a> {
    graph: &'a Graph,
    times: &'a Times,
    uniform: bool,
    memory_of: Vec<u16>,
    ring: usize,
    /// Copies in other memories, if the machine has any.
    pub memories: Option<RefCell<Memories<'a>>>,
    beds: RefCell<Beds>,
    asked: RefCell<Asked>,
}

#[derive(Default)]
struct Beds {
    /// A bit for every unit that sleeps.
    asleep: Vec<u64>,
    woken: Vec<u16>,
}

/// The last task somebody asked transfer times of: a policy asks for all units in turn.
#[derive(Default)]
struct Asked {
    task: Option<TaskRef>,
    version: u64,
    /// By memory; NaN where nobody has asked.
    seconds: Vec<f64>,
}

impl<'a> Facts<'a> {
    /// All units are awake.
    pub fn new(
        graph: &'a Graph,
        machine: &'a Machine,
        times: &'a Times,
        ring: usize,
        memories: Option<Memories<'a>>,
    ) -> Self {
        Facts {
            graph,
            times,
            uniform: times.is_uniform(),
            memory_of: machine.units.iter().map(|u| u.memory.0).collect(),
            ring,
            memories: memories.map(RefCell::new),
            beds: RefCell::new(Beds {
                asleep: vec![0; machine.units.len().div_ceil(64)],
                woken: Vec::new(),
            }),
            asked: RefCell::default(),
        }
    }

    /// A unit has found nothing to do.
    #[inline]
    pub fn sleep(&self, unit: u16) {
        self.beds.borrow_mut().asleep[usize::from(unit) / 64] |= 1 << (unit % 64);
    }

    /// The next unit that was woken.
    #[inline]
    pub fn next_woken(&self, done: usize) -> Option<u16> {
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
        let memories = memories.borrow();
        let mut asked = self.asked.borrow_mut();
        let version = memories.copies.version;
        if asked.task != Some(task) || asked.version != version {
            (asked.task, asked.version) = (Some(task), version);
            let n = usize::from(self.memory_of.iter().copied().max().unwrap_or(0)) + 1;
            asked.seconds.clear();
            asked.seconds.resize(n, f64::NAN);
        }
        let memory = usize::from(self.memory_of[usize::from(unit.0)]);
        if asked.seconds[memory].is_nan() {
            asked.seconds[memory] = memories.estimate(task, task.launch % self.ring, memory);
        }
        Seconds(asked.seconds[memory])
    }

    fn priority(&self, task: TaskRef) -> i32 {
        self.graph.tasks[task.task as usize].priority
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
