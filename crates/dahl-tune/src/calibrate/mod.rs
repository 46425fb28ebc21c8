//! Calibration: measures this machine, and the codelets of training steps on it.
//!
//! Everything is measured as tasks of a real run, in their place among the others, from its trace: a codelet alone in
//! a loop would find its data warm and the other cores idle. Each step runs with one worker, once for every rank of
//! implementation that its tasks have; the fastest of each call go into the profile. Then it runs as it would from now
//! on, with every number of workers that matters, under policies and in an order decided beforehand, in turns; on each
//! GPU asked for alone, and on all units together. If states are asked for, all of it is timed once more at every
//! frequency.

mod order;
mod record;
mod report;
mod speeds;
mod states;
mod turns;

pub use report::CalibrationReport;
pub(crate) use speeds::speeds;

use std::path::PathBuf;
use std::sync::Arc;

use dahl_core::graph::Choices;
use dahl_core::{Bytes, DeviceKernels, Graph, Machine, Stop, UnitKind};
use dahl_nn::lower::grain::{Grain, Parts};
use dahl_nn::step::Kernels;
use dahl_nn::{Step, models};
use dahl_runtime::perf_store::PerfStore;
use dahl_runtime::{Schedule, memory_name};
use dahl_sched::model::{Key, fastest};

use crate::error::TuneError;
use crate::gpus::{self, GpuState};
use crate::overheads::{Observation, RunOverheads};
use crate::profile::{Profile, Speeds};
use crate::progress::{Progress, Tell};
use crate::run::RunConfig;
use crate::step_bench::StepBench;
use crate::this_machine::ThisMachine;
use crate::units::{Cpus, Gpus, Units};

use turns::Turns;

pub(crate) use record::record;

/// What to measure.
#[derive(Clone, Debug)]
pub struct CalibrateOptions {
    /// The steps whose codelets are timed; their choice of implementations is not looked at.
    pub steps: Vec<Step>,
    /// Units to measure; GPUs only if named.
    pub units: Units,
    /// Most bytes to take of each GPU; three quarters of what it has unless set.
    pub gpu_memory: Option<Bytes>,
    /// How long each variant is measured.
    pub seconds: f64,
    /// Whether to measure again what is known already.
    pub again: bool,
    /// Whether to measure every frequency that the cores can be set to.
    pub states: bool,
    /// Ends calibration with what was measured so far.
    pub stop: Stop,
}

impl Default for CalibrateOptions {
    /// Three shipped models with 64 samples on all cores.
    fn default() -> Self {
        let shipped = [models::small_cnn(), models::lenet5(), models::vgg_small()];
        CalibrateOptions {
            steps: shipped.map(|m| Step::new(m).batch(64)).into(),
            units: Units::default(),
            gpu_memory: None,
            seconds: 0.4,
            again: false,
            states: false,
            stop: Stop::new(),
        }
    }
}

/// What calibration did.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// What is known now.
    pub profile: Profile,
    /// Where that is kept.
    pub profile_path: PathBuf,
    /// Where durations are kept.
    pub times_path: PathBuf,
    /// CPU workers that were measured together.
    pub workers: usize,
    /// Runs that were measured.
    pub runs: usize,
    /// Tasks that were timed.
    pub timed: u64,
    /// Choices that differ from what static costs say.
    pub changed: usize,
    /// Steps that were measured completely.
    pub steps: usize,
    /// Whether a request to stop came before all of them were.
    pub stopped: bool,
}

/// Measures, and writes profile and durations of this machine.
///
/// A request to stop keeps all durations and what the steps before have decided; of the step that it met no
/// implementations are chosen. Calibrating again measures what is missing.
pub fn calibrate(
    options: &CalibrateOptions,
    this: &ThisMachine,
    tell: &mut Tell<'_>,
) -> Result<Calibration, TuneError> {
    if !(options.seconds > 0.0 && options.seconds <= 3600.0) {
        return Err(TuneError::Option(format!(
            "--seconds {}: use more than 0, up to 3600",
            options.seconds
        )));
    }
    let (profile_path, times_path) = (this.profile_path()?, this.times_path()?);
    // A profile that cannot be read is replaced: that is what calibration is for.
    let known = Profile::load(&profile_path).ok();
    let fresh = known.is_none();
    let mut profile = known.unwrap_or_else(|| Profile::new(this));
    let gpus = gpus::numbers(&options.units.gpus)?;
    let workers = match options.units.cpus {
        Cpus::Count(n) if n > 0 => n.into(),
        _ => profile.cores.max(1),
    };
    let parts = 4 + (6 + gpus.len() as u64) * options.steps.len() as u64;
    tell(Progress::Parts(parts));
    if options.again || fresh {
        tell(Progress::Now("this machine".into()));
        profile.alone = speeds::speeds(1, options.seconds)?;
        tell(Progress::Done(2));
        profile.together = speeds::speeds(workers, options.seconds)?;
        tell(Progress::Done(2));
    }
    gpu_speeds(&mut profile, &gpus, this);
    let (store, damaged) = this.open_times()?;
    if let Some(damaged) = damaged {
        tell(Progress::Warning(damaged.to_string()));
    }
    let mut work = Work {
        options,
        this,
        store,
        tell,
        runs: 0,
        timed: 0,
        changed: 0,
    };
    let (mut steps, mut stopped) = (0, false);
    for step in &options.steps {
        match work.whole_step(step, &mut profile, workers, &gpus) {
            Ok(()) => steps += 1,
            Err(TuneError::Stopped) => stopped = true,
            Err(error) => return Err(error),
        }
        profile.save(&profile_path)?;
        if let Some(warning) = work.store.save()? {
            (work.tell)(Progress::Warning(warning.to_string()));
        }
        if stopped {
            break;
        }
    }
    if options.states && !stopped {
        match work.states(&mut profile, workers) {
            Ok(()) => {}
            Err(TuneError::Stopped) => stopped = true,
            Err(error) => return Err(error),
        }
        profile.save(&profile_path)?;
        if let Some(warning) = work.store.save()? {
            (work.tell)(Progress::Warning(warning.to_string()));
        }
    }
    let Work {
        runs,
        timed,
        changed,
        ..
    } = work;
    Ok(Calibration {
        profile,
        profile_path,
        times_path,
        workers,
        runs,
        timed,
        changed,
        steps,
        stopped,
    })
}

