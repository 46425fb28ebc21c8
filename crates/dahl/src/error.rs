//! The one error of the facade: everything that can go wrong, so that `?` carries it.

use std::path::PathBuf;

/// Why something could not be done. The text names the thing, the place and what would be right; the variant
/// says which part of DAHL refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model: its file, a layer, an extent.
    #[error(transparent)]
    Model(#[from] crate::nn::model::ModelError),
    /// A training step: a setting, or tasks that do not fit together.
    #[error(transparent)]
    Step(#[from] crate::nn::step::StepError),
    /// Data: files, shapes, labels.
    #[error(transparent)]
    Data(#[from] crate::data::DataError),
    /// Training, evaluating or predicting.
    #[error(transparent)]
    Train(#[from] crate::nn::train::TrainError),
    /// A file of weights.
    #[error(transparent)]
    Weights(#[from] crate::nn::weights::WeightsError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] crate::nn::checkpoint::CheckpointError),
    /// A graph while it is recorded.
    #[error(transparent)]
    Graph(#[from] crate::core::GraphError),
    /// Memory for arrays.
    #[error(transparent)]
    Arena(#[from] crate::core::ArenaError),
    /// An array that cannot be split so.
    #[error(transparent)]
    Split(#[from] crate::core::SplitError),
    /// A runtime that cannot be built, or a task that failed.
    #[error(transparent)]
    Run(#[from] crate::runtime::RunError),
    /// A machine's description.
    #[error(transparent)]
    Machine(#[from] crate::core::MachineError),
    /// A list of units, such as `cpu:2,gpu:0`.
    #[error(transparent)]
    Units(#[from] crate::tune::UnitsError),
    /// Profiles, calibration, simulation, plans.
    #[error(transparent)]
    Tune(#[from] crate::tune::TuneError),
    /// A trace's file.
    #[error(transparent)]
    Trace(#[from] crate::trace::TraceError),
    /// A setting of a [`Trainer`](crate::Trainer) that came when training had begun.
    #[error(
        "{setting} was set after the trainer began to work: set it before fit, evaluate and predict"
    )]
    Late {
        /// Which setting.
        setting: &'static str,
    },
    /// A file of the user's.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
}
