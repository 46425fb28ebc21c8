//! Frequency states: what codelets take in each that this computer can be set to, what cores draw there, and how long
//! changing takes.
//!
//! All cores are set to one frequency after another, from the highest on, and the steps that were calibrated run on all of
//! them. Durations are kept under the unit's name with the clock behind it (`cpu@800MHz/2`); the planner takes them for what
//! tasks take in that state. Watts are measured where the processor has counters; elsewhere they are not
//! known, and a machine's description says by which model they were estimated. Clocks are put back however calibration ends.

use std::time::{Duration, Instant};

use dahl_energy::clocks::{Clock, SetClocks};
use dahl_nn::Step;
use dahl_sim::timed_in;

use super::{Turns, Work, record, speeds};
use crate::error::TuneError;
use crate::profile::{Profile, StateFigures};
use crate::progress::Progress;
use crate::run::RunConfig;
use crate::step_bench::StepBench;
use crate::units::Units;

/// How often a clock is changed to time that.
const CHANGES: usize = 9;

/// How long idle cores are watched.
const IDLE: Duration = Duration::from_millis(500);

impl Work<'_, '_> {
    /// Measures all states of the cores.
    pub(super) fn states(
        &mut self,
        profile: &mut Profile,
        workers: usize,
    ) -> Result<(), TuneError> {
        let all = self
            .this
            .settable()
            .map_err(|why| TuneError::Option(format!("--states: {why}")))?;
        let steps = self.options.steps.clone();
        let mut found: Vec<StateFigures> = Vec::new();
        profile.idle_watts = self.watch(workers, &mut |_| {
            std::thread::sleep(IDLE);
            Ok(())
        })?;
        for &hertz in &all {
            self.go_on()?;
            let set = self.this.set_all(hertz)?;
            let clocks = self.this.clocks();
            let switch_seconds = changing(self, &set, &clocks, &all, hertz)?;
            (self.tell)(Progress::Now(format!(
                "all cores at {:.0} MHz",
                hertz * 1e-6
            )));
            let flops = speeds::speeds(workers, self.options.seconds)?.flops_f32;
            let mut timed = 0;
            let mut busy = |work: &mut Self| -> Result<(), TuneError> {
                for step in &steps {
                    timed += work.in_state(step, profile, workers, hertz)?;
                }
                Ok(())
            };
            let watts = self.watch(workers, &mut busy)?;
            self.timed += timed;
            let usual = found.first().map_or(flops, |f| f.flops);
            found.push(StateFigures {
                hertz,
                flops,
                // Noise may make a lower clock look faster, which no state may be.
                speed: (flops / usual).clamp(1e-3, 1.0),
                busy_watts: watts,
                switch_seconds,
            });
            set.restore()
                .map_err(|e| TuneError::Option(e.to_string()))?;
            (self.tell)(Progress::Done(1));
        }
        profile.states = found;
        Ok(())
    }

    /// Runs a step on all cores in the state that they are in; how many tasks were timed.
    fn in_state(
        &mut self,
        step: &Step,
        profile: &Profile,
        workers: usize,
        hertz: f64,
    ) -> Result<u64, TuneError> {
        self.go_on()?;
        let units = Units::cpus(Some(workers as u16));
        let step = step.clone().kernels(profile.choices.clone());
        let config = RunConfig::measuring(units, "ws", true);
        let bench = StepBench::with(&step, &config.resolve(self.this)?, None)?;
        let mut turns = [Turns::new(bench, self.options.seconds)?];
        let complete = Turns::take(&mut turns, &self.options.stop)?;
        let run = &turns[0];
        let (machine, traces) = (run.bench.runtime.machine(), run.windows.traces());
        let store = &mut self.store;
        let names = |unit: &dahl_core::Unit| timed_in(machine, unit, hertz);
        let timed = record(
            run.bench.graph(),
            &traces,
            machine,
            names,
            |key, cost, s| {
                store.record(key, cost, s);
            },
        );
        self.runs += 1;
        match complete {
            true => Ok(timed),
            false => Err(TuneError::Stopped),
        }
    }
}

impl Work<'_, '_> {
    /// Watts of a core while something runs; none where no counter of this computer measures that.
    fn watch(
        &mut self,
        workers: usize,
        run: &mut dyn FnMut(&mut Self) -> Result<(), TuneError>,
    ) -> Result<Option<f64>, TuneError> {
        let sampler = dahl_energy::Options {
            sysfs: self.this.system().into(),
            model: None,
            ..dahl_energy::Options::default()
        }
        .start();
        run(self)?;
        let energy = sampler.finish().energy;
        let measured = energy.is_measured().then(|| energy.watts()).flatten();
        Ok(measured.map(|w| w.0 / workers.max(1) as f64))
    }
}

/// Seconds that changing one clock takes: the middle of several changes between a frequency and the next, and what the
/// processor says it takes beside.
fn changing(
    work: &Work<'_, '_>,
    set: &SetClocks,
    clocks: &[Clock],
    all: &[f64],
    hertz: f64,
) -> Result<f64, TuneError> {
    let refused = |e: dahl_energy::Trouble| TuneError::Option(e.to_string());
    let Some(clock) = clocks.first() else {
        return Ok(0.0);
    };
    let other = all.iter().copied().find(|h| *h != hertz).unwrap_or(hertz);
    let mut times = Vec::new();
    for _ in 0..CHANGES {
        let start = Instant::now();
        set.change(&work.this.tree(), clock, other)
            .map_err(refused)?;
        set.change(&work.this.tree(), clock, hertz)
            .map_err(refused)?;
        times.push(start.elapsed().as_secs_f64() / 2.0);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2] + clock.latency)
}
