//! Optimisers: which rule turns gradients into new weights, and with which numbers.
//!
//! An optimiser is one file here and one line in [`OPTIMIZERS`]: a struct with its constants as keys, and
//! [`UpdateRule`] for it. A program gives one of its own with `Optimizer::from(MyRule { .. })`. The
//! arithmetic is a codelet's; the learning rate comes from a [`crate::schedule::Schedule`]. Names, defaults
//! and ranges are those of `torch.optim`.

mod adam;
mod adamw;
mod sgd;

use std::fmt;
use std::sync::Arc;

use dahl_core::{Codelet, Param};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use adam::Adam;
pub use adamw::AdamW;
pub use sgd::Sgd;

pub use crate::keys::Given;
use crate::keys::{self, KeyError, Keys, Named, Reader};

/// All optimisers that files and the command line know.
pub const OPTIMIZERS: &[Reader<dyn UpdateRule>] =
    &[reader::<Sgd>(), reader::<Adam>(), reader::<AdamW>()];

/// How an optimiser is read: what a line of [`OPTIMIZERS`] has.
pub(crate) const fn reader<T: UpdateRule + Named>() -> Reader<dyn UpdateRule> {
    Reader {
        name: T::NAME,
        read: |given| Ok(Arc::new(keys::read::<T>(given)?)),
    }
}

/// An update rule with its constants.
pub trait UpdateRule: Keys {
    /// Whether all constants are in their ranges.
    fn validate(&self) -> Result<(), OptimizerError> {
        Ok(())
    }

    /// A learning rate with which common networks train.
    fn default_rate(&self) -> f64;

    /// Names of the arrays it keeps for each parameter, all starting as zeros of the parameter's shape.
    fn slots(&self) -> Vec<&'static str>;

    /// The numbers that the codelet reads in a step, always as many. Steps are counted from 1.
    fn values(&self, rate: f64, step: u64) -> Vec<f64>;

    /// Instead of [`UpdateRule::values`], those for parameters of one axis (biases, and scales and shifts of norms),
    /// where they are updated otherwise; as many.
    fn values_of_rows(&self, rate: f64, step: u64) -> Option<Vec<f64>> {
        let _ = (rate, step);
        None
    }

    /// The codelet with its parameters. Its operands are the step's values and the gradient, both read, then
    /// the parameter and the slots in their order, all changed; any part of a parameter may be given.
    fn codelet(&self) -> (Arc<Codelet>, Vec<Param>);
}

/// An optimiser: an [`UpdateRule`] as a value, written as its name with its keys.
#[derive(Clone)]
pub struct Optimizer(Arc<dyn UpdateRule>);

impl<T: UpdateRule + 'static> From<T> for Optimizer {
    fn from(rule: T) -> Self {
        Optimizer(Arc::new(rule))
    }
}

/// Why there is no such optimiser.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptimizerError {
    /// No optimiser of that name.
    #[error("{}", dahl_core::text::unknown("optimizer", name, known))]
    Unknown {
        /// The name.
        name: String,
        /// Those there are.
        known: Vec<&'static str>,
    },
    /// The optimiser has no such number.
    #[error("{optimizer} has no {key}; leave it out")]
    Foreign {
        /// Which optimiser.
        optimizer: String,
        /// What was given.
        key: String,
    },
    /// A key that is missing or has no fitting value.
    #[error("{optimizer}: {error}")]
    Key {
        /// Which optimiser.
        optimizer: String,
        /// What is wrong.
        error: KeyError,
    },
    /// A number out of its range.
    #[error("{key} is {value}; it must be {range}")]
    Range {
        /// Which number.
        key: &'static str,
        /// What was given.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// The rule refuses its constants for another reason.
    #[error("{0}")]
    Refused(String),
}

impl Optimizer {
    /// Values of a step that there is always room for, whatever the optimiser reads: so graphs of different
    /// ones have the same arrays to talk to the host.
    pub(crate) const VALUES: usize = 6;

    /// An optimiser by its name, with the numbers given and PyTorch's defaults for the others.
    pub fn parse(name: &str, given: &Given) -> Result<Optimizer, OptimizerError> {
        Self::read(OPTIMIZERS, name, given)
    }

