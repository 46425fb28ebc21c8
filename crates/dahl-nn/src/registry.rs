//! What a program adds to the layers, losses and optimisers that files can name.
//!
//! A value and no global: who reads a file says what may be in it.

use crate::keys::{Given, Named, Reader};
use crate::layers::{self, LAYERS, Layer};
use crate::losses::{self, Criterion, LOSSES, Loss, LossError};
use crate::optim::{self, OPTIMIZERS, Optimizer, OptimizerError, UpdateRule};

/// The layers, losses and optimisers that can be read by name: those of this crate, and what was added.
#[derive(Clone, Debug)]
pub struct Registry {
    pub(crate) layers: Vec<Reader<dyn Layer>>,
    losses: Vec<Reader<dyn Criterion>>,
    optimizers: Vec<Reader<dyn UpdateRule>>,
}

impl Default for Registry {
    fn default() -> Self {
        Registry {
            layers: LAYERS.to_vec(),
            losses: LOSSES.to_vec(),
            optimizers: OPTIMIZERS.to_vec(),
        }
    }
}

impl Registry {
    /// Adds a layer; it takes the place of one of the same name.
    pub fn with_layer<T: Layer + Named>(mut self) -> Self {
        put(&mut self.layers, layers::reader::<T>());
        self
    }

    /// Adds a loss; it takes the place of one of the same name.
    pub fn with_loss<T: Criterion + Named>(mut self) -> Self {
        put(&mut self.losses, losses::reader::<T>());
        self
    }

    /// Adds an optimiser; it takes the place of one of the same name.
    pub fn with_optimizer<T: UpdateRule + Named>(mut self) -> Self {
        put(&mut self.optimizers, optim::reader::<T>());
        self
    }

    /// A loss by its name.
    pub fn loss(&self, name: &str, given: &Given) -> Result<Loss, LossError> {
        Loss::read(&self.losses, name, given)
    }

    /// An optimiser by its name.
    pub fn optimizer(&self, name: &str, given: &Given) -> Result<Optimizer, OptimizerError> {
        Optimizer::read(&self.optimizers, name, given)
    }
}

fn put<T: ?Sized>(table: &mut Vec<Reader<T>>, reader: Reader<T>) {
    table.retain(|entry| entry.name != reader.name);
    table.push(reader);
}
