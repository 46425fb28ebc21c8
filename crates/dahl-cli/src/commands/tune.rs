//! `--grain tuned`: how to cut each layer, from the calibrated performance model.
//!
//! First `auto` and several cuts of the whole batch are measured for a moment each, and what their tasks
//! take enters this machine's performance model. Then the cut of one layer after another is varied on
//! paper: the simulator predicts a step from the model, under the policy that will run. Last, the best
//! prediction and the best measurement are measured side by side, and the faster one is used. The choice
//! is printed, and recorded with the run, as a grain that can be given again.

use dahl_core::{Machine, Seconds, UnitId, UnitKind};
use dahl_nn::lower::grain::{Grain, Parts};
use dahl_nn::model::Model;
use dahl_nn::step::Kernels;
use dahl_runtime::perf_store::PerfStore;
use dahl_sched::policy;
use dahl_sim::{Options, Times};

use super::calibrate::record;
use super::measure::{Measure, StepOptions, described};
use super::profile;
use super::rhythm::{self, Rhythm, Seen};
use super::run_options::RunOptions;
use super::simulate::steady;
use super::stretches::Stretches;

/// How long one candidate is measured, in seconds.
const MEASURED: f64 = 0.2;

/// A prediction must be better by this part before another cut is believed to be.
const MARGIN: f64 = 0.01;

/// Passes over the layers.
const ROUNDS: usize = 2;

/// What was found.
pub struct Tuned {
    /// The grain.
    pub grain: Grain,
    /// Measured seconds of a step.
    pub seconds: Seconds,
    /// Predicted for it, if the prediction led to it.
    pub predicted: Option<Seconds>,
    /// Grains that were predicted.
    pub tried: usize,
}

/// Finds a grain.
pub fn tune(model: &Model, batch: usize, run: &RunOptions) -> anyhow::Result<Tuned> {
    let run = &RunOptions {
        trace: None,
        trace_events: 1 << 16,
        record: true,
        ..run.clone()
    };
    // Without a folder to keep them in, durations serve this run alone.
    let (mut store, kept) = match profile::open_model() {
        Ok(store) => (store, true),
        Err(_) => {
            let nowhere = std::env::temp_dir().join("dahl-no-times.json");
            (PerfStore::open(&nowhere, 1)?.0, false)
        }
    };
    let cuts = [1, 2, 4, 8, 16, 32].into_iter().filter(|&n| n <= batch);
    let uniform = cuts.map(|sample| {
        Grain::Fixed(Parts {
            sample,
            ..Parts::ONE
        })
    });
    let mut best = (f64::INFINITY, Grain::Auto);
    let mut machine = Machine::cpus(1);
    let mut seen = Vec::new();
    for grain in std::iter::once(Grain::Auto).chain(uniform) {
        let seconds;
        (seconds, machine) = measure(model, batch, run, &grain, Some((&mut store, &mut seen)))?;
        if seconds < best.0 {
            best = (seconds, grain);
        }
    }
    if kept && let Err(error) = store.save() {
        eprintln!("warning: {error}");
    }
    let beside = |s: &Seen| s.beside(store.model());
    let rhythms = seen.iter().map(beside).collect::<anyhow::Result<_>>()?;
    let mut search = Search {
        model,
        batch,
        run,
        machine,
        kernels: run.kernels()?,
        store: &store,
        rhythms,
        tried: 0,
    };
    let (predicted, layers) = search.descend(&best.1)?;
    let tried = search.tried;
    let mut found = Tuned {
        grain: best.1.clone(),
        seconds: Seconds(best.0),
        predicted: None,
        tried,
    };
    if layers != best.1 {
        // Alternating, so that a disturbance meets both.
        let (mut old, mut new) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..2 {
            old = old.min(measure(model, batch, run, &best.1, None)?.0);
            new = new.min(measure(model, batch, run, &layers, None)?.0);
        }
        if new < old {
            found.grain = layers;
            found.seconds = Seconds(new);
            found.predicted = Some(Seconds(predicted));
        }
    }
    Ok(found)
}

