//! A training step, described once.
//!
//! A [`Step`] says everything that decides on what one step computes. What trains, times, simulates,
//! plans or resumes holds this value, and [`Step::lower`] turns it into a graph: equal steps give equal
//! graphs, on every machine. What a *run* adds (epochs, learning rate, order of the data) is in
//! [`crate::train`]; where and when tasks run is the executor's business.
//!
//! ```
//! use dahl_nn::{Model, Step};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = Model::builder("net", [1, 28, 28]).conv2d(8, 3).relu().flatten().linear(10).build()?;
//! let step = Step::new(model).batch(64).clip_norm(1.0);
//! let lowered = step.lower()?;
//! assert!(lowered.graph.len() > 10);
//!
//! let text = serde_json::to_string(&step)?;
//! let again: Step = serde_json::from_str(&text)?;
//! assert_eq!(again.fingerprint(), step.fingerprint());
//! # Ok(())
//! # }
//! ```

mod averaged;
mod kernels;
mod lowered;
#[cfg(test)]
mod tests;
mod text;

use std::hash::{Hash, Hasher};

use dahl_core::DType;
use dahl_core::hash::StableHasher;

use crate::losses::{Loss, LossError};
use crate::lower::grain::Grain;
use crate::model::Model;
use crate::optim::{Adam, Optimizer, OptimizerError};

pub use kernels::Kernels;
pub use lowered::{Lowered, Pass, in_flight};

/// What one training step is.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "text::Text", into = "text::Text")]
pub struct Step {
    /// The network.
    pub model: Model,
    /// Samples of a step.
    pub batch: usize,
    /// Element type.
    pub dtype: DType,
    /// How layers are cut into tasks.
    pub grain: Grain,
    /// What is made smaller.
    pub loss: Loss,
    /// How gradients change weights.
    pub optimizer: Optimizer,
    /// Gradients are scaled to this global norm where theirs is larger.
    pub clip_norm: Option<f64>,
    /// Key of everything random: first weights, dropout, the order of the data.
    pub seed: u64,
    /// Who chooses implementations.
    pub kernels: Kernels,
    /// Parts of the batch that no task crosses, so that a pipeline can compute them one after another.
    pub micro_batches: usize,
    /// How many updates older than the newest the weights are that each layer reads in training, forward and backward;
    /// for layers beyond the list none. What a pipeline without a flush computes.
    pub delays: Vec<usize>,
    /// In how many parts, one after another, the batch is computed before weights are updated once: activations take the
    /// room of one part. Gradients are of the whole batch's mean; batch norms see a part at a time.
    pub accumulate: usize,
    /// How much of the average of weights stays in each update, where there is one: evaluation, prediction and files then have
    /// the average instead of the last weights.
    pub ema: Option<f64>,
}

/// Most versions of weights: each is a graph of its own.
const MOST_VERSIONS: usize = 64;

