//! A run beside its plan: what was expected of a step, and what was measured.
//!
//! No plan can know how fast the machine will be: another minute, another frequency, another program. So there is a
//! second prediction, made afterwards, rescaled to the measured speed of each unit: what the simulator says of the
//! plan if units work as fast as they did in the run, and tasks vary as they did. What that misses is the plan's
//! error; the rest of the difference is the machine's.

use dahl_core::report::{Report, Table};
use dahl_core::trace::Trace;
use dahl_core::{Bytes, Graph, Joules, Seconds, UnitId};
use dahl_energy::Energy;
use dahl_plan::{Expected, PlanFile};
use dahl_sim::Options;

use super::StepPlan;
use super::steps::{Steps, Usual, ran};
use crate::error::TuneError;
use crate::machine_model::MachineModel;
use crate::overheads::{Variation, variation_of};
use crate::simulate::as_run;
use crate::this_machine::ThisMachine;

/// What was measured.
pub struct MeasuredRun<'a> {
    /// Steps of the run, one after another.
    pub pipelined: &'a Trace,
    /// Seconds of one of them, where more were timed than recorded; else by the trace.
    pub seconds: Option<f64>,
    /// Steps each by itself.
    pub isolated: Option<&'a Trace>,
    /// Energy of the whole run.
    pub energy: &'a Energy,
}

/// Predictions and measurements: of every pair the first is predicted and the second measured.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Followed {
    /// Seconds of a step of the run.
    pub step_seconds: [Option<f64>; 2],
    /// Seconds of a recorded step, rescaled to the speeds that units had meanwhile.
    pub rescaled_seconds: [Option<f64>; 2],
    /// Seconds of a step by itself, from its first task to its last.
    pub isolated_seconds: [Option<f64>; 2],
    /// Seconds that each unit works in a step.
    pub busy_seconds: Vec<[Option<f64>; 2]>,
    /// Bytes of arrays in the host's memory, temporaries of one step included.
    pub peak_bytes: [u64; 2],
    /// Joules of a step; the second is missing where nothing measures or models them.
    pub joules: [Option<f64>; 2],
    /// Where the measured joules come from.
    pub joules_source: String,
    /// The part of the recorded tasks that ran on their unit, in their order; none where a policy decides both.
    pub fidelity: Option<f64>,
    /// The part that ran on their unit or on one that stands in for it; of a policy, on a unit that takes part.
    pub placed: Option<f64>,
}

impl Followed {
    /// Compares a run with the plan that it followed.
    pub fn of(
        plan: &StepPlan,
        graph: &Graph,
        measured: &MeasuredRun<'_>,
        this: &ThisMachine,
    ) -> Result<Followed, TuneError> {
        let row = Steps::new(&plan.file, graph, measured.pipelined);
        let isolated = measured.isolated.map(|t| Steps::new(&plan.file, graph, t));
        let usual = row.in_a_row();
        let seconds = measured.seconds.or(usual.as_ref().map(|u| u.seconds));
        let rescaled = match &usual {
            Some(usual) => rescaled(usual, plan, graph, measured.pipelined, this)?,
            None => None,
        };
        let plan = &plan.file;
        let expected = plan.expected.as_ref();
        let works = |u: usize| expected.and_then(|e| e.works.get(u)).map(|s| s.0);
        let worked = |u: usize| usual.as_ref().map(|usual| usual.busy[u]);
        let energy = measured.energy;
        let lasting = graph.storages.iter().filter(|s| s.temporary.is_none());
        let lasting: u64 = lasting.map(|s| s.storage.bytes() as u64).sum();
        let joules = energy.joules().zip(seconds);
        Ok(Followed {
            step_seconds: [expected.map(|e| e.seconds.0), seconds],
            rescaled_seconds: [rescaled, usual.as_ref().map(|u| u.seconds)],
            isolated_seconds: [
                expected.map(|e| e.alone.0),
                isolated.and_then(|a| a.alone()),
            ],
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
            fidelity: row.fidelity().filter(|_| plan.policy.is_none()),
            placed: row.placed(),
        })
    }

    /// Predictions beside measurements, for people.
    pub fn report(&self, plan: &PlanFile) -> Report {
        let mut out = Report::default();
        let mut table = Table::new("of a step|>predicted|>measured|>difference");
        let mut add = |what: &str, pair: [Option<f64>; 2], text: fn(f64) -> String| {
            let share = match pair {
                [Some(a), Some(b)] if a > 0.0 => format!("{:+.1} %", 100.0 * (b / a - 1.0)),
                _ => String::new(),
            };
            let [a, b] = pair.map(|v| v.map_or("unknown".into(), text));
            table.row([what.into(), a, b, share]);
        };
        let time = |v: f64| Seconds(v).to_string();
        add("step time, pipelined", self.step_seconds, time);
        add(
            "step time, rescaled to measured unit speeds",
            self.rescaled_seconds,
            time,
        );
        add("step time, isolated", self.isolated_seconds, time);
        for (unit, &pair) in plan.units.iter().zip(&self.busy_seconds) {
            add(&format!("{} works", unit.name), pair, time);
        }
        let bytes = self.peak_bytes.map(|b| Some(b as f64));
        add("memory of arrays", bytes, |b| Bytes(b as u64).to_string());
        add("energy", self.joules, |j| Joules(j).to_string());
        out.table(table);
        let order = match (self.placed, self.fidelity) {
            (Some(placed), None) => format!(
                "{} decided order and unit: {:.1} % of the recorded tasks ran on units that the plan lets take part",
                plan.decides(),
                100.0 * placed
            ),
            (Some(placed), Some(part)) => format!(
                "{:.1} % of the recorded tasks ran on their unit in their order, {:.1} % on it or one that is alike",
                100.0 * part,
                100.0 * placed
            ),
            (None, _) => {
                "no step was recorded whole: --trace F with more --trace-events keeps more".into()
            }
        };
        out.line(format!("{order}; energy {}", self.joules_source));
        out
    }
}

/// Seconds of a step, predicted from what is known of this machine and how fast each unit was. None where not every
/// duration is known, or a device takes part.
fn rescaled(
    usual: &Usual,
    plan: &StepPlan,
    graph: &Graph,
    row: &Trace,
    this: &ThisMachine,
) -> Result<Option<f64>, TuneError> {
    let units = plan.units()?;
    if units.has_gpus() {
        return Ok(None);
    }
    let here = MachineModel::here(units.machine(), this)?.0.strict();
    let Ok(mut d) = here.durations(graph, plan.file.decides()) else {
        return Ok(None);
    };
    let own = Trace {
        tasks: ran(graph, row).copied().collect(),
        ..Trace::default()
    };
    let variation = Variation {
        // The speed of every unit is known.
        core_stddev: 0.0,
        ..variation_of(&here.machine, graph, &[&own])
    };
    let run = Options {
        noise: Some(variation.noise(0)),
        ..as_run(graph, &here.machine)
    };
    let expected = Expected::of(&plan.file, graph, &d.machine, &d.times, &run)?;
    for (u, (works, worked)) in expected.works.iter().zip(&usual.busy).enumerate() {
        if works.0 > 0.0 {
            d.times.scale(UnitId(u as u16), worked / works.0);
        }
    }
    let same = Expected::of(&plan.file, graph, &d.machine, &d.times, &run)?;
    Ok(Some(same.seconds.0))
}
