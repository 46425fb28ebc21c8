//! Losses: how far a model's output is from what was wanted, as tasks.
//!
//! A loss is one file here and one line in [`LOSSES`]: a struct with its keys, and [`Criterion`] for it. A
//! program gives one of its own with `Loss::from(MyCriterion { .. })`. Names, keys and means are those of
//! PyTorch's module of the same name; the mean over the batch is what is trained.

mod bce_with_logits;
mod cross_entropy;
mod l1;
mod mse;
mod soft_cross_entropy;
mod values;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use bce_with_logits::BceWithLogits;
pub use cross_entropy::CrossEntropy;
pub use l1::L1;
pub use mse::Mse;
pub use soft_cross_entropy::SoftCrossEntropy;

use crate::keys::{self, Given, KeyError, Keys, Named, Reader};
use crate::lower::LossTape;
use crate::model::Extent;

/// All losses that files and the command line know.
pub const LOSSES: &[Reader<dyn Criterion>] = &[
    reader::<CrossEntropy>(),
    reader::<Mse>(),
    reader::<L1>(),
    reader::<BceWithLogits>(),
    reader::<SoftCrossEntropy>(),
];

/// How a loss is read: what a line of [`LOSSES`] has.
pub const fn reader<T: Criterion + Named>() -> Reader<dyn Criterion> {
    Reader {
        name: T::NAME,
        read: |given| Ok(Arc::new(keys::read::<T>(given)?)),
    }
}

/// What a loss compares a model's output with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Targets {
    /// The number of a class for each sample; the model gives a score per class.
    Classes,
    /// As many numbers for each sample as the model gives.
    Values,
    /// The share of each class for each sample; a class number is a share of 1.
    Shares,
}

impl Targets {
    /// Whether predictions are right or wrong.
    pub(crate) fn has_classes(self) -> bool {
        self != Targets::Values
    }
}

/// How a loss is computed.
pub trait Criterion: Keys {
    /// What the output is compared with.
    fn targets(&self) -> Targets;

    /// Whether it fits a model that gives `output` for a sample; the error says what to change.
    fn check(&self, output: Extent) -> Result<(), String> {
        let _ = output;
        Ok(())
    }

    /// Rows of numbers that its tasks read, such as a weight per class.
    fn constants(&self) -> Vec<Vec<f64>> {
        Vec::new()
    }

    /// Submits its tasks: for every sample its loss, such that their mean over the batch is what is trained;
    /// where targets are classes, how many predictions are right; in training, the gradient of that mean.
    fn lower(&self, tape: &mut LossTape<'_>);
}

/// A loss: a [`Criterion`] as a value, written as its name with its keys.
#[derive(Clone)]
pub struct Loss(Arc<dyn Criterion>);

impl<T: Criterion + 'static> From<T> for Loss {
    fn from(criterion: T) -> Self {
        Loss(Arc::new(criterion))
    }
}

impl Default for Loss {
    fn default() -> Self {
        CrossEntropy::default().into()
    }
}

/// Why there is no such loss.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LossError {
    /// No loss of that name.
    #[error("{}", dahl_core::text::unknown("loss", name, known))]
    Unknown {
        /// The name.
        name: String,
        /// Those there are.
        known: Vec<&'static str>,
    },
    /// A key that is unknown, missing or has no fitting value.
    #[error("{loss}: {error}")]
    Key {
        /// Which loss.
        loss: String,
        /// What is wrong.
        error: KeyError,
    },
    /// A text that names no keys after its colon.
    #[error("{loss}: {problem}")]
    Text {
        /// Which loss.
        loss: String,
        /// What is wrong.
        problem: String,
    },
    /// The loss does not fit the model.
    #[error("{loss}: {message}")]
    Unfit {
        /// Which loss.
        loss: &'static str,
        /// What, and what to do about it.
        message: String,
    },
}

impl Loss {
    /// A loss by its name, with the keys given and PyTorch's defaults for the others.
    pub fn parse(name: &str, given: &Given) -> Result<Loss, LossError> {
        Self::read(LOSSES, name, given)
    }

    pub(crate) fn read(
        table: &[Reader<dyn Criterion>],
        name: &str,
        given: &Given,
    ) -> Result<Loss, LossError> {
        let reader = table.iter().find(|entry| entry.name == name);
        let reader = reader.ok_or_else(|| LossError::Unknown {
            name: name.to_owned(),
            known: keys::names(table),
        })?;
        let criterion = (reader.read)(given.clone()).map_err(|error| LossError::Key {
            loss: name.to_owned(),
            error,
        })?;
        Ok(Loss(criterion))
    }

    /// Its name in files.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    /// What the model's output is compared with.
    pub fn targets(&self) -> Targets {
        self.0.targets()
    }

