//! The optimiser's values of one step, in the order its codelets read them.

use crate::optimizer::Optimizer;

impl Optimizer {
    /// Room for the values of any optimiser.
    pub const VALUES: usize = 6;

    /// How many of them this one reads.
    pub fn values_used(&self) -> usize {
        match self {
            Optimizer::Sgd { .. } => 3,
            Optimizer::Adam { .. } | Optimizer::AdamW { .. } => 6,
        }
    }

    /// The values for a learning rate and a step, the first being 1.
    pub fn values(&self, rate: f64, step: u64) -> Vec<f64> {
        match *self {
            Optimizer::Sgd {
                momentum,
                weight_decay,
                ..
            } => vec![rate, weight_decay, momentum],
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
                vec![rate, betas[0], betas[1], eps, weight_decay, step as f64]
            }
        }
    }
}
