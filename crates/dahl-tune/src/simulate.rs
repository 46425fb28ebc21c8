//! Predictions: training steps on a machine that need not be here, under a policy or a plan.
//!
//! The simulator knows graphs, machines and policies. What makes its answer that of a run of the runtime is here:
//! how many steps are in flight, who launches, that every step has new inputs, what a run adds to durations.

use std::sync::Arc;

use dahl_core::trace::Trace;
use dahl_core::{Graph, Machine, MemoryId, Seconds, UnitId, UnitKind};
use dahl_nn::Step;
use dahl_nn::step::in_flight;
use dahl_plan::PlanFile;
use dahl_sched::policy::{self, Policy};
use dahl_sim::simgrid::replay::{Replay, replay};
use dahl_sim::{Interruptions, Noise, Options, Times};

use crate::error::TuneError;
use crate::follow::StepPlan;
use crate::machine_model::MachineModel;
use crate::overheads::ExpectedOverheads;
use crate::stages::Staging;

/// How much durations vary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NoiseFrom {
    /// The standard deviation of their logarithm.
    Sigma(f64),
    /// As it was measured.
    Measured,
}

/// How to simulate.
#[derive(Clone, Debug)]
pub struct SimulateOptions<'a> {
    /// Which policy decides; no part of a run that follows a plan.
    pub policy: String,
    /// A plan to follow.
    pub plan: Option<&'a PlanFile>,
    /// A pipeline to follow.
    pub pipeline: Option<&'a Arc<Staging>>,
    /// Steps in a row.
    pub steps: usize,
    /// Steps in flight at a time; as the runtime would unless set.
    pub in_flight: Option<usize>,
    /// Durations that vary.
    pub noise: Option<NoiseFrom>,
    /// Of the varying durations.
    pub noise_seed: u64,
    /// Whether every task is kept, for [`Prediction::trace`].
    pub record: bool,
}

impl Default for SimulateOptions<'_> {
    fn default() -> Self {
        SimulateOptions {
            policy: "ws".into(),
            plan: None,
            pipeline: None,
            steps: 1,
            in_flight: None,
            noise: None,
            noise_seed: 0,
            record: false,
        }
    }
}

/// What a run would take.
pub struct Prediction {
    /// The graph of a launch: a step, or as many as weights have versions.
    pub graph: Arc<Graph>,
    /// The machine as described.
    pub machine: Machine,
    /// Who decided: a policy, or `plan`.
    pub policy: String,
    /// Steps that were simulated.
    pub steps: usize,
    /// Tasks of each.
    pub tasks_per_step: usize,
    /// The frequency state of every task; empty if all are in the usual one.
    states: Vec<u8>,
    /// Time, energy and use of units, links and memories.
    pub outcome: dahl_sim::Prediction,
}

impl Prediction {
    /// Mean seconds of a step.
    pub fn step_seconds(&self) -> Seconds {
        Seconds(self.outcome.makespan.0 / self.steps as f64)
    }

    /// The run for SimGrid to perform again; empty unless it was recorded.
    pub fn replay(&self) -> Replay {
        replay(&self.graph, &self.machine, &self.states, &self.outcome)
    }

    /// What ran where and when; empty unless it was recorded.
    pub fn trace(&self) -> Trace {
        self.outcome.to_trace(&self.graph, &self.machine)
    }
}

/// Predicts steps on a machine.
pub fn simulate(
    step: &Step,
    machine: &MachineModel,
    options: &SimulateOptions<'_>,
) -> Result<Prediction, TuneError> {
    // Steps whose weights have versions differ from each other: as many of them are one launch.
    let ((mut whole, _), each) = (step.lower_row()?, step.versions());
    let followed = match options.pipeline {
        Some(staging) => Some(staging.follow(&whole, each, &machine.machine)?),
        None => None,
    };
    let mut followed = followed.map(|(run, policy)| {
        whole = run;
        policy
    });
    let graph = &*whole;
    let decides = match (options.plan, options.pipeline) {
        (Some(plan), _) => plan.decides(),
        (None, Some(_)) => "pipeline",
        (None, None) => options.policy.as_str(),
    };
    // What is followed is decided beforehand, as a plan is.
    let adds = options.pipeline.map_or(decides, |_| "plan");
    let mut d = machine.durations(graph, adds)?;
    let mut described = machine.machine.clone();
    if let Some(plan) = options.plan
        && let Some(difference) = plan.refusal(graph, &machine.machine)
    {
        return Err(TuneError::Plan(format!(
            "the plan does not fit: {difference}"
        )));
    }
    if let Some(policy) = options.plan.and_then(|p| p.policy.as_ref()) {
        let set = policy.set_states(&mut described, &mut d.times.clone());
        set.and_then(|()| policy.set_states(&mut d.machine, &mut d.times))
            .map_err(|e| TuneError::Plan(e.to_string()))?;
    }
    let policy = match followed.take() {
        Some(policy) => policy,
        None => {
            let late = options.noise.is_some();
            deciding(options.plan, decides, graph, &machine.machine, late)?
        }
    };
    let usual = as_run(graph, &machine.machine);
    let run = Options {
        steps: options.steps.div_ceil(each),
        in_flight: options.in_flight.unwrap_or(in_flight_of(graph, each)),
        noise: options.noise.map(|from| match from {
            NoiseFrom::Measured => noise(d.adds, &d.times, graph, options.noise_seed),
            NoiseFrom::Sigma(sigma) => plain(sigma, options.noise_seed),
        }),
        states: with_order(options.plan).map_or(Vec::new(), PlanFile::states),
        record: options.record,
        ..with_transfers(options.plan, graph, &d.machine, usual)?
    };
    let outcome = dahl_sim::simulate(graph, &d.machine, &d.times, &*policy, &run)?;
    let tasks_per_step = graph.len() / each;
    Ok(Prediction {
        graph: whole,
        machine: described,
        policy: match options.pipeline {
            Some(staging) => format!("pipeline {}", staging.pipeline()),
            None => decides.into(),
        },
        steps: options.steps.div_ceil(each) * each,
        tasks_per_step,
        states: run.states,
        outcome,
    })
}

