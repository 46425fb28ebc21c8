//! `--plan F`: following a plan, and what came of its predictions.

use std::path::Path;

use anyhow::{Context, bail};
use dahl_core::trace::Trace;
use dahl_core::{Bytes, DType, Graph, Joules, Seconds, UnitId};
use dahl_nn::lower::grain::Grain;
use dahl_nn::model::Model;
use dahl_runtime::Schedule;
use dahl_runtime::meter::Energy;
use dahl_sched::plan::file::PlanFile;
use dahl_sched::policy::Policy;
use dahl_sched::sim::{Fixed, Options, Times};

use super::units::Units;
use super::{machine, measure, simulate};
use crate::print;

/// Reads a plan to be run here; see [`read`]. Frequency states are refused: nothing here sets them.
pub fn load(path: &Path, model: &Model, batch: usize, dtype: DType) -> anyhow::Result<PlanFile> {
    let plan = read(path, model, batch, dtype, &machine::name_of_this())?;
    if let Some(task) = plan.tasks.iter().position(|t| t.state != 0) {
        bail!(
            "{} runs task {task} in frequency state {}, which DAHL cannot set: describe the machine \
             without states and plan again",
            path.display(),
            plan.tasks[task].state
        );
    }
    Ok(plan)
}

/// Reads a plan and refuses one that is not for this model, batch, element type and machine; the
/// difference is named.
pub fn read(
    path: &Path,
    model: &Model,
    batch: usize,
    dtype: DType,
    machine: &str,
) -> anyhow::Result<PlanFile> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let plan = PlanFile::from_json(&text).with_context(|| name.to_string())?;
    let made = &plan.made_for;
    for (what, planned, given) in [
        ("machine", made.machine.as_str(), machine),
        ("model", &made.model, &model.name),
        ("batch", &made.batch.to_string(), &batch.to_string()),
        ("dtype", &made.dtype, &dtype.to_string()),
    ] {
        if planned != given {
            bail!("{name} was made for {what} {planned}, this run has {given}: make a plan for it");
        }
    }
    Ok(plan)
}

/// The units of a plan.
pub fn units(plan: &PlanFile) -> anyhow::Result<Units> {
    let names = plan.units.iter().map(|u| u.name.as_str());
    Units::named(names).map_err(|e| anyhow::anyhow!("the plan cannot be followed here: {e}"))
}

/// How the plan cuts layers.
pub fn grain(plan: &PlanFile) -> anyhow::Result<Grain> {
    Ok(plan.made_for.grain.parse::<Grain>()?)
}

/// Refuses a plan that is for another graph than the one that will run.
pub fn check(plan: &PlanFile, graph: &Graph) -> anyhow::Result<()> {
    let here = units(plan)?.machine();
    match plan.refusal(graph, &here) {
        Some(difference) => bail!(
            "the plan does not fit: {difference}. Optimiser, seed and profile are part of a graph: plan \
             with those of the run"
        ),
        None => Ok(()),
    }
}

/// What the runtime takes.
pub fn schedule(plan: &PlanFile) -> anyhow::Result<Schedule> {
    let graph = u64::from_str_radix(&plan.made_for.graph_fingerprint, 16)
        .context("the plan's graph fingerprint is not a hexadecimal number")?;
    Ok(Schedule {
        graph,
        order: plan.orders(),
    })
}

/// Seconds of a step in a run that follows a plan here, by what is known of this machine now. Steps in flight
/// meet, so this is not the time of a step alone, which the plan itself says. None where not every duration is
/// known, or a device takes part.
pub fn expected(plan: &PlanFile, graph: &Graph) -> anyhow::Result<Option<f64>> {
    let units = units(plan)?;
    let machine = units.machine();
    let (Some(known), false) = (simulate::measured(None, true)?, units.has_gpus()) else {
        return Ok(None);
    };
    let Ok(mut times) = Times::estimate(graph, &machine, Some(&known), false) else {
        return Ok(None);
    };
    let (paced, adds) = simulate::paced(true, &machine, &mut times, "plan", graph)?;
    let options = Options {
        in_flight: measure::in_flight(graph),
        launcher: Some(UnitId(0)),
        fed: true,
        noise: adds.map(|a| a.noise(0)),
        ..Options::default()
    };
    let follows = || -> anyhow::Result<Box<dyn Policy>> {
        Ok(Box::new(Fixed::new(graph.len(), plan.orders())?))
    };
    simulate::steady(graph, &paced, &times, &follows, &options, [10, 110]).map(Some)
}

/// Steps as they were measured.
pub enum Steps {
    /// Each by itself, in the trace; and seconds of one among others.
    Alone(f64),
    /// In a row, in the trace.
    InARow,
}

