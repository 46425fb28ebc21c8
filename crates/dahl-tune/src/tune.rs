//! Tuning: a grain for a step on this computer, from the performance model and the simulator.
//!
//! First `auto` and several cuts of the whole batch are measured for a moment each, and what their tasks take
//! enters this machine's performance model. Then the cut of one layer after another is varied on paper: the
//! simulator predicts a step under the policy that will run. Last, the best prediction and the best measurement
//! are measured side by side, and the faster one is used. The choice is a grain that can be given again.

use dahl_core::{Machine, Seconds};
use dahl_nn::Step;
use dahl_nn::lower::grain::Grain;
use dahl_runtime::perf_store::PerfStore;

use crate::calibrate::record;
use crate::engine::Engine;
use crate::error::TuneError;
use crate::grains::{GrainSearch, batch_cuts};
use crate::machine_model::MachineModel;
use crate::overheads::Observation;
use crate::progress::{Progress, Tell};
use crate::run::ResolvedRun;
use crate::simulate::steady;
use crate::step_bench::StepBench;
use crate::windows::Windows;

/// How long one candidate is measured, in seconds.
const MEASURED: f64 = 0.2;

/// A prediction must be better by this part before another cut is believed to be.
const MARGIN: f64 = 0.01;

/// Most parts of the batch that are measured.
const MOST_PARTS: usize = 32;

/// What was found.
#[derive(Clone, Debug)]
pub struct Tuned {
    /// The grain.
    pub grain: Grain,
    /// Measured seconds of a step.
    pub seconds: Seconds,
    /// Predicted for it, if the prediction led to it.
    pub predicted: Option<Seconds>,
    /// Grains that were predicted.
    pub tried: usize,
    /// Whether a request to stop ended the search: the grain is the best so far.
    pub stopped: bool,
}

impl std::fmt::Display for Tuned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} per step", self.seconds)?;
        if let Some(seconds) = self.predicted {
            let tried = self.tried;
            write!(f, " ({seconds} predicted, best of {tried} predictions)")?;
        }
        match self.stopped {
            true => f.write_str(", the best so far"),
            false => Ok(()),
        }
    }
}

/// What measurements leave behind: durations, and what runs added to them.
struct Learnt {
    store: PerfStore,
    seen: Vec<Observation>,
}

/// Finds a grain for a step, whatever grain it has, in runs of this kind. A request to stop the run ends the search
/// with the best so far.
pub fn tune(step: &Step, run: &ResolvedRun, tell: &mut Tell<'_>) -> Result<Tuned, TuneError> {
    if run.engine() != Engine::Dahl {
        return Err(TuneError::Option(
            "--grain tuned: the search predicts runs of DAHL's own engine; let it search without --engine, and give the \
             grain that it prints"
                .into(),
        ));
    }
    let run = &run.recording(Some(1 << 16));
    // Without a folder to keep them in, durations serve this run alone.
    let ((store, damaged), kept) = match run.this().open_times() {
        Ok(opened) => (opened, true),
        Err(_) => {
            let nowhere = std::env::temp_dir().join("dahl-no-times.json");
            (PerfStore::open(&nowhere, 1)?, false)
        }
    };
    if let Some(damaged) = damaged {
        tell(Progress::Warning(damaged.to_string()));
    }
    let mut learnt = Learnt {
        store,
        seen: Vec::new(),
    };
    let with = |grain: &Grain| step.clone().grain(grain.clone());
    let stop = run.stop();
    let mut best = (f64::INFINITY, Grain::Auto);
    let mut machine = Machine::cpus(1);
    let uniform = batch_cuts(step.batch.min(MOST_PARTS)).map(Grain::Fixed);
    for grain in std::iter::once(Grain::Auto).chain(uniform) {
        let seconds;
        (seconds, machine) = measure(&with(&grain), run, Some(&mut learnt))?;
        if seconds < best.0 {
            best = (seconds, grain);
        }
        if stop.is_requested() {
            break;
        }
    }
    let Learnt { mut store, seen } = learnt;
    if kept && let Err(error) = store.save() {
        tell(Progress::Warning(error.to_string()));
    }
    let overheads = seen.iter().map(|s| s.with_model(store.model()));
    let overheads = overheads.collect::<Result<_, _>>()?;
    let times = store.model().clone();
    let model = MachineModel::measured(machine, times, overheads);
    let (predicted, grain, tried) = search(step, &model, run, &best.1)?;
    let mut found = Tuned {
        grain: best.1.clone(),
        seconds: Seconds(best.0),
        predicted: None,
        tried,
        stopped: stop.is_requested(),
    };
    if grain != best.1 && !found.stopped {
        // Alternating, so that a disturbance meets both.
        let (mut old, mut new) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..2 {
            old = old.min(measure(&with(&best.1), run, None)?.0);
            new = new.min(measure(&with(&grain), run, None)?.0);
        }
        if new < old {
            found.grain = grain;
            found.seconds = Seconds(new);
            found.predicted = Some(Seconds(predicted));
        }
    }
    Ok(found)
}

/// Varies the cuts of layers, as long as the prediction gets better: its seconds, the grain, predictions made.
fn search(
    step: &Step,
    machine: &MachineModel,
    run: &ResolvedRun,
    from: &Grain,
) -> Result<(f64, Grain, usize), TuneError> {
    let mut tried = 0;
    let best = {
        let mut predict = |_: &Grain, lowered: &dahl_nn::step::Lowered| {
            tried += 1;
            steady(&lowered.graph, machine, run.policy(), [2, 5]).map(Some)
        };
        let mut keep_going = || !run.stop().is_requested();
        let mut search = GrainSearch::new(step, MARGIN, &mut predict, &mut keep_going);
        search.improves(from)?;
        search.by_layer()?;
        search.best()
    };
    let (seconds, grain) = best.unwrap_or((f64::INFINITY, from.clone()));
    Ok((seconds, grain, tried))
}

/// Seconds per step, the best of a few timing windows, and the machine. Durations and overheads are kept, if
/// somebody wants them.
fn measure(
    step: &Step,
    run: &ResolvedRun,
    learnt: Option<&mut Learnt>,
) -> Result<(f64, Machine), TuneError> {
    let mut bench = StepBench::new(step, run)?;
    let once = bench.steps(2)?;
    bench.runtime.take_trace();
    let n = ((MEASURED / 4.0 / once.max(1e-9)) as u64).clamp(1, 10_000);
    let mut windows = Windows::default();
    for _ in 0..4 {
        bench.window(&mut windows, n)?;
    }
    let machine = bench.runtime.machine().clone();
    if let Some(learnt) = learnt {
        let (graph, traces) = (bench.graph(), windows.traces());
        let names = |unit: &dahl_core::Unit| machine.timed_as(unit);
        record(graph, &traces, &machine, names, |key, cost, seconds| {
            learnt.store.record(key, cost, seconds);
        });
        let what = step.grain.to_string();
        let seen = Observation::of(what, run.policy(), &machine, graph, &traces);
        learnt.seen.extend(seen);
    }
    Ok((windows.best(), machine))
}
