//! What a simulated run came to.

use dahl_core::{Bytes, Joules, Machine, Seconds};
use serde::Serialize;

use dahl_sched::policy::TaskRef;

/// What a unit did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct UnitUse {
    /// Tasks it ran.
    pub tasks: u64,
    /// Time it computed, its overhead per task included.
    pub busy: Seconds,
    /// Time it had a task whose data was not there.
    pub waited: Seconds,
    /// Energy while busy and while idle.
    pub joules: Joules,
}

/// What a link carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LinkUse {
    /// How many transfers, those in batches one by one.
    pub transfers: u64,
    /// How much.
    pub bytes: Bytes,
    /// Time, summed over transfers at once.
    pub busy: Seconds,
    /// Energy of moving that much.
    pub joules: Joules,
}

/// What a memory held.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MemoryUse {
    /// At most.
    pub peak: Bytes,
    /// Copies given up to make room.
    pub evictions: u64,
    /// From when on it held how much.
    pub curve: Vec<(Seconds, Bytes)>,
}

impl MemoryUse {
    /// From now on it holds so much.
    pub(super) fn set(&mut self, now: Seconds, bytes: Bytes) {
        self.peak = Bytes(self.peak.0.max(bytes.0));
        match self.curve.last_mut() {
            Some(last) if last.0 == now => last.1 = bytes,
            _ => self.curve.push((now, bytes)),
        }
    }
}

/// A task that ran.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskSpan {
    /// Which task; launches count from 0.
    pub task: TaskRef,
    /// The task whose end made it ready; `None` if that was the launch itself.
    pub released_by: Option<TaskRef>,
    /// Where it ran.
    pub unit: u16,
    /// When it could have run.
    pub ready: Seconds,
    /// When the unit turned to it.
    pub taken: Seconds,
    /// When its data was there, and when the unit began to work: later if it had to be woken.
    pub begun: [Seconds; 2],
    /// When it began to compute: after what the unit does between two tasks.
    pub start: Seconds,
    /// When it ended.
    pub end: Seconds,
}

/// A copy that was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransferSpan {
    /// Number of the link.
    pub link: u16,
    /// How much.
    pub bytes: Bytes,
    /// The task it was made for; `None` if room was made.
    pub for_task: Option<TaskRef>,
    /// Whether it was made before the task asked for it.
    pub ahead: bool,
    /// How many copies, this one among them, were started together over the link.
    pub batch: u32,
    /// When it began, after waiting for the link.
    pub start: Seconds,
    /// When it ended.
    pub end: Seconds,
}

/// An end of a message to or from another node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageSpan {
    /// Which task.
    pub task: TaskRef,
    /// When it was ready.
    pub start: Seconds,
    /// When it had been sent or received.
    pub end: Seconds,
}

/// The whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// From the first launch to the end of the last task.
    pub makespan: Seconds,
    /// Tasks by where their durations come from, in the order of [`super::TimeSource::ALL`].
    pub known: [u64; 4],
    /// By unit.
    pub units: Vec<UnitUse>,
    /// By link.
    pub links: Vec<LinkUse>,
    /// By memory. In the host: persistent arrays, and temporaries of the launches in flight.
    pub memories: Vec<MemoryUse>,
    /// What the nodes drew beside their units.
    pub base: Joules,
    /// When each launch began and ended.
    pub launches: Vec<(Seconds, Seconds)>,
    /// Arrays whose parts were too many to follow one by one.
    pub coarse: usize,
    /// Every task, by its end, if that was asked for.
    pub runs: Vec<TaskSpan>,
    /// Every transfer, by the end of its batch, if that was asked for.
    pub transfers: Vec<TransferSpan>,
    /// Every message to or from other nodes, if that was asked for.
    pub messages: Vec<MessageSpan>,
}

impl Prediction {
    /// All energy: base, units and transfers. Figures that the machine lacks count nothing; see
    /// [`Machine::without_power`].
    pub fn joules(&self) -> Joules {
        let units: Joules = self.units.iter().map(|u| u.joules).sum();
        let links: Joules = self.links.iter().map(|l| l.joules).sum();
        self.base + units + links
    }

    /// Tasks that ran.
    pub fn tasks(&self) -> u64 {
        self.units.iter().map(|u| u.tasks).sum()
    }

    /// Adds what follows from the makespan; `units` hold the joules of their busy time so far.
    pub(super) fn settle(&mut self, machine: &Machine) {
        for (used, unit) in self.units.iter_mut().zip(&machine.units) {
            if let Some(power) = unit.power {
                used.joules += power.idle * (self.makespan - used.busy);
            }
        }
        for (used, link) in self.links.iter_mut().zip(&machine.links) {
            used.joules = Joules(link.joules_per_byte.unwrap_or(0.0) * used.bytes.0 as f64);
        }
        self.base = machine.base() * self.makespan;
    }
}