/// Measures what GPUs reach at best. One that does not work is left out: a run on it says why.
fn gpu_speeds(profile: &mut Profile, gpus: &[usize], this: &ThisMachine) {
    for device in gpus::look(gpus, true, this) {
        if let GpuState::Measured(figures) = &device.state
            && let Some(rated) = figures.rated
        {
            let speeds = Speeds {
                flops_f32: rated.flops,
                flops_f64: rated.flops_f64,
                bandwidth: rated.bandwidth,
                overhead: figures.launch_seconds.0,
            };
            let name = memory_name(&device.unit, &device.name);
            profile.gpus.insert(name, speeds);
        }
    }
}

/// Measuring under way.
struct Work<'a, 't> {
    options: &'a CalibrateOptions,
    this: &'a ThisMachine,
    store: PerfStore,
    tell: &'a mut Tell<'t>,
    runs: usize,
    timed: u64,
    changed: usize,
}

impl Work<'_, '_> {
    /// Measures a step on all units; the profile changes once its CPU part is complete.
    fn whole_step(
        &mut self,
        step: &Step,
        profile: &mut Profile,
        workers: usize,
        gpus: &[usize],
    ) -> Result<(), TuneError> {
        if self.options.units.cpus != Cpus::Count(0) {
            self.step(step, profile, workers)?;
        }
        self.gpus(step, gpus, &profile.choices)
    }

    fn go_on(&self) -> Result<(), TuneError> {
        match self.options.stop.is_requested() {
            true => Err(TuneError::Stopped),
            false => Ok(()),
        }
    }

    /// Measures a step's codelets on CPUs, decides on implementations, and notes what runs add to durations.
    fn step(
        &mut self,
        step: &Step,
        profile: &mut Profile,
        workers: usize,
    ) -> Result<(), TuneError> {
        let unit = Machine::cpus(1).timed_as(&Machine::cpus(1).units[0]);
        let one = Units::cpus(Some(1));
        let first = self.run(&step.clone().kernels(Kernels::Static), &one)?;
        let ranks = (0..first.classes.len()).map(|c| rivals(&first, c)).max();
        for rank in 0..ranks.unwrap_or(1) {
            let step = step.clone().kernels(Kernels::Rank(rank));
            let graph = step.lower()?.graph;
            let none = DeviceKernels::default();
            // Implementations of this rank that are not timed yet.
            let news = (0..graph.classes.len() as u32).any(|class| {
                let key = Key::of(&graph, class, (&unit, UnitKind::CPU), &none);
                key.is_some_and(|k| self.store.model().history(&k).is_none())
            });
            if news || self.options.again {
                self.run(&step, &one)?;
            }
            (self.tell)(Progress::Done(1));
        }
        let choices = fastest(self.store.model(), &unit, UnitKind::CPU);
        let changed = changed(&first, &choices);
        let mut all = profile.choices.clone();
        all.update(choices);
        let step = step.clone().kernels(all.clone());
        let mut counts = vec![1, workers];
        counts.dedup();
        let mut seen = Vec::new();
        for n in counts {
            seen.extend(self.overheads(&step, &Units::cpus(Some(n as u16)))?);
            (self.tell)(Progress::Done(1));
        }
        profile.choices = all;
        self.changed += changed;
        // Once all durations are known: overheads are what runs add to them.
        for seen in seen {
            let new: RunOverheads = seen.with_model(self.store.model())?;
            profile.overheads.retain(|old| !old.is_of_same_run(&new));
            profile.overheads.push(new);
        }
        Ok(())
    }

