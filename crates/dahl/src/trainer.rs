//! Training on this computer: a step, a runtime and meters in one value.
//!
//! A [`Trainer`] holds what was asked for and begins to work when it is first used: it builds a runtime for its
//! units, gives the model its first weights and starts the meters. It prints nothing and decides nothing: what a
//! step is says [`Step`], how a run goes [`Session`], which units there are [`RunConfig`].

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dahl_core::Stop;
use dahl_core::trace::Trace;
use dahl_data::{Augment, Normalise, Samples, Source};
use dahl_energy::{Energy, Sampler};
use dahl_nn::Step;
use dahl_nn::checkpoint::CheckpointFolder;
use dahl_nn::losses::Loss;
use dahl_nn::lower::grain::Grain;
use dahl_nn::optim::Optimizer;
use dahl_nn::schedule::Schedule;
use dahl_nn::train::{Progress, Scores, Session, Totals, TrainError, Training};
use dahl_nn::weights::{self, Loaded, Weights};
use dahl_runtime::Builder;
use dahl_runtime::network::Member;
use dahl_tune::{ClusterConfig, NodesPlan, RunConfig, StepPlan, ThisMachine, Units, arithmetic_of};

use crate::{Data, Epoch, Error, RunLog};

/// Changes how a runtime is built.
type Adjust = Box<dyn FnOnce(Builder) -> Builder>;

/// A model being trained on this computer.
///
/// ```
/// use dahl::prelude::*;
///
/// let data = Data::open_first("fashion-mnist-small", [1, 28, 28], 640, 200)?;
/// let mut trainer = Trainer::new(models::first()).epochs(2).seed(1);
/// let history = trainer.fit(&data)?;
/// println!("loss {:.3}, {:?}", history[1].train.mean_loss(), history[1].energy.joules());
/// assert!(history[1].train.mean_loss() < history[0].train.mean_loss());
/// # Ok::<(), dahl::Error>(())
/// ```
pub struct Trainer {
    step: Step,
    training: Training,
    run: RunConfig,
    /// A plan for several nodes.
    nodes: Option<NodesPlan>,
    adjust: Option<Adjust>,
    first: First,
    checkpoints: Option<CheckpointFolder>,
    overwrite: bool,
    opened: Option<Opened>,
    /// A setting that came too late, told at the next use.
    late: Option<&'static str>,
}

/// Where the first weights come from.
enum First {
    Seed,
    Weights(Loaded),
    Checkpoint(PathBuf),
}

struct Opened {
    session: Session,
    member: Member,
    sampler: Sampler,
}

impl Trainer {
    /// Trains a model, or a [`Step`] where more than the model is settled, with sensible defaults: eight epochs of
    /// batches of 32, Adam, all cores.
    pub fn new(step: impl Into<Step>) -> Trainer {
        Trainer {
            step: step.into(),
            training: Training::default(),
            run: RunConfig::default(),
            nodes: None,
            adjust: None,
            first: First::Seed,
            checkpoints: None,
            overwrite: false,
            opened: None,
            late: None,
        }
    }

    fn set(mut self, setting: &'static str, change: impl FnOnce(&mut Trainer)) -> Trainer {
        match self.opened {
            Some(_) => self.late = self.late.or(Some(setting)),
            None => change(&mut self),
        }
        self
    }

    /// Passes over the data.
    pub fn epochs(self, epochs: u64) -> Trainer {
        self.set("epochs", |t| t.training.epochs = epochs)
    }

    /// Stops after so many steps, whatever the epochs.
    pub fn steps(self, steps: u64) -> Trainer {
        self.set("steps", |t| t.training.steps = Some(steps))
    }

    /// Samples of a step.
    pub fn batch(self, samples: usize) -> Trainer {
        self.set("batch", |t| t.step.batch = samples)
    }

    /// Base learning rate; the optimiser's default unless set.
    pub fn learning_rate(self, rate: f64) -> Trainer {
        self.set("learning_rate", |t| t.training.rate = Some(rate))
    }

