//! Options that describe a training step: the same for every command that trains, times, simulates or plans one.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use dahl::core::DType;
use dahl::nn::losses::Loss;
use dahl::nn::lower::grain::Grain;
use dahl::nn::optim::{Given, OPTIMIZERS, Optimizer};
use dahl::nn::step::Kernels;
use dahl::nn::weights::{self, Loaded};
use dahl::nn::{Model, Step, models};
use dahl::tune::{MachineModel, Pipeline, Profile, Staging, ThisMachine, TimesFrom};

use super::run_args::Run;

/// What decides on a graph, beside the model and what is trained.
#[derive(clap::Args, Clone, Debug)]
pub struct GraphArgs {
    /// Images per step
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch: u32,
    /// Numbers to compute with: f32 or f64
    #[arg(long, default_value = "f32")]
    pub dtype: DType,
    /// How layers are cut into tasks: auto, tuned (measured here first, and printed so that it can be
    /// repeated), or parts of each dimension such as sample=8,channel=2,height=1,width=1 [default: auto;
    /// `dahl plan` searches]
    #[arg(long)]
    pub grain: Option<GrainChoice>,
    /// Choose implementations by this calibration profile, or `none` [default: this machine's, if
    /// `dahl calibrate` has written one]
    #[arg(long, value_name = "F|none")]
    pub profile: Option<PathBuf>,
}

/// What is made smaller.
#[derive(clap::Args, Clone, Debug)]
pub struct LossArgs {
    /// The loss: cross_entropy, soft_cross_entropy, mse, l1 or bce_with_logits, with keys behind a colon such as
    /// cross_entropy:label_smoothing=0.1,weight=[1,2,0.5]. Data sets of images have classes, which
    /// the first two take; the others compare with numbers, of a program's own data
    #[arg(
        long,
        default_value = "cross_entropy",
        value_name = "NAME[:KEY=VALUE,…]"
    )]
    pub loss: Loss,
}

/// What one training step is, beside its model.
#[derive(clap::Args, Clone, Debug)]
pub struct StepArgs {
    #[command(flatten)]
    pub graph: GraphArgs,
    #[command(flatten)]
    loss: LossArgs,
    /// How weights are updated: sgd, adam or adamw
    #[arg(long, value_parser = optimizer, default_value = "adam")]
    optimizer: String,
    /// Momentum of sgd [default: 0]
    #[arg(long)]
    momentum: Option<f64>,
    /// Nesterov's variant of momentum
    #[arg(long, requires = "momentum")]
    nesterov: bool,
    /// Weight decay [default: 0, with adamw 0.01]
    #[arg(long)]
    weight_decay: Option<f64>,
    /// No weight decay for biases and norms
    #[arg(long)]
    no_bias_decay: bool,
    /// Scale gradients so that their global norm is at most this
    #[arg(long)]
    clip_norm: Option<f64>,
    /// Compute so many batches, one after another, and update weights once: as a batch of all their images, in less
    /// memory. Steps, schedules and metrics count updates; batch norms see one batch at a time
    #[arg(long, default_value_t = 1, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    accumulate: u32,
    /// Keep an exponential moving average of weights, of which DECAY (0.999, for example) stays in each update: evaluation
    /// and --save have the average, checkpoints both
    #[arg(long, value_name = "DECAY")]
    ema: Option<f64>,
    /// Key of everything random: initial weights, order, dropout
    #[arg(long, default_value_t = 42)]
    seed: u64,
    #[command(flatten)]
    pipeline: PipelineArgs,
}

/// How a batch goes through the model.
#[derive(clap::Args, Clone, Debug)]
struct PipelineArgs {
    /// Cut the model into stages that work on different micro-batches at a time, such as 4 or 4:zb-h1, on nodes of a
    /// cluster or on units of one computer [schedules: gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, auto]
    ///
    /// These give the same bits as training without a pipeline. pipedream:4 (each stage keeps the weights that a batch
    /// began with), pipedream-vertical:4 (the same version in all stages) and 2bw:4 (two versions) never wait for a
    /// batch to end: they compute with older weights, the same on any number of nodes.
    #[arg(long, value_name = "STAGES[:SCHEDULE]")]
    pipeline: Option<Pipeline>,
    /// Cut the batch into so many equal parts that no task crosses [default: 1; with a pipeline its own blocks, or two for
    /// each stage]
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    micro_batches: Option<u32>,
    /// Nodes of each stage, or units on one computer, as in 2:1; nodes of a stage share its samples by --shares [default: as even as they
    /// go]
    #[arg(long, value_name = "A:B:…", requires = "pipeline", value_parser = counts)]
    replicas: Option<Counts>,
    /// For the schedule auto: the activations of how many micro-batches a stage may keep, or of each stage, as in 4:3:2:1
    /// [default: as many as there are stages, which is what 1f1b's first keeps]
    #[arg(long, value_name = "N[:N…]", requires = "pipeline", value_parser = counts)]
    kept: Option<Counts>,
    /// Where stages begin behind the first: numbers or names of layers, as in 4,9, or planned (by the partitioner of `dahl
    /// plan pipeline`, for this computer or the machine that is simulated) [default: as even as layers allow, by static costs]
    #[arg(long, value_name = "LAYERS|planned", requires = "pipeline")]
    cut: Option<String>,
    /// What `planned` has come to.
    #[arg(skip)]
    planned: OnceLock<Vec<usize>>,
}

