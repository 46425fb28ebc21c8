//! The engine: virtual time, event by event.
//!
//! A unit does what a worker of the runtime does, in the same order: it ends a task, counts down who
//! waits, tells the policy, and takes what the policy hands back or asks for the next. What takes time is
//! a task and a transfer; deciding takes none but the unit's `overhead` between two tasks, and its `notice`
//! where it had no work.

use dahl_core::{Bytes, Graph, Joules, Machine, MemoryId, Seconds, UnitId, Watts};

use super::agenda::{Agenda, Event};
use super::launches::Launches;
use super::memories::Memories;
use super::outcome::{MemoryUse, Outcome, Run, UnitUse};
use super::times::Times;
use super::world::Facts;
use super::{Options, SimError};
use crate::policy::{Policy, TaskRef};

/// No task.
const NONE: TaskRef = TaskRef {
    launch: usize::MAX,
    task: u32::MAX,
};

/// What a unit is doing.
#[derive(Clone, Copy, Debug)]
struct UnitState {
    task: TaskRef,
    /// The task it will run next, taken ahead so that its operands travel meanwhile.
    coming: Option<TaskRef>,
    /// Whether it waits for operands.
    waiting: bool,
    /// Whether it had no work when this task became ready.
    roused: bool,
    taken: f64,
    start: f64,
}

/// When a task became ready, and by whom: kept only for traces.
#[derive(Debug, Default)]
struct Marks {
    ready: Vec<(f64, TaskRef)>,
}

pub(super) struct Engine<'a> {
    graph: &'a Graph,
    machine: &'a Machine,
    times: &'a Times,
    policy: &'a dyn Policy,
    options: &'a Options,
    facts: Facts<'a>,
    launches: Launches<'a>,
    agenda: Agenda,
    now: f64,
    units: Vec<UnitState>,
    released: Vec<TaskRef>,
    marks: Option<Marks>,
    timed: bool,
    out: Outcome,
}

impl<'a> Engine<'a> {
    pub fn new(
        graph: &'a Graph,
        machine: &'a Machine,
        times: &'a Times,
        policy: &'a dyn Policy,
        options: &'a Options,
    ) -> Self {
        let launches = Launches::new(graph, options.steps, options.in_flight);
        let ring = launches.ring();
        let apart = machine.units.iter().any(|u| u.memory != MemoryId::HOST);
        let memories = apart.then(|| Memories::new(graph, machine, ring, options.record));
        let free = UnitState {
            task: NONE,
            coming: None,
            waiting: false,
            roused: false,
            taken: 0.0,
            start: 0.0,
        };
        let out = Outcome {
            units: vec![UnitUse::default(); machine.units.len()],
            memories: vec![MemoryUse::default(); machine.memories.len()],
            coarse: memories.as_ref().map_or(0, |m| m.coarse),
            ..Outcome::default()
        };
        Engine {
            graph,
            machine,
            times,
            policy,
            options,
            facts: Facts::new(graph, machine, times, ring, memories),
            agenda: Agenda::default(),
            now: 0.0,
            units: vec![free; machine.units.len()],
            released: Vec::new(),
            marks: options.record.then(|| Marks {
                ready: vec![(0.0, NONE); graph.len() * ring],
            }),
            launches,
            timed: policy.needs_time(),
            out,
        }
    }

    pub fn run(mut self) -> Result<Outcome, SimError> {
        let launcher = self.options.launcher.map(|u| u.0);
        for unit in (0..self.units.len() as u16).filter(|u| Some(*u) != launcher) {
            self.facts.sleep(unit);
        }
        self.launch()?;
        if let Some(unit) = launcher {
            self.go_on(unit, None)?;
            self.look()?;
        }
        let mut again = Vec::new();
        while let Some((at, event)) = self.agenda.next() {
            self.now = at;
            match event {
                Event::End(unit) => self.end(unit)?,
                Event::Arrived(id) => {
                    if let Some(memories) = &self.facts.memories {
                        let mut memories = memories.borrow_mut();
                        memories.arrived(id, at, &mut self.agenda, &mut again);
                    }
                    self.try_again(&mut again)?;
                }
            }
            self.look()?;
        }
        if !self.launches.is_done() {
            return Err(self.stuck());
        }
        Ok(self.finish())
    }

    /// Begins the launches that have a place.
    fn launch(&mut self) -> Result<(), SimError> {
        let mut roots = Vec::new();
        while self.launches.may_begin() {
            roots.clear();
            let launch = self.launches.begin(&mut roots);
            self.hold_host(launch)?;
            if let Some(memories) = self.facts.memories.as_ref().filter(|_| self.options.fed) {
                memories.borrow_mut().feed();
            }
            let now = Seconds(self.now);
            self.out.launches.push((now, now));
            self.mark(NONE, &roots);
            let handed = self.policy.ready(&self.facts, None, &roots, now);
            debug_assert!(handed.is_none(), "nobody is there to run it at once");
            self.look()?;
        }
        Ok(())
    }

    /// Persistent arrays and the temporaries of launches so far take room in the host.
    fn hold_host(&mut self, launch: usize) -> Result<(), SimError> {
        if launch >= self.launches.ring() {
            return Ok(());
        }
        let lasting = self.graph.storages.iter().filter(|s| s.temporary.is_none());
        let lasting: u64 = lasting.map(|s| s.storage.bytes() as u64).sum();
        let need = Bytes(lasting + self.graph.memory.bytes * (launch as u64 + 1));
        let host = &self.machine.memories[0];
        if let Some(capacity) = host.capacity
            && need.0 > capacity.0
        {
            return Err(SimError::TooSmall {
                task: format!(
                    "arrays and temporaries of {} launches in flight",
                    launch + 1
                ),
                need,
                memory: host.name.clone(),
                capacity,
            });
        }
        self.out.memories[0].set(Seconds(self.now), need);
        Ok(())
    }

