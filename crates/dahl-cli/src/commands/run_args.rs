//! Options of every command that executes graphs, and the run that they ask for: resolved once, at the start.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use dahl::core::Bytes;
use dahl::core::trace::Trace;
use dahl::nn::Step;
use dahl::runtime::Temporaries;
use dahl::runtime::network::Member;
use dahl::tune::{
    self, AnyPlan, Bits, ClusterConfig, Engine, ResolvedRun, RunConfig, Staging, StepPlan,
    ThisMachine, Units,
};

use super::step_args::GraphArgs;
use crate::{interrupt, print};

/// How to execute.
#[derive(clap::Args, Clone, Debug)]
pub struct RunArgs {
    /// CPU workers [default: one per core]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    workers: Option<u16>,
    /// Units that execute tasks, such as cpu:2,gpu:0 [default: cpu]
    ///
    /// Parts are separated by commas: cpu (one worker per core), cpu:N (N workers), gpu (all GPUs; CPUs
    /// that OpenCL offers as devices only if there is none), gpu:I or gpu:I+J by the numbers of `dahl
    /// machine`. With GPUs alone every task runs there, and the processor only prepares images and
    /// launches steps.
    #[arg(long, value_name = "U", conflicts_with = "workers")]
    units: Option<Units>,
    /// Most memory to take of each GPU, such as 2GiB [default: three quarters of what it has]
    #[arg(long, value_name = "SIZE", value_parser = tune::size)]
    gpu_memory: Option<Bytes>,
    /// Who decides which unit runs which task: eager, ws, dm, dmda or dmdas [default: ws; dmda with GPUs]; with --engine
    /// starpu a policy of StarPU's: eager, prio, ws, lws, dm, dmda, dmdas, … [default: lws]
    #[arg(long)]
    policy: Option<String>,
    /// Who runs tasks: dahl, or starpu (StarPU's CPU workers and policies on the same graph, with the same bits; for
    /// programs built with --features starpu), or starpu-data (the same, with data handles for what tasks touch)
    #[arg(long, value_name = "E", default_value_t)]
    engine: Engine,
    /// Where temporaries of a step lie: planned (one block, nothing is allocated while it runs) or malloc (each by itself,
    /// allocated and freed in every step: for comparison)
    #[arg(long, value_name = "M", default_value_t)]
    memory: Temporaries,
    /// Follow a plan that `dahl plan … -o F` wrote: every task on its unit, in its order, or as the policy that it names
    /// decides; under mpirun or srun one for several nodes, with its shares, grain and policy, or its stages
    ///
    /// Where one core is late, others that are like it run what it was to run, rather than wait. GPUs, and cores that differ or
    /// run at different frequencies, never exchange tasks.
    #[arg(long, value_name = "F", conflicts_with_all = ["policy", "workers", "units", "grain"])]
    plan: Option<PathBuf>,
    /// Follow the plan to the letter: no core stands in for another, however late that is
    #[arg(long, requires = "plan")]
    exact: bool,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Record what runs where and when into this file, for `dahl trace`
    #[arg(long, value_name = "F")]
    pub trace: Option<PathBuf>,
    /// Most tasks that a trace keeps per unit; the oldest go first
    #[arg(long, value_name = "N", default_value_t = 1 << 20)]
    trace_events: usize,
}

/// How several computers work together, where mpirun or srun has started this command on each.
#[derive(clap::Args, Clone, Debug)]
struct ClusterArgs {
    /// Each node's part of a batch under mpirun or srun: auto (by measured speed), or a number per node, as in 3:1
    #[arg(long, value_name = "S", default_value = "auto", value_parser = Shares::parse)]
    shares: Shares,
    /// Where the processors of nodes differ: strict (all use the best instruction level that every node has; same bits
    /// wherever tasks run) or fast (each its best; bits follow the placement)
    #[arg(long, default_value = "strict")]
    bits: Bits,
    /// Seconds that a node may be silent while others wait for it
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = super::seconds)]
    node_timeout: f64,
}

/// Shares as they are typed.
#[derive(Clone, Debug)]
struct Shares(Option<Vec<f64>>);

impl Shares {
    fn parse(text: &str) -> Result<Shares, String> {
        ClusterConfig::parse_shares(text).map(Shares)
    }
}

impl ClusterArgs {
    fn config(&self) -> ClusterConfig {
        ClusterConfig {
            shares: self.shares.0.clone(),
            patience: std::time::Duration::from_secs_f64(self.node_timeout),
            bits: self.bits,
            on_shares: Some(Arc::new(|shares| {
                let parts: Vec<String> =
                    shares.iter().map(|s| format!("{:.0}", 100.0 * s)).collect();
                say_once(&format!("shares by speed: {} %", parts.join(" : ")));
            })),
            on_level: Some(Arc::new(|level| {
                say_once(&format!(
                    "kernels: {level} on all nodes, because not all have better; --bits fast lets each use its best"
                ));
            })),
        }
    }
}

impl RunArgs {
    /// Seconds that a node may be silent.
    pub fn node_timeout(&self) -> f64 {
        self.cluster.node_timeout
    }
}

