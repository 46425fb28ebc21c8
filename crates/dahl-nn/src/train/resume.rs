//! Checkpoints of a session: what is written, and how a run goes on from it.

use std::ops::ControlFlow;

use dahl_core::Executor;

use super::events::Event;
use super::run::Watch;
use super::session::{read, write};
use super::{Session, Totals, TrainError};
use crate::checkpoint::Checkpoint;
use crate::weights::Weights;

impl Session {
    /// Writes a checkpoint, if a folder for them is known.
    pub(super) fn save_checkpoint(
        &mut self,
        exec: &mut dyn Executor,
        watch: &mut Watch<'_>,
    ) -> Result<ControlFlow<()>, TrainError> {
        let Some((folder, _)) = self.checkpoints.clone() else {
            return Ok(ControlFlow::Continue(()));
        };
        self.settle(exec)?;
        self.checkpoint(exec)?.save(&folder)?;
        Ok(self.tell(exec, watch, Event::Checkpoint))
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
