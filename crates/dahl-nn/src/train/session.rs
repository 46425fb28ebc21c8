//! A training session: a model being trained, from its first weights to its last.

use std::rc::Rc;
use std::sync::Arc;

use dahl_core::{Executor, Graph, Stop};
use dahl_data::{Identity, Normalise};

use crate::checkpoint::{CheckpointError, CheckpointFolder, OpenFolder};
use crate::lower::state::State;
use crate::model::Model;
use crate::optim::check_lr;
use crate::step::{Pass, Step};
use crate::weights::{Data, Tensor, Weights};

use super::phase::Phases;
use super::resume::Resumed;
use super::{Best, Totals, TrainError, Training};

/// A model being trained.
pub struct Session {
    pub(super) step: Step,
    pub(super) training: Training,
    pub(super) rate: f64,
    pub(super) state: Rc<State>,
    /// The same, or averages of weights where the step has them: for evaluation and files.
    pub(super) shown: Rc<State>,
    pub(super) steps: Phases,
    pub(super) evaluations: Phases,
    pub(super) predictions: Phases,
    /// Steps launched since the beginning.
    pub(super) launched: u64,
    pub(super) epoch: u64,
    pub(super) batch_in_epoch: u64,
    pub(super) totals: Totals,
    /// Batches that batch normalisation has seen, before this session.
    pub(super) batches_before: u64,
    /// Where checkpoints go.
    pub(super) checkpoints: Option<CheckpointFolder>,
    /// The right to write them, since the first step.
    pub(super) lock: Option<OpenFolder>,
    /// Why the last one could not be written.
    pub(super) unsaved: Option<CheckpointError>,
    /// The checkpoint that this run goes on from, and its folder if it came from one.
    pub(super) resumed: Option<Resumed>,
    /// The data that this run sees, where checkpoints need to know it.
    pub(super) data: Option<Identity>,
    pub(super) class_names: Vec<String>,
    /// What computes, where that decides on the last bits.
    pub(super) arithmetic: Option<String>,
    pub(super) stop: Stop,
    /// Whether a request to stop ended the last run before its end.
    pub(super) interrupted: bool,
    /// Whether the report of an epoch that the last step cut short has been given.
    pub(super) reported: bool,
    pub(super) best: Option<Best>,
    /// Time that steps waited for batches, in the last run.
    pub(super) waited: std::time::Duration,
    /// Whether somebody has set the weights.
    pub(super) has_weights: bool,
}

