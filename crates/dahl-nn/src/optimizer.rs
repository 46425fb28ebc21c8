//! Optimisers: which rule turns gradients into new weights, and with which numbers.
//!
//! A description only: the arithmetic is in `dahl-ops`, the learning rate comes from a
//! [`crate::schedule::Schedule`]. Names, defaults and ranges are those of `torch.optim`.

use serde::{Deserialize, Serialize};

/// An update rule with its constants.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase", deny_unknown_fields)]
pub enum Optimizer {
    /// Stochastic gradient descent.
    Sgd {
        /// How much of the last update is kept; 0 for none.
        momentum: f64,
        /// Nesterov's variant of momentum.
        nesterov: bool,
        /// What of the weight is added to its gradient.
        weight_decay: f64,
    },
    /// Adam, weight decay being part of the gradient.
    Adam {
        /// Decay of the running mean and of the running mean square.
        betas: [f64; 2],
        /// Added to the denominator.
        eps: f64,
        /// What of the weight is added to its gradient.
        weight_decay: f64,
    },
    /// Adam, weight decay being applied to the weight itself.
    AdamW {
        /// Decay of the running mean and of the running mean square.
        betas: [f64; 2],
        /// Added to the denominator.
        eps: f64,
        /// What of the weight is taken away, times the learning rate.
        weight_decay: f64,
    },
}

/// The numbers that somebody gave; the others keep their defaults.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Given {
    /// SGD's momentum.
    pub momentum: Option<f64>,
    /// SGD's Nesterov variant.
    pub nesterov: Option<bool>,
    /// Weight decay.
    pub weight_decay: Option<f64>,
    /// Adam's betas.
    pub betas: Option<[f64; 2]>,
    /// Adam's epsilon.
    pub eps: Option<f64>,
}

/// Why there is no such optimiser.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum OptimizerError {
    /// No optimiser of that name.
    #[error("unknown optimizer {0:?}; there are: sgd, adam, adamw")]
    Unknown(String),
    /// The optimiser has no such number.
    #[error("{optimizer} has no {key}; leave it out")]
    Foreign {
        /// Which optimiser.
        optimizer: &'static str,
        /// What was given.
        key: &'static str,
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
    /// Nesterov's variant needs something to vary.
    #[error("nesterov needs a momentum above 0")]
    NesterovWithoutMomentum,
}

impl Optimizer {
    /// An optimiser by its name, with the numbers given and PyTorch's defaults for the others.
    pub fn parse(name: &str, given: &Given) -> Result<Optimizer, OptimizerError> {
        let foreign = |optimizer, key, is_given: bool| match is_given {
            true => Err(OptimizerError::Foreign { optimizer, key }),
            false => Ok(()),
        };
        let adam = |optimizer, decay: f64| {
            foreign(optimizer, "momentum", given.momentum.is_some())?;
            foreign(optimizer, "nesterov", given.nesterov == Some(true))?;
            let betas = given.betas.unwrap_or([0.9, 0.999]);
            Ok((
                betas,
                given.eps.unwrap_or(1e-8),
                given.weight_decay.unwrap_or(decay),
            ))
        };
        let optimizer = match name {
            "sgd" => {
                foreign("sgd", "betas", given.betas.is_some())?;
                foreign("sgd", "eps", given.eps.is_some())?;
                Optimizer::Sgd {
                    momentum: given.momentum.unwrap_or(0.0),
                    nesterov: given.nesterov.unwrap_or(false),
                    weight_decay: given.weight_decay.unwrap_or(0.0),
                }
            }
            "adam" => {
                let (betas, eps, weight_decay) = adam("adam", 0.0)?;
                Optimizer::Adam {
                    betas,
                    eps,
                    weight_decay,
                }
            }
            "adamw" => {
                let (betas, eps, weight_decay) = adam("adamw", 0.01)?;
                Optimizer::AdamW {
                    betas,
                    eps,
                    weight_decay,
                }
            }
            other => return Err(OptimizerError::Unknown(other.to_owned())),
        };
        optimizer.validate()?;
        Ok(optimizer)
    }

    /// Whether all numbers are in their ranges.
    pub fn validate(&self) -> Result<(), OptimizerError> {
        match *self {
            Optimizer::Sgd {
                momentum,
                nesterov,
                weight_decay,
            } => {
                not_negative("momentum", momentum)?;
                not_negative("weight decay", weight_decay)?;
                if nesterov && momentum == 0.0 {
                    return Err(OptimizerError::NesterovWithoutMomentum);
                }
                Ok(())
            }
            Optimizer::Adam {
                betas,
                eps,
                weight_decay,
            }
            | Optimizer::AdamW {
                betas,
                eps,
                weight_decay,
            } => {
                for (key, value) in ["beta 1", "beta 2"].into_iter().zip(betas) {
                    if !(0.0..1.0).contains(&value) {
                        let range = "at least 0 and below 1";
                        return Err(OptimizerError::Range { key, value, range });
                    }
                }
                not_negative("epsilon", eps)?;
                not_negative("weight decay", weight_decay)
            }
        }
    }

