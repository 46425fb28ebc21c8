//! Adam, weight decay being applied to the weight itself.

use std::sync::Arc;

use dahl_core::{Codelet, Param};
use dahl_ops::optim;
use serde::{Deserialize, Serialize};

use super::{Adam, Named, OptimizerError, UpdateRule};

/// `torch.optim.AdamW`: [`Adam`] but for what becomes of the decay, and its default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AdamW {
    /// Decay of the running mean and of the running mean square.
    pub betas: [f64; 2],
    /// Added to the denominator.
    pub eps: f64,
    /// What of the weight is taken away, times the learning rate.
    pub weight_decay: f64,
    /// Whether biases and norms are left out: all parameters of one axis. In PyTorch a program makes two parameter
    /// groups for that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_bias_decay: bool,
}

impl Default for AdamW {
    fn default() -> Self {
        let Adam { betas, eps, .. } = Adam::default();
        AdamW {
            betas,
            eps,
            weight_decay: 0.01,
            no_bias_decay: false,
        }
    }
}

impl AdamW {
    fn adam(&self) -> Adam {
        Adam {
            betas: self.betas,
            eps: self.eps,
            weight_decay: self.weight_decay,
            no_bias_decay: self.no_bias_decay,
        }
    }
}

impl Named for AdamW {
    const NAME: &'static str = "adamw";
}

impl UpdateRule for AdamW {
    fn validate(&self) -> Result<(), OptimizerError> {
        self.adam().validate()
    }

    fn default_rate(&self) -> f64 {
        self.adam().default_rate()
    }

    fn slots(&self) -> Vec<&'static str> {
        self.adam().slots()
    }

    fn values(&self, rate: f64, step: u64) -> Vec<f64> {
        self.adam().values(rate, step)
    }

    fn values_of_rows(&self, rate: f64, step: u64) -> Option<Vec<f64>> {
        let undecayed = Self {
            weight_decay: 0.0,
            ..self.clone()
        };
        self.no_bias_decay.then(|| undecayed.values(rate, step))
    }

    fn codelet(&self) -> (Arc<Codelet>, Vec<Param>) {
        (optim::ADAM.clone(), vec![Param::Int(1)])
    }
}
