//! The simulator: any graph on any machine, in virtual time.
//!
//! It drives the very policies that the runtime drives, through the same interface, so what is simulated
//! is what will run; a fixed schedule is one of them ([`Fixed`](dahl_sched::policy::Fixed)). Durations come from [`Times`], energy and
//! transfers from the machine's description. It executes nothing, measures nothing and reads no clock or
//! file: the same question gets the same answer, to the last bit.
//!
//! What is idealised, beside the durations themselves: what deciding takes is a unit's `overhead` between two
//! tasks, however many became ready; a unit without work begins any new one its `wake_latency` later; and a
//! transfer's bytes move at the link's full speed once it is its turn on all it goes through
//! ([`dahl_core::machine::network`]). Units are said to be busy while they
//! compute and between two tasks.
//!
//! | file | what |
//! |---|---|
//! | `engine`, `agenda` | the loop and its queue of events |
//! | `turn` | what a unit does: take a task, have its data brought, compute, end it |
//! | `launches` | who waits for whom, within and between launches |
//! | `world` | what policies see |
//! | `memories`, `room`, `fetch` | bringing a task's data: room for it, and what is missing |
//! | `copies`, `recent` | which memory holds what, in the graph's cells; what was needed longest ago |
//! | `needs`, `estimate` | what tasks ask of memories; how long that would take, for policies |
//! | `moves`, `routes`, `links` | transfers, where they go along, and the lines they stand in |
//! | `times`, `roofline` | how long tasks take, in every frequency state, and how we know |
//! | `noise` | durations that vary, and interruptions |
//! | `planned` | the transfers of a schedule decided beforehand |
//! | [`simgrid`] | machines from and to SimGrid platform files |
//! | `cluster`, `messages` | several nodes at once, and what they send each other |
//! | `prediction`, `marks`, `trace` | what came of it |

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod agenda;
mod cluster;
mod copies;
mod engine;
mod estimate;
mod fetch;
mod launches;
mod links;
mod marks;
mod memories;
mod messages;
mod moves;
mod needs;
mod noise;
mod planned;
mod prediction;
mod recent;
mod roofline;
mod room;
mod routes;
pub mod simgrid;
#[cfg(test)]
mod tests;
mod times;
mod trace;
mod turn;
mod world;

use std::sync::Arc;

use dahl_core::{Bytes, Graph, Machine, UnitId};

pub use cluster::{ClusterPrediction, NodeRun, simulate_cluster};
pub use noise::{Interruptions, Noise};
pub use prediction::{
    LinkUse, MemoryUse, MessageSpan, Prediction, TaskSpan, TransferSpan, UnitUse,
};
pub use times::{TimeSource, Times, timed_in};

use dahl_sched::policy::Policy;
use dahl_sched::transfers::Transfers;

/// Machines with more memories are refused: which of them hold a value is a mask of 64 bits.
const MOST_MEMORIES: usize = 64;

/// How to run.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Launches in a row.
    pub steps: usize,
    /// How many of them may be in flight; the runtime's default is two.
    pub in_flight: usize,
    /// The unit whose thread launches too, between its tasks, as the runtime's first one does; `None` if
    /// launching waits for nobody.
    pub launcher: Option<UnitId>,
    /// Whether the host writes, before each launch, the arrays that the graph only reads, as training does
    /// with its batches; else copies of them elsewhere stay current.
    pub new_inputs_each_step: bool,
    /// Durations that vary.
    pub noise: Option<Noise>,
    /// The frequency state of every task: 0 is the usual one, others count from 1 in the states of the
    /// unit it runs on. Empty if all tasks run in the usual one.
    pub states: Vec<u8>,
    /// Transfers that were decided beforehand, if they were: for a schedule that is followed.
    pub transfers: Option<Arc<Transfers>>,
    /// Whether every task and transfer is kept, for a trace.
    pub record: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            steps: 1,
            in_flight: 2,
            launcher: None,
            new_inputs_each_step: false,
            noise: None,
            states: Vec::new(),
            transfers: None,
            record: false,
        }
    }
}

