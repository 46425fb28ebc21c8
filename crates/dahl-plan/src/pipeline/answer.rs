//! A pipeline as an answer: what people and programs read.

use serde::Serialize;

/// One stage.
#[derive(Clone, Debug, Serialize)]
pub struct PipelineStage {
    /// Name of its first layer.
    pub first: String,
    /// Name of its last layer.
    pub last: String,
    /// How many units run it, each on batches or samples of its own.
    pub replicas: usize,
    /// Seconds that it takes per batch: computing and exchanging gradients, or its transfers if they take longer.
    pub seconds: f64,
    /// Bytes that each replica holds: versions of the weights, and activations of batches in flight.
    pub memory_bytes: f64,
    /// How many layers it has.
    #[serde(skip)]
    pub layers: usize,
    /// Seconds of transfers, of what comes in and of what goes out.
    #[serde(skip)]
    pub transfers: [f64; 2],
    /// Names of its units.
    #[serde(skip)]
    pub units: Vec<String>,
}

/// A network cut into stages.
#[derive(Clone, Debug, Serialize)]
pub struct PipelinePlan {
    /// Seconds per batch.
    pub seconds: f64,
    /// No pipeline takes less.
    pub lower_bound: f64,
    /// The stages, in the order of the data.
    pub stages: Vec<PipelineStage>,
    /// Whether branches were joined because there are too many ways to cut them.
    #[serde(skip)]
    pub joined: bool,
}

impl PipelinePlan {
    /// How far it may be from the best, relative.
    pub fn gap(&self) -> f64 {
        if self.seconds > 0.0 {
            return (self.seconds - self.lower_bound) / self.seconds;
        }
        0.0
    }
}