    /// How the learning rate changes.
    pub fn schedule(self, schedule: Schedule) -> Trainer {
        self.set("schedule", |t| t.training.schedule = schedule)
    }

    /// Whether each epoch has its own order; it has unless set.
    pub fn shuffle(self, shuffle: bool) -> Trainer {
        self.set("shuffle", |t| t.training.shuffle = shuffle)
    }

    /// Stops when the validation loss has not been lower for so many epochs.
    pub fn patience(self, epochs: u64) -> Trainer {
        self.set("patience", |t| t.training.patience = Some(epochs))
    }

    /// How training images are changed at random, such as `"flip,crop:4".parse()?`.
    pub fn augment(self, augment: Augment) -> Trainer {
        self.set("augment", |t| t.training.augment = Some(augment))
    }

    /// How all images are normalised: `Normalise::measure(&data)?`, or known numbers. Kept with the weights.
    pub fn normalise(self, normalise: Normalise) -> Trainer {
        self.set("normalise", |t| t.training.normalise = Some(normalise))
    }

    /// How gradients change weights: `Sgd { .. }`, `Adam::default()`, or a rule of the program's own.
    pub fn optimizer(self, optimizer: impl Into<Optimizer>) -> Trainer {
        self.set("optimizer", |t| t.step.optimizer = optimizer.into())
    }

    /// What is made smaller: `CrossEntropy::default()` unless set.
    pub fn loss(self, loss: impl Into<Loss>) -> Trainer {
        self.set("loss", |t| t.step.loss = loss.into())
    }

    /// Gradients are scaled to this global norm where theirs is larger.
    pub fn clip_norm(self, norm: f64) -> Trainer {
        self.set("clip_norm", |t| t.step.clip_norm = Some(norm))
    }

    /// The batch is computed in so many parts, one after another, before weights are updated once: activations take the memory of one
    /// part. They must divide the batch.
    pub fn accumulate(self, parts: usize) -> Trainer {
        self.set("accumulate", |t| t.step.accumulate = parts)
    }

    /// Evaluation, prediction and files have an exponential moving average of weights, of which so much stays in each update.
    pub fn ema(self, decay: f64) -> Trainer {
        self.set("ema", |t| t.step.ema = Some(decay))
    }

    /// Key of everything random: first weights, order, dropout.
    pub fn seed(self, seed: u64) -> Trainer {
        self.set("seed", |t| t.step.seed = seed)
    }

    /// Element type: `DType::F32` unless set.
    pub fn dtype(self, dtype: dahl_core::DType) -> Trainer {
        self.set("dtype", |t| t.step.dtype = dtype)
    }

    /// How layers are cut into tasks.
    pub fn grain(self, grain: Grain) -> Trainer {
        self.set("grain", |t| t.step.grain = grain)
    }

    /// CPU workers; one per core unless set.
    pub fn workers(self, workers: u16) -> Trainer {
        self.units(Units::cpus(Some(workers)))
    }

    /// Units that execute tasks, such as `"cpu:2,gpu:0".parse()?`.
    pub fn units(self, units: Units) -> Trainer {
        self.set("units", |t| t.run.units = units)
    }

    /// The scheduling policy by its name; for one of the program's own, see [`Trainer::runtime`].
    pub fn policy(self, name: &str) -> Trainer {
        self.set("policy", |t| t.run.policy = Some(name.into()))
    }

    /// Who runs tasks: [`Engine::StarPu`](dahl_tune::Engine) needs the feature `starpu`, and policies are StarPU's then.
    pub fn engine(self, engine: dahl_tune::Engine) -> Trainer {
        self.set("engine", |t| t.run.engine = engine)
    }

    /// Follows a plan, task by task. Grain, implementations and units are the plan's.
    pub fn follow(self, plan: StepPlan) -> Trainer {
        self.set("follow", |t| t.run.follow = Some(Arc::new(plan)))
    }

