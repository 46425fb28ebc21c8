//! What can go wrong while graphs are executed.

use dahl_core::ArenaError;

/// Why a launch, a wait or a read failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// A task returned an error or panicked. The launch it belongs to and all that followed were
    /// stopped; the runtime can be used again.
    #[error("{task} failed: {message}")]
    Task {
        /// The task, its codelet and regions.
        task: String,
        /// What it said.
        message: String,
    },
    /// The work was cancelled.
    #[error("cancelled")]
    Cancelled,
    /// No unit can run a task.
    #[error("{0}: no unit has an implementation of it")]
    NoImplementation(String),
    /// An array's arena was reset after the graph was recorded.
    #[error("{0} was in an arena that has been reset; record the graph again")]
    Stale(String),
    /// Another runtime is working on the same arena.
    #[error("{0} is in use by another runtime; wait for that one first")]
    InUse(String),
    /// A temporary has no value outside its graph.
    #[error("{0} is a temporary: copy it to an array of an arena to read it")]
    Temporary(String),
    /// The values have another type.
    #[error("{array} holds {holds}, not {asked}")]
    WrongType {
        /// The array.
        array: String,
        /// Its element type.
        holds: dahl_core::DType,
        /// What was asked for.
        asked: dahl_core::DType,
    },
    /// A part with gaps cannot be written in place.
    #[error("{0} has gaps between its rows: write the whole array")]
    Gaps(String),
    /// There is not enough memory for a graph's temporaries or copies.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// A memory limit is smaller than what one task needs.
    #[error("{task} needs {need} in {memory}, which holds {capacity}")]
    TooSmall {
        /// The task.
        task: String,
        /// The bytes its operands take.
        need: dahl_core::Bytes,
        /// The memory.
        memory: String,
        /// Its capacity.
        capacity: dahl_core::Bytes,
    },
    /// A device failed, and with it went the only current copy of values that are needed.
    #[error("{array} is lost: its only current copy was on a device that failed ({losses})")]
    Lost {
        /// The array, and who needs it if it was a task.
        array: String,
        /// The devices that failed, and why.
        losses: String,
    },
    /// A device is out of use, and no other unit can do what it was to do.
    #[error(
        "{task} was to run on {device}, which failed ({why}), and has no implementation for CPUs"
    )]
    DeviceLost {
        /// The task.
        task: String,
        /// The device.
        device: String,
        /// Its last word.
        why: String,
    },
    /// A node of the cluster can no longer be reached.
    #[error("the cluster is broken: {0}")]
    NodeLost(String),
    /// The nodes of a cluster were not given the same things to do.
    #[error("the nodes do not agree on {what}:\n  {first}\n  {other}\nAll must be the same")]
    NodesDiffer {
        /// On what.
        what: String,
        /// The first node, and what it has.
        first: String,
        /// Another node, and what it has.
        other: String,
    },
    /// The runtime could not be started.
    #[error("cannot start: {0}")]
    Start(String),
}

impl From<ArenaError> for RunError {
    fn from(error: ArenaError) -> Self {
        RunError::OutOfMemory(error.to_string())
    }
}
