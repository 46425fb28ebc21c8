//! Options that every command shares which executes graphs.

use std::path::{Path, PathBuf};

use anyhow::Context;
use dahl_core::trace::Trace;
use dahl_core::{Bytes, DType, Unit, UnitKind};
use dahl_energy::WattsModel;
use dahl_nn::lower::grain::Grain;
use dahl_nn::model::Model;
use dahl_nn::models;
use dahl_nn::step::Kernels;
use dahl_plan::PlanFile;
use dahl_runtime::{Builder, Runtime};

use super::units::{self, Cpus, Units};
use super::{follow, gpu, machine, profile};
use crate::interrupt;

/// How to execute.
#[derive(clap::Args, Clone, Debug)]
pub struct RunOptions {
    /// CPU workers [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Units that execute tasks, such as cpu:2,gpu:0 [default: cpu]
    ///
    /// Parts are separated by commas: cpu (one worker per core), cpu:N (N workers), gpu (all GPUs; CPUs
    /// that OpenCL offers as devices only if there is none), gpu:I or gpu:I+J by the numbers of `dahl
    /// machine`. With GPUs alone every task runs there, and the processor only prepares images and
    /// launches steps.
    #[arg(long, value_name = "U", conflicts_with = "workers")]
    pub units: Option<Units>,
    /// Most memory to take of each GPU, such as 2GiB [default: three quarters of what it has]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub gpu_memory: Option<Bytes>,
    /// Who decides which unit runs which task: eager, ws, dm, dmda or dmdas [default: ws; dmda with GPUs]
    #[arg(long)]
    pub policy: Option<String>,
    /// Numbers to compute with: f32 or f64
    #[arg(long, default_value = "f32")]
    pub dtype: DType,
    /// How layers are cut into tasks: auto, tuned (measured here first, and printed so that it can be
    /// repeated), or parts of each dimension such as sample=8,channel=2,height=1,width=1
    #[arg(long, default_value = "auto")]
    pub grain: GrainChoice,
    /// Follow a plan that `dahl plan … -o F` wrote: every task on its unit, in its order
    #[arg(long, value_name = "F", conflicts_with_all = ["policy", "workers", "units", "grain"])]
    pub plan: Option<PathBuf>,
    /// Choose implementations by this calibration profile, or `none` [default: this machine's, if
    /// `dahl calibrate` has written one]
    #[arg(long, value_name = "F|none")]
    pub profile: Option<PathBuf>,
    /// Record what runs where and when into this file, for `dahl trace`
    #[arg(long, value_name = "F")]
    pub trace: Option<PathBuf>,
    /// Most tasks that a trace keeps per unit; the oldest go first
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    pub trace_events: usize,
    /// Record though no file was asked for: whoever measures looks at the trace itself.
    #[arg(skip)]
    pub record: bool,
}

/// A grain, or the wish to have one measured.
#[derive(Clone, Debug)]
pub enum GrainChoice {
    /// Measured before the run.
    Tuned,
    /// Known.
    Known(Grain),
}

impl std::str::FromStr for GrainChoice {
    type Err = <Grain as std::str::FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "tuned" {
            Ok(GrainChoice::Tuned)
        } else {
            text.parse().map(GrainChoice::Known)
        }
    }
}

impl RunOptions {
    /// For whoever measures by himself: no plan, no file, no profile but the one he gives.
    pub fn measuring(units: Units, policy: &str, grain: &Grain, record: bool) -> RunOptions {
        RunOptions {
            workers: None,
            units: Some(units),
            gpu_memory: None,
            policy: Some(policy.into()),
            dtype: DType::F32,
            grain: GrainChoice::Known(grain.clone()),
            plan: None,
            profile: Some("none".into()),
            trace: None,
            trace_events: 1 << 18,
            record,
        }
    }

    /// The grain to use for a model; says what was chosen if it was measured.
    pub fn grain(&self, model: &Model, batch: usize) -> anyhow::Result<Grain> {
        if let Some(plan) = self.plan(model, batch)? {
            return follow::grain(&plan);
        }
        match &self.grain {
            GrainChoice::Known(grain) => Ok(grain.clone()),
            GrainChoice::Tuned => {
                let tuned = super::tune::tune(model, batch, self)?;
                let predicted = tuned.predicted.map_or(String::new(), |s| {
                    format!(" ({s} predicted, best of {} predictions)", tuned.tried)
                });
                let (time, grain) = (tuned.seconds, tuned.grain);
                eprintln!("tuned: {time} per step{predicted}; to repeat this run: --grain {grain}");
                Ok(grain)
            }
        }
    }

    /// The plan to follow, if one was given.
    pub fn plan(&self, model: &Model, batch: usize) -> anyhow::Result<Option<PlanFile>> {
        let load = |path| follow::load(path, model, batch, self.dtype);
        self.plan.as_deref().map(load).transpose()
    }

    /// These options with those of a plan.
    pub fn following(&self, plan: Option<&PlanFile>) -> anyhow::Result<RunOptions> {
        let mut options = self.clone();
        if let Some(plan) = plan {
            options.units = Some(follow::units(plan)?);
            options.policy = Some("plan".into());
        }
        Ok(options)
    }

    /// The units asked for.
    pub fn units(&self) -> Units {
        let given = self.units.clone();
        given.unwrap_or_else(|| Units::cpus(self.workers))
    }

