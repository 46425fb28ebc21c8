//! How a run executes: units, policy or plan, recording; and the runtime that is made of that.
//!
//! [`RunConfig`] is what was asked for. [`RunConfig::resolve`] looks once at what this computer has and gives a
//! [`ResolvedRun`], which makes runtimes. What a step computes is no part of it: that is [`Step`](dahl_nn::Step)'s.

use std::sync::Arc;

use dahl_core::{Bytes, DType, Machine, Stop};
use dahl_energy::WattsModel;
use dahl_runtime::network::launched;
use dahl_runtime::perf_store::Warning;
use dahl_runtime::{Builder, Runtime, Temporaries};
use dahl_sched::policy;

use crate::cluster::{ClusterConfig, refuse_cluster};
use crate::engine::Engine;
use crate::error::TuneError;
use crate::follow::StepPlan;
use crate::gpus;
use crate::stages::Staging;
use crate::this_machine::ThisMachine;
use crate::units::{Cpus, Units};
use crate::watts::gpu_watts;

/// Called with the name of a device that failed and was taken out, and why.
pub(crate) type OnDeviceLost = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// Called with the name of a device that lacks room for some tasks, which run in the host's memory, with the bytes
/// it would have to hold and those it holds.
pub(crate) type OnNoRoom = Arc<dyn Fn(&str, Bytes, Bytes) + Send + Sync>;

/// What was asked for.
#[derive(Clone, Default)]
pub struct RunConfig {
    /// Units that execute tasks; with a plan, the plan's.
    pub units: Units,
    /// Most bytes to take of each GPU; three quarters of what it has unless set.
    pub gpu_memory: Option<Bytes>,
    /// Who runs tasks.
    pub engine: Engine,
    /// Where temporaries lie.
    pub temporaries: Temporaries,
    /// Which policy; `ws` unless set, `dmda` with GPUs, `lws` with StarPU. No part of a run that follows a plan.
    pub policy: Option<String>,
    /// A plan to follow.
    pub follow: Option<Arc<StepPlan>>,
    /// Whether the plan is followed to the letter; else cores that are alike stand in for one that is late.
    pub exact: bool,
    /// A pipeline to follow, on the units or on the nodes of a cluster.
    pub pipeline: Option<Arc<Staging>>,
    /// Tasks per unit that a trace keeps; nothing is recorded unless set.
    pub trace_events: Option<usize>,
    /// Told of devices that fail.
    pub on_device_lost: Option<OnDeviceLost>,
    /// Told of devices that lack room.
    pub on_no_room: Option<OnNoRoom>,
    /// Ends long work early: training after the step in flight, tuning with the best so far.
    pub stop: Stop,
    /// How it works together with other computers, where a launcher has started several.
    pub cluster: ClusterConfig,
}

impl RunConfig {
    /// For measurements: these units under this policy, recorded or not.
    pub(crate) fn measuring(units: Units, policy: &str, record: bool) -> RunConfig {
        RunConfig {
            units,
            policy: Some(policy.into()),
            trace_events: record.then_some(1 << 18),
            ..RunConfig::default()
        }
    }

    /// Looks at what this computer has, and refuses what it does not.
    pub fn resolve(self, this: &ThisMachine) -> Result<ResolvedRun, TuneError> {
        let mut config = self;
        if let Some(follow) = &config.follow {
            follow.check_here(this)?;
            if config.exact {
                follow.check_exact()?;
            }
            let what = format!("{}, which gives every task its unit,", follow.name());
            if let (None, Some(why)) = (&follow.file.policy, refuse_cluster(&what)) {
                return Err(TuneError::Option(why));
            }
            config.units = follow.units()?;
        }
        if let (Some(limit), false) = (config.gpu_memory, config.units.has_gpus()) {
            return Err(TuneError::Option(format!(
                "--gpu-memory {limit}: no GPU is used; add one, as in --units cpu,gpu:0"
            )));
        }
        config.engine.check(&config)?;
        let policy = match (&config.follow, &config.pipeline, &config.policy) {
            (Some(follow), ..) => follow.file.decides().into(),
            (_, Some(staging), _) => format!("pipeline {}", staging.pipeline()),
            (.., Some(policy)) => policy.clone(),
            _ => config.engine.usual_policy(config.units.has_gpus()).into(),
        };
        Ok(ResolvedRun {
            gpus: gpus::numbers(&config.units.gpus)?,
            policy,
            this: this.clone(),
            config,
        })
    }
}

/// A run on this computer.
#[derive(Clone)]
pub struct ResolvedRun {
    config: RunConfig,
    this: ThisMachine,
    gpus: Vec<usize>,
    policy: String,
}

impl ResolvedRun {
    /// Who decides: a policy's name, also where a plan names it, or `plan`.
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Who runs tasks.
    pub fn engine(&self) -> Engine {
        self.config.engine
    }

