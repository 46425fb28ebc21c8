//! A training session: a model being trained, from its first weights to its last.

use std::path::PathBuf;
use std::sync::Arc;

use dahl_core::{DType, Executor, Graph, Shown};

use crate::checkpoint::Checkpoint;
use crate::lower::state::State;
use crate::model::Model;
use crate::optim::check_lr;
use crate::step::{Pass, Step};
use crate::weights::{Data, Tensor, Weights};
use dahl_data::{Batches, Dataset, Prefetch, Prefetcher};

use super::phase::{Input, Phases};
use super::{Totals, TrainError, Training};

/// What a session tells while it runs.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A step has been launched.
    Step {
        /// The epoch, counted from 1.
        epoch: u64,
        /// Steps launched in this epoch.
        step: u64,
        /// Steps an epoch has.
        steps: u64,
        /// What has been collected of this epoch; a step or two behind.
        totals: Totals,
    },
    /// An epoch has ended.
    Epoch {
        /// The epoch, counted from 1.
        epoch: u64,
        /// As seen during training.
        train: Totals,
        /// On the validation set, after the epoch.
        validation: Option<Totals>,
    },
    /// A checkpoint has been written.
    Checkpoint,
}

/// A model being trained.
pub struct Session {
    step: Step,
    training: Training,
    rate: f64,
    state: Arc<State>,
    steps: Phases,
    evaluations: Phases,
    /// Steps launched since the beginning.
    launched: u64,
    epoch: u64,
    batch_in_epoch: u64,
    totals: Totals,
    /// Batches that batch normalisation has seen, before this session.
    batches_before: u64,
    /// Where checkpoints go, and after how many steps besides the end of an epoch.
    checkpoints: Option<(PathBuf, Option<u64>)>,
    /// Threads that prepare batches.
    pub loaders: usize,
}

