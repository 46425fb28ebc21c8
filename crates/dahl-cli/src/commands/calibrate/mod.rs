//! `dahl calibrate`: measures this machine, and the codelets of models on it.
//!
//! Everything is measured as tasks of a real run, in their place among the others, from its trace: a
//! codelet alone in a loop would find its data warm and the other cores idle. Each model runs with one
//! worker, once for every rank of implementation that its tasks have; the fastest of each call go into
//! the profile. Then it runs as it would from now on, with every number of workers that matters, under policies and
//! in an order decided beforehand, in turns; on each GPU asked for alone, and on all units together.

mod machine;
mod order;
mod record;
mod turns;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use dahl_core::graph::Choices;
use dahl_core::{Bytes, DType, DeviceKernels, Graph, Machine, Seconds, UnitKind};
use dahl_nn::lower::grain::{Grain, Parts};
use dahl_nn::model::Model;
use dahl_nn::step::Kernels;
use dahl_runtime::perf_store::PerfStore;
use dahl_runtime::{Schedule, memory_name};
use dahl_sched::model::{Key, fastest};
use indicatif::{ProgressBar, ProgressStyle};

use super::gpu;
use super::machine::gpus::State;
use super::measure::{Measure, StepOptions, described};
use super::profile::{self, Profile, Speeds};
use super::rhythm::{Rhythm, Seen};
use super::run_options::{RunOptions, model, units_text};
use super::units::{self, Cpus, Gpus, Units};
use crate::print;

use turns::Turns;

pub use record::record;