    /// Its name on the command line.
    pub fn name(&self) -> &'static str {
        match self {
            Optimizer::Sgd { .. } => "sgd",
            Optimizer::Adam { .. } => "adam",
            Optimizer::AdamW { .. } => "adamw",
        }
    }

    /// The learning rate of PyTorch's optimiser of that name.
    pub fn default_lr(&self) -> f64 {
        1e-3
    }

    /// Names of the tensors it keeps for each parameter, all starting as zeros of the parameter's shape.
    pub fn state_slots(&self) -> &'static [&'static str] {
        match self {
            Optimizer::Sgd { momentum, .. } if *momentum == 0.0 => &[],
            Optimizer::Sgd { .. } => &["momentum_buffer"],
            Optimizer::Adam { .. } | Optimizer::AdamW { .. } => &["exp_avg", "exp_avg_sq"],
        }
    }
}

/// Whether a learning rate can be used.
pub fn check_lr(lr: f64) -> Result<(), OptimizerError> {
    not_negative("the learning rate", lr)
}

fn not_negative(key: &'static str, value: f64) -> Result<(), OptimizerError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_pytorchs() {
        let parse = |name| Optimizer::parse(name, &Given::default()).unwrap();
        assert_eq!(
            parse("sgd"),
            Optimizer::Sgd {
                momentum: 0.0,
                nesterov: false,
                weight_decay: 0.0
            }
        );
        let (betas, eps) = ([0.9, 0.999], 1e-8);
        assert_eq!(
            parse("adam"),
            Optimizer::Adam {
                betas,
                eps,
                weight_decay: 0.0
            }
        );
        assert_eq!(
            parse("adamw"),
            Optimizer::AdamW {
                betas,
                eps,
                weight_decay: 0.01
            }
        );
        assert_eq!(parse("sgd").state_slots(), [""; 0]);
        assert_eq!(parse("adamw").state_slots(), ["exp_avg", "exp_avg_sq"]);
        let given = Given {
            momentum: Some(0.9),
            nesterov: Some(true),
            ..Given::default()
        };
        assert_eq!(
            Optimizer::parse("sgd", &given).unwrap().state_slots(),
            ["momentum_buffer"]
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let error = |name, given| Optimizer::parse(name, &given).unwrap_err().to_string();
        let none = Given::default();
        assert!(error("rmsprop", none).contains("sgd, adam, adamw"));
        assert_eq!(
            error(
                "adam",
                Given {
                    momentum: Some(0.9),
                    ..none
                }
            ),
            "adam has no momentum; leave it out"
        );
        assert!(
            error(
                "sgd",
                Given {
                    betas: Some([0.9, 0.9]),
                    ..none
                }
            )
            .contains("no betas")
        );
        assert!(
            error(
                "sgd",
                Given {
                    nesterov: Some(true),
                    ..none
                }
            )
            .contains("momentum above 0")
        );
        for bad in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(
                error(
                    "sgd",
                    Given {
                        momentum: Some(bad),
                        ..none
                    }
                )
                .contains("momentum is")
            );
            assert!(
                error(
                    "adamw",
                    Given {
                        weight_decay: Some(bad),
                        ..none
                    }
                )
                .contains("decay is")
            );
            assert!(
                error(
                    "adam",
                    Given {
                        eps: Some(bad),
                        ..none
                    }
                )
                .contains("epsilon is")
            );
            assert!(check_lr(bad).is_err());
        }
        for bad in [-0.1, 1.0, f64::NAN] {
            assert!(
                error(
                    "adam",
                    Given {
                        betas: Some([0.9, bad]),
                        ..none
                    }
                )
                .contains("beta 2 is")
            );
        }
        assert!(check_lr(0.0).is_ok());
    }

    #[test]
    fn it_can_be_written_down() {
        let adam = Optimizer::parse("adamw", &Given::default()).unwrap();
        let text = serde_json::to_string(&adam).unwrap();
        assert_eq!(
            text,
            r#"{"name":"adamw","betas":[0.9,0.999],"eps":1e-8,"weight_decay":0.01}"#
        );
        assert_eq!(serde_json::from_str::<Optimizer>(&text).unwrap(), adam);
    }
}