impl Session {
    /// A session with weights of zero; [`Session::initialise`] gives it better ones.
    pub fn new(step: Step, training: Training) -> Result<Self, TrainError> {
        step.check()?;
        let rate = training.rate.unwrap_or(step.optimizer.default_rate());
        check_lr(rate)?;
        Ok(Session {
            state: step.state()?,
            step,
            training,
            rate,
            steps: Phases::default(),
            evaluations: Phases::default(),
            launched: 0,
            epoch: 0,
            batch_in_epoch: 0,
            totals: Totals::default(),
            batches_before: 0,
            checkpoints: None,
            loaders: 1,
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

    /// Writes checkpoints into a folder: at the end of every epoch, and every so many steps.
    pub fn checkpoint_to(&mut self, folder: PathBuf, every: Option<u64>) {
        self.checkpoints = Some((folder, every.filter(|&n| n > 0)));
    }

    /// Weights as PyTorch initialises them, from the session's seed.
    pub fn initialise(&mut self, exec: &mut dyn Executor) -> Result<(), TrainError> {
        Ok(self.step.initialise(exec, &self.state)?)
    }

    /// Takes weights from outside.
    pub fn set_weights(
        &mut self,
        exec: &mut dyn Executor,
        weights: &Weights,
    ) -> Result<(), TrainError> {
        crate::weights::check(weights, &self.step.model)?;
        for (param, array) in self.step.model.params().iter().zip(&self.state.params) {
            let tensor = weights.get(&param.key);
            match (array, tensor) {
                (Some(array), Some(tensor)) => write(exec, array, tensor)?,
                (
                    None,
                    Some(Tensor {
                        data: Data::I64(v), ..
                    }),
                ) => {
                    self.batches_before = v.first().map_or(0, |&n| n.max(0) as u64);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The weights after all steps launched so far.
    pub fn weights(&self, exec: &mut dyn Executor) -> Result<Weights, TrainError> {
        let mut weights = Weights::default();
        for (param, array) in self.step.model.params().iter().zip(&self.state.params) {
            let tensor = match array {
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

    /// The graph of a step with the usual batch, once one has been launched.
    pub fn graph(&self) -> Option<&Arc<Graph>> {
        self.steps.graph(self.step.batch)
    }

    /// The graph of a step with the usual batch, to look at; steps run one like it.
    pub fn lowered(&self) -> Result<Arc<Graph>, TrainError> {
        let lowered = self
            .step
            .lower_as(Pass::Train, self.step.batch, &self.state)?;
        Ok(lowered.graph)
    }

    /// Bytes of temporaries that the graphs launched so far were planned to take.
    pub fn planned_bytes(&self) -> u64 {
        self.steps.planned_bytes() + self.evaluations.planned_bytes()
    }

    /// Trains until the epochs or steps are done.
    pub fn run(
        &mut self,
        exec: &mut dyn Executor,
        train: Arc<dyn Dataset>,
        validation: Option<Arc<dyn Dataset>>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), TrainError> {
        match self.step.dtype {
            DType::F32 => self.run_as::<f32>(exec, train, validation, tell),
            DType::F64 => self.run_as::<f64>(exec, train, validation, tell),
        }
    }

    fn run_as<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        train: Arc<dyn Dataset>,
        validation: Option<Arc<dyn Dataset>>,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), TrainError> {
        let mut batches = Batches::<T>::new(train, self.step.batch)?;
        if self.training.shuffle {
            batches = batches.shuffled(self.step.seed);
        }
        let steps = batches.per_epoch() as u64;
        let total = self.training.epochs * steps;
        let total = self.training.steps.map_or(total, |s| s.min(total));
        let prefetch = Prefetch {
            epoch: self.epoch,
            batch: self.batch_in_epoch as usize,
            threads: self.loaders,
            ..Prefetch::default()
        };
        let mut source = Prefetcher::start(&batches, prefetch)?;
        while self.launched < total {
            let Some(batch) = source.next() else { break };
            let batch = batch?;
            self.launch(exec, batch.pixels(), batch.labels(), steps, total)?;
            drop(batch);
            self.batch_in_epoch += 1;
            let (epoch, step, totals) = (self.epoch + 1, self.batch_in_epoch, self.totals);
            tell(Event::Step {
                epoch,
                step,
                steps,
                totals,
            });
            if self.batch_in_epoch == steps || self.launched == total {
                self.end_epoch::<T>(
                    exec,
                    validation.as_ref(),
                    self.batch_in_epoch == steps,
                    tell,
                )?;
            } else if let Some((_, Some(every))) = self.checkpoints
                && self.launched.is_multiple_of(every)
            {
                self.save_checkpoint(exec, tell)?;
            }
        }
        Ok(exec.wait()?)
    }

    fn launch<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        inputs: &[T],
        labels: &[usize],
        steps: u64,
        total: u64,
    ) -> Result<(), TrainError> {
        let rate = self
            .training
            .schedule
            .lr(self.launched, steps, total, self.rate);
        let values = self.step.optimizer.values(rate, self.launched + 1);
        let input = Input {
            inputs,
            labels,
            values: &values,
            step: self.launched,
        };
        let before = self.totals.loss;
        let make = |batch| self.step.lower_as(Pass::Train, batch, &self.state);
        self.steps.launch(exec, &input, &mut self.totals, make)?;
        self.launched += 1;
        self.check_loss(before)
    }

    fn check_loss(&self, before: f64) -> Result<(), TrainError> {
        let loss = self.totals.loss - before;
        if loss.is_finite() {
            return Ok(());
        }
        Err(TrainError::NotANumber {
            loss,
            step: self.launched,
            epoch: self.epoch + 1,
        })
    }

    fn end_epoch<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        validation: Option<&Arc<dyn Dataset>>,
        complete: bool,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), TrainError> {
        let before = self.totals.loss;
        self.steps.drain(exec, &mut self.totals)?;
        self.check_loss(before)?;
        let train = self.totals;
        let validation = match validation {
            Some(data) => Some(self.evaluate_as::<T>(exec, data.clone())?),
            None => None,
        };
        let epoch = self.epoch + 1;
        if complete {
            self.epoch += 1;
            self.batch_in_epoch = 0;
            self.totals = Totals::default();
        }
        tell(Event::Epoch {
            epoch,
            train,
            validation,
        });
        self.save_checkpoint(exec, tell)
    }

    /// Loss and accuracy on a set, with the weights as they are.
    pub fn evaluate(
        &mut self,
        exec: &mut dyn Executor,
        data: Arc<dyn Dataset>,
    ) -> Result<Totals, TrainError> {
        match self.step.dtype {
            DType::F32 => self.evaluate_as::<f32>(exec, data),
            DType::F64 => self.evaluate_as::<f64>(exec, data),
        }
    }

    fn evaluate_as<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        data: Arc<dyn Dataset>,
    ) -> Result<Totals, TrainError> {
        let batches = Batches::<T>::new(data, self.step.batch)?;
        let prefetch = Prefetch {
            until: Some(1),
            threads: self.loaders,
            ..Prefetch::default()
        };
        let mut totals = Totals::default();
        let make = |batch| self.step.lower_as(Pass::Evaluate, batch, &self.state);
        for batch in Prefetcher::start(&batches, prefetch)? {
            let batch = batch?;
            let input = Input {
                inputs: batch.pixels(),
                labels: batch.labels(),
                values: &[],
                step: 0,
            };
            self.evaluations.launch(exec, &input, &mut totals, make)?;
        }
        self.evaluations.drain(exec, &mut totals)?;
        Ok(totals)
    }

    fn save_checkpoint(
        &mut self,
        exec: &mut dyn Executor,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), TrainError> {
        let Some((folder, _)) = self.checkpoints.clone() else {
            return Ok(());
        };
        let before = self.totals.loss;
        self.steps.drain(exec, &mut self.totals)?;
        self.check_loss(before)?;
        self.checkpoint(exec)?.save(&folder)?;
        tell(Event::Checkpoint);
        Ok(())
    }

    /// All that is needed to go on from here.
    fn checkpoint(&self, exec: &mut dyn Executor) -> Result<Checkpoint, TrainError> {
        let mut optimizer = Weights::default();
        let names = self.step.optimizer.state_slots();
        for (param, slots) in self.step.model.params().iter().zip(&self.state.slots) {
            for (name, array) in names.iter().zip(slots) {
                optimizer.insert(format!("{}.{name}", param.key), read(exec, array)?);
            }
        }
        Ok(Checkpoint {
            model_fingerprint: self.step.model.fingerprint(),
            model_toml: self.step.model.to_toml(),
            weights: self.weights(exec)?,
            optimizer,
            step: self.launched,
            epoch: self.epoch,
            batch_in_epoch: self.batch_in_epoch,
            seed: self.step.seed,
            totals: [
                ("loss".to_string(), self.totals.loss),
                ("correct".to_string(), self.totals.correct),
                ("samples".to_string(), self.totals.samples as f64),
            ]
            .into(),
            settings: self.settings_json(),
        })
    }

    /// What must be the same for a run to go on as if it had not stopped.
    fn settings_json(&self) -> serde_json::Value {
        let mut step = serde_json::json!(self.step);
        if let Some(fields) = step.as_object_mut() {
            // Models are compared by what they compute; kernels may be thousands.
            fields.remove("model");
            let kernels = format!("{:016x}", self.step.kernels.fingerprint());
            fields.insert("kernels".into(), kernels.into());
        }
        serde_json::json!({
            "step": step,
            "rate": self.rate,
            "schedule": self.training.schedule.to_string(),
            "shuffle": self.training.shuffle,
        })
    }

    /// Goes on from a checkpoint.
    pub fn resume(
        &mut self,
        exec: &mut dyn Executor,
        checkpoint: &Checkpoint,
    ) -> Result<(), TrainError> {
        checkpoint.check_model(&self.step.model)?;
        checkpoint.check_settings(&self.settings_json())?;
        self.set_weights(exec, &checkpoint.weights)?;
        let names = self.step.optimizer.state_slots();
        for (param, slots) in self.step.model.params().iter().zip(&self.state.slots) {
            for (name, array) in names.iter().zip(slots) {
                if let Some(tensor) = checkpoint.optimizer.get(&format!("{}.{name}", param.key)) {
                    write(exec, array, tensor)?;
                }
            }
        }
        self.launched = checkpoint.step;
        self.epoch = checkpoint.epoch;
        self.batch_in_epoch = checkpoint.batch_in_epoch;
        self.batches_before = self.batches_before.saturating_sub(self.launched);
        let at = |name: &str| checkpoint.totals.get(name).copied().unwrap_or(0.0);
        self.totals = Totals {
            loss: at("loss"),
            correct: at("correct"),
            samples: at("samples") as u64,
        };
        Ok(())
    }
}

fn read(exec: &mut dyn Executor, array: &dahl_core::Handle) -> Result<Tensor, TrainError> {
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

fn write(
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