    /// Where temporaries lie.
    pub fn temporaries(&self) -> Temporaries {
        self.config.temporaries
    }

    /// Who decides, for people: a policy and whose it is, where it is not ours; or a plan, and the policy that it names.
    pub fn decides(&self) -> String {
        if let Some(policy) = self.follow().and_then(|f| f.file.policy.as_ref()) {
            return format!("plan: {}", policy.name);
        }
        self.config.engine.decides(&self.policy)
    }

    /// The plan to follow.
    pub(crate) fn follow(&self) -> Option<&StepPlan> {
        self.config.follow.as_deref()
    }

    /// The pipeline to follow.
    pub fn pipeline(&self) -> Option<&Arc<Staging>> {
        self.config.pipeline.as_ref()
    }

    /// How it works together with other computers.
    pub(crate) fn cluster(&self) -> &ClusterConfig {
        &self.config.cluster
    }

    /// How many CPU workers were asked for.
    pub(crate) fn cpus(&self) -> Cpus {
        self.config.units.cpus
    }

    /// The request to stop that it obeys.
    pub fn stop(&self) -> &Stop {
        &self.config.stop
    }

    /// The computer.
    pub(crate) fn this(&self) -> &ThisMachine {
        &self.this
    }

    /// Whether some of its units are GPUs.
    pub fn has_gpus(&self) -> bool {
        !self.gpus.is_empty()
    }

    /// What its GPUs draw, where they cannot be measured: as the machine says, or stated defaults. None if all of
    /// them are the processor under another name, whose CPU time is counted.
    pub fn gpu_watts(&self, machine: Option<&Machine>) -> Option<WattsModel> {
        gpu_watts(&self.gpus, machine)
    }

    /// The same run recording so many tasks per unit, or nothing.
    pub(crate) fn recording(&self, events: Option<usize>) -> ResolvedRun {
        let mut run = self.clone();
        run.config.trace_events = events;
        run
    }

    /// Whether it records a trace.
    pub(crate) fn records(&self) -> bool {
        self.recorded().is_some()
    }

    /// Tasks per unit that its trace keeps.
    pub(crate) fn recorded(&self) -> Option<usize> {
        self.config.trace_events
    }

    /// Whether its policy estimates durations.
    pub(crate) fn needs_times(&self) -> bool {
        // Which units there are does not matter for that. StarPU keeps its own account.
        let policy = policy::by_name(&self.policy, &Machine::cpus(1));
        self.config.engine == Engine::Dahl && policy.is_ok_and(|p| p.needs_time())
    }

    /// A runtime in the making, its devices opened for this element type. Policies that estimate begin with what
    /// earlier runs have learnt; the warning says if that was damaged and put aside.
    pub fn builder(&self, dtype: DType) -> Result<(Builder, Option<Warning>), TuneError> {
        let (config, mut warning) = (&self.config, None);
        let builder = Runtime::builder().temporaries(config.temporaries);
        let mut builder = match (&config.follow, &config.pipeline) {
            (Some(follow), _) => match follow.policy()? {
                Some(policy) => builder.with_policy(move |_| policy),
                None => builder
                    .schedule(follow.schedule()?)
                    .alike(match config.exact {
                        true => Vec::new(),
                        false => follow.stand_ins(),
                    }),
            },
            (None, Some(staging)) => {
                let (orders, make) = staging.orders(launched().is_some());
                builder.orders(orders, make)
            }
            (None, None) => config.engine.attach(builder, &self.policy)?,
        };
        let mut usual_clocks = true;
        if let Some(follow) = &config.follow
            && let Some((clocks, by_core)) = follow.set_clocks(&self.this)?
        {
            builder = builder.during(clocks).main_works(!by_core);
            usual_clocks = false;
        }
        if let Cpus::Count(workers) = config.units.cpus {
            builder = builder.workers(usize::from(workers));
        }
        builder = gpus::attach(builder, &self.gpus, config.gpu_memory, dtype, &self.this)?;
        if let Some(events) = config.trace_events {
            builder = builder.trace(events);
        }
        // Without a folder to keep it in, durations are learnt anew. At other clocks than usual they are, too: those are no
        // part of what is known of this machine.
        if self.needs_times()
            && usual_clocks
            && let Ok((store, damaged)) = self.this.open_times()
        {
            builder = builder.perf_model(store);
            warning = damaged;
        }
        if let Some(notify) = config.on_device_lost.clone() {
            builder = builder.on_device_lost(move |name, why| notify(name, why));
        }
        if let Some(notify) = config.on_no_room.clone() {
            builder = builder.on_no_room(move |name, needed, has| notify(name, needed, has));
        }
        Ok((builder, warning))
    }
}