/// Seconds per step, the best of a few short stretches, and the machine. Durations and
/// rhythm are noted, if somebody wants them.
fn measure(
    model: &Model,
    batch: usize,
    run: &RunOptions,
    grain: &Grain,
    store: Option<(&mut PerfStore, &mut Vec<Seen>)>,
) -> anyhow::Result<(f64, Machine)> {
    let mut measure = Measure::new(model, batch, run, grain)?;
    let once = measure.steps(2)?;
    measure.runtime.take_trace();
    let n = ((MEASURED / 4.0 / once.max(1e-9)) as u64).clamp(1, 10_000);
    let mut stretches = Stretches::default();
    for _ in 0..4 {
        stretches.run(&mut measure, n)?;
    }
    let machine = measure.runtime.machine().clone();
    if let Some((store, seen)) = store {
        let (graph, traces) = (&measure.graph, stretches.traces());
        record(graph, &traces, &machine, |key, cost, seconds| {
            store.record(key, cost, seconds);
        });
        let what = grain.to_string();
        seen.extend(Seen::of(what, run.policy(), &machine, graph, &traces));
    }
    Ok((stretches.best(), machine))
}

struct Search<'a> {
    model: &'a Model,
    batch: usize,
    run: &'a RunOptions,
    machine: Machine,
    kernels: Kernels,
    store: &'a PerfStore,
    /// What the runtime itself took in the measured runs.
    rhythms: Vec<Rhythm>,
    tried: usize,
}

impl Search<'_> {
    /// Predicted seconds of a step in the middle of a run.
    fn predict(&mut self, grain: &Grain) -> anyhow::Result<f64> {
        self.tried += 1;
        let (dtype, kernels) = (self.run.dtype, self.kernels.clone());
        let step = StepOptions::default();
        let lowered = described(self.model, self.batch, dtype, grain, kernels, &step)?.lower()?;
        let graph = &*lowered.graph;
        let mut machine = self.machine.clone();
        let mut times = Times::estimate(graph, &machine, Some(self.store.model()), false)?;
        let policy = self.run.policy();
        rhythm::apply(&mut machine, &mut times, &self.rhythms, policy, graph);
        let options = Options {
            // Without CPU workers nobody who launches works.
            launcher: (machine.units[0].kind == UnitKind::CPU).then_some(UnitId(0)),
            new_inputs_each_step: true,
            in_flight: lowered.in_flight(),
            ..Options::default()
        };
        let decides = || Ok(policy::by_name(policy, &machine)?);
        steady(graph, &machine, &times, &decides, &options, [2, 5])
    }

    /// Varies one layer's cut after another, as long as the prediction gets better.
    fn descend(&mut self, from: &Grain) -> anyhow::Result<(f64, Grain)> {
        let layers = self.model.layers.len();
        let start = match from {
            Grain::Fixed(parts) => vec![Some(*parts); layers],
            Grain::Layers(all) => all.clone(),
            Grain::Auto => vec![None; layers],
        };
        let mut best = (self.predict(from)?, start);
        let mut moved = false;
        for _ in 0..ROUNDS {
            let before = best.0;
            for layer in 0..layers {
                for parts in self.options() {
                    if best.1[layer] == parts {
                        continue;
                    }
                    let mut next = best.1.clone();
                    next[layer] = parts;
                    let seconds = self.predict(&Grain::Layers(next.clone()))?;
                    if seconds < best.0 * (1.0 - MARGIN) {
                        best = (seconds, next);
                        moved = true;
                    }
                }
            }
            if best.0 > before * (1.0 - MARGIN) {
                break;
            }
        }
        match moved {
            true => Ok((best.0, Grain::Layers(best.1))),
            false => Ok((best.0, from.clone())),
        }
    }

    /// Cuts to try for a layer.
    fn options(&self) -> Vec<Option<Parts>> {
        let mut all = vec![None];
        for sample in [1, 2, 4, 8, 16] {
            for channel in [1, 2] {
                if sample <= self.batch {
                    all.push(Some(Parts {
                        sample,
                        channel,
                        ..Parts::ONE
                    }));
                }
            }
        }
        all
    }
}