/// Launches in flight, of so many steps each. Those of a row follow each other as closely as their weights allow, and so do
/// rows.
pub(crate) fn in_flight_of(graph: &Graph, each: usize) -> usize {
    if each > 1 { 2 } else { in_flight(graph) }
}

/// How the runtime would run a graph's steps on a machine: its first worker is the thread that launches. Without
/// CPU workers the launching thread runs no tasks.
pub(crate) fn as_run(graph: &Graph, machine: &Machine) -> Options {
    let first = &machine.units[0];
    let works = first.kind == UnitKind::CPU && first.memory == MemoryId::HOST;
    Options {
        in_flight: in_flight(graph),
        launcher: works.then_some(UnitId(0)),
        new_inputs_each_step: true,
        ..Options::default()
    }
}

/// A plan with an order of its own, which no policy decides.
fn with_order(plan: Option<&PlanFile>) -> Option<&PlanFile> {
    plan.filter(|p| p.policy.is_none())
}

/// The transfers of a plan.
pub(crate) fn with_transfers(
    plan: Option<&PlanFile>,
    graph: &Graph,
    machine: &Machine,
    run: Options,
) -> Result<Options, TuneError> {
    let transfers = with_order(plan).map(|plan| plan.checked_transfers(graph, machine));
    let transfers = transfers.transpose();
    let transfers = transfers.map_err(|e| TuneError::Plan(e.to_string()))?;
    Ok(Options {
        transfers: transfers.map(Arc::new),
        ..run
    })
}

/// What a plan says as a policy, or the policy of a name. Where units may be late, because durations vary, others stand in.
pub(crate) fn deciding(
    plan: Option<&PlanFile>,
    policy: &str,
    graph: &Graph,
    machine: &Machine,
    late: bool,
) -> Result<Box<dyn Policy>, TuneError> {
    match plan {
        Some(plan) => {
            let deciding = plan.deciding(graph, machine, late);
            deciding.map_err(|e| TuneError::Plan(e.to_string()))
        }
        None => policy::by_name(policy, machine).map_err(|e| TuneError::Option(e.to_string())),
    }
}

/// Durations that vary as those of runs did, or as the performance model saw on the first unit.
pub(crate) fn noise(
    adds: Option<ExpectedOverheads>,
    times: &Times,
    graph: &Graph,
    seed: u64,
) -> Noise {
    match adds {
        Some(adds) => adds.variation.noise(seed),
        None => plain(times.spread(graph, UnitId(0)), seed),
    }
}

fn plain(sigma: f64, seed: u64) -> Noise {
    Noise {
        seed,
        sigma,
        unit_sigma: 0.0,
        interruptions: Interruptions::default(),
    }
}

/// Seconds of a step in the middle of a run under a policy: between the ends of two numbers of steps.
pub(crate) fn steady(
    graph: &Graph,
    machine: &MachineModel,
    policy: &str,
    [few, more]: [usize; 2],
) -> Result<f64, TuneError> {
    let d = machine.durations(graph, policy)?;
    let run = as_run(graph, &d.machine);
    let total = |steps| -> Result<f64, TuneError> {
        let policy = deciding(None, policy, graph, &d.machine, false)?;
        let options = Options {
            steps,
            ..run.clone()
        };
        let outcome = dahl_sim::simulate(graph, &d.machine, &d.times, &*policy, &options)?;
        Ok(outcome.makespan.0)
    };
    Ok((total(more)? - total(few)?) / (more - few) as f64)
}

/// What a step should take, in a row of several.
pub fn predicted_seconds(
    step: &Step,
    machine: &MachineModel,
    policy: String,
    plan: Option<&StepPlan>,
) -> Result<Seconds, TuneError> {
    let step = match plan {
        Some(plan) => plan.adopt(step.clone())?,
        None => step.clone(),
    };
    let options = SimulateOptions {
        policy,
        plan: plan.map(|p| &p.file),
        steps: 16,
        ..SimulateOptions::default()
    };
    Ok(simulate(&step, machine, &options)?.step_seconds())
}
