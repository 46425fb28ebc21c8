//! Checkpoints of a session: what is written, and how a run goes on from it.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use dahl_core::{Element, Executor};
use dahl_data::Batches;
use serde_json::Value;

use super::events::Event;
use super::run::Watch;
use super::session::{read, write};
use super::{Best, Session, Totals, TrainError};
use crate::checkpoint::{ARITHMETIC, Checkpoint};
use crate::weights::Weights;

/// What a run goes on from.
pub(super) struct Resumed {
    /// Without its tensors.
    checkpoint: Checkpoint,
    folder: Option<PathBuf>,
}

impl Session {
    /// Writes a checkpoint, if a folder for them is known.
    pub(super) fn save_checkpoint(
        &mut self,
        exec: &mut dyn Executor,
        watch: &mut Watch<'_>,
    ) -> Result<ControlFlow<()>, TrainError> {
        let Some(place) = &self.checkpoints else {
            return Ok(ControlFlow::Continue(()));
        };
        let folder = place.folder.clone();
        self.settle(exec)?;
        let checkpoint = self.checkpoint(exec)?;
        let saved = match exec.is_first() {
            true => checkpoint.save(&folder),
            false => Ok(()),
        };
        let event = match saved {
            Ok(()) => Event::Checkpoint,
            Err(_) => Event::CheckpointFailed,
        };
        self.unsaved = saved.err();
        Ok(self.tell(exec, watch, event))
    }

    /// Copies the checkpoint that was just written to the folder of the best one, if that is asked for.
    pub(super) fn keep_best(&mut self) -> Result<(), TrainError> {
        let Some(place) = self.checkpoints.as_ref().filter(|c| c.best) else {
            return Ok(());
        };
        // Only who writes checkpoints has the lock.
        if self.lock.is_some() && self.unsaved.is_none() {
            self.unsaved = place.copy_best().err();
        }
        Ok(())
    }

    /// Before the first step: whether the data is what the checkpoint has seen, and whether checkpoints can be
    /// written.
    pub(super) fn open_checkpoints<T: Element>(
        &mut self,
        exec: &dyn Executor,
        batches: &Batches<T>,
    ) -> Result<(), TrainError> {
        let names = batches.source().class_names();
        if !names.is_empty() {
            self.class_names = names;
        }
        if self.checkpoints.is_none() && self.resumed.is_none() {
            return Ok(());
        }
        let data = batches.identity();
        if let Some(resumed) = &self.resumed {
            resumed.checkpoint.check_data(&data)?;
        }
        self.data = Some(data);
        if let (Some(place), None, true) = (&self.checkpoints, &self.lock, exec.is_first()) {
            let from = self.resumed.as_ref().and_then(|r| r.folder.as_deref());
            self.lock = Some(place.open(from)?);
        }
        Ok(())
    }

    /// All that is needed to go on from here.
    fn checkpoint(&self, exec: &mut dyn Executor) -> Result<Checkpoint, TrainError> {
        let mut optimizer = Weights::default();
        let names = self.step.slots();
        for (param, slots) in self.step.model.params().iter().zip(&self.state.slots) {
            for (name, array) in names.iter().zip(slots) {
                optimizer.insert(format!("{}.{name}", param.key), read(exec, array)?);
            }
        }
        self.keep_older(exec, &mut optimizer)?;
        Ok(Checkpoint {
            model_fingerprint: self.step.model.fingerprint(),
            model_toml: self.step.model.to_toml(),
            weights: self.weights_of(exec, &self.state)?,
            optimizer,
            step: self.launched,
            epoch: self.epoch,
            batch_in_epoch: self.batch_in_epoch,
            seed: self.step.seed,
            totals: [
                ("loss", Some(self.totals.loss)),
                ("correct", self.totals.correct),
                ("samples", Some(self.totals.samples as f64)),
            ]
            .into_iter()
            .chain([
                ("best_loss", self.best.map(|b| b.loss)),
                ("best_epoch", self.best.map(|b| b.epoch as f64)),
            ])
            .filter_map(|(name, total)| Some((name.to_string(), total?)))
            .collect(),
            settings: self.settings_json(),
            data: self.data.clone(),
            class_names: self.class_names.clone(),
            normalise: self.training.normalise.clone(),
        })
    }