    /// Whether it fits a model that gives `output` for a sample.
    pub fn check(&self, output: Extent) -> Result<(), LossError> {
        self.0.check(output).map_err(|message| LossError::Unfit {
            loss: self.name(),
            message,
        })
    }

    pub(crate) fn constants(&self) -> Vec<Vec<f64>> {
        self.0.constants()
    }

    pub(crate) fn lower(&self, tape: &mut LossTape<'_>) {
        self.0.lower(tape);
    }
}

/// As people write it: `mse`, or with keys `cross_entropy:label_smoothing=0.1,weight=[1,2.5]`.
impl FromStr for Loss {
    type Err = LossError;

    fn from_str(text: &str) -> Result<Loss, LossError> {
        let (name, keys) = text.split_once(':').unwrap_or((text, ""));
        let given = keys.parse::<Given>().map_err(|problem| LossError::Text {
            loss: name.to_owned(),
            problem,
        })?;
        Loss::parse(name, &given)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        keys::display(&*self.0, f)
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Loss {
    fn eq(&self, other: &Self) -> bool {
        keys::same(&*self.0, &*other.0)
    }
}

impl Serialize for Loss {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        keys::serialize(&*self.0, serializer)
    }
}

/// Knows those of [`LOSSES`]; a program's own are read by [`crate::Registry::loss`].
impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (name, given) = keys::deserialize(deserializer)?;
        Loss::parse(&name, &given).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read_by_name_and_written_down() {
        let loss = Loss::parse("cross_entropy", &Given::default()).unwrap();
        assert_eq!(loss, Loss::default());
        assert_eq!(loss.targets(), Targets::Classes);
        let text = serde_json::to_string(&loss).unwrap();
        assert_eq!(text, r#"{"name":"cross_entropy"}"#);
        assert_eq!(serde_json::from_str::<Loss>(&text).unwrap(), loss);
        let error = |name, given| Loss::parse(name, &given).unwrap_err().to_string();
        assert_eq!(
            error("hinge", Given::default()),
            format!(
                "unknown loss \"hinge\"; there are: {}",
                keys::names(LOSSES).join(", ")
            )
        );
        let given = Given::default().set("margin", Some(1.0));
        assert!(error("cross_entropy", given).contains("unknown key \"margin\""));
    }

    #[test]
    fn people_write_losses_as_text() {
        let weighted = CrossEntropy {
            weight: Some(vec![1.0, 2.5, 0.0]),
            label_smoothing: 0.1,
        };
        for (text, loss) in [
            ("mse", Loss::from(Mse {})),
            ("l1", L1 {}.into()),
            ("bce_with_logits", BceWithLogits {}.into()),
            ("cross_entropy", Loss::default()),
            (
                "cross_entropy:weight=[1.0,2.5,0.0],label_smoothing=0.1",
                weighted.clone().into(),
            ),
        ] {
            assert_eq!(text.parse::<Loss>().unwrap(), loss);
            assert_eq!(loss.to_string(), text);
        }
        let loss: Loss = "cross_entropy: label_smoothing = 0.1, weight = [1, 2.5, 0]"
            .parse()
            .unwrap();
        assert_eq!(loss, weighted.into());
        for (text, says) in [
            (
                "hinge",
                "unknown loss \"hinge\"; there are: cross_entropy, mse",
            ),
            ("mse:delta=1", "mse: unknown key \"delta\"; there are:"),
            (
                "cross_entropy:0.1",
                "cross_entropy: `0.1` are no keys; write",
            ),
            (
                "cross_entropy:label_smoothing=much",
                "`label_smoothing=much` are no keys",
            ),
            (
                "cross_entropy:label_smoothing=true",
                "cross_entropy: `label_smoothing` must be a number",
            ),
        ] {
            let error = text.parse::<Loss>().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn keys_out_of_range_are_named() {
        let says = |text: &str| {
            let loss: Loss = text.parse().unwrap();
            loss.check(Extent::Flat(3)).unwrap_err().to_string()
        };
        for text in ["-0.1", "1.5", "nan"] {
            let error = says(&format!("cross_entropy:label_smoothing={text}"));
            assert!(
                error.ends_with("it must be a number from 0 to 1"),
                "{error}"
            );
        }
        assert_eq!(
            says("cross_entropy:weight=[1,2]"),
            "cross_entropy: weight has 2 numbers, the model gives 3 classes: give one for each"
        );
        for text in ["-1", "inf", "nan"] {
            let error = says(&format!("cross_entropy:weight=[1,{text},2]"));
            assert!(error.ends_with("finite numbers, 0 or more"), "{error}");
        }
    }
}