    /// Follows a plan for several nodes, as [`AnyPlan`](dahl_tune::AnyPlan) reads it. Shares, grain and policy, or stages, are the plan's.
    pub fn follow_nodes(self, plan: NodesPlan) -> Trainer {
        self.set("follow_nodes", |t| t.nodes = Some(plan))
    }

    /// Follows the plan to the letter: no core stands in for one that is late.
    pub fn exact(self) -> Trainer {
        self.set("exact", |t| t.run.exact = true)
    }

    /// Records what runs where and when, so many tasks per unit, for [`Trainer::take_trace`].
    pub fn record(self, tasks: usize) -> Trainer {
        self.set("record", |t| t.run.trace_events = Some(tasks))
    }

    /// Changes how the runtime is built: a policy or a device of the program's own.
    pub fn runtime(self, adjust: impl FnOnce(Builder) -> Builder + 'static) -> Trainer {
        self.set("runtime", |t| t.adjust = Some(Box::new(adjust)))
    }

    /// Begins with these weights.
    pub fn init(self, weights: Weights) -> Trainer {
        self.init_from(Loaded {
            weights,
            class_names: Vec::new(),
            normalise: None,
        })
    }

    /// Begins with the weights of a file or checkpoint ([`weights::load`]), and with its names of classes.
    pub fn init_from(self, loaded: Loaded) -> Trainer {
        self.set("init", |t| t.first = First::Weights(loaded))
    }

    /// Goes on from the checkpoint in a folder as if the run had not stopped. Another model, other data and other
    /// settings are refused.
    pub fn resume(self, folder: impl Into<PathBuf>) -> Trainer {
        let folder = folder.into();
        self.set("resume", |t| t.first = First::Checkpoint(folder))
    }

    /// Writes a checkpoint into a folder at the end of every epoch, where a run is stopped and, if asked for, every so
    /// many steps. A folder with a checkpoint that the run does not go on from is refused.
    pub fn checkpoint(self, folder: impl Into<PathBuf>, every: Option<u64>) -> Trainer {
        let folder = CheckpointFolder::new(folder).every(every);
        self.set("checkpoint", |t| t.checkpoints = Some(folder))
    }

    /// Whether checkpoints may replace another run's.
    pub fn overwrite(self, overwrite: bool) -> Trainer {
        self.set("overwrite", |t| t.overwrite = overwrite)
    }

    /// By which another thread or a signal handler stops training: after the steps in flight, with a checkpoint if
    /// they are written. Calling [`Trainer::fit`] again goes on.
    ///
    /// ```
    /// use dahl::prelude::*;
    ///
    /// let data = Data::open_first("fashion-mnist-small", [1, 28, 28], 320, 100)?;
    /// let mut trainer = Trainer::new(models::first()).epochs(2);
    /// let stop = trainer.stop_handle();
    /// std::thread::spawn(move || stop.stop()); // at any moment
    /// let mut history = trainer.fit(&data)?;
    /// while trainer.interrupted() {
    ///     history.extend(trainer.fit(&data)?);
    /// }
    /// assert_eq!(history.len(), 2);
    /// # Ok::<(), dahl::Error>(())
    /// ```
    pub fn stop_handle(&self) -> Stop {
        self.run.stop.clone()
    }

    /// Whether a request to stop ended the last run before its end.
    pub fn interrupted(&self) -> bool {
        let opened = self.opened.as_ref();
        opened.is_some_and(|o| o.session.interrupted())
    }

    /// What a step is.
    pub fn step(&self) -> &Step {
        match &self.opened {
            Some(opened) => opened.session.step(),
            None => &self.step,
        }
    }

    /// Builds the runtime and gives the model its first weights, once.
    fn open(&mut self) -> Result<&mut Opened, Error> {
        if let Some(setting) = self.late {
            return Err(Error::Late { setting });
        }
        if self.opened.is_none() {
            self.opened = Some(self.begin()?);
        }
        Ok(self.opened.as_mut().expect("made above"))
    }

