//! Measuring training steps on data that is already in memory.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::{DType, Graph};
use dahl_nn::lower::grain::Grain;
use dahl_nn::model::Model;
use dahl_nn::optim::{Given, Optimizer};
use dahl_nn::step::{Kernels, Lowered, Step};
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

impl Measure {
    /// For a model, a batch and a grain, with the options' profile.
    pub fn new(
        model: &Model,
        batch: usize,
        run: &RunOptions,
        grain: &Grain,
    ) -> anyhow::Result<Self> {
        Measure::with(model, batch, run, grain, run.kernels()?)
    }

    /// With implementations chosen by somebody else.
    pub fn with(
        model: &Model,
        batch: usize,
        run: &RunOptions,
        grain: &Grain,
        kernels: Kernels,
    ) -> anyhow::Result<Self> {
        let plan = run.plan(model, batch)?;
        let run = run.following(plan.as_ref())?;
        Measure::scheduled(model, batch, &run, grain, kernels, |graph| match &plan {
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
        kernels: Kernels,
        order: impl FnOnce(&Graph) -> anyhow::Result<Option<Schedule>>,
    ) -> anyhow::Result<Self> {
        let step = StepOptions::default();
        let step = described(model, batch, run.dtype, grain, kernels, &step)?;
        let lowered = step.lower()?;
        let graph = lowered.graph.clone();
        let schedule = order(&graph)?;
        let in_flight = lowered.in_flight();
        let mut runtime = run.runtime_with(in_flight, |mut builder| {
            if let Some(schedule) = schedule {
                builder = builder.schedule(schedule);
                // What ran where is compared with the plan, whether or not a trace is wanted.
                builder = builder.trace(run.trace_events.min(1 << 16));
            }
            builder
        })?;
        step.rehearse(&mut runtime, &lowered)
            .map_err(|e| anyhow::anyhow!(e))?;
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
        }
    }
}

/// The training step that the options describe.
pub fn described(
    model: &Model,
    batch: usize,
    dtype: DType,
    grain: &Grain,
    kernels: Kernels,
    step: &StepOptions,
) -> anyhow::Result<Step> {
    let given = Given::default().set("momentum", step.momentum);
    Ok(Step::new(model.clone())
        .batch(batch)
        .dtype(dtype)
        .grain(grain.clone())
        .optimizer(Optimizer::parse(&step.optimizer, &given)?)
        .seed(step.dropout_seed)
        .kernels(kernels))
}
