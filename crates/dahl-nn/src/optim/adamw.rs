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
}

impl Default for AdamW {
    fn default() -> Self {
        let Adam { betas, eps, .. } = Adam::default();
        AdamW {
            betas,
            eps,
            weight_decay: 0.01,
        }
    }
}

impl AdamW {
    fn adam(&self) -> Adam {
        Adam {
            betas: self.betas,
            eps: self.eps,
            weight_decay: self.weight_decay,
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

    fn codelet(&self) -> (Arc<Codelet>, Vec<Param>) {
        (optim::ADAM.clone(), vec![Param::Int(1)])
    }
}
