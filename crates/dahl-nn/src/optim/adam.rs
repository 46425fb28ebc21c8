//! Adam, weight decay being part of the gradient.

use std::sync::Arc;

use dahl_core::{Codelet, Param};
use dahl_ops::optim;
use serde::{Deserialize, Serialize};

use super::{Named, OptimizerError, UpdateRule, below_one, decay, not_negative};

/// `torch.optim.Adam`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adam {
    /// Decay of the running mean and of the running mean square.
    pub betas: [f64; 2],
    /// Added to the denominator.
    pub eps: f64,
    /// What of the weight is added to its gradient.
    pub weight_decay: f64,
    /// Whether biases and norms are left out: all parameters of one axis. In PyTorch a program makes two parameter
    /// groups for that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_bias_decay: bool,
}

impl Default for Adam {
    fn default() -> Self {
        Adam {
            betas: [0.9, 0.999],
            eps: 1e-8,
            weight_decay: 0.0,
            no_bias_decay: false,
        }
    }
}

impl Named for Adam {
    const NAME: &'static str = "adam";
}

impl UpdateRule for Adam {
    fn validate(&self) -> Result<(), OptimizerError> {
        for (key, value) in ["beta 1", "beta 2"].into_iter().zip(self.betas) {
            below_one(key, value)?;
        }
        not_negative("epsilon", self.eps)?;
        decay(self.weight_decay, self.no_bias_decay)
    }

    fn default_rate(&self) -> f64 {
        0.002
    }

    fn slots(&self) -> Vec<&'static str> {
        vec!["exp_avg", "exp_avg_sq"]
    }

    fn values(&self, rate: f64, step: u64) -> Vec<f64> {
        let [mean, square] = self.betas;
        vec![rate, mean, square, self.eps, self.weight_decay, step as f64]
    }

    fn values_of_rows(&self, rate: f64, step: u64) -> Option<Vec<f64>> {
        let undecayed = Self {
            weight_decay: 0.0,
            ..self.clone()
        };
        self.no_bias_decay.then(|| undecayed.values(rate, step))
    }

    fn codelet(&self) -> (Arc<Codelet>, Vec<Param>) {
        (optim::ADAM.clone(), vec![Param::Int(0)])
    }
}