    pub(crate) fn read(
        table: &[Reader<dyn UpdateRule>],
        name: &str,
        given: &Given,
    ) -> Result<Optimizer, OptimizerError> {
        let optimizer = || name.to_owned();
        let reader = table.iter().find(|entry| entry.name == name);
        let reader = reader.ok_or_else(|| OptimizerError::Unknown {
            name: optimizer(),
            known: keys::names(table),
        })?;
        let rule = (reader.read)(given.clone()).map_err(|error| match error {
            KeyError::Unknown { key, .. } => OptimizerError::Foreign {
                optimizer: optimizer(),
                key,
            },
            error => OptimizerError::Key {
                optimizer: optimizer(),
                error,
            },
        })?;
        let optimizer = Optimizer(rule);
        optimizer.validate()?;
        Ok(optimizer)
    }

    /// Whether all numbers are in their ranges.
    pub fn validate(&self) -> Result<(), OptimizerError> {
        self.0.validate()
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// The learning rate where none is given.
    pub fn default_rate(&self) -> f64 {
        self.0.default_rate()
    }

    /// Names of the arrays it keeps for each parameter, all starting as zeros of the parameter's shape.
    pub(crate) fn state_slots(&self) -> Vec<&'static str> {
        self.0.slots()
    }

    /// How many values its codelet reads.
    pub(crate) fn values_used(&self) -> usize {
        self.0.values(0.0, 1).len()
    }

    /// Whether parameters of one axis have values of their own.
    pub(crate) fn has_rows(&self) -> bool {
        self.0.values_of_rows(0.0, 1).is_some()
    }

    /// The values for a learning rate and a step, the first being 1; behind them those of parameters of one axis, if
    /// they have their own.
    pub fn values(&self, rate: f64, step: u64) -> Vec<f64> {
        let mut values = self.0.values(rate, step);
        values.extend(self.0.values_of_rows(rate, step).into_iter().flatten());
        values
    }

    pub(crate) fn codelet(&self) -> (Arc<Codelet>, Vec<Param>) {
        self.0.codelet()
    }
}

impl fmt::Debug for Optimizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Optimizer {
    fn eq(&self, other: &Self) -> bool {
        keys::same(&*self.0, &*other.0)
    }
}

impl Serialize for Optimizer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        keys::serialize(&*self.0, serializer)
    }
}

/// Knows those of [`OPTIMIZERS`]; a program's own are read by [`crate::Registry::optimizer`].
impl<'de> Deserialize<'de> for Optimizer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, given) = keys::deserialize(deserializer)?;
        Optimizer::parse(&name, &given).map_err(serde::de::Error::custom)
    }
}

/// Whether a learning rate can be used.
pub(crate) fn check_lr(lr: f64) -> Result<(), OptimizerError> {
    not_negative("the learning rate", lr)
}

/// For [`UpdateRule::validate`]: a finite number, 0 or more.
pub(crate) fn not_negative(key: &'static str, value: f64) -> Result<(), OptimizerError> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(OptimizerError::Range {
            key,
            value,
            range: "a finite number, 0 or more",
        })
    }
}

/// For [`UpdateRule::validate`]: a weight decay, and whether biases and norms are left out of it.
pub(crate) fn decay(weight_decay: f64, no_bias_decay: bool) -> Result<(), OptimizerError> {
    not_negative("weight decay", weight_decay)?;
    if no_bias_decay && weight_decay == 0.0 {
        let message = "no_bias_decay without a weight decay changes nothing; give a weight decay above 0 or leave it out";
        return Err(OptimizerError::Refused(message.into()));
    }
    Ok(())
}

/// For [`UpdateRule::validate`]: what is kept from step to step, at least 0 and below 1, or it grows for ever.
pub(crate) fn below_one(key: &'static str, value: f64) -> Result<(), OptimizerError> {
    if (0.0..1.0).contains(&value) {
        return Ok(());
    }
    let range = "at least 0 and below 1";
    Err(OptimizerError::Range { key, value, range })
}

#[cfg(test)]
mod tests;