/// A number for each stage, as they are typed.
#[derive(Clone, Debug)]
struct Counts(Vec<usize>);

fn counts(text: &str) -> Result<Counts, String> {
    let number = |part: &str| part.trim().parse::<usize>().ok().filter(|n| *n > 0);
    let all: Option<Vec<usize>> = text.split(':').map(number).collect();
    all.map(Counts)
        .ok_or_else(|| "use a number of at least 1 for each stage, as in 2:1".into())
}

impl PipelineArgs {
    fn pipeline(&self, model: &Model) -> anyhow::Result<Option<Pipeline>> {
        let Some(pipeline) = self.pipeline.clone() else {
            return Ok(None);
        };
        let each = |counts: &Option<Counts>| counts.clone().map_or(Vec::new(), |c| c.0);
        let pipeline = Pipeline {
            replicas: each(&self.replicas),
            kept: each(&self.kept),
            cut: self.planned.get().cloned().unwrap_or_default(),
            ..pipeline
        };
        Ok(Some(match self.cut.as_deref() {
            None | Some(PLANNED) => pipeline,
            Some(layers) => pipeline.cut_at(model, layers)?,
        }))
    }

    /// Asks the partitioner, if that is wished for, and says how to repeat its answer.
    fn plan(
        &self,
        step: &Step,
        this: &ThisMachine,
        machine: Option<&MachineModel>,
    ) -> anyhow::Result<()> {
        if self.cut.as_deref() != Some(PLANNED) {
            return Ok(());
        }
        anyhow::ensure!(
            dahl::runtime::network::launched().is_none(),
            "--cut planned: all nodes must cut alike; run `dahl plan pipeline` or `dahl simulate --cut planned` once, and \
             give the layers that it prints"
        );
        let Some(pipeline) = self.pipeline(&step.model)? else {
            return Ok(());
        };
        let here;
        let machine = match machine {
            Some(machine) => machine,
            None => {
                let machine = this.describe(None)?.machine;
                here = MachineModel::new(machine, &TimesFrom::Here, this)?.0;
                &here
            }
        };
        let parts = self.micro_batches.map(|n| n as usize);
        let cut = pipeline.cut_for(step, machine, parts)?.cut;
        let text: Vec<String> = cut.iter().map(usize::to_string).collect();
        eprintln!("cut for {}: --cut {}", machine.machine.name, text.join(","));
        // Asked once: the answer does not change.
        let _ = self.planned.set(cut);
        Ok(())
    }

    fn adopt(&self, step: Step) -> anyhow::Result<Step> {
        let parts = self.micro_batches.map(|n| n as usize);
        match self.pipeline(&step.model)? {
            Some(pipeline) => Ok(pipeline.adopt(step, parts)?),
            None => {
                let step = step.micro_batches(parts.unwrap_or(1));
                step.check()?;
                Ok(step)
            }
        }
    }
}

/// The cut that the partitioner is asked for.
const PLANNED: &str = "planned";

/// A grain, or the wish to have one measured.
#[derive(Clone, Debug, PartialEq)]
pub enum GrainChoice {
    /// Measured before the run.
    Tuned,
    /// Known.
    Known(Grain),
}

impl FromStr for GrainChoice {
    type Err = <Grain as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "tuned" => Ok(GrainChoice::Tuned),
            _ => text.parse().map(GrainChoice::Known),
        }
    }
}

impl GraphArgs {
    /// A step of a model with these settings and defaults for the others. Without `--profile`, implementations
    /// are this machine's choice if the step is for this machine.
    pub fn step(&self, model: Model, this: &ThisMachine, here: bool) -> anyhow::Result<Step> {
        let profile = match &self.profile {
            Some(path) if path.as_os_str() == "none" => None,
            Some(path) => Some(Profile::load(path)?),
            None if here => this.profile()?,
            None => None,
        };
        let grain = match &self.grain {
            Some(GrainChoice::Known(grain)) => grain.clone(),
            _ => Grain::Auto,
        };
        Ok(Step::new(model)
            .batch(self.batch as usize)
            .dtype(self.dtype)
            .grain(grain)
            .kernels(profile.map_or(Kernels::Static, |p| p.choices.into())))
    }

    /// Who chose the implementations of a run, for people.
    pub fn chosen_by(&self, run: &Run) -> String {
        let kernels = &run.step.kernels;
        if run.plan.is_some() {
            return format!("the plan, {kernels}");
        }
        match (kernels, &self.profile) {
            (Kernels::Static, _) => kernels.to_string(),
            (_, Some(path)) => format!("{kernels}, {}", path.display()),
            (_, None) => match run.this.profile_path() {
                Ok(path) => format!("{kernels}, {}", path.display()),
                Err(_) => kernels.to_string(),
            },
        }
    }