impl Session {
    /// A session whose weights are set when they are needed: as [`Session::initialise`] does it, unless
    /// somebody has set others.
    pub fn new(step: Step, training: Training) -> Result<Self, TrainError> {
        step.check()?;
        let rate = training.rate.unwrap_or(step.optimizer.default_rate());
        check_lr(rate)?;
        training.check(rate)?;
        let mut training = training;
        let model = &step.model;
        training.augment = training.augment.or_else(|| model.augment.clone());
        training.normalise = training.normalise.or_else(|| model.normalise.clone());
        let state = step.state()?;
        Ok(Session {
            shown: match step.ema {
                Some(_) => Rc::new(state.averaged()),
                None => state.clone(),
            },
            state,
            step,
            training,
            rate,
            steps: Phases::default(),
            evaluations: Phases::default(),
            predictions: Phases::default(),
            has_weights: false,
            launched: 0,
            epoch: 0,
            batch_in_epoch: 0,
            totals: Totals::default(),
            batches_before: 0,
            checkpoints: None,
            lock: None,
            unsaved: None,
            resumed: None,
            data: None,
            class_names: Vec::new(),
            arithmetic: None,
            stop: Stop::new(),
            interrupted: false,
            reported: false,
            best: None,
            waited: std::time::Duration::ZERO,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.step.model
    }

    /// What a step is.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// What decides on the run, with what the model's file says.
    pub fn training(&self) -> &Training {
        &self.training
    }

    /// Writes checkpoints into a folder: at the end of every epoch, every so many steps, and where a run is stopped.
    /// Before its first step a run refuses a folder that cannot be written, that another process writes to, or
    /// that has a checkpoint which the run does not go on from, unless it may be overwritten.
    pub fn checkpoint_to(&mut self, folder: CheckpointFolder) {
        self.checkpoints = Some(folder);
        self.lock = None;
    }

    /// Why the last checkpoint could not be written; training went on.
    pub fn unsaved(&self) -> Option<&CheckpointError> {
        self.unsaved.as_ref()
    }

    /// The same, and forgets it.
    pub fn take_unsaved(&mut self) -> Option<CheckpointError> {
        self.unsaved.take()
    }

    /// By which another thread or a signal handler stops the run: after the steps in flight, with a checkpoint if
    /// there is a folder for them. A request that no run obeyed stops the next one before its first step.
    pub fn stop_handle(&self) -> Stop {
        self.stop.clone()
    }

    /// Obeys requests to stop that somebody else holds.
    pub fn stop_by(&mut self, stop: Stop) {
        self.stop = stop;
    }

    /// Whether a request to stop ended the last run before its end.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// How long the last run waited for batches that were not ready: what it would gain by faster loading.
    pub fn waited(&self) -> std::time::Duration {
        self.waited
    }

    /// Steps done since the beginning, those before a checkpoint included.
    pub fn steps_done(&self) -> u64 {
        self.launched
    }

    /// Epochs finished since the beginning.
    pub fn epochs_done(&self) -> u64 {
        self.epoch
    }

    /// The names of the classes that the model tells apart, where data or weights have said them.
    pub fn class_names(&self) -> &[String] {
        &self.class_names
    }

    /// What to call each class: as was kept with the weights, else as the data says, else its number; and a line for each
    /// that both name differently.
    pub fn names_of_classes<'a>(
        &self,
        of_data: impl Fn(usize) -> Option<&'a str>,
    ) -> (Vec<String>, Vec<String>) {
        let mut differing = Vec::new();
        let name = |class: usize| {
            let kept = self.class_names.get(class).filter(|name| !name.is_empty());
            let here = of_data(class);
            if let (Some(kept), Some(here)) = (kept, here)
                && kept != here
            {
                differing.push(format!(
                    "class {class} is {kept:?} for the weights, {here:?} for the data"
                ));
            }
            let name = kept.map(String::as_str).or(here).map(str::to_owned);
            name.unwrap_or_else(|| class.to_string())
        };
        let names = (0..self.model().classes()).map(name).collect();
        (names, differing)
    }

    /// Gives the classes names, which are kept with weights and checkpoints.
    pub fn name_classes(&mut self, names: Vec<String>) {
        self.class_names = names;
    }

    /// How images are normalised, beyond the division by 255.
    pub fn normalise(&self) -> Option<&Normalise> {
        self.training.normalise.as_ref()
    }

    /// Normalises images as weights from a file want it, unless model or settings have said how.
    pub fn normalise_by(&mut self, normalise: Option<Normalise>) {
        let own = self.training.normalise.take();
        self.training.normalise = own.or(normalise);
    }

    /// Says what computes, such as the instruction set: checkpoints keep it, and resuming refuses another one,
    /// because the last bits would differ. Where it is not said, it is not compared.
    pub fn computed_by(&mut self, arithmetic: impl Into<String>) {
        self.arithmetic = Some(arithmetic.into());
    }

    /// Weights as PyTorch initialises them, from the session's seed.
    pub fn initialise(&mut self, exec: &mut dyn Executor) -> Result<(), TrainError> {
        self.has_weights = true;
        self.step.initialise(exec, &self.state)?;
        self.begin_averages(exec)
    }

    /// Averages begin as the weights, so that they can be looked at before the first step.
    fn begin_averages(&self, exec: &mut dyn Executor) -> Result<(), TrainError> {
        if self.step.ema.is_none() {
            return Ok(());
        }
        let pairs = self.state.params.iter().zip(&self.shown.params);
        for (param, shown) in pairs.filter_map(|(a, b)| Some((a.first()?, b.first()?))) {
            let values = read(exec, param)?;
            write(exec, shown, &values)?;
        }
        Ok(())
    }

    /// First weights, if nobody has set any.
    pub(super) fn prepare(&mut self, exec: &mut dyn Executor) -> Result<(), TrainError> {
        match self.has_weights {
            true => Ok(()),
            false => self.initialise(exec),
        }
    }

    /// Takes weights from outside.
    pub fn set_weights(
        &mut self,
        exec: &mut dyn Executor,
        weights: &Weights,
    ) -> Result<(), TrainError> {
        crate::weights::check(weights, &self.step.model)?;
        self.has_weights = true;
        self.batches_before = 0;
        for (param, versions) in self.step.model.params().iter().zip(&self.state.params) {
            let Some(tensor) = weights.get(&param.key) else {
                continue;
            };
            for array in versions {
                write(exec, array, tensor)?;
            }
            if let (true, Data::I64(v)) = (versions.is_empty(), &tensor.data) {
                self.batches_before = v.first().map_or(0, |&n| n.max(0) as u64);
            }
        }
        self.begin_averages(exec)
    }

    /// Takes what of weights from outside fits the model, names without wrappers' prefixes; the rest is as
    /// [`Session::initialise`] sets it. Returns what was left out or changed, a line each.
    pub fn set_weights_partly(
        &mut self,
        exec: &mut dyn Executor,
        weights: Weights,
    ) -> Result<Vec<String>, TrainError> {
        let fitted = crate::weights::fit_partly(weights, &self.step.model);
        self.prepare(exec)?;
        let mut all = self.weights(exec)?;
        all.extend(fitted.weights);
        self.set_weights(exec, &all)?;
        Ok(fitted.notes)
    }

    /// The weights after all steps launched so far: their averages, where the step has them.
    pub fn weights(&self, exec: &mut dyn Executor) -> Result<Weights, TrainError> {
        self.weights_of(exec, &self.shown)
    }

    /// The weights of a state.
    pub(super) fn weights_of(
        &self,
        exec: &mut dyn Executor,
        state: &State,
    ) -> Result<Weights, TrainError> {
        let mut weights = Weights::default();
        for (place, param) in self.step.model.params().iter().enumerate() {
            let tensor = match state.version(place, self.turn(), 0) {
                Some(array) => read(exec, array)?,
                None => Tensor {
                    shape: Vec::new(),
                    data: Data::I64(vec![(self.batches_before + self.launched) as i64]),
                },
            };
            weights.insert(param.key.clone(), tensor);
        }
        Ok(weights)
    }

    /// Which of the versions of weights is the newest.
    pub(super) fn turn(&self) -> usize {
        (self.launched % self.step.versions() as u64) as usize
    }

    /// The graph of a step with the usual batch, once one has been launched.
    pub fn graph(&self) -> Option<&Arc<Graph>> {
        self.steps.graph(self.step.batch)
    }

    /// The graph of a step with the usual batch, to look at; steps run one like it.
    pub fn lowered(&self) -> Result<Arc<Graph>, TrainError> {
        let lowered = self
            .step
            .lower_as(Pass::Train, self.step.batch, &self.state, 0)?;
        Ok(lowered.graph)
    }

    /// Bytes of temporaries that the graphs launched so far were planned to take.
    pub fn planned_bytes(&self) -> u64 {
        let all = [&self.steps, &self.evaluations, &self.predictions];
        all.into_iter().map(Phases::planned_bytes).sum()
    }
}

pub(super) fn read(
    exec: &mut dyn Executor,
    array: &dahl_core::Handle,
) -> Result<Tensor, TrainError> {
    let mut data = Data::F32(Vec::new());
    exec.read(array, &mut |v| {
        data = match v {
            dahl_core::Values::F32(v) => Data::F32(v.to_vec()),
            dahl_core::Values::F64(v) => Data::F64(v.to_vec()),
        };
    })?;
    Ok(Tensor {
        shape: array.shape.extents().to_vec(),
        data,
    })
}

pub(super) fn write(
    exec: &mut dyn Executor,
    array: &dahl_core::Handle,
    tensor: &Tensor,
) -> Result<(), TrainError> {
    exec.write(array, &mut |mut v| match &tensor.data {
        Data::F32(x) => x
            .iter()
            .enumerate()
            .for_each(|(i, &x)| v.set(i, f64::from(x))),
        Data::F64(x) => x.iter().enumerate().for_each(|(i, &x)| v.set(i, x)),
        Data::I64(x) => x.iter().enumerate().for_each(|(i, &x)| v.set(i, x as f64)),
    })?;
    Ok(())
}