/// A run beside its plan.
#[derive(serde::Serialize)]
pub struct Outcome {
    /// Seconds of a step among others: predicted, if somebody can, and measured.
    pub step_seconds: [Option<f64>; 2],
    /// Seconds of a step alone, from its first task to its last: planned, and measured, if one ran.
    pub alone_seconds: [Option<f64>; 2],
    /// Seconds that each unit works in a step.
    pub busy_seconds: Vec<[f64; 2]>,
    /// Bytes of temporaries in the host's memory.
    pub peak_bytes: [u64; 2],
    /// Joules of a step; the second is missing where nothing measures or models them.
    pub joules: [Option<f64>; 2],
    /// Where the measured joules come from.
    pub joules_source: String,
    /// The part of the recorded tasks that ran on their unit, in their order.
    pub fidelity: f64,
}

impl Outcome {
    /// Compares.
    pub fn of(
        plan: &PlanFile,
        graph: &Graph,
        trace: &Trace,
        measured: Steps,
        energy: &Energy,
    ) -> anyhow::Result<Self> {
        let fingerprint = graph.fingerprint();
        let planned = |launch: u32| trace.graph_of(launch).fingerprint == fingerprint;
        let mut followed = 0;
        let mut ran = 0;
        let mut busy = vec![0; plan.units.len()];
        // By unit and launch, how many tasks of the unit's list have run.
        let mut place = std::collections::HashMap::<(u16, u32), usize>::new();
        let mut steps = std::collections::BTreeMap::<u32, (u64, u64)>::new();
        for run in trace.tasks.iter().filter(|t| planned(t.id.launch)) {
            let at = place.entry((run.unit, run.id.launch)).or_insert(0);
            let unit = usize::from(run.unit);
            let order = &plan.units[unit].order;
            followed += u64::from(order.get(*at) == Some(&run.id.task));
            *at += 1;
            ran += 1;
            busy[unit] += run.end - run.start;
            let (first, last) = steps.entry(run.id.launch).or_insert((u64::MAX, 0));
            (*first, *last) = ((*first).min(run.start), (*last).max(run.end));
        }
        let spans: Vec<(u64, u64)> = steps.values().copied().collect();
        let (alone, seconds) = match measured {
            Steps::Alone(seconds) => (median(spans.iter().map(|s| s.1 - s.0)), Some(seconds)),
            // From the end of one to the end of the next.
            Steps::InARow => (
                None,
                median(spans.windows(2).map(|w| w[1].1 - w[0].1.min(w[1].1))),
            ),
        };
        let steps = steps.len().max(1) as f64;
        let mean = |nanos: u64| nanos as f64 * 1e-9 / steps;
        let host = plan.peaks.first().map_or(0, |p| p.bytes.0);
        let joules = energy.joules().zip(seconds);
        let per_step = joules.map(|(j, seconds)| j.0 * seconds / energy.elapsed.0.max(1e-9));
        Ok(Outcome {
            step_seconds: [expected(plan, graph)?, seconds],
            alone_seconds: [Some(plan.seconds.0), alone],
            busy_seconds: plan
                .units
                .iter()
                .zip(&busy)
                .map(|(u, &b)| [u.busy.0, mean(b)])
                .collect(),
            peak_bytes: [host, graph.memory.bytes],
            joules: [Some(plan.joules.total.0), per_step],
            joules_source: energy.source(),
            fidelity: followed as f64 / (ran as f64).max(1.0),
        })
    }

    /// Prints it for people.
    pub fn show(&self, plan: &PlanFile) {
        let mut table = print::table(&["of a step", "predicted", "measured", "difference"]);
        let percent = |[a, b]: [f64; 2]| match a > 0.0 {
            true => format!("{:+.1} %", 100.0 * (b / a - 1.0)),
            false => String::new(),
        };
        let time = |v: f64| Seconds(v).to_string();
        let both = |pair: [Option<f64>; 2], text: &dyn Fn(f64) -> String| {
            let share = match pair {
                [Some(a), Some(b)] => percent([a, b]),
                _ => String::new(),
            };
            let [a, b] = pair.map(|v| v.map_or("unknown".into(), text));
            [a, b, share]
        };
        for (what, pair) in [
            ("time, among others", self.step_seconds),
            ("time, alone", self.alone_seconds),
        ] {
            let [a, b, share] = both(pair, &time);
            table.add_row([what.into(), a, b, share]);
        }
        for (unit, &[a, b]) in plan.units.iter().zip(&self.busy_seconds) {
            let name = format!("{} works", unit.name);
            table.add_row([name, time(a), time(b), percent([a, b])]);
        }
        let [a, b] = self.peak_bytes;
        let share = percent([a as f64, b as f64]);
        let bytes = |b: u64| Bytes(b).to_string();
        table.add_row(["memory, temporaries".into(), bytes(a), bytes(b), share]);
        let [a, b, share] = both(self.joules, &|j| Joules(j).to_string());
        table.add_row(["energy".into(), a, b, share]);
        print::align_right(&mut table, 1..=3);
        println!("{table}");
        println!(
            "{:.1} % of the recorded tasks ran on their unit in their order; energy {}",
            100.0 * self.fidelity,
            self.joules_source
        );
    }
}

/// Seconds of the middle one; none of none.
fn median(nanos: impl Iterator<Item = u64>) -> Option<f64> {
    let mut all: Vec<u64> = nanos.collect();
    all.sort_unstable();
    all.get(all.len() / 2).map(|&n| n as f64 * 1e-9)
}