/// Says something that all nodes know on one of them.
fn say_once(text: &str) {
    if dahl::runtime::network::launched().is_some_and(|l| l.rank == 0) {
        eprintln!("{text}");
    }
}

/// A step, and how it runs here.
pub struct Run {
    /// This computer.
    pub this: ThisMachine,
    /// What runs, with implementations for its units.
    pub step: Step,
    /// How.
    pub run: ResolvedRun,
    /// The plan that is followed.
    pub plan: Option<Arc<StepPlan>>,
    trace: Option<PathBuf>,
}

impl RunArgs {
    /// The run of a step. A plan is read and must fit; the grain is measured if that is wished for. Without a
    /// trace file so many tasks per unit are recorded, where a number is given.
    pub fn prepare(
        &self,
        this: ThisMachine,
        step: Step,
        graph: &GraphArgs,
        pipeline: Option<Arc<Staging>>,
        record: Option<usize>,
    ) -> anyhow::Result<Run> {
        anyhow::ensure!(
            pipeline.is_none() || (self.plan.is_none() && self.policy.is_none()),
            "--pipeline decides which unit runs which task: leave out --plan and --policy"
        );
        if let Some(path) = self.trace.as_ref().filter(|_| super::cluster::is_first()) {
            super::check_writable(path)?;
        }
        let (plan, nodes) = match self.plan.as_deref().map(AnyPlan::load).transpose()? {
            Some(AnyPlan::One(plan)) => (Some(Arc::<StepPlan>::from(plan)), None),
            Some(AnyPlan::Nodes(plan)) => (None, Some(plan)),
            None => (None, None),
        };
        let mut step = match (&plan, &nodes) {
            (Some(plan), _) => plan.adopt(step)?,
            (_, Some(plan)) => plan.adopt(step)?,
            _ => step,
        };
        let given = self.units.clone();
        let config = RunConfig {
            units: given.unwrap_or_else(|| Units::cpus(self.workers)),
            gpu_memory: self.gpu_memory,
            policy: self.policy.clone(),
            engine: self.engine,
            temporaries: self.memory,
            follow: plan.clone(),
            exact: self.exact,
            pipeline,
            trace_events: self.trace.as_ref().map(|_| self.trace_events).or(record),
            stop: interrupt::stop(),
            cluster: self.cluster.config(),
            on_device_lost: Some(Arc::new(|name, why| {
                print::warning(&format!(
                    "{name} failed and is taken out, others go on: {why}"
                ));
            })),
            on_no_room: Some(Arc::new(|name, needed, has| {
                let needed = needed.rounded_up();
                let option = needed.to_string().replace(' ', "");
                print::warning(&format!(
                    "{name} holds {has}, and some tasks need at least {needed} there: the CPU runs them \
                     instead; use --gpu-memory {option} or more, a smaller --batch or a finer --grain"
                ));
            })),
        };
        let config = match &nodes {
            Some(plan) => plan.apply(config)?,
            None => config,
        };
        let run = config.resolve(&this)?;
        if graph.tuned() {
            step.grain = tuned(&step, &run)?;
        }
        Ok(Run {
            this,
            step,
            run,
            plan,
            trace: self.trace.clone(),
        })
    }
}

/// Measures a grain, and says how to repeat the run.
fn tuned(step: &Step, run: &ResolvedRun) -> anyhow::Result<dahl::nn::lower::grain::Grain> {
    // The search ends with the best so far.
    interrupt::keep();
    let tuned = tune::tune(step, run, &mut print::warnings)?;
    eprintln!(
        "tuned: {tuned}; to repeat this run: --grain {}",
        tuned.grain
    );
    Ok(tuned.grain)
}

impl Run {
    /// This computer, alone or as a node of a cluster, for a session: it overlaps steps by graphs of its own.
    pub fn member(&self) -> anyhow::Result<Member> {
        let (builder, damaged) = self.run.builder(self.step.dtype)?;
        if let Some(damaged) = damaged {
            print::warning(&damaged.to_string());
        }
        let member = self.run.join(builder.in_flight(1))?;
        // MPICH takes a signal for itself when it starts.
        interrupt::stop();
        Ok(member)
    }

    /// The end of a run: what was recorded of it on all nodes, or on this one alone if no file was asked for.
    pub fn finish(
        &self,
        member: &mut Member,
        complete: impl FnOnce(&mut Trace),
    ) -> anyhow::Result<Option<Trace>> {
        let together = self.trace.is_some();
        let tell = &mut print::warnings;
        Ok((self.run).finish_member(&self.step, member, together, tell, complete)?)
    }

    /// Writes a trace, where a file was asked for.
    pub fn save(&self, trace: Option<&Trace>) -> anyhow::Result<()> {
        if let (Some(path), Some(trace)) = (&self.trace, trace) {
            dahl::trace::save(trace, path)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// A run that is measured in memory, as a command of its own asks for it: no plan, no trace file.
pub fn measuring(
    this: &ThisMachine,
    units: Units,
    (engine, policy): (Engine, &str),
    record: Option<usize>,
) -> anyhow::Result<ResolvedRun> {
    let config = RunConfig {
        units,
        engine,
        policy: Some(policy.into()),
        trace_events: record,
        ..RunConfig::default()
    };
    Ok(config.resolve(this)?)
}
