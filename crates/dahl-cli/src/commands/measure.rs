//! Measuring training steps on data that is already in memory.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::random::Random;
use dahl_core::{Executor, Graph};
use dahl_nn::init;
use dahl_nn::lower::grain::{Grain, Parts};
use dahl_nn::lower::state::{Io, State};
use dahl_nn::lower::{self, Settings};
use dahl_nn::model::Model;
use dahl_nn::optimizer::{Given, Optimizer};
use dahl_nn::train::LARGE;
use dahl_runtime::Runtime;

use super::run_options::RunOptions;

/// A model ready to be trained on random images.
pub struct Measure {
    /// The graph of a step.
    pub graph: Arc<Graph>,
    /// Who runs it.
    pub runtime: Runtime,
    _state: State,
    _io: Io,
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
        let optimizer = Optimizer::parse("sgd", &Given::default())?;
        let state = State::new(model, run.dtype, Some(&optimizer))?;
        let io = Io::new(model, batch, run.dtype)?;
        let settings = Settings {
            batch,
            dtype: run.dtype,
            grain: grain.clone(),
            seed: 0,
            clip: None,
            profile,
        };
        let graph = lower::train(model, &state, &io, &optimizer, &settings)?;
        let mut runtime = run.runtime(if graph.memory.bytes > LARGE { 1 } else { 2 })?;
        prepare(&mut runtime, model, &state, &io, &optimizer).map_err(|e| anyhow::anyhow!(e))?;
        Ok(Measure {
            graph,
            runtime,
            _state: state,
            _io: io,
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

/// How long one candidate is measured when the grain is tuned, in seconds.
const TUNING: f64 = 0.3;

/// The grain, of `auto` and several cuts of the batch, whose steps are fastest here.
pub fn tune(model: &Model, batch: usize, run: &RunOptions) -> anyhow::Result<(Grain, f64)> {
    let cuts = [1, 2, 4, 8, 16, 32].into_iter().filter(|&n| n <= batch);
    let fixed = cuts.map(|sample| {
        Grain::Fixed(Parts {
            sample,
            ..Parts::ONE
        })
    });
    let mut best = (Grain::Auto, f64::INFINITY);
    for grain in std::iter::once(Grain::Auto).chain(fixed) {
        let mut measure = Measure::new(model, batch, run, &grain)?;
        let once = measure.steps(2)?;
        let n = ((TUNING / 4.0 / once.max(1e-9)) as u64).clamp(1, 10_000);
        let mut seconds = f64::INFINITY;
        for _ in 0..4 {
            seconds = seconds.min(measure.steps(n)?);
        }
        if seconds < best.1 {
            best = (grain, seconds);
        }
    }
    Ok(best)
}

/// Initial weights, random pixels and labels, a small learning rate.
fn prepare(
    exec: &mut dyn Executor,
    model: &Model,
    state: &State,
    io: &Io,
    optimizer: &Optimizer,
) -> std::result::Result<(), dahl_core::ExecError> {
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