    /// Lets units that were woken look for work.
    #[inline]
    fn look(&mut self) -> Result<(), SimError> {
        let mut done = 0;
        while let Some(unit) = self.facts.next_woken(done) {
            done += 1;
            let now = Seconds(self.now);
            match self.policy.next(&self.facts, UnitId(unit), now) {
                Some(task) => {
                    self.units[usize::from(unit)].roused = true;
                    self.begin(unit, task)?;
                }
                None => self.facts.sleep(unit),
            }
        }
        Ok(())
    }

    /// A unit turns to a task.
    fn begin(&mut self, unit: u16, task: TaskRef) -> Result<(), SimError> {
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

    fn try_again(&mut self, again: &mut Vec<u16>) -> Result<(), SimError> {
        for unit in again.drain(..) {
            if self.units[usize::from(unit)].waiting {
                self.bring(unit)?;
            }
        }
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
            true => (of.notice.0 - of.overhead.0).max(0.0),
            false => 0.0,
        };
        let seconds = of.overhead.0 + seconds;
        let used = &mut self.out.units[u];
        used.tasks += 1;
        used.busy.0 += seconds;
        used.waited.0 += self.now - self.units[u].taken;
        used.joules += watts.unwrap_or(Watts(0.0)) * Seconds(seconds);
        self.out.known[self.times.known(class, UnitId(unit)) as usize] += 1;
        self.units[u].start = self.now + late + of.overhead.0;
        self.agenda.add(self.now + late + seconds, Event::End(unit));
        Ok(())
    }

    /// A unit's task has ended.
    fn end(&mut self, unit: u16) -> Result<(), SimError> {
        let state = self.units[usize::from(unit)];
        let (task, now) = (state.task, Seconds(self.now));
        self.record(unit, &state);
        self.units[usize::from(unit)].task = NONE;
        let mut again = Vec::new();
        if let Some(memories) = &self.facts.memories {
            let slot = self.launches.slot(task.launch);
            let mut memories = memories.borrow_mut();
            memories.release(unit, task, slot, self.now, &mut again);
        }
        let mut released = std::mem::take(&mut self.released);
        let last = self.launches.end(task, &mut released);
        if last {
            self.out.launches[task.launch].1 = now;
        }
        self.mark(task, &released);
        if self.timed {
            self.policy.ended(&self.facts, UnitId(unit), task, now);
        }
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
        self.try_again(&mut again)?;
        if self.launches.may_begin() {
            match self.options.launcher {
                None => self.launch()?,
                // Whoever launches is this unit's thread, which leaves its task to others meanwhile.
                Some(launcher) if launcher.0 == unit => {
                    if let Some(task) = next.take() {
                        if self.timed {
                            self.policy.ended(&self.facts, UnitId(unit), task, now);
                        }
                        self.policy.ready(&self.facts, None, &[task], now);
                    }
                    self.launch()?;
                }
                Some(launcher) if self.units[usize::from(launcher.0)].task == NONE => {
                    self.launch()?;
                }
                // It is busy, and launches when its task has ended.
                Some(_) => {}
            }
        }
        self.go_on(unit, next)
    }

    /// A unit without a task takes one, or sleeps.
    #[inline]
    fn go_on(&mut self, unit: u16, next: Option<TaskRef>) -> Result<(), SimError> {
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

    #[inline]
    fn mark(&mut self, by: TaskRef, ready: &[TaskRef]) {
        if let Some(marks) = &mut self.marks {
            for task in ready {
                let slot = self.launches.slot(task.launch);
                let at = slot * self.graph.len() + task.task as usize;
                marks.ready[at] = (self.now, by);
            }
        }
    }

    #[inline]
    fn record(&mut self, unit: u16, state: &UnitState) {
        if let Some(marks) = &self.marks {
            let slot = self.launches.slot(state.task.launch);
            let at = slot * self.graph.len() + state.task.task as usize;
            let (ready, by) = marks.ready[at];
            self.out.runs.push(Run {
                task: state.task,
                released_by: (by != NONE).then_some(by),
                unit,
                ready: Seconds(ready),
                taken: Seconds(state.taken),
                start: Seconds(state.start),
                end: Seconds(self.now),
            });
        }
    }

    fn stuck(&self) -> SimError {
        let waiting = self.launches.waiting();
        SimError::Stuck {
            task: waiting.map_or_else(String::new, |t| self.graph.describe(t.task)),
            launch: waiting.map_or(0, |t| t.launch),
            backlog: self.policy.backlog(),
        }
    }

    fn finish(mut self) -> Outcome {
        let mut out = self.out;
        out.makespan = Seconds(out.launches.iter().fold(0.0, |m, l| l.1.0.max(m)));
        if let Some(memories) = self.facts.memories.take() {
            let memories = memories.into_inner();
            out.links = memories.lanes.used;
            out.transfers = memories.log.unwrap_or_default();
            let curves = memories.copies.curves.into_iter();
            out.memories
                .iter_mut()
                .zip(curves)
                .skip(1)
                .for_each(|(to, from)| *to = from);
        } else {
            out.links = vec![Default::default(); self.machine.links.len()];
        }
        debug_assert!(out.units.iter().all(|u| u.joules >= Joules(0.0)));
        out.settle(self.machine);
        out
    }
}