    /// Runs a step as it would be run, under policies that decide differently, in the order that one of them found,
    /// and with tasks as long as usual and as short as can be.
    fn overheads(&mut self, step: &Step, units: &Units) -> Result<Vec<Observation>, TuneError> {
        let mut all = Vec::new();
        let finest = Grain::Fixed(Parts {
            sample: step.batch,
            ..Parts::ONE
        });
        for grain in [step.grain.clone(), finest] {
            let step = step.clone().grain(grain);
            let ws = self.begin(&step, units, "ws", None)?;
            let graph = ws.bench.graph();
            let cpus = ws.bench.runtime.machine().units.len();
            let before = ws.before.as_ref();
            let order = before.and_then(|trace| order::shortest(graph, cpus, trace));
            let mut names = vec!["ws", "dmda"];
            let mut runs = vec![ws, self.begin(&step, units, "dmda", None)?];
            if order.is_some() {
                names.push("plan");
                runs.push(self.begin(&step, units, "ws", order)?);
            }
            self.take_turns(&mut runs)?;
            for (policy, run) in names.into_iter().zip(&runs) {
                let what = format!("{}, {}", step.model.name, step.grain);
                let (machine, traces) = (run.bench.runtime.machine(), run.windows.traces());
                let graph = run.bench.graph();
                all.extend(Observation::of(what, policy, machine, graph, &traces));
            }
        }
        Ok(all)
    }

    /// Measures a step's codelets on each GPU alone, then on all units together: a task may take longer
    /// while others use the same memory or the same cores.
    fn gpus(&mut self, step: &Step, gpus: &[usize], choices: &Choices) -> Result<(), TuneError> {
        let units = &self.options.units;
        let alone = gpus.iter().map(|&n| Units {
            cpus: Cpus::Count(0),
            gpus: Gpus::These(vec![n]),
        });
        let mut all: Vec<Units> = alone.collect();
        if !gpus.is_empty() && !all.contains(units) {
            all.push(units.clone());
        }
        let step = step.clone().kernels(choices.clone());
        for units in all {
            self.run(&step, &units)?;
            (self.tell)(Progress::Done(1));
        }
        Ok(())
    }

    /// Runs a step for a while, and says which graph that was. Under no policy that estimates: every unit is to
    /// run some of everything.
    fn run(&mut self, step: &Step, units: &Units) -> Result<Arc<Graph>, TuneError> {
        let mut turns = [self.begin(step, units, "ws", None)?];
        self.take_turns(&mut turns)?;
        Ok(turns[0].bench.graph().clone())
    }

    fn begin(
        &mut self,
        step: &Step,
        units: &Units,
        policy: &str,
        order: Option<Schedule>,
    ) -> Result<Turns, TuneError> {
        self.go_on()?;
        let config = RunConfig {
            gpu_memory: self.options.gpu_memory.filter(|_| units.has_gpus()),
            ..RunConfig::measuring(units.clone(), policy, true)
        };
        let bench = StepBench::with(step, &config.resolve(self.this)?, order)?;
        let units = bench.units();
        (self.tell)(Progress::Now(format!("{}, {units}", step.model.name)));
        Turns::new(bench, self.options.seconds)
    }

    /// Lets runs take turns for a while and records how long their tasks took.
    fn take_turns(&mut self, runs: &mut [Turns]) -> Result<(), TuneError> {
        // What was measured before a request to stop is recorded, however little it is.
        let complete = Turns::take(runs, &self.options.stop)?;
        for run in runs {
            let (machine, traces) = (run.bench.runtime.machine(), run.windows.traces());
            let store = &mut self.store;
            let names = |unit: &dahl_core::Unit| machine.timed_as(unit);
            let graph = run.bench.graph();
            self.timed += record(graph, &traces, machine, names, |key, cost, seconds| {
                store.record(key, cost, seconds);
            });
            self.runs += 1;
        }
        match complete {
            true => Ok(()),
            false => Err(TuneError::Stopped),
        }
    }
}

/// How many implementations of a class are worth timing: the reference is for comparing values.
fn rivals(graph: &Graph, class: usize) -> usize {
    let class = &graph.classes[class];
    let able = graph.codelets[class.codelet as usize]
        .implementations
        .iter();
    able.filter(|i| i.kind == UnitKind::CPU && i.name != "reference" && (i.supports)(&class.call))
        .count()
}

/// How many classes of a graph would use another implementation.
fn changed(graph: &Graph, choices: &Choices) -> usize {
    let differs = |class: &&dahl_core::graph::Class| {
        let codelet = &graph.codelets[class.codelet as usize];
        let chosen = choices.find(&codelet.name, UnitKind::CPU, &class.call);
        let own = class
            .choice(UnitKind::CPU)
            .map(|i| codelet.implementations[usize::from(i)].name);
        chosen.is_some_and(|c| Some(&*c.implementation) != own)
    };
    graph.classes.iter().filter(differs).count()
}
