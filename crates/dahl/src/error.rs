//! The one error of the facade: everything that can go wrong, so that `?` carries it.

/// Why something could not be done. The text names the thing, the place and what would be right; the variant
/// says which part of DAHL refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A model: its file, a layer, an extent.
    #[error(transparent)]
    Model(Box<crate::nn::model::ModelError>),
    /// A training step: a setting, or tasks that do not fit together.
    #[error(transparent)]
    Step(Box<crate::nn::step::StepError>),
    /// Data: files, shapes, labels.
    #[error(transparent)]
    Data(Box<crate::data::DataError>),
    /// Training, evaluating or predicting.
    #[error(transparent)]
    Train(Box<crate::nn::train::TrainError>),
    /// A file of weights.
    #[error(transparent)]
    Weights(#[from] crate::nn::weights::WeightsError),
    /// A checkpoint.
    #[error(transparent)]
    Checkpoint(Box<crate::nn::checkpoint::CheckpointError>),
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
    Run(Box<crate::runtime::RunError>),
    /// A machine's description.
    #[error(transparent)]
    Machine(#[from] crate::core::MachineError),
    /// A list of units, such as `cpu:2,gpu:0`.
    #[error(transparent)]
    Units(#[from] crate::tune::UnitsError),
    /// An instruction level that this machine lacks, or that does not exist.
    #[error(transparent)]
    Level(#[from] crate::ops::simd::LevelError),
    /// Profiles, calibration, simulation, plans.
    #[error(transparent)]
    Tune(Box<crate::tune::TuneError>),
    /// A trace's file.
    #[error(transparent)]
    Trace(#[from] crate::trace::TraceError),
    /// A file that cannot be written.
    #[error("cannot write {}: {why}", path.display())]
    File {
        /// Which.
        path: std::path::PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// A file of metrics that this run must not change.
    #[error("{}: {problem}", path.display())]
    Metrics {
        /// Which.
        path: std::path::PathBuf,
        /// Why not, and what to do.
        problem: &'static str,
    },
    /// A setting of a [`Trainer`](crate::Trainer) that came when training had begun.
    #[error(
        "{setting} was set after the trainer began to work: set it before fit, evaluate and predict"
    )]
    Late {
        /// Which setting.
        setting: &'static str,
    },
}

/// The larger errors are boxed, so that results stay small.
macro_rules! boxed {
    ($($variant:ident: $error:ty;)*) => {
        $(impl From<$error> for Error {
            fn from(error: $error) -> Error {
                Error::$variant(Box::new(error))
            }
        })*
    };
}

boxed! {
    Train: crate::nn::train::TrainError;
    Tune: crate::tune::TuneError;
    Step: crate::nn::step::StepError;
    Data: crate::data::DataError;
    Checkpoint: crate::nn::checkpoint::CheckpointError;
    Model: crate::nn::model::ModelError;
    Run: crate::runtime::RunError;
}
