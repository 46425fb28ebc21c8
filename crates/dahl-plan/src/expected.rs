//! What a run that follows a plan is expected to take.
//!
//! A plan's own seconds and joules are those of its equations, against which bound and gap are proven: one step,
//! every task as long as most, a unit at work the moment it may be. A run is not so. Units notice late what others
//! have done, durations vary and others wait for the unlucky one, the next step begins before this one has ended.
//! The simulator knows all that, as far as the machine's description and the noise it is given say so; it follows
//! the plan, tasks and transfers, for as many steps as it takes for what varies to even out. Where neither says
//! anything, a step alone takes what the equations say. Where durations vary, units that are alike stand in for the unlucky
//! one, as they do in a run.

use std::sync::Arc;

use dahl_core::{Graph, Joules, Machine, Seconds};
use serde::{Deserialize, Serialize};

use super::file::PlanFile;
use dahl_sched::policy::{ScheduleError, UnknownPolicy};
use dahl_sched::transfers::TransferError;
use dahl_sim::{Options, Prediction, SimError, Times, simulate};

/// Tasks that are simulated where durations vary: rare interruptions need seconds of virtual time to even out.
const TASKS: usize = 400_000;

/// Steps before those that count, in which the pipeline fills and weights come to their places.
const FIRST: usize = 4;

/// Steps that count where nothing varies.
const STEADY: usize = 8;

/// Time and energy of a step in a run that follows a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expected {
    /// From the end of one step of a run to the end of the next.
    pub seconds: Seconds,
    /// From the begin to the end of a step that begins when the one before has ended.
    pub alone: Seconds,
    /// Joules of a step of a run.
    pub joules: Joules,
    /// What each unit computes in a step, without what is between two tasks.
    pub works: Vec<Seconds>,
}

/// Why a plan cannot be followed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FollowError {
    /// It is no schedule of the graph.
    #[error(transparent)]
    ScheduleError(#[from] ScheduleError),
    /// Its transfers are none of the graph.
    #[error(transparent)]
    TransferError(#[from] TransferError),
    /// The simulator refuses.
    #[error(transparent)]
    Refused(#[from] SimError),
    /// There is no policy of the name that it gives.
    #[error(transparent)]
    Policy(#[from] UnknownPolicy),
    /// A unit that takes part is not there.
    #[error("the plan is for unit {0:?}, which is not there: plan again for this machine")]
    Unit(String),
    /// A unit has not the state that it is to be in.
    #[error(
        "the plan is for unit {unit:?} in frequency state {state}, and it has {has} of them: plan again for this machine"
    )]
    State {
        /// The unit.
        unit: String,
        /// The state.
        state: u8,
        /// How many it has beside the usual one.
        has: usize,
    },
}

impl Expected {
    /// Of a plan followed on a machine with tasks as long as `times` says: its orders, or its policy on its units. `run`
    /// says how many steps are in flight, who launches and how durations vary; the rest of it is the plan's.
    pub fn of(
        plan: &PlanFile,
        graph: &Graph,
        machine: &Machine,
        times: &Times,
        run: &Options,
    ) -> Result<Expected, FollowError> {
        if let Some(policy) = &plan.policy {
            let (mut machine, mut times) = (machine.clone(), times.clone());
            policy.set_states(&mut machine, &mut times)?;
            return policy.expected(graph, &machine, &times, run);
        }
        let transfers = Arc::new(plan.checked_transfers(graph, machine)?);
        let mut simulated = |steps, in_flight| -> Result<Prediction, FollowError> {
            let fixed = plan.deciding(graph, machine, run.noise.is_some())?;
            let transfers = Some(transfers.clone());
            let options = Options {
                steps,
                in_flight,
                new_inputs_each_step: true,
                states: plan.states(),
                transfers,
                record: false,
                ..run.clone()
            };
            Ok(simulate(graph, machine, times, &*fixed, &options)?)
        };
        Expected::of_runs(graph, machine, run, &mut simulated)
    }

    /// The same of any way to run a graph: `simulated` runs so many steps, so many of them in flight.
    pub fn of_runs<E>(
        graph: &Graph,
        machine: &Machine,
        run: &Options,
        simulated: &mut dyn FnMut(usize, usize) -> Result<Prediction, E>,
    ) -> Result<Expected, E> {
        let steps = match run.noise {
            Some(_) => (TASKS / graph.len().max(1)).clamp(STEADY, 20_000),
            None => STEADY,
        };
        let per_step = |all: f64, first: f64| (all - first) / steps as f64;
        let (first, all) = (
            simulated(FIRST, run.in_flight)?,
            simulated(FIRST + steps, run.in_flight)?,
        );
        let alone = match run.in_flight {
            1 => None,
            _ => Some((simulated(FIRST, 1)?, simulated(FIRST + steps, 1)?)),
        };
        let makespan =
            |a: &Prediction, b: &Prediction| Seconds(per_step(b.makespan.0, a.makespan.0));
        let seconds = makespan(&first, &all);
        let units = first.units.iter().zip(&all.units).zip(&machine.units);
        Ok(Expected {
            seconds,
            alone: alone.map_or(seconds, |(first, all)| makespan(&first, &all)),
            joules: Joules(per_step(all.joules().0, first.joules().0)),
            works: units
                .map(|((first, all), unit)| {
                    let between = unit.overhead.0 * (all.tasks - first.tasks) as f64;
                    Seconds(per_step(all.busy.0 - between, first.busy.0))
                })
                .collect(),
        })
    }
}