/// Arguments of `dahl calibrate`.
#[derive(clap::Args)]
pub struct Args {
    /// A model whose codelets to time, a file or the name of a shipped one; may be given several times
    /// [default: small-cnn, lenet5, vgg-small]
    #[arg(long = "model", value_name = "M")]
    models: Vec<PathBuf>,
    /// Images per step
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    batch: u32,
    /// Numbers to compute with: f32 or f64
    #[arg(long, default_value = "f32")]
    dtype: DType,
    /// Most CPU workers to measure with [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Units to measure, such as cpu:2,gpu:0; as for `dahl train`. GPUs are measured only if named
    #[arg(long, value_name = "U", conflicts_with = "workers")]
    units: Option<Units>,
    /// Most memory to take of each GPU, such as 2GiB [default: three quarters of what it has]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    gpu_memory: Option<Bytes>,
    /// How layers are cut into tasks, as for `dahl train`
    #[arg(long, default_value = "auto")]
    grain: Grain,
    /// How long each variant is measured
    #[arg(long, default_value_t = 0.4, value_name = "S")]
    seconds: f64,
    /// Measure again what is known already
    #[arg(long)]
    again: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Report {
    profile: PathBuf,
    model: PathBuf,
    alone: profile::Speeds,
    together: profile::Speeds,
    cores: usize,
    /// GPUs that were measured.
    gpus: BTreeMap<String, Speeds>,
    runs: usize,
    timed: u64,
    choices: usize,
    /// Choices that differ from what static costs say.
    changed: usize,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        anyhow::bail!("--seconds {}: use more than 0, up to 3600", args.seconds);
    }
    let named: Vec<PathBuf> = match args.models.is_empty() {
        true => ["small-cnn", "lenet5", "vgg-small"]
            .map(PathBuf::from)
            .into(),
        false => args.models.clone(),
    };
    let models: Vec<Model> = named
        .iter()
        .map(|m| model(Some(m)))
        .collect::<anyhow::Result<_>>()?;
    let path = profile::profile_path()?;
    // A profile that cannot be read is replaced: that is what this command is for.
    let known = profile::load(&path).ok();
    let mut profile = known.clone().unwrap_or_else(Profile::new);
    let given = args.units.clone();
    let units = given.unwrap_or_else(|| Units::cpus(args.workers));
    let gpus = gpu::numbers(&units.gpus)?;
    let workers = match units.cpus {
        Cpus::Count(n) if n > 0 => n.into(),
        _ => profile.cores.max(1),
    };
    let bar = progress(4 + (6 + gpus.len() as u64) * models.len() as u64);
    if args.again || known.is_none() {
        bar.set_message("this machine");
        profile.alone = machine::speeds(1, args.seconds)?;
        bar.inc(2);
        profile.together = machine::speeds(workers, args.seconds)?;
        bar.inc(2);
    }
    for device in gpu::look(&gpus, true) {
        let State::Measured(figures) = &device.state else {
            continue; // Whoever runs a model on it hears why it does not work.
        };
        if let Some(rated) = figures.rated {
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
    let mut work = Work {
        args,
        store: profile::open_model()?,
        bar: bar.clone(),
        runs: 0,
        timed: 0,
        changed: 0,
        rhythms: profile.rhythms.clone(),
    };
    for model in &models {
        if units.cpus != Cpus::Count(0) {
            let newer = work.model(model, &profile.choices, workers)?;
            profile.choices.update(newer);
            profile.rhythms.clone_from(&work.rhythms);
        }
        profile.save(&path)?;
        work.gpus(model, &units, &gpus, &profile.choices)?;
        if let Some(warning) = work.store.save()? {
            eprintln!("warning: {warning}");
        }
    }
    bar.finish_and_clear();
    let report = Report {
        profile: path,
        model: profile::model_path()?,
        alone: profile.alone,
        together: profile.together,
        cores: workers,
        gpus: profile.gpus.clone(),
        runs: work.runs,
        timed: work.timed,
        choices: profile.choices.len(),
        changed: work.changed,
    };
    if args.json {
        return print::json(&report);
    }
    tell(&report);
    Ok(())
}

fn tell(report: &Report) {
    let mut table = print::table(&[
        "one core",
        "alone",
        &format!("with {} working", report.cores),
    ]);
    let (a, t) = (&report.alone, &report.together);
    let giga = |v: f64| format!("{:.1}", v * 1e-9);
    let rows = [
        (
            "matrix product f32, GFLOP/s",
            giga(a.flops_f32),
            giga(t.flops_f32),
        ),
        (
            "matrix product f64, GFLOP/s",
            giga(a.flops_f64),
            giga(t.flops_f64),
        ),
        (
            "copying, GB/s read and written",
            giga(a.bandwidth),
            giga(t.bandwidth),
        ),
        (
            "between two tasks",
            Seconds(a.overhead).to_string(),
            Seconds(t.overhead).to_string(),
        ),
    ];
    for (what, alone, together) in rows {
        table.add_row([what.to_string(), alone, together]);
    }
    println!("{table}");
    for (name, s) in &report.gpus {
        println!(
            "{name}: matrix product {} GFLOP/s f32, {} f64; copying {} GB/s; a launch {}",
            giga(s.flops_f32),
            giga(s.flops_f64),
            giga(s.bandwidth),
            Seconds(s.overhead)
        );
    }
    println!(
        "{} tasks timed in {} runs; {} calls have several implementations, {} now use another than static costs would choose",
        report.timed, report.runs, report.choices, report.changed
    );
    println!("profile: {}", report.profile.display());
    println!("durations: {} (see `dahl perf`)", report.model.display());
}

fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("calibrating [{bar:30.cyan/blue}] {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(steps).with_style(style.progress_chars("━╸─"))
}

/// Measuring under way.
struct Work<'a> {
    args: &'a Args,
    store: PerfStore,
    bar: ProgressBar,
    runs: usize,
    timed: u64,
    changed: usize,
    rhythms: Vec<Rhythm>,
}

/// A way to run a model's steps.
#[derive(Clone)]
struct Way {
    units: Units,
    policy: &'static str,
    grain: Grain,
    kernels: Kernels,
    /// What is followed instead of a policy.
    order: Option<Schedule>,
}

impl Work<'_> {
    /// Measures a model's codelets and decides on implementations.
    fn model(&mut self, model: &Model, known: &Choices, workers: usize) -> anyhow::Result<Choices> {
        let unit = Machine::cpus(1).timed_as(&Machine::cpus(1).units[0]);
        let one = self.way(Units::cpus(Some(1)), Kernels::Static);
        let first = self.step(model, &one)?;
        let ranks = (0..first.classes.len())
            .map(|c| rivals(&first, c).len())
            .max()
            .unwrap_or(1);
        for rank in 0..ranks {
            let batch = self.args.batch as usize;
            let step = described(
                model,
                batch,
                self.args.dtype,
                &self.args.grain,
                Kernels::Rank(rank),
                &StepOptions::default(),
            )?;
            let graph = step.lower()?.graph;
            // Implementations of this rank that are not timed yet.
            let news = (0..graph.classes.len() as u32).any(|class| {
                let key = Key::of(
                    &graph,
                    class,
                    (&unit, UnitKind::CPU),
                    &DeviceKernels::default(),
                );
                key.is_some_and(|k| self.store.model().history(&k).is_none())
            });
            if news || self.args.again {
                let kernels = Kernels::Rank(rank);
                let one = one.clone();
                self.step(model, &Way { kernels, ..one })?;
            }
            self.bar.inc(1);
        }
        let mut choices = fastest(self.store.model(), &unit, UnitKind::CPU);
        for class in &first.classes {
            let codelet = &first.codelets[class.codelet as usize];
            let chosen = choices.find(&codelet.name, UnitKind::CPU, &class.call);
            let own = class
                .choice(UnitKind::CPU)
                .map(|i| codelet.implementations[usize::from(i)].name);
            self.changed += usize::from(chosen.is_some_and(|c| Some(&*c.implementation) != own));
        }
        let mut all = known.clone();
        all.update(choices.clone());
        choices = all;
        let mut counts = vec![1, workers];
        counts.dedup();
        let mut seen = Vec::new();
        for n in counts {
            let units = Units::cpus(Some(n as u16));
            let way = self.way(units, choices.clone().into());
            seen.extend(self.rhythms(model, &way)?);
            self.bar.inc(1);
        }
        // Once all durations are known: rhythms are what runs add to them.
        for seen in seen {
            let new = seen.beside(self.store.model())?;
            let same = |r: &Rhythm| {
                (&r.what, &r.policy, r.workers) == (&new.what, &new.policy, new.workers)
            };
            self.rhythms.retain(|r| !same(r));
            self.rhythms.push(new);
        }
        Ok(choices)
    }

