//! What can go wrong between a model and a prediction, each with the thing it is about.

use std::path::{Path, PathBuf};

/// An error of this crate. Causes are part of the text, so that printing one line says all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TuneError {
    /// A file cannot be read or written.
    #[error("cannot {doing} {path}: {why}", path = .path.display())]
    File {
        /// `read` or `write`.
        doing: &'static str,
        /// Which file or folder.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// Neither `DAHL_HOME` nor a home directory is set.
    #[error("no folder to keep measurements in: set DAHL_HOME to one")]
    NoFolder,
    /// A file that is no calibration profile, or one of another version.
    #[error("{path} is not a calibration profile ({why}); give one that `dahl calibrate` wrote", path = .path.display())]
    Profile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file that is no plan.
    #[error("{path}: {why}", path = .path.display())]
    PlanFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, causes included.
        why: String,
    },
    /// A plan that is for something else, or cannot be followed here.
    #[error("{0}")]
    Plan(String),
    /// A GPU that is not there, or does not work.
    #[error("{0}")]
    Gpu(String),
    /// Other computers cannot be reached.
    #[error("{0}")]
    Cluster(String),
    /// A setting that makes no sense, with the remedy.
    #[error("{0}")]
    Option(String),
    /// A request to stop came before there was anything to keep.
    #[error("stopped")]
    Stopped,
    /// A machine's description that cannot be used.
    #[error("{0}")]
    Machine(String),
    /// Units that nobody can have.
    #[error(transparent)]
    Units(#[from] crate::units::UnitsError),
    /// A model that cannot be lowered to a graph.
    #[error(transparent)]
    Graph(#[from] dahl_core::GraphError),
    /// A run that failed.
    #[error(transparent)]
    Run(#[from] dahl_runtime::RunError),
    /// Arrays that could not be written or read.
    #[error("{0}")]
    Execution(dahl_core::ExecError),
    /// A step that cannot be lowered.
    #[error(transparent)]
    Step(#[from] dahl_nn::step::StepError),
    /// A run that cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] dahl_sim::SimError),
    /// A plan that cannot be simulated.
    #[error(transparent)]
    Following(#[from] dahl_plan::FollowError),
    /// No plan was found.
    #[error(transparent)]
    Planning(#[from] dahl_plan::PlanError),
    /// A network that cannot be cut into a pipeline.
    #[error(transparent)]
    Pipeline(#[from] dahl_plan::pipeline::PipelineError),
    /// Memory for measurements.
    #[error(transparent)]
    Memory(#[from] dahl_core::ArenaError),
    /// A performance model's file.
    #[error(transparent)]
    Store(#[from] dahl_runtime::perf_store::StoreError),
}

impl TuneError {
    /// For `map_err`: a file that cannot be read.
    pub(crate) fn reading(path: &Path) -> impl FnOnce(std::io::Error) -> TuneError {
        let path = path.to_path_buf();
        move |why| TuneError::File {
            doing: "read",
            path,
            why,
        }
    }

    /// For `map_err`: a file that cannot be written.
    pub(crate) fn writing(path: &Path) -> impl FnOnce(std::io::Error) -> TuneError {
        let path = path.to_path_buf();
        move |why| TuneError::File {
            doing: "write",
            path,
            why,
        }
    }
}