    /// What must be the same for a run to go on as if it had not stopped.
    fn settings_json(&self) -> serde_json::Value {
        let mut all = serde_json::json!(self.step);
        let (training, step) = (&self.training, &self.step);
        if let Some(fields) = all.as_object_mut() {
            let mut add = |name: &str, value: Value| fields.insert(name.into(), value);
            // Models are compared by what they compute; kernels may be thousands.
            add("model", Value::Null);
            add("kernels", step.kernels.to_string().into());
            add("lr", self.rate.into());
            add("schedule", training.schedule.to_string().into());
            add("shuffle", training.shuffle.into());
            if training.schedule.needs_total() {
                add("epochs", training.epochs.into());
                add("steps", training.steps.into());
            }
            if let Some(arithmetic) = &self.arithmetic {
                add(ARITHMETIC, arithmetic.clone().into());
            }
        }
        all
    }

    /// What computers that train together must have been told alike.
    pub(super) fn facts<T: Element>(&self, batches: &Batches<T>) -> Vec<(&'static str, String)> {
        let model = &self.step.model;
        let at = (self.launched, self.epoch, self.batch_in_epoch);
        let graph = match self.lowered() {
            Ok(graph) => format!("{} tasks ({:016x})", graph.len(), graph.fingerprint()),
            Err(error) => error.to_string(),
        };
        vec![
            ("the version of DAHL", env!("CARGO_PKG_VERSION").to_string()),
            (
                "the model",
                format!("{} ({:016x})", model.name, model.fingerprint()),
            ),
            ("the settings", self.settings_json().to_string()),
            // What other builds may make of the same settings.
            ("the graph of a step", graph),
            (
                "the length of the run",
                format!("{:?}", (self.training.epochs, self.training.steps)),
            ),
            ("where the run begins", format!("{at:?}")),
            ("the data", batches.identity().to_string()),
        ]
    }

    /// Goes on from the checkpoint in a folder. Where checkpoints are written into the same folder, they take its
    /// place.
    pub fn resume_from(
        &mut self,
        exec: &mut dyn Executor,
        folder: &Path,
    ) -> Result<(), TrainError> {
        self.resume(exec, &Checkpoint::load(folder)?)?;
        if let Some(resumed) = &mut self.resumed {
            resumed.folder = Some(folder.to_owned());
        }
        Ok(())
    }

    /// Goes on from a checkpoint. Another model or other settings are refused now, other data when a run begins.
    pub fn resume(
        &mut self,
        exec: &mut dyn Executor,
        checkpoint: &Checkpoint,
    ) -> Result<(), TrainError> {
        checkpoint.check_model(&self.step.model)?;
        checkpoint.check_settings(&self.settings_json())?;
        checkpoint.check_optimizer(&self.step)?;
        self.set_weights(exec, &checkpoint.weights)?;
        let names = self.step.slots();
        for (param, slots) in self.step.model.params().iter().zip(&self.state.slots) {
            for (name, array) in names.iter().zip(slots) {
                if let Some(tensor) = checkpoint.optimizer.get(&format!("{}.{name}", param.key)) {
                    write(exec, array, tensor)?;
                }
            }
        }
        self.launched = checkpoint.step;
        self.take_older(exec, &checkpoint.optimizer)?;
        self.epoch = checkpoint.epoch;
        self.batch_in_epoch = checkpoint.batch_in_epoch;
        self.batches_before = self.batches_before.saturating_sub(self.launched);
        let at = |name: &str| checkpoint.totals.get(name).copied();
        self.totals = Totals {
            loss: at("loss").unwrap_or(0.0),
            correct: at("correct"),
            samples: at("samples").unwrap_or(0.0) as u64,
        };
        let best = at("best_loss").zip(at("best_epoch"));
        self.best = best.map(|(loss, epoch)| Best {
            epoch: epoch as u64,
            loss,
        });
        self.class_names.clone_from(&checkpoint.class_names);
        self.reported = false;
        self.resumed = Some(Resumed {
            checkpoint: Checkpoint {
                weights: Weights::new(),
                optimizer: Weights::new(),
                ..checkpoint.clone()
            },
            folder: None,
        });
        Ok(())
    }
}