    /// Runs a model as it would be run, under policies that decide differently, in the order that one of them
    /// found, and with tasks as long as usual and as short as can be, and notes what the runtime itself takes.
    fn rhythms(&mut self, model: &Model, way: &Way) -> anyhow::Result<Vec<Seen>> {
        let mut all = Vec::new();
        let finest = Grain::Fixed(Parts {
            sample: self.args.batch as usize,
            ..Parts::ONE
        });
        for grain in [way.grain.clone(), finest] {
            let way = |policy, order| Way {
                policy,
                order,
                grain: grain.clone(),
                ..way.clone()
            };
            let ws = self.begin(model, &way("ws", None))?;
            let (graph, units) = (&ws.measure.graph, ws.measure.runtime.machine().units.len());
            let before = ws.before.as_ref();
            let order = before.and_then(|trace| order::shortest(graph, units, trace));
            let mut names = vec!["ws", "dmda"];
            let mut ways = vec![ws, self.begin(model, &way("dmda", None))?];
            if order.is_some() {
                names.push("plan");
                ways.push(self.begin(model, &way("plan", order))?);
            }
            self.take_turns(&mut ways)?;
            for (policy, way) in names.into_iter().zip(&ways) {
                let what = format!("{}, {grain}", model.name);
                let (machine, traces) = (way.measure.runtime.machine(), way.stretches.traces());
                let graph = &way.measure.graph;
                all.extend(Seen::of(what, policy, machine, graph, &traces));
            }
        }
        Ok(all)
    }

    /// Measures a model's codelets on each GPU alone, then on all units together: a task may take longer
    /// while others use the same memory or the same cores.
    fn gpus(
        &mut self,
        model: &Model,
        units: &Units,
        gpus: &[usize],
        choices: &Choices,
    ) -> anyhow::Result<()> {
        let alone = gpus.iter().map(|&n| Units {
            cpus: Cpus::Count(0),
            gpus: Gpus::These(vec![n]),
        });
        let mut all: Vec<Units> = alone.collect();
        if !gpus.is_empty() && !all.contains(units) {
            all.push(units.clone());
        }
        for units in all {
            let way = self.way(units, choices.clone().into());
            self.step(model, &way)?;
            self.bar.inc(1);
        }
        Ok(())
    }

    /// The usual way. Under no policy that estimates: every unit is to run some of everything.
    fn way(&self, units: Units, kernels: Kernels) -> Way {
        Way {
            units,
            policy: "ws",
            grain: self.args.grain.clone(),
            kernels,
            order: None,
        }
    }

    fn prepare(&self, model: &Model, way: &Way) -> anyhow::Result<Measure> {
        let run = RunOptions {
            gpu_memory: self.args.gpu_memory.filter(|_| way.units.has_gpus()),
            dtype: self.args.dtype,
            ..RunOptions::measuring(way.units.clone(), way.policy, &way.grain, true)
        };
        let batch = self.args.batch as usize;
        let order = |_: &Graph| Ok(way.order.clone());
        Measure::scheduled(model, batch, &run, &way.grain, way.kernels.clone(), order)
    }

    /// Runs a model's steps one way for a while, and says which graph that was.
    fn step(&mut self, model: &Model, way: &Way) -> anyhow::Result<Arc<Graph>> {
        let mut turns = [self.begin(model, way)?];
        self.take_turns(&mut turns)?;
        Ok(turns[0].measure.graph.clone())
    }

    fn begin(&self, model: &Model, way: &Way) -> anyhow::Result<Turns> {
        let measure = self.prepare(model, way)?;
        let text = units_text(&measure.runtime);
        self.bar.set_message(format!("{}, {text}", model.name));
        Turns::new(measure, self.args.seconds)
    }

    /// Runs a model's steps in several ways for a while and records how long their tasks took.
    fn take_turns(&mut self, ways: &mut [Turns]) -> anyhow::Result<()> {
        Turns::take(ways)?;
        for way in ways {
            let (machine, traces) = (way.measure.runtime.machine(), way.stretches.traces());
            let graph = &way.measure.graph;
            self.timed += record(graph, &traces, machine, |key, cost, seconds| {
                self.store.record(key, cost, seconds);
            });
            self.runs += 1;
        }
        Ok(())
    }
}

/// Implementations of a class that are worth timing: the reference is for comparing values.
fn rivals(graph: &Graph, class: usize) -> Vec<&'static str> {
    let class = &graph.classes[class];
    let able = graph.codelets[class.codelet as usize]
        .implementations
        .iter();
    able.filter(|i| i.kind == UnitKind::CPU && i.name != "reference" && (i.supports)(&class.call))
        .map(|i| i.name)
        .collect()
}
