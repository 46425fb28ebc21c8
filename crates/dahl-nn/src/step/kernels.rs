//! Who chooses among the implementations of a codelet.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use dahl_core::graph::{Choices, Chooser};
use dahl_core::hash::StableHasher;
use serde::{Deserialize, Serialize};

/// A choice of implementations. Part of what a step computes: implementations round differently.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernels {
    /// By static costs, the same on every machine.
    #[default]
    Static,
    /// By what calibration measured; by static costs where it measured nothing.
    Measured(Choices),
    /// The one of this rank, counted from 0 without the reference, where there are so many: for timing all
    /// of them.
    Rank(usize),
}

impl From<Choices> for Kernels {
    fn from(choices: Choices) -> Kernels {
        match choices.is_empty() {
            true => Kernels::Static,
            false => Kernels::Measured(choices),
        }
    }
}

/// For people, with enough of a fingerprint to tell profiles apart.
impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kernels::Static => f.write_str("static costs"),
            Kernels::Measured(_) => write!(f, "calibration profile {:016x}", self.fingerprint()),
            Kernels::Rank(rank) => write!(f, "rank {rank}"),
        }
    }
}

impl Kernels {
    /// Equal for those that choose alike; durations do not matter.
    pub fn fingerprint(&self) -> u64 {
        let mut h = StableHasher::default();
        match self {
            Kernels::Static => 0u64.hash(&mut h),
            Kernels::Measured(choices) => (1u64, choices.fingerprint()).hash(&mut h),
            Kernels::Rank(rank) => (2u64, rank).hash(&mut h),
        }
        h.finish()
    }

    pub(crate) fn chooser(&self) -> Option<Chooser> {
        match self {
            Kernels::Static => None,
            Kernels::Measured(choices) => Some(choices.chooser()),
            &Kernels::Rank(rank) => Some(Arc::new(move |_, _, _, names: &[&str]| {
                let fast = names.iter().enumerate().filter(|(_, n)| **n != "reference");
                fast.map(|(i, _)| i).nth(rank)
            })),
        }
    }
}
