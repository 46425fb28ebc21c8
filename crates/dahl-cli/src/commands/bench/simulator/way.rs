//! One way to run a model's steps: measured, and predicted from what other stretches of it showed.

use std::path::Path;
use std::sync::Arc;

use dahl_core::{Machine, Seconds, UnitId};
use dahl_nn::lower::grain::Grain;
use dahl_nn::model::Model;
use dahl_plan::PlanFile;
use dahl_sched::model::PerfModel;
use dahl_sched::policy::{self, Fixed, Policy};
use dahl_sim::{Interruptions, Noise, Options, Times, simulate};

use crate::commands::calibrate::record;
use crate::commands::follow;
use crate::commands::measure::Measure;
use crate::commands::rhythm::{self, Rhythm, Seen};
use crate::commands::run_options::RunOptions;
use crate::commands::stretches::{self, Stretches};
use crate::commands::units::Units;
use dahl_nn::step::in_flight;

/// Tasks that are simulated for a prediction: enough for what varies to even out, and a moment's work.
const SIMULATED: u64 = 1_000_000;

/// See the module.
pub struct Way {
    /// Who decides: a policy, or `plan`.
    pub policy: String,
    /// How layers are cut.
    pub grain: Grain,
    plan: Option<PlanFile>,
    run: Measure,
    /// Seconds of a step, roughly.
    once: f64,
    /// Steps of a stretch.
    steps: u64,
    learnt: Stretches,
    measured: Stretches,
}

impl Way {
    /// A policy with so many workers.
    pub fn new(
        model: &Model,
        batch: usize,
        workers: u16,
        policy: &str,
        grain: &Grain,
    ) -> anyhow::Result<Way> {
        let units = Units::cpus(Some(workers));
        let run = RunOptions {
            profile: None,
            ..RunOptions::measuring(units, policy, grain, true)
        };
        Way::with(model, batch, run, grain, None)
    }

    /// A plan that is followed.
    pub fn planned(model: &Model, batch: usize, path: &Path) -> anyhow::Result<Way> {
        let usual = RunOptions::measuring(Units::cpus(None), "plan", &Grain::Auto, true);
        let run = RunOptions {
            profile: None,
            plan: Some(path.into()),
            ..usual
        };
        let plan = follow::load(path, model, batch, run.dtype)?;
        let grain = follow::grain(&plan)?;
        Way::with(model, batch, run, &grain, Some(plan))
    }

    fn with(
        model: &Model,
        batch: usize,
        run: RunOptions,
        grain: &Grain,
        plan: Option<PlanFile>,
    ) -> anyhow::Result<Way> {
        let mut measure = Measure::new(model, batch, &run, grain)?;
        // The first steps touch memory for the first time: they do not count.
        measure.steps(3)?;
        let once = measure.steps(3)?;
        measure.runtime.take_trace();
        Ok(Way {
            policy: run.policy().into(),
            grain: grain.clone(),
            plan,
            run: measure,
            once,
            steps: 1,
            learnt: Stretches::default(),
            measured: Stretches::default(),
        })
    }

    /// Stretches take so many seconds from now on.
    pub fn in_stretches_of(&mut self, seconds: f64) {
        self.steps = stretches::steps(self.once, seconds);
    }

    /// A stretch of either kind. Whoever comes second finds other things in the caches: they take turns.
    pub fn turn(&mut self, round: usize) -> anyhow::Result<()> {
        if round.is_multiple_of(2) {
            self.measured.time(&mut self.run, self.steps)?;
        }
        self.learnt.run(&mut self.run, self.steps)?;
        if !round.is_multiple_of(2) {
            self.measured.time(&mut self.run, self.steps)?;
        }
        Ok(())
    }

    fn machine(&self) -> &Machine {
        self.run.runtime.machine()
    }

    /// How many units it has.
    pub fn workers(&self) -> usize {
        self.machine().units.len()
    }

    /// Tasks of a step.
    pub fn tasks(&self) -> usize {
        self.run.graph.len()
    }

    /// Stretches that were measured.
    pub fn stretches(&self) -> usize {
        self.measured.len()
    }

    /// Seconds of a step, measured.
    pub fn measured(&self) -> f64 {
        self.measured.seconds()
    }

    /// How far the mean of measured stretches, and that of those learnt from, may be from another such mean by
    /// chance: one standard error of their ratio.
    pub fn uncertainty(&self) -> f64 {
        self.measured.error().hypot(self.learnt.error())
    }

    /// What the plan that is followed expects of a step.
    pub fn by_plan(&self) -> Option<Seconds> {
        let expected = self.plan.as_ref()?.expected.as_ref()?;
        Some(expected.seconds)
    }

    /// Tells a performance model what the recordings show, and returns what it has no place for.
    pub fn learn(&self, known: &mut PerfModel) -> Option<Seen> {
        let (graph, machine, traces) = (&self.run.graph, self.machine(), self.learnt.traces());
        record(graph, &traces, machine, |key, cost, seconds| {
            known.record(key, cost, seconds);
        });
        let what = self.grain.to_string();
        Seen::of(what, &self.policy, machine, graph, &traces)
    }

    /// Seconds of a step, predicted: of stretches as they are measured, which begin and end with nothing to do,
    /// with durations that vary as they did: two tasks that are waited for take as long as the longer one.
    pub fn predicted(&self, known: &PerfModel, rhythms: &[Rhythm]) -> anyhow::Result<f64> {
        let (graph, mut machine) = (&*self.run.graph, self.machine().clone());
        let mut times = Times::estimate(graph, &machine, Some(known), false)?;
        let varies = times.spread(graph, UnitId(0));
        let adds = rhythm::apply(&mut machine, &mut times, rhythms, &self.policy, graph);
        let noise = |seed| match adds {
            Some(adds) => adds.varies.noise(seed),
            None => Noise {
                seed,
                sigma: varies,
                unit_sigma: 0.0,
                interruptions: Interruptions::default(),
            },
        };
        let stretch = graph.len() as u64 * self.steps;
        let repeats = (SIMULATED / stretch.max(1)).clamp(4, 100);
        let transfers = match &self.plan {
            Some(plan) => Some(Arc::new(plan.checked_transfers(graph)?)),
            None => None,
        };
        let mut total = 0.0;
        for seed in 0..repeats {
            let options = Options {
                steps: self.steps as usize,
                in_flight: in_flight(graph),
                launcher: Some(UnitId(0)),
                noise: Some(noise(seed)),
                transfers: transfers.clone(),
                ..Options::default()
            };
            let policy: Box<dyn Policy> = match &self.plan {
                Some(plan) => Box::new(Fixed::new(graph.len(), plan.orders())?),
                None => policy::by_name(&self.policy, &machine)?,
            };
            total += simulate(graph, &machine, &times, &*policy, &options)?
                .makespan
                .0;
        }
        Ok(total / (repeats * self.steps) as f64)
    }
}
