//! Stochastic gradient descent, with or without momentum.

use std::sync::Arc;

use dahl_core::{Codelet, Param};
use dahl_ops::optim;
use serde::{Deserialize, Serialize};

use super::{Named, OptimizerError, UpdateRule, below_one, decay};

/// `torch.optim.SGD`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sgd {
    /// How much of the last update is kept; 0 for none.
    pub momentum: f64,
    /// Nesterov's variant of momentum.
    pub nesterov: bool,
    /// What of the weight is added to its gradient.
    pub weight_decay: f64,
    /// Whether biases and norms are left out: all parameters of one axis. In PyTorch a program makes two parameter
    /// groups for that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_bias_decay: bool,
}

impl Named for Sgd {
    const NAME: &'static str = "sgd";
}

impl UpdateRule for Sgd {
    fn validate(&self) -> Result<(), OptimizerError> {
        below_one("momentum", self.momentum)?;
        decay(self.weight_decay, self.no_bias_decay)?;
        if self.nesterov && self.momentum == 0.0 {
            let message = "nesterov needs a momentum above 0";
            return Err(OptimizerError::Refused(message.into()));
        }
        Ok(())
    }

    fn default_rate(&self) -> f64 {
        0.01
    }

    fn slots(&self) -> Vec<&'static str> {
        match self.momentum == 0.0 {
            true => Vec::new(),
            false => vec!["momentum_buffer"],
        }
    }

    fn values(&self, rate: f64, _: u64) -> Vec<f64> {
        vec![rate, self.weight_decay, self.momentum]
    }

    fn values_of_rows(&self, rate: f64, step: u64) -> Option<Vec<f64>> {
        let undecayed = Self {
            weight_decay: 0.0,
            ..self.clone()
        };
        self.no_bias_decay.then(|| undecayed.values(rate, step))
    }

    fn codelet(&self) -> (Arc<Codelet>, Vec<Param>) {
        match self.momentum == 0.0 {
            true => (optim::SGD.clone(), Vec::new()),
            false => {
                let nesterov = Param::Int(i64::from(self.nesterov));
                (optim::SGD_MOMENTUM.clone(), vec![nesterov])
            }
        }
    }
}
