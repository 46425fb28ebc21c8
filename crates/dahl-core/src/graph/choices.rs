//! Which implementation of a codelet a graph uses, call by call: what calibration found to be fastest.
//!
//! A value of its own, apart from the timings it came from: timings change with every run, and what a run
//! computes must not change with them. Who calibrates makes choices once and writes them down; graphs
//! recorded with the same choices are the same. Nothing here measures.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Chooser;
use crate::codelet::{Call, Codelet};
use crate::dtype::DType;
use crate::hash::StableHasher;
use crate::machine::UnitKind;
use crate::shape::Shape;

/// One decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// The codelet.
    pub codelet: String,
    /// The kind of unit.
    pub kind: UnitKind,
    /// Element type.
    pub dtype: DType,
    /// Hash of the call.
    pub footprint: u64,
    /// Shapes of the operands, for people and against clashes of the hash.
    pub shapes: Vec<Shape>,
    /// The implementation.
    pub implementation: String,
    /// Its median duration in seconds.
    pub seconds: f64,
    /// The best of the others that were measured, and its median duration.
    pub instead_of: Option<(String, f64)>,
}

/// All decisions of a profile. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<Choice>", into = "Vec<Choice>")]
pub struct Choices {
    all: Arc<Vec<Choice>>,
}

impl From<Vec<Choice>> for Choices {
    fn from(all: Vec<Choice>) -> Self {
        Choices { all: Arc::new(all) }
    }
}

impl From<Choices> for Vec<Choice> {
    fn from(choices: Choices) -> Self {
        Arc::unwrap_or_clone(choices.all)
    }
}

impl Choices {
    /// Adds decisions; where both decide on a call, the newer holds.
    pub fn update(&mut self, newer: Choices) {
        let same = |a: &Choice, b: &Choice| {
            (&a.codelet, a.kind, a.dtype, a.footprint) == (&b.codelet, b.kind, b.dtype, b.footprint)
        };
        let all = Arc::make_mut(&mut self.all);
        all.retain(|old| !newer.iter().any(|n| same(old, n)));
        all.extend(Vec::from(newer));
        all.sort_by(|a, b| {
            (&a.codelet, a.dtype, a.footprint).cmp(&(&b.codelet, b.dtype, b.footprint))
        });
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Choice> {
        self.all.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The decision on a call.
    pub fn find(&self, codelet: &str, kind: UnitKind, call: &Call) -> Option<&Choice> {
        let footprint = call.footprint();
        self.all.iter().find(|c| {
            c.footprint == footprint
                && c.codelet == codelet
                && c.kind == kind
                && c.dtype == call.dtype
                && c.shapes.iter().eq(call.operands.iter().map(|o| &o.0))
        })
    }

    /// What recorders take; an implementation that this program does not have is left to static costs.
    pub fn chooser(&self) -> Chooser {
        let choices = self.clone();
        Arc::new(move |codelet: &Codelet, call, kind, names| {
            let choice = choices.find(&codelet.name, kind, call)?;
            names.iter().position(|n| *n == choice.implementation)
        })
    }

    /// Equal for choices that decide alike; durations do not matter.
    pub fn fingerprint(&self) -> u64 {
        let mut h = StableHasher::default();
        for c in self.iter() {
            (&c.codelet, c.kind, c.dtype, c.footprint, &c.implementation).hash(&mut h);
        }
        h.finish()
    }
}
