//! What a unit does when it is its turn.
//!
//! That is what a worker of the runtime does, in the same order: it ends a task, counts down who waits,
//! tells the policy, and takes what the policy hands back or asks for the next. What takes time is a task
//! and a transfer; deciding takes none but the unit's `overhead` between two tasks, and its `wake_latency` where
//! it had no work. A task in another frequency state than the one before takes the unit's `switch_seconds` longer.

use dahl_core::{MemoryId, Seconds, UnitId, Watts};

use super::SimError;
use super::agenda::Event;
use super::engine::Engine;
use dahl_sched::policy::TaskRef;

/// No task.
const NONE: TaskRef = TaskRef {
    launch: usize::MAX,
    task: u32::MAX,
};

/// What a unit is doing.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnitState {
    pub task: TaskRef,
    /// The task it will run next, taken ahead so that its operands travel meanwhile.
    coming: Option<TaskRef>,
    /// Whether it waits for operands.
    waiting: bool,
    /// Whether it had no work when this task became ready.
    pub roused: bool,
    /// The frequency state it is in; none before its first task, for which it is set beforehand.
    frequency: Option<u8>,
    /// When it turned to its task, and when that began.
    pub taken: f64,
    pub start: f64,
    /// When its data was there, and when the unit began to work on it.
    pub begun: [f64; 2],
}

impl UnitState {
    /// Nothing.
    pub(crate) const FREE: UnitState = UnitState {
        task: NONE,
        coming: None,
        waiting: false,
        roused: false,
        frequency: None,
        taken: 0.0,
        start: 0.0,
        begun: [0.0; 2],
    };
}