    /// The policy, where none was asked for one that suits the units.
    pub fn policy(&self) -> &str {
        match &self.policy {
            Some(policy) => policy,
            None if self.units().has_gpus() => "dmda",
            None => "ws",
        }
    }

    /// What the GPUs asked for draw, where they cannot be measured.
    pub fn gpu_watts(&self, machine: Option<&Path>) -> anyhow::Result<Option<WattsModel>> {
        machine::gpu_watts(&gpu::numbers(&self.units().gpus)?, machine)
    }
    /// Who chooses implementations.
    pub fn kernels(&self) -> anyhow::Result<Kernels> {
        let profile = match &self.profile {
            None => profile::here()?,
            Some(path) if path.as_os_str() == "none" => None,
            Some(path) => Some(profile::load(path)?),
        };
        Ok(profile.map_or(Kernels::Static, |p| p.choices.into()))
    }

    /// The end of a run: keeps what policies have learnt, shows the trace, if one was recorded, to `look`,
    /// which may add to it, and writes it where one was asked for.
    pub fn finish(
        &self,
        runtime: &mut Runtime,
        model: &str,
        look: impl FnOnce(&mut Trace),
    ) -> anyhow::Result<()> {
        if self.policy().starts_with("dm")
            && let Err(error) = runtime.save_perf_model()
        {
            eprintln!("warning: {error}");
        }
        let Some(mut trace) = runtime.take_trace() else {
            return Ok(());
        };
        let facts = [
            ("model", model.to_string()),
            ("policy", self.policy().to_string()),
            ("dtype", self.dtype.to_string()),
            ("units", units_text(runtime)),
        ];
        about(&mut trace, facts);
        look(&mut trace);
        if let Some(path) = &self.trace {
            dahl_trace::save(&trace, path)?;
        }
        Ok(())
    }

    /// A runtime with these options; Ctrl-C stops it.
    pub fn runtime(&self, in_flight: usize) -> anyhow::Result<Runtime> {
        self.runtime_with(in_flight, |builder| builder)
    }

    /// The same with further settings.
    pub fn runtime_with(
        &self,
        in_flight: usize,
        settings: impl FnOnce(Builder) -> Builder,
    ) -> anyhow::Result<Runtime> {
        let (mut builder, units) = (Runtime::builder(), self.units());
        // Who follows a plan brings it with the settings.
        if self.policy() != "plan" {
            builder = builder.policy(self.policy());
        }
        let mut builder = settings(builder.in_flight(in_flight));
        if let Cpus::Count(workers) = units.cpus {
            builder = builder.workers(usize::from(workers));
        }
        if let (Some(limit), false) = (self.gpu_memory, units.has_gpus()) {
            anyhow::bail!("--gpu-memory {limit}: no GPU is used; add one, as in --units cpu,gpu:0");
        }
        let gpus = gpu::numbers(&units.gpus)?;
        builder = gpu::add(builder, &gpus, self.gpu_memory, self.dtype)?;
        if let Some(path) = &self.trace {
            super::check_writable(path)?;
        }
        if self.trace.is_some() || self.record {
            builder = builder.trace(self.trace_events);
        }
        if self.policy().starts_with("dm") {
            // Policies that estimate begin with what earlier runs have learnt; without a folder to keep
            // that in, they learn anew.
            if let Ok(store) = super::profile::open_model() {
                builder = builder.perf_model(store);
            }
        }
        builder = builder.on_device_lost(|name, why| {
            eprintln!("warning: {name} failed and is taken out, others go on: {why}");
        });
        let runtime = builder.build()?;
        interrupt::cancels(runtime.canceller());
        Ok(runtime)
    }
}

/// The units of a runtime, for people: `2 workers and gpu:0 (its name)`.
pub fn units_text(runtime: &Runtime) -> String {
    let machine = runtime.machine();
    let cpus = machine.units.iter().filter(|u| u.kind == UnitKind::CPU);
    let gpus = machine.units.iter().filter(|u| u.kind == UnitKind::GPU);
    let gpu = |u: &Unit| {
        let memory = &machine.memories[usize::from(u.memory.0)].name;
        let name = memory.strip_prefix(&u.name).unwrap_or_default().trim();
        format!("{} ({name})", u.name)
    };
    let mut parts: Vec<String> = gpus.map(gpu).collect();
    match cpus.count() {
        0 => {}
        1 => parts.insert(0, "1 worker".into()),
        n => parts.insert(0, format!("{n} workers")),
    }
    parts.join(" and ")
}

/// Says in a trace what made it: the command, these facts, the version.
pub fn about<const N: usize>(trace: &mut Trace, facts: [(&str, String); N]) {
    let command: Vec<String> = std::env::args().collect();
    let version = env!("CARGO_PKG_VERSION").to_string();
    let all = std::iter::once(("command", command.join(" ")))
        .chain(facts)
        .chain([("version", version)]);
    trace
        .about
        .extend(all.map(|(name, text)| (name.into(), text)));
}

/// The model in a file, or a shipped one by its name, or the default.
pub fn model(path: Option<&std::path::Path>) -> anyhow::Result<Model> {
    let Some(path) = path else {
        return Ok(models::first());
    };
    let shipped = path.to_str().and_then(models::by_name);
    if let Some(model) = shipped.filter(|_| !path.exists()) {
        return Ok(model);
    }
    Model::load(path).with_context(|| {
        format!(
            "cannot use {} (shipped models: {})",
            path.display(),
            models::NAMES.join(", ")
        )
    })
}