/// Why a run cannot be simulated.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SimError {
    /// The machine's description is unusable.
    #[error("machine: {0}")]
    Machine(String),
    /// The table of durations is for another machine or graph.
    #[error("the durations are for {has} units, the machine has {wants}")]
    OtherMachine {
        /// Units of the table.
        has: usize,
        /// Units of the machine.
        wants: usize,
    },
    /// Nothing says how long a task takes.
    #[error(
        "nobody measured {codelet} on unit {unit:?}, and its speed is unknown: run `dahl calibrate` there, or add flops and bandwidth to the machine file"
    )]
    Unrated {
        /// The unit.
        unit: String,
        /// The codelet.
        codelet: String,
    },
    /// A duration that is none.
    #[error("{codelet} on unit {unit:?} would take {seconds} seconds")]
    BadTime {
        /// The unit.
        unit: String,
        /// The codelet.
        codelet: String,
        /// The value.
        seconds: String,
    },
    /// No unit has an implementation.
    #[error("no unit of the machine can run {0}")]
    NoUnit(String),
    /// Data cannot get from one memory to another.
    #[error("no link leads from memory {from:?} to {to:?}: add one to the machine file")]
    NoRoute {
        /// Where from.
        from: String,
        /// Where to.
        to: String,
    },
    /// A memory that cannot hold what must be in it at once.
    #[error("{task}: needs {need} in memory {memory:?}, which has {capacity}")]
    TooSmall {
        /// What needs it.
        task: String,
        /// How much.
        need: Bytes,
        /// Which memory.
        memory: String,
        /// How much it has.
        capacity: Bytes,
    },
    /// A task in a state that a unit does not have.
    #[error("{task} in frequency state {state}, which unit {unit:?} does not have")]
    NoState {
        /// The task.
        task: String,
        /// The state.
        state: u8,
        /// The unit that was to run it.
        unit: String,
    },
    /// A setting that makes no sense.
    #[error("{0}")]
    Option(String),
    /// Nothing happens any more and tasks are left: a schedule that contradicts the dependencies.
    #[error("stuck: {task}, of launch {launch}, never runs; waiting: {backlog:?}")]
    Stuck {
        /// The first task that waits.
        task: String,
        /// Its launch.
        launch: usize,
        /// What the policy holds.
        backlog: Vec<(String, usize)>,
    },
}

/// Runs a graph on a machine in virtual time.
pub fn simulate(
    graph: &Graph,
    machine: &Machine,
    times: &Times,
    policy: &dyn Policy,
    options: &Options,
) -> Result<Prediction, SimError> {
    check(graph, machine, times, options)?;
    engine::Engine::new(graph, machine, times, policy, options).run()
}

fn check(
    graph: &Graph,
    machine: &Machine,
    times: &Times,
    options: &Options,
) -> Result<(), SimError> {
    machine.check().map_err(SimError::Machine)?;
    let memories = machine.memories.len();
    if memories > MOST_MEMORIES {
        let message =
            format!("it has {memories} memories: at most {MOST_MEMORIES} can be simulated");
        return Err(SimError::Machine(message));
    }
    if times.units() != machine.units.len() {
        return Err(SimError::OtherMachine {
            has: times.units(),
            wants: machine.units.len(),
        });
    }
    if options.in_flight == 0 {
        return Err(SimError::Option(
            "no launch in flight: use 1 or more".into(),
        ));
    }
    if let Some(noise) = options.noise {
        noise.check().map_err(SimError::Option)?;
    }
    if let Some(unit) = options.launcher
        && usize::from(unit.0) >= machine.units.len()
    {
        let message = format!("unit {} launches, and there is none", unit.0);
        return Err(SimError::Option(message));
    }
    if let Some(transfers) = &options.transfers
        && !transfers.fit(graph, memories)
    {
        let message = "the transfers are planned for another graph or machine".into();
        return Err(SimError::Option(message));
    }
    let units = || (0..machine.units.len() as u16).map(UnitId);
    let mut able = vec![None; graph.classes.len()];
    for (class, able) in able.iter_mut().enumerate() {
        *able = units().find(|&u| times.get(class as u32, u).is_some());
    }
    for (i, task) in graph.tasks.iter().enumerate() {
        let is_message = graph.message(i as u32).is_some();
        if able[task.class as usize].is_none() && !is_message {
            return Err(SimError::NoUnit(graph.describe(i as u32)));
        }
    }
    Ok(())
}