    /// Whether the grain is to be measured.
    pub fn tuned(&self) -> bool {
        self.grain == Some(GrainChoice::Tuned)
    }

    /// Refuses a grain that is to be measured, for commands that run nothing.
    pub fn refuse_tuned(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            !self.tuned(),
            "--grain tuned is measured in runs: tune with `dahl bench step`, which prints the grain to give here"
        );
        Ok(())
    }
}

impl StepArgs {
    /// The step; see [`GraphArgs::step`].
    pub fn step(&self, model: Model, this: &ThisMachine, here: bool) -> anyhow::Result<Step> {
        self.step_on(model, this, here, None)
    }

    /// The same for a machine that need not be this one.
    pub fn step_on(
        &self,
        model: Model,
        this: &ThisMachine,
        here: bool,
        machine: Option<&MachineModel>,
    ) -> anyhow::Result<Step> {
        let given = Given::default()
            .set("momentum", self.momentum)
            .set("nesterov", self.nesterov.then_some(true))
            .set("weight_decay", self.weight_decay)
            .set("no_bias_decay", self.no_bias_decay.then_some(true));
        let step = self.graph.step(model, this, here)?;
        let parts = self.accumulate as usize;
        let step = step
            .batch(self.graph.batch as usize * parts)
            .accumulate(parts)
            .ema(self.ema)
            .optimizer(Optimizer::parse(&self.optimizer, &given)?)
            .loss(self.loss.loss.clone())
            .clip_norm(self.clip_norm)
            .seed(self.seed);
        self.pipeline.plan(&step, this, machine)?;
        self.pipeline.adopt(step)
    }

    /// The pipeline of a step, where one was asked for; says once what keeps its micro-batches waiting.
    pub fn staging(&self, step: &Step) -> anyhow::Result<Option<Arc<Staging>>> {
        let Some(pipeline) = self.pipeline.pipeline(&step.model)? else {
            return Ok(None);
        };
        anyhow::ensure!(
            !self.graph.tuned(),
            "--grain tuned measures without a pipeline: tune first, then give the grain that it prints"
        );
        let staging = Staging::new(&pipeline, step)?;
        if let Some(text) = staging.warning().filter(|_| super::cluster::is_first()) {
            crate::print::warning(&text);
        }
        Ok(Some(Arc::new(staging)))
    }

    /// The options that describe the same step to another command that has its plan: but for grain, micro-batches and profile.
    pub fn repeated(&self) -> String {
        let mut text = format!(
            "--batch {} --optimizer {}",
            self.graph.batch, self.optimizer
        );
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                text += &format!(" --{name} {value}");
            }
        };
        let number = |n: Option<f64>| n.map(|n| n.to_string());
        let loss = &self.loss.loss;
        add(
            "loss",
            (*loss != Loss::default()).then(|| format!("'{loss}'")),
        );
        add("momentum", number(self.momentum));
        add("weight-decay", number(self.weight_decay));
        add("clip-norm", number(self.clip_norm));
        let parts = self.accumulate;
        add("accumulate", (parts > 1).then(|| parts.to_string()));
        add("ema", number(self.ema));
        let dtype = self.graph.dtype;
        add("dtype", (dtype != DType::F32).then(|| dtype.to_string()));
        add("seed", (self.seed != 42).then(|| self.seed.to_string()));
        for (is_given, name) in [
            (self.nesterov, "nesterov"),
            (self.no_bias_decay, "no-bias-decay"),
        ] {
            if is_given {
                text += &format!(" --{name}");
            }
        }
        text
    }
}

/// The model in a file, or a shipped one by its name, or the default.
pub fn model(path: Option<&Path>) -> anyhow::Result<Model> {
    let Some(path) = path else {
        return Ok(models::first());
    };
    Ok(models::find(path)?)
}

/// The weights in a file, for a model; says what was changed in their names.
pub fn weights_for(model: &Model, path: &Path) -> anyhow::Result<Loaded> {
    let loaded = weights::load(path)?;
    let fitted = weights::fit(loaded.weights, model);
    say(path, &fitted.notes);
    Ok(Loaded {
        weights: fitted.weights,
        class_names: loaded.class_names,
        normalise: loaded.normalise,
    })
}

/// What was done with the weights of a file.
pub fn say(path: &Path, notes: &[String]) {
    for note in notes {
        eprintln!("{}: {note}", path.display());
    }
}

fn optimizer(name: &str) -> Result<String, String> {
    let known: Vec<&str> = OPTIMIZERS.iter().map(|o| o.name).collect();
    match known.contains(&name) {
        true => Ok(name.into()),
        false => Err(dahl::core::text::unknown("optimizer", name, &known)),
    }
}