    fn begin(&mut self) -> Result<Opened, Error> {
        dahl_ops::simd::check()?;
        let (step, run) = (self.step.clone(), self.run.clone());
        let (step, run) = match (&self.nodes, &self.run.follow) {
            (Some(plan), _) => (plan.adopt(step)?, plan.apply(run)?),
            (None, Some(plan)) => (plan.adopt(step)?, run),
            (None, None) => (step, run),
        };
        let run = run.resolve(&ThisMachine::look())?;
        // Two graphs take turns, each launched once at a time.
        let mut builder = run.builder(step.dtype)?.0.in_flight(1);
        if let Some(adjust) = self.adjust.take() {
            builder = adjust(builder);
        }
        let mut member = run.join(builder)?;
        let mut session = Session::new(step, self.training.clone())?;
        session.stop_by(self.run.stop.clone());
        session.computed_by(arithmetic_of(&mut member)?);
        match &self.first {
            First::Seed => session.initialise(&mut member)?,
            First::Weights(loaded) => {
                session.set_weights(&mut member, &loaded.weights)?;
                session.name_classes(loaded.class_names.clone());
                session.normalise_by(loaded.normalise.clone());
            }
            First::Checkpoint(folder) => session.resume_from(&mut member, folder)?,
        }
        if let Some(folder) = self.checkpoints.clone() {
            session.checkpoint_to(folder.overwrite(self.overwrite));
        }
        let (gpus, runtime) = (run.gpu_watts(None), member.runtime());
        let options = dahl_energy::Options {
            clock: runtime.busy_clock(dahl_core::UnitKind::CPU),
            cards: run.has_gpus(),
            gpus: gpus.map(|watts| (watts, runtime.busy_clock(dahl_core::UnitKind::GPU))),
            ..dahl_energy::Options::default()
        };
        Ok(Opened {
            session,
            sampler: options.start(),
            member,
        })
    }

    /// Trains on the data; an entry per epoch. Where the last checkpoint could not be written, that is an error, but
    /// training went on to its end and the weights are here.
    pub fn fit(&mut self, data: &Data) -> Result<Vec<Epoch>, Error> {
        self.fit_with(data, |_, _| ControlFlow::Continue(()))
    }

    /// Trains on the data and tells of every step, epoch and checkpoint. Of the end of an epoch it also gives time
    /// and energy. Breaking stops the run after the steps in flight.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use dahl::prelude::*;
    ///
    /// let data = Data::open_first("fashion-mnist-small", [1, 28, 28], 320, 100)?;
    /// let mut best = (f64::INFINITY, None);
    /// let mut trainer = Trainer::new(models::first()).epochs(5);
    /// trainer.fit_with(&data, |progress, epoch| {
    ///     let Some(loss) = epoch.and_then(|e| e.validation).map(|v| v.mean_loss()) else {
    ///         return ControlFlow::Continue(());
    ///     };
    ///     if loss >= best.0 {
    ///         return ControlFlow::Break(()); // early stopping
    ///     }
    ///     best = (loss, progress.weights().ok());
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(best.1.is_some());
    /// # Ok::<(), dahl::Error>(())
    /// ```
    pub fn fit_with(
        &mut self,
        data: &Data,
        mut watch: impl FnMut(&mut Progress<'_>, Option<&Epoch>) -> ControlFlow<()>,
    ) -> Result<Vec<Epoch>, Error> {
        let Opened {
            session,
            member,
            sampler,
        } = self.open()?;
        let mut log = RunLog::new(member.runtime(), sampler.snapshot());
        let mut tell = |progress: &mut Progress<'_>| {
            let epoch = log.tell(progress.event, || sampler.snapshot());
            watch(progress, epoch)
        };
        session.run(
            member,
            data.train.clone(),
            data.validation.clone(),
            &mut tell,
        )?;
        match session.take_unsaved() {
            Some(error) => Err(error.into()),
            None => Ok(log.epochs),
        }
    }

