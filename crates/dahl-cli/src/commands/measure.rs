//! Measuring training steps on data that is already in memory.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::graph::Extra;
use dahl_core::random::Random;
use dahl_core::{DType, Executor, Graph};
use dahl_nn::init;
use dahl_nn::lower::grain::Grain;
use dahl_nn::lower::state::{Io, State};
use dahl_nn::lower::{self, Settings};
use dahl_nn::model::Model;
use dahl_nn::optim::{Given, Optimizer};
use dahl_nn::train::LARGE;
use dahl_runtime::{Runtime, Schedule};

use super::follow;
use super::run_options::RunOptions;

/// A model ready to be trained on random images.
pub struct Measure {
    /// The graph of a step.
    pub graph: Arc<Graph>,
    /// Who runs it.
    pub runtime: Runtime,
    _lowered: Lowered,
}

/// The graph of a training step, and the arrays that it works on.
pub struct Lowered {
    /// The graph.
    pub graph: Arc<Graph>,
    optimizer: Optimizer,
    state: State,
    io: Io,
}

impl Measure {
    /// For a model, a batch and a grain, with the options' profile.
    pub fn new(
        model: &Model,
        batch: usize,
        run: &RunOptions,
        grain: &Grain,
    ) -> anyhow::Result<Self> {
        Measure::with(model, batch, run, grain, run.profile()?)
    }

    /// With implementations chosen by somebody else.
    pub fn with(
        model: &Model,
        batch: usize,
        run: &RunOptions,
        grain: &Grain,
        profile: Option<lower::Profile>,
    ) -> anyhow::Result<Self> {
        let plan = run.plan(model, batch)?;
        let run = run.following(plan.as_ref())?;
        Measure::scheduled(model, batch, &run, grain, profile, |graph| match &plan {
            Some(plan) => {
                follow::check(plan, graph, &StepOptions::default().optimizer())?;
                Ok(Some(follow::schedule(plan)?))
            }
            None => Ok(None),
        })
    }

    /// In an order that somebody knows for the graph, if he does.
    pub fn scheduled(
        model: &Model,
        batch: usize,
        run: &RunOptions,
        grain: &Grain,
        profile: Option<lower::Profile>,
        order: impl FnOnce(&Graph) -> anyhow::Result<Option<Schedule>>,
    ) -> anyhow::Result<Self> {
        let step = StepOptions {
            extra: run.extra()?,
            ..StepOptions::default()
        };
        let lowered = lowered(model, batch, run.dtype, grain, profile, &step)?;
        let graph = lowered.graph.clone();
        let schedule = order(&graph)?;
        let in_flight = in_flight(&graph);
        let mut runtime = run.runtime_with(in_flight, |mut builder| {
            if let Some(schedule) = schedule {
                builder = builder.schedule(schedule);
                // What ran where is compared with the plan, whether or not a trace is wanted.
                builder = builder.trace(run.trace_events.min(1 << 16));
            }
            builder
        })?;
        prepare(&mut runtime, model, &lowered).map_err(|e| anyhow::anyhow!(e))?;
        Ok(Measure {
            graph,
            runtime,
            _lowered: lowered,
        })
    }

    /// Seconds per step, over so many of them.
    pub fn steps(&mut self, n: u64) -> anyhow::Result<f64> {
        let start = Instant::now();
        for _ in 0..n {
            self.runtime.launch(&self.graph)?;
        }
        self.runtime.wait()?;
        Ok(start.elapsed().as_secs_f64() / n as f64)
    }
}

/// How many steps of a graph are in flight at a time: two, or one if their temporaries are large.
pub fn in_flight(graph: &Graph) -> usize {
    if graph.memory.bytes > LARGE { 1 } else { 2 }
}

/// What, besides model, batch and grain, decides on the graph of a step. A plan to be followed by
/// `dahl train` must be made with those of the run.
#[derive(clap::Args, Clone, Debug)]
pub struct StepOptions {
    /// How weights are updated: these tasks are part of a step
    #[arg(long, value_parser = ["sgd", "adam", "adamw"], default_value = "sgd")]
    pub optimizer: String,
    /// Momentum of sgd [default: 0]
    #[arg(long)]
    pub momentum: Option<f64>,
    /// Key of dropout, as `--seed` of `dahl train`
    #[arg(long, default_value_t = 42)]
    pub dropout_seed: u64,
    /// Adds implementations for other units than CPUs.
    #[arg(skip)]
    pub extra: Option<Extra>,
}

impl StepOptions {
    /// How weights are updated, as the command line says it.
    pub fn optimizer(&self) -> String {
        follow::optimizer(&self.optimizer, self.momentum)
    }
}

impl Default for StepOptions {
    fn default() -> Self {
        StepOptions {
            optimizer: "sgd".into(),
            momentum: None,
            dropout_seed: 42,
            extra: None,
        }
    }
}

/// The graph of a training step.
pub fn lowered(
    model: &Model,
    batch: usize,
    dtype: DType,
    grain: &Grain,
    profile: Option<lower::Profile>,
    step: &StepOptions,
) -> anyhow::Result<Lowered> {
    let given = Given::default().set("momentum", step.momentum);
    let optimizer = Optimizer::parse(&step.optimizer, &given)?;
    let state = State::new(model, dtype, Some(&optimizer))?;
    let io = Io::new(model, batch, dtype)?;
    let settings = Settings {
        batch,
        dtype,
        grain: grain.clone(),
        seed: step.dropout_seed,
        clip: None,
        profile,
        extra: step.extra,
    };
    Ok(Lowered {
        graph: lower::train(model, &state, &io, &optimizer, &settings)?,
        optimizer,
        state,
        io,
    })
}

/// Initial weights, random pixels and labels, a small learning rate.
fn prepare(
    exec: &mut dyn Executor,
    model: &Model,
    lowered: &Lowered,
) -> std::result::Result<(), dahl_core::ExecError> {
    let Lowered {
        optimizer,
        state,
        io,
        ..
    } = lowered;
    for (place, array) in state.params.iter().enumerate() {
        if let Some(array) = array {
            let (fill, random) = (init::fill(model, place), init::stream(42, place));
            exec.write(array, &mut |mut v| {
                (0..v.len()).for_each(|i| v.set(i, fill.value(&random, i)))
            })?;
        }
    }
    let random = Random::new(1, 1);
    exec.write(&io.pixels, &mut |mut v| {
        (0..v.len()).for_each(|i| v.set(i, random.uniform(i as u64)))
    })?;
    let classes = model.classes() as u64;
    exec.write(&io.labels, &mut |mut v| {
        (0..v.len()).for_each(|i| v.set(i, random.below(i as u64, classes) as f64));
    })?;
    let values = optimizer.values(1e-4, 1);
    exec.write(&io.values, &mut |mut v| {
        values.iter().enumerate().for_each(|(i, &x)| v.set(i, x))
    })
}
