//! A run beside its plan: what was expected of a step, and what was measured.
//!
//! No plan can know how fast the machine will be: another minute, another frequency, another neighbour. So there is
//! a second prediction, made afterwards: what the simulator says of the plan if each unit works as fast as it did in
//! the run, and its tasks vary as they did. What it misses is the plan's fault; the rest of the difference is the
//! machine's.

use dahl_core::trace::Trace;
use dahl_core::{Bytes, Graph, Joules, Seconds, UnitId};
use dahl_energy::Energy;
use dahl_plan::Expected;
use dahl_plan::PlanFile;
use dahl_sim::{Options, Times};

use super::steps::{Steps, Usual, ran};
use crate::commands::{rhythm, simulate};
use crate::print;

/// What was measured.
pub struct Measured<'a> {
    /// Steps of the run, one after another.
    pub row: &'a Trace,
    /// Seconds of one of them by somebody who measured more; else by the trace.
    pub seconds: Option<f64>,
    /// Steps each by itself.
    pub alone: Option<&'a Trace>,
    /// Energy of the whole run.
    pub energy: &'a Energy,
}

/// See the module. Of every pair the first is predicted and the second measured.
#[derive(serde::Serialize)]
pub struct Outcome {
    /// Seconds of a step of the run.
    pub step_seconds: [Option<f64>; 2],
    /// Seconds of a recorded step, predicted for units as fast as they were meanwhile.
    pub same_speed_seconds: [Option<f64>; 2],
    /// Seconds of a step alone, from its first task to its last.
    pub alone_seconds: [Option<f64>; 2],
    /// Seconds that each unit works in a step.
    pub busy_seconds: Vec<[Option<f64>; 2]>,
    /// Bytes of arrays in the host's memory, temporaries of one step included.
    pub peak_bytes: [u64; 2],
    /// Joules of a step; the second is missing where nothing measures or models them.
    pub joules: [Option<f64>; 2],
    /// Where the measured joules come from.
    pub joules_source: String,
    /// The part of the recorded tasks that ran on their unit, in their order.
    pub fidelity: Option<f64>,
}

impl Outcome {
    /// Compares.
    pub fn of(plan: &PlanFile, graph: &Graph, measured: &Measured<'_>) -> anyhow::Result<Self> {
        let row = Steps::new(plan, graph, measured.row);
        let alone = measured.alone.map(|t| Steps::new(plan, graph, t));
        let usual = row.in_a_row();
        let seconds = measured.seconds.or(usual.as_ref().map(|u| u.seconds));
        let same_speed = match &usual {
            Some(usual) => at_speed_of(usual, plan, graph, measured.row)?,
            None => None,
        };
        let expected = plan.expected.as_ref();
        let works = |u: usize| expected.and_then(|e| e.works.get(u)).map(|s| s.0);
        let worked = |u: usize| usual.as_ref().map(|usual| usual.busy[u]);
        let energy = measured.energy;
        let lasting = graph.storages.iter().filter(|s| s.temporary.is_none());
        let lasting: u64 = lasting.map(|s| s.storage.bytes() as u64).sum();
        let joules = energy.joules().zip(seconds);
        Ok(Outcome {
            step_seconds: [expected.map(|e| e.seconds.0), seconds],
            same_speed_seconds: [same_speed, usual.as_ref().map(|u| u.seconds)],
            alone_seconds: [expected.map(|e| e.alone.0), alone.and_then(|a| a.alone())],
            busy_seconds: (0..plan.units.len())
                .map(|u| [works(u), worked(u)])
                .collect(),
            peak_bytes: [
                plan.peaks.first().map_or(0, |p| p.bytes.0),
                lasting + graph.memory.bytes,
            ],
            joules: [
                expected.map(|e| e.joules.0),
                joules.map(|(j, seconds)| j.0 * seconds / energy.elapsed.0.max(1e-9)),
            ],
            joules_source: energy.source(),
            fidelity: row.fidelity(),
        })
    }

    /// Prints it for people.
    pub fn show(&self, plan: &PlanFile) {
        let mut table = print::table(&["of a step", "predicted", "measured", "difference"]);
        let mut add = |what: &str, pair: [Option<f64>; 2], text: fn(f64) -> String| {
            let share = match pair {
                [Some(a), Some(b)] if a > 0.0 => format!("{:+.1} %", 100.0 * (b / a - 1.0)),
                _ => String::new(),
            };
            let [a, b] = pair.map(|v| v.map_or("unknown".into(), text));
            table.add_row([what.into(), a, b, share]);
        };
        let time = |v: f64| Seconds(v).to_string();
        add("time, among others", self.step_seconds, time);
        add(
            "time, at the run's own speed",
            self.same_speed_seconds,
            time,
        );
        add("time, alone", self.alone_seconds, time);
        for (unit, &pair) in plan.units.iter().zip(&self.busy_seconds) {
            add(&format!("{} works", unit.name), pair, time);
        }
        let bytes = self.peak_bytes.map(|b| Some(b as f64));
        add("memory of arrays", bytes, |b| Bytes(b as u64).to_string());
        add("energy", self.joules, |j| Joules(j).to_string());
        print::align_right(&mut table, 1..=3);
        println!("{table}");
        match self.fidelity {
            Some(part) => print!(
                "{:.1} % of the recorded tasks ran on their unit in their order",
                100.0 * part
            ),
            None => {
                print!("no step was recorded whole: --trace F with more --trace-events keeps more")
            }
        }
        println!("; energy {}", self.joules_source);
    }
}

/// Seconds of a step, predicted from what is known of this machine and how fast each unit was. None where not every
/// duration is known, or a device takes part.
fn at_speed_of(
    usual: &Usual,
    plan: &PlanFile,
    graph: &Graph,
    row: &Trace,
) -> anyhow::Result<Option<f64>> {
    let units = super::units(plan)?;
    let machine = units.machine();
    let (Some(known), false) = (simulate::measured(None, true)?, units.has_gpus()) else {
        return Ok(None);
    };
    let Ok(mut times) = Times::estimate(graph, &machine, Some(&known), false) else {
        return Ok(None);
    };
    let (paced, _) = simulate::paced(true, &machine, &mut times, "plan", graph)?;
    let own = Trace {
        tasks: ran(graph, row).copied().collect(),
        ..Trace::default()
    };
    let varies = rhythm::Variation {
        // The speed of every unit is known.
        apart: 0.0,
        ..rhythm::varies(&machine, graph, &[&own])
    };
    let run = Options {
        noise: Some(varies.noise(0)),
        ..simulate::as_run(graph, &machine)
    };
    let expected = Expected::of(plan, graph, &paced, &times, &run)?;
    for (u, (works, worked)) in expected.works.iter().zip(&usual.busy).enumerate() {
        if works.0 > 0.0 {
            times.stretch(UnitId(u as u16), worked / works.0);
        }
    }
    let same = Expected::of(plan, graph, &paced, &times, &run)?;
    Ok(Some(same.seconds.0))
}