    /// Loss and accuracy on a set, with the weights as they are.
    pub fn evaluate(&mut self, data: impl Into<Source>) -> Result<Totals, Error> {
        let opened = self.open()?;
        Ok(opened.session.evaluate(&mut opened.member, data.into())?)
    }

    /// Class scores (logits) for samples: bytes or floats, one sample after another.
    pub fn predict<'a>(&mut self, samples: impl Into<Samples<'a>>) -> Result<Scores, Error> {
        let opened = self.open()?;
        Ok(opened.session.predict(&mut opened.member, samples)?)
    }

    /// Class scores for every sample of a source, in its order.
    pub fn predict_all(&mut self, data: impl Into<Source>) -> Result<Scores, Error> {
        let opened = self.open()?;
        Ok(opened.session.predict_all(&mut opened.member, data)?)
    }

    /// The weights as they are.
    pub fn weights(&mut self) -> Result<Weights, Error> {
        let opened = self.open()?;
        Ok(opened.session.weights(&mut opened.member)?)
    }

    /// The names of the classes that the model tells apart, where data or weights have said them.
    pub fn class_names(&mut self) -> Result<&[String], Error> {
        Ok(self.open()?.session.class_names())
    }

    /// Gives the classes names, which are kept with weights and checkpoints.
    pub fn name_classes(&mut self, names: &[&str]) -> Result<(), Error> {
        let names = names.iter().map(|n| n.to_string()).collect();
        self.open()?.session.name_classes(names);
        Ok(())
    }

    /// Writes the weights as safetensors with PyTorch's keys, whole or not at all, and with the names of classes.
    pub fn save(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let weights = self.weights()?;
        if !self.is_first()? {
            return Ok(());
        }
        let session = &self.open()?.session;
        let (names, normalise) = (session.class_names(), session.normalise());
        Ok(weights::write_named(
            path.as_ref(),
            &weights,
            names,
            normalise,
        )?)
    }

    /// Takes weights and names of classes from a file of safetensors, a checkpoint's file or its folder;
    /// `module.` and what else wrappers put before names is taken off.
    pub fn load(&mut self, path: impl AsRef<Path>) -> Result<(), Error> {
        let loaded = weights::load(path.as_ref())?;
        let opened = self.open()?;
        let weights = weights::fit(loaded.weights, opened.session.model()).weights;
        opened.session.name_classes(loaded.class_names);
        Ok(opened.session.set_weights(&mut opened.member, &weights)?)
    }

    /// Whether this is the node that prints and writes files, of those that `mpirun` or `srun` has started; a computer
    /// alone is.
    pub fn is_first(&mut self) -> Result<bool, Error> {
        Ok(self.open()?.member.node() == 0)
    }

    /// The end of a program on several nodes: waits for the others and leaves together with them. Without it, the
    /// others take it that this one has failed.
    pub fn finish(mut self) -> Result<(), Error> {
        match &mut self.opened {
            Some(opened) => Ok(opened.member.finish().map_err(TrainError::Execution)?),
            None => Ok(()),
        }
    }

    /// How several computers work together, where a launcher has started this program on each: shares, and when a
    /// silent node counts as lost.
    pub fn cluster(self, cluster: ClusterConfig) -> Trainer {
        self.set("cluster", |t| t.run.cluster = cluster)
    }

    /// What this computer has used since the trainer began to work.
    pub fn energy(&mut self) -> Result<Energy, Error> {
        Ok(self.open()?.sampler.snapshot())
    }

    /// What has run where and when since recording began; none unless [`Trainer::record`] was asked for. On several
    /// nodes the first gets one trace of all, the others none, and all must ask.
    pub fn take_trace(&mut self) -> Result<Option<Trace>, Error> {
        let opened = self.open()?;
        Ok(dahl_tune::take_trace(&mut opened.member, |_| ())?)
    }
}
