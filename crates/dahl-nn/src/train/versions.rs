//! Older versions of weights in checkpoints, where layers read them: a run that goes on reads what the unbroken one would.

use dahl_core::Executor;

use super::session::{read, write};
use super::{Session, TrainError};
use crate::step::Step;
use crate::weights::Weights;

/// The keys of older versions with the places of their parameters: for each that has versions, one for every age.
pub(crate) fn keys(step: &Step) -> Vec<(String, usize, usize)> {
    let is_delayed = |layer: usize| step.delays.get(layer).is_some_and(|&d| d > 0);
    let params = step.model.params().iter().enumerate();
    let delayed = params.filter(|(_, p)| p.role.is_trained() && is_delayed(p.layer));
    delayed
        .flat_map(|(place, p)| {
            (1..step.versions()).map(move |age| (format!("{}.older.{age}", p.key), place, age))
        })
        .collect()
}

impl Session {
    /// Adds the versions that are older than the newest weights to what a checkpoint keeps.
    pub(super) fn keep_older(
        &self,
        exec: &mut dyn Executor,
        kept: &mut Weights,
    ) -> Result<(), TrainError> {
        for (key, place, age) in keys(&self.step) {
            if let Some(array) = self.state.version(place, self.turn(), age) {
                kept.insert(key, read(exec, array)?);
            }
        }
        Ok(())
    }

    /// Takes them back, once it is known how many steps came before.
    pub(super) fn take_older(
        &self,
        exec: &mut dyn Executor,
        kept: &Weights,
    ) -> Result<(), TrainError> {
        for (key, place, age) in keys(&self.step) {
            let array = self.state.version(place, self.turn(), age);
            if let (Some(array), Some(tensor)) = (array, kept.get(&key)) {
                write(exec, array, tensor)?;
            }
        }
        Ok(())
    }
}