impl Engine<'_> {
    /// A unit turns to a task.
    pub(super) fn begin(&mut self, unit: u16, task: TaskRef) -> Result<(), SimError> {
        let state = &mut self.units[usize::from(unit)];
        state.task = task;
        state.taken = self.now;
        if self.facts.memories.is_none() {
            return self.compute(unit);
        }
        state.waiting = true;
        // A unit with a memory of its own looks one task ahead.
        if self.machine.units[usize::from(unit)].memory != MemoryId::HOST {
            let now = Seconds(self.now);
            let coming = self.policy.next(&self.facts, UnitId(unit), now);
            self.units[usize::from(unit)].coming = coming;
        }
        self.bring(unit)
    }

    /// Brings the operands of a unit's task, and computes once they are there.
    fn bring(&mut self, unit: u16) -> Result<(), SimError> {
        let UnitState { task, coming, .. } = self.units[usize::from(unit)];
        let Some(memories) = &self.facts.memories else {
            return Ok(());
        };
        let mut memories = memories.borrow_mut();
        let slot = self.launches.slot(task.launch);
        if !memories.acquire(unit, task, slot, self.now, &mut self.agenda)? {
            return Ok(());
        }
        if let Some(next) = coming {
            let slot = self.launches.slot(next.launch);
            memories.prefetch(unit, next, slot, self.now, &mut self.agenda)?;
        }
        drop(memories);
        self.units[usize::from(unit)].waiting = false;
        self.compute(unit)
    }

    pub(super) fn try_again(&mut self, mut again: Vec<u16>) -> Result<(), SimError> {
        for unit in again.drain(..) {
            if let Some(client) = usize::from(unit).checked_sub(self.units.len()) {
                self.bring_message(client)?;
            } else if self.units[usize::from(unit)].waiting {
                self.bring(unit)?;
            }
        }
        self.again = again;
        Ok(())
    }

    /// A unit's task begins to compute.
    #[inline]
    fn compute(&mut self, unit: u16) -> Result<(), SimError> {
        let u = usize::from(unit);
        let task = self.units[u].task;
        let class = self.graph.tasks[task.task as usize].class;
        let of = &self.machine.units[u];
        let state = self.options.states.get(task.task as usize);
        let state = state.copied().unwrap_or(0);
        let Some((speed, watts)) = of.state(usize::from(state)) else {
            return Err(SimError::NoState {
                task: self.graph.describe(task.task),
                state,
                unit: of.name.clone(),
            });
        };
        let mut seconds = self.times.at_speed(class, UnitId(unit), speed).0;
        if let Some(noise) = self.options.noise {
            seconds = noise.seconds(seconds, task, unit);
        }
        // Who looks for work draws what working draws; who notices late was idle until then.
        let late = match std::mem::take(&mut self.units[u].roused) {
            true => (of.wake_latency.0 - of.overhead.0).max(0.0),
            false => 0.0,
        };
        let switched = match self.units[u].frequency.replace(state) {
            Some(before) if before != state => of.switch_seconds.map_or(0.0, |s| s.0),
            _ => 0.0,
        };
        let before = switched + of.overhead.0;
        let seconds = before + seconds;
        let used = &mut self.out.units[u];
        used.tasks += 1;
        used.busy.0 += seconds;
        used.waited.0 += self.now - self.units[u].taken;
        used.joules += watts.unwrap_or(Watts(0.0)) * Seconds(seconds);
        self.out.known[self.times.known(class, UnitId(unit)) as usize] += 1;
        if self.marks.is_some() {
            self.units[u].begun = [self.now, self.now + late];
        }
        self.units[u].start = self.now + late + before;
        self.agenda.add(self.now + late + seconds, Event::End(unit));
        Ok(())
    }

    /// A unit's task has ended.
    pub(super) fn end(&mut self, unit: u16) -> Result<(), SimError> {
        let state = &mut self.units[usize::from(unit)];
        let now = Seconds(self.now);
        if let Some(marks) = &mut self.marks {
            marks.ran(unit, state, now);
        }
        let task = std::mem::replace(&mut state.task, NONE);
        let mut again = std::mem::take(&mut self.again);
        if let Some(memories) = &self.facts.memories {
            let slot = self.launches.slot(task.launch);
            let mut memories = memories.borrow_mut();
            memories.release(unit, task, slot, self.now, &mut again);
            memories.ended(task, self.now, &mut self.agenda, &mut again);
        }
        let mut released = std::mem::take(&mut self.released);
        let last = self.launches.end(task, &mut released);
        if last {
            self.out.launches[task.launch].1 = now;
        }
        if let Some(marks) = &mut self.marks {
            marks.ready(&released, Some(task), now);
        }
        if self.timed {
            self.policy.ended(&self.facts, UnitId(unit), task, now);
        }
        self.take_messages(&mut released)?;
        let mut next = None;
        if !released.is_empty() {
            next = self
                .policy
                .ready(&self.facts, Some(UnitId(unit)), &released, now);
        }
        released.clear();
        self.released = released;
        if let Some(coming) = self.units[usize::from(unit)].coming.take()
            && let Some(handed) = next.replace(coming)
        {
            self.policy.ready(&self.facts, None, &[handed], now);
        }
        self.try_again(again)?;
        if self.launches.may_begin() {
            next = self.launch_after(unit, next)?;
        }
        self.go_on(unit, next)
    }

    /// Whether the thread that launches is not busy with a task.
    pub(super) fn launcher_is_free(&self) -> bool {
        let launcher = self.options.launcher;
        launcher.is_none_or(|u| self.units[usize::from(u.0)].task == NONE)
    }

    /// Launches, if that is for a unit to do that has just ended a task; returns what it runs next, if it
    /// keeps it.
    fn launch_after(
        &mut self,
        unit: u16,
        next: Option<TaskRef>,
    ) -> Result<Option<TaskRef>, SimError> {
        match self.options.launcher {
            // The thread that launches is this unit's, which leaves its task to others meanwhile.
            Some(launcher) if launcher.0 == unit => {
                if let Some(task) = next {
                    let now = Seconds(self.now);
                    if self.timed {
                        self.policy.ended(&self.facts, launcher, task, now);
                    }
                    self.policy.ready(&self.facts, None, &[task], now);
                }
                self.launch()?;
                Ok(None)
            }
            // It is busy, and launches when its task has ended.
            Some(_) if !self.launcher_is_free() => Ok(next),
            _ => self.launch().map(|()| next),
        }
    }

    /// A unit without a task takes one, or sleeps.
    #[inline]
    pub(super) fn go_on(&mut self, unit: u16, next: Option<TaskRef>) -> Result<(), SimError> {
        let now = Seconds(self.now);
        let next = next.or_else(|| self.policy.next(&self.facts, UnitId(unit), now));
        match next {
            Some(task) => self.begin(unit, task),
            None => {
                self.facts.sleep(unit);
                Ok(())
            }
        }
    }
}
