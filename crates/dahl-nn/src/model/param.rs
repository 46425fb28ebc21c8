//! Parameters and buffers: what a model's weights are called, how large they are and how they start.

use dahl_core::random::Random;

use super::extent::elements;
use super::{Entry, Extent};

/// A parameter or buffer of a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its key in weight files: `0.weight`, or `name.weight` where the layer has a name.
    pub key: String,
    /// The last part of its key.
    pub name: &'static str,
    /// The layer it belongs to.
    pub layer: usize,
    /// Who changes it.
    pub role: Role,
    /// Its shape; empty for a single number.
    pub shape: Vec<usize>,
    /// How its elements start.
    pub init: Fill,
}

impl Param {
    /// How many elements.
    #[allow(clippy::len_without_is_empty)] // never empty: a model with an empty value is refused
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// Who changes a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// The optimiser.
    Trained,
    /// The layer's own tasks, such as running statistics.
    Buffer,
    /// Nobody here: an integer that files hold, such as how many batches a batch norm has seen.
    Counter,
}

impl Role {
    /// Whether the optimiser changes it.
    pub fn is_trained(self) -> bool {
        self == Role::Trained
    }
}

/// How the elements of a parameter start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Uniform in ±`bound`.
    Uniform {
        /// The largest magnitude.
        bound: f64,
    },
    /// All the same.
    Constant(f64),
}

impl Fill {
    /// Uniform in ±1/√inputs, where `inputs` numbers go into each output: what PyTorch's convolutions and
    /// linear layers start from (`kaiming_uniform_` with a = √5 comes to this).
    pub(crate) fn fan_in(inputs: usize) -> Self {
        Fill::Uniform {
            bound: 1.0 / (inputs as f64).sqrt(),
        }
    }

    /// Element `i` of a parameter whose random numbers are `random`.
    pub(crate) fn value(&self, random: &Random, i: usize) -> f64 {
        match *self {
            Fill::Uniform { bound } => (2.0 * random.uniform(i as u64) - 1.0) * bound,
            Fill::Constant(value) => value,
        }
    }
}

/// The parameters of layer `index`, which reads a value of extent `input`.
pub(super) fn of_layer(index: usize, entry: &Entry, input: Extent) -> Result<Vec<Param>, String> {
    let owner = entry.name.clone().unwrap_or_else(|| index.to_string());
    let specs = entry.layer.params(input).into_iter();
    specs
        .map(|spec| {
            elements(&spec.shape)?;
            Ok(Param {
                key: format!("{owner}.{}", spec.name),
                name: spec.name,
                layer: index,
                role: spec.role,
                shape: spec.shape,
                init: spec.init,
            })
        })
        .collect()
}
