//! The engine: virtual time, event by event. What units do is in `turn`.

use dahl_core::{Bytes, Graph, Joules, Machine, MemoryId, Seconds, UnitId};

use super::agenda::{Agenda, Event};
use super::launches::Launches;
use super::marks::Marks;
use super::memories::Memories;
use super::messages::Client;
use super::prediction::{MemoryUse, Prediction, UnitUse};
use super::times::Times;
use super::turn::UnitState;
use super::world::Facts;
use super::{Options, SimError};
use dahl_sched::policy::{Policy, TaskRef};

pub(super) struct Engine<'a> {
    pub graph: &'a Graph,
    pub machine: &'a Machine,
    pub times: &'a Times,
    pub policy: &'a dyn Policy,
    pub options: &'a Options,
    pub facts: Facts<'a>,
    pub launches: Launches<'a>,
    pub agenda: Agenda,
    pub now: f64,
    pub units: Vec<UnitState>,
    /// Room for tasks that become ready and units that may try again: nothing is allocated per task.
    pub released: Vec<TaskRef>,
    pub again: Vec<u16>,
    /// Messages under way, and those that the network has yet to take up.
    pub clients: Vec<Option<Client>>,
    pub outbox: Vec<TaskRef>,
    pub marks: Option<Marks>,
    pub timed: bool,
    pub out: Prediction,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        graph: &'a Graph,
        machine: &'a Machine,
        times: &'a Times,
        policy: &'a dyn Policy,
        options: &'a Options,
    ) -> Self {
        let launches = Launches::new(graph, options.steps, options.in_flight);
        let ring = launches.ring();
        let apart = machine.units.iter().any(|u| u.memory != MemoryId::HOST);
        let memories = apart.then(|| Memories::new(graph, machine, ring, options));
        let out = Prediction {
            units: vec![UnitUse::default(); machine.units.len()],
            memories: vec![MemoryUse::default(); machine.memories.len()],
            coarse: memories.as_ref().map_or(0, |m| m.coarse),
            ..Prediction::default()
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
            units: vec![UnitState::FREE; machine.units.len()],
            released: Vec::new(),
            again: Vec::new(),
            clients: Vec::new(),
            outbox: Vec::new(),
            marks: options.record.then(|| Marks::new(graph.len(), ring)),
            launches,
            timed: policy.needs_time(),
            out,
        }
    }

    pub(crate) fn run(mut self) -> Result<Prediction, SimError> {
        self.start()?;
        while self.happen()? {}
        if !self.launches.is_done() {
            return Err(self.stuck());
        }
        Ok(self.finish(None))
    }

    /// Begins the first launches.
    pub(crate) fn start(&mut self) -> Result<(), SimError> {
        let launcher = self.options.launcher.map(|u| u.0);
        for unit in (0..self.units.len() as u16).filter(|u| Some(*u) != launcher) {
            self.facts.sleep(unit);
        }
        self.launch()?;
        if let Some(unit) = launcher {
            self.go_on(unit, None)?;
            self.look()?;
        }
        Ok(())
    }

    /// Lets the next event happen; false if there is none.
    #[inline]
    pub(crate) fn happen(&mut self) -> Result<bool, SimError> {
        let Some((at, event)) = self.agenda.next() else {
            return Ok(false);
        };
        self.now = at;
        match event {
            Event::End(unit) => self.end(unit)?,
            Event::Arrived(id) => {
                let mut again = std::mem::take(&mut self.again);
                if let Some(memories) = &self.facts.memories {
                    let mut memories = memories.borrow_mut();
                    memories.arrived(id, at, &mut self.agenda, &mut again);
                }
                self.try_again(again)?;
            }
        }
        self.look()?;
        Ok(true)
    }

    /// Begins the launches that have a place.
    pub(super) fn launch(&mut self) -> Result<(), SimError> {
        let mut roots = Vec::new();
        while self.launches.may_begin() {
            roots.clear();
            let launch = self.launches.begin(&mut roots);
            self.hold_host(launch)?;
            if let Some(memories) = &self.facts.memories {
                let mut again = std::mem::take(&mut self.again);
                let mut memories = memories.borrow_mut();
                memories.feed(self.launches.slot(launch));
                memories.launched(launch, self.now, &mut self.agenda, &mut again);
                drop(memories);
                self.try_again(again)?;
            }
            let now = Seconds(self.now);
            self.out.launches.push((now, now));
            if let Some(marks) = &mut self.marks {
                marks.ready(&roots, None, now);
            }
            self.take_messages(&mut roots)?;
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
    pub(super) fn look(&mut self) -> Result<(), SimError> {
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

    pub(super) fn stuck(&self) -> SimError {
        let waiting = self.launches.waiting();
        SimError::Stuck {
            task: waiting.map_or_else(String::new, |t| self.graph.describe(t.task)),
            launch: waiting.map_or(0, |t| t.launch),
            backlog: self.policy.backlog(),
        }
    }

    /// When the last launch ended.
    pub(crate) fn ended(&self) -> f64 {
        self.out.launches.iter().fold(0.0, |m, l| l.1.0.max(m))
    }

    /// What came of it; `until` is when the run was over, if that was not with this node's last launch.
    pub(crate) fn finish(mut self, until: Option<Seconds>) -> Prediction {
        let makespan = until.unwrap_or(Seconds(self.ended()));
        let mut out = self.out;
        out.runs = self.marks.map_or_else(Vec::new, Marks::into_runs);
        out.makespan = makespan;
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