/// Why a step cannot be lowered.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// A setting out of its range.
    #[error("{setting} is {value}; it must be {range}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What was given.
        value: String,
        /// What it may be.
        range: &'static str,
    },
    /// Micro-batches that are not equal parts of the batch.
    #[error(
        "{parts} micro-batches of a batch of {batch}: use a number from 1 to {batch} that divides {batch}"
    )]
    MicroBatches {
        /// How many.
        parts: usize,
        /// Samples of the batch.
        batch: usize,
    },
    /// The optimiser's numbers.
    #[error(transparent)]
    Optimizer(#[from] OptimizerError),
    /// The loss does not fit the model.
    #[error(transparent)]
    Loss(#[from] LossError),
    /// The model, where the step is read from text.
    #[error(transparent)]
    Model(#[from] crate::model::ModelError),
    /// The grain, where the step is read from text.
    #[error(transparent)]
    Grain(#[from] crate::lower::grain::GrainError),
    /// It is no text of a step.
    #[error("it describes no step: {0}")]
    Text(String),
    /// The tasks do not fit together.
    #[error(transparent)]
    Graph(#[from] dahl_core::GraphError),
    /// Memory.
    #[error(transparent)]
    Memory(#[from] dahl_core::ArenaError),
}

impl From<Model> for Step {
    fn from(model: Model) -> Step {
        Step::new(model)
    }
}

impl Step {
    /// A step of 32 samples in single precision: cross-entropy, Adam, no clipping.
    pub fn new(model: Model) -> Step {
        Step {
            model,
            batch: 32,
            dtype: DType::F32,
            grain: Grain::Auto,
            loss: Loss::default(),
            optimizer: Adam::default().into(),
            clip_norm: None,
            seed: 42,
            kernels: Kernels::default(),
            micro_batches: 1,
            delays: Vec::new(),
            accumulate: 1,
            ema: None,
        }
    }

    /// With so many samples.
    pub fn batch(mut self, samples: usize) -> Step {
        self.batch = samples;
        self
    }

    /// In another precision.
    pub fn dtype(mut self, dtype: DType) -> Step {
        self.dtype = dtype;
        self
    }

    /// With layers cut otherwise.
    pub fn grain(mut self, grain: Grain) -> Step {
        self.grain = grain;
        self
    }

    /// With another loss.
    pub fn loss(mut self, loss: impl Into<Loss>) -> Step {
        self.loss = loss.into();
        self
    }

    /// With another optimiser.
    pub fn optimizer(mut self, optimizer: impl Into<Optimizer>) -> Step {
        self.optimizer = optimizer.into();
        self
    }

    /// With gradients scaled to this global norm where theirs is larger.
    pub fn clip_norm(mut self, most: impl Into<Option<f64>>) -> Step {
        self.clip_norm = most.into();
        self
    }

    /// With another key of everything random.
    pub fn seed(mut self, seed: u64) -> Step {
        self.seed = seed;
        self
    }

    /// With implementations chosen otherwise.
    pub fn kernels(mut self, kernels: impl Into<Kernels>) -> Step {
        self.kernels = kernels.into();
        self
    }

    /// With the batch cut into so many parts that no task crosses.
    pub fn micro_batches(mut self, parts: usize) -> Step {
        self.micro_batches = parts;
        self
    }

    /// With layers that read older weights in training: see [`Step::delays`].
    pub fn delays(mut self, updates: Vec<usize>) -> Step {
        self.delays = updates;
        self
    }

    /// Versions of delayed weights: a ring in which the newest takes the place of the oldest. One without delays.
    pub fn versions(&self) -> usize {
        1 + self.delays.iter().max().copied().unwrap_or(0)
    }

    /// Micro-batches of a pass over so many samples: those of the step if they fit, else as many as both have in common,
    /// for the last batch of an epoch. One where nothing is trained.
    pub(crate) fn micro_batches_of(&self, pass: Pass, samples: usize) -> usize {
        let (mut a, mut b) = (self.micro_batches, samples);
        while b > 0 {
            (a, b) = (b, a % b);
        }
        if pass == Pass::Train { a.max(1) } else { 1 }
    }

    /// With the batch computed in so many parts, one after another.
    pub fn accumulate(mut self, parts: usize) -> Step {
        self.accumulate = parts;
        self
    }

    /// With an exponential moving average of weights, of which so much stays in each update.
    pub fn ema(mut self, decay: impl Into<Option<f64>>) -> Step {
        self.ema = decay.into();
        self
    }

    /// Equal for equal steps, on every machine; changes with everything that changes what is computed. Names
    /// of models do not.
    pub fn fingerprint(&self) -> u64 {
        let mut h = StableHasher::default();
        self.model.fingerprint().hash(&mut h);
        (self.batch, self.seed, self.clip_norm.map(f64::to_bits)).hash(&mut h);
        self.kernels.fingerprint().hash(&mut h);
        let described = (
            self.dtype.to_string(),
            self.grain.to_string(),
            text::json(&self.loss),
            text::json(&self.optimizer),
        );
        described.hash(&mut h);
        // Steps without a pipeline have the fingerprint that they had before there were any.
        if self.micro_batches != 1 || self.versions() > 1 {
            (self.micro_batches, &self.delays).hash(&mut h);
        }
        // What other steps have not counts where it is: fingerprints of older steps stay.
        if self.accumulate != 1 || self.ema.is_some() {
            ("parts", self.accumulate, self.ema.map(f64::to_bits)).hash(&mut h);
        }
        h.finish()
    }

    /// Whether every setting is in its range.
    pub fn check(&self) -> Result<(), StepError> {
        if self.batch == 0 {
            return Err(StepError::Setting {
                setting: "the batch",
                value: "0".into(),
                range: "at least one sample",
            });
        }
        if self.micro_batches == 0 || !self.batch.is_multiple_of(self.micro_batches) {
            return Err(StepError::MicroBatches {
                parts: self.micro_batches,
                batch: self.batch,
            });
        }
        let layers = self.model.layers.len();
        if self.delays.len() > layers || self.versions() > MOST_VERSIONS {
            return Err(StepError::Setting {
                setting: "the delays of weights",
                value: format!("{:?}", self.delays),
                range: "a number of updates for each layer, from 0 to 63",
            });
        }
        if let Some(norm) = self.clip_norm.filter(|n| !(n.is_finite() && *n > 0.0)) {
            return Err(StepError::Setting {
                setting: "the norm that gradients are clipped to",
                value: norm.to_string(),
                range: "a finite number above 0",
            });
        }
        self.check_parts()?;
        if let Some(&output) = self.model.extents().last() {
            self.loss.check(output)?;
        }
        Ok(self.optimizer.validate()?)
    }
}
