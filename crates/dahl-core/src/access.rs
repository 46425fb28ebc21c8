//! Accesses: which part of which array a task touches, and how.

use serde::{Deserialize, Serialize};

use crate::region::Region;

/// How a task uses an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The values are read.
    Read,
    /// Every element of the region is overwritten; what was there is not looked at.
    Write,
    /// The values are read and changed.
    ReadWrite,
    /// Values are added (or what else the codelet's [`Merge`] says). Tasks that reduce into the same
    /// region may run at the same time: each into a private accumulator, and the graph fixes the order
    /// in which these are merged.
    Reduce,
}

/// How the results of tasks that reduce into one region come together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Merge {
    /// They are added.
    #[default]
    Add,
    /// The smallest stays.
    Min,
    /// The largest stays.
    Max,
}

impl Merge {
    /// The value that changes nothing: what a private accumulator starts at.
    pub const fn identity(self) -> f64 {
        match self {
            Merge::Add => 0.0,
            Merge::Min => f64::INFINITY,
            Merge::Max => f64::NEG_INFINITY,
        }
    }
}

impl Mode {
    /// What a task does with the operand, as messages and tables say it.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Read => "read",
            Mode::Write => "write",
            Mode::ReadWrite => "read and write",
            Mode::Reduce => "reduce",
        }
    }

    /// Whether the task changes the array.
    pub const fn writes(self) -> bool {
        !matches!(self, Mode::Read)
    }

    /// Whether the task needs the values that were there before.
    pub const fn reads(self) -> bool {
        !matches!(self, Mode::Write)
    }
}

/// One operand of a task, inside a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// Index into the graph's table of arrays.
    pub array: u32,
    /// How it is used.
    pub mode: Mode,
    /// If set, the region must be filled with this merge's identity before the task runs: the first use
    /// of a private accumulator.
    pub fresh: Option<Merge>,
    /// Which part of the array.
    pub region: Region,
}
