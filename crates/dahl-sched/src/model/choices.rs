//! Choices: which implementation of a codelet a profile prefers, by what was measured.
//!
//! A value of its own, apart from the model whose timings it came from: timings change with every run,
//! and what a run computes must not change with them. Who calibrates makes choices once and writes them
//! down; graphs recorded with the same choices are the same.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use dahl_core::graph::Chooser;
use dahl_core::hash::StableHasher;
use dahl_core::{Call, Codelet, DType, Shape, UnitKind};
use serde::{Deserialize, Serialize};

use super::{Key, PerfModel};

/// Samples that an implementation needs before it is compared.
const ENOUGH: u64 = 5;

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
    /// Shapes of the operands, for people.
    pub shapes: Vec<Shape>,
    /// The implementation.
    pub implementation: String,
    /// Its median duration in seconds.
    pub seconds: f64,
    /// The best of the others that were measured, and its median duration.
    pub instead_of: Option<(String, f64)>,
}

/// All decisions of a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Choices {
    all: Vec<Choice>,
}

impl Choices {
    /// The fastest implementation of every call of which several were measured on `unit`.
    pub fn of(model: &PerfModel, unit: &str, kind: UnitKind) -> Choices {
        type Rivals = Vec<(f64, Key)>;
        let mut calls: BTreeMap<(String, DType, u64), Rivals> = BTreeMap::new();
        for (key, _, history) in model.iter() {
            if key.unit == unit && history.count() >= ENOUGH {
                let call = (key.codelet.clone(), key.dtype, key.footprint);
                calls.entry(call).or_default().push((history.median(), key));
            }
        }
        let decide = |mut rivals: Rivals| {
            rivals.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
            let second = rivals.get(1).map(|(s, k)| (k.implementation.clone(), *s))?;
            let (seconds, key) = rivals.swap_remove(0);
            Some(Choice {
                codelet: key.codelet,
                kind,
                dtype: key.dtype,
                footprint: key.footprint,
                shapes: key.shapes,
                implementation: key.implementation,
                seconds,
                instead_of: Some(second),
            })
        };
        Choices {
            all: calls.into_values().filter_map(decide).collect(),
        }
    }

    /// Adds decisions; where both decide on a call, the newer holds.
    pub fn update(&mut self, newer: Choices) {
        let same = |a: &Choice, b: &Choice| {
            (&a.codelet, a.kind, a.dtype, a.footprint) == (&b.codelet, b.kind, b.dtype, b.footprint)
        };
        self.all
            .retain(|old| !newer.all.iter().any(|n| same(old, n)));
        self.all.extend(newer.all);
        self.all.sort_by(|a, b| {
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

    /// What recorders take.
    pub fn chooser(self: &Arc<Choices>) -> Chooser {
        let choices = self.clone();
        Arc::new(move |codelet: &Codelet, call, kind, names| {
            let choice = choices.find(&codelet.name, kind, call)?;
            names.iter().position(|n| *n == choice.implementation)
        })
    }

    /// A number that is equal for choices that decide alike; durations do not matter.
    pub fn fingerprint(&self) -> u64 {
        let mut h = StableHasher::default();
        for c in &self.all {
            (&c.codelet, c.kind, c.dtype, c.footprint, &c.implementation).hash(&mut h);
        }
        h.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_core::{Cost, Mode, Seconds};

    fn call(n: usize) -> Call {
        Call {
            operands: vec![(Shape::new(&[n]).unwrap(), Mode::Read)],
            dtype: DType::F32,
            params: Vec::new(),
        }
    }

    fn model(times: &[(&str, usize, f64, u64)]) -> PerfModel {
        let mut model = PerfModel::new();
        for &(implementation, n, seconds, samples) in times {
            let call = call(n);
            let key = Key {
                codelet: "c".into(),
                implementation: implementation.into(),
                unit: "cpu".into(),
                dtype: DType::F32,
                footprint: call.footprint(),
                shapes: call.operands.iter().map(|o| o.0).collect(),
            };
            for _ in 0..samples {
                model.record(&key, Cost::default(), Seconds(seconds));
            }
        }
        model
    }

    #[test]
    fn the_fastest_measured_wins_and_lone_or_rare_ones_decide_nothing() {
        let model = model(&[
            ("slow", 4, 2e-3, 9),
            ("fast", 4, 1e-3, 9),
            ("lone", 5, 1e-3, 9),
            ("slow", 6, 2e-3, 9),
            ("rare", 6, 1e-3, 2),
        ]);
        let choices = Arc::new(Choices::of(&model, "cpu", UnitKind::CPU));
        assert_eq!(choices.len(), 1);
        let names = ["slow", "fast"];
        let chooser = choices.chooser();
        let codelet = Codelet::new("c");
        assert_eq!(chooser(&codelet, &call(4), UnitKind::CPU, &names), Some(1));
        assert_eq!(chooser(&codelet, &call(5), UnitKind::CPU, &names), None);
        assert_eq!(chooser(&codelet, &call(4), UnitKind::GPU, &names), None);
        // An implementation that this program does not have is left to static costs.
        assert_eq!(chooser(&codelet, &call(4), UnitKind::CPU, &["slow"]), None);
        assert!(Choices::of(&model, "gpu", UnitKind::GPU).is_empty());
    }

    #[test]
    fn newer_decisions_replace_and_fingerprints_ignore_durations() {
        let first = Choices::of(
            &model(&[("a", 4, 2e-3, 9), ("b", 4, 1e-3, 9)]),
            "cpu",
            UnitKind::CPU,
        );
        let again = Choices::of(
            &model(&[("a", 4, 3e-3, 9), ("b", 4, 2e-3, 9)]),
            "cpu",
            UnitKind::CPU,
        );
        let other = Choices::of(
            &model(&[("a", 4, 1e-3, 9), ("b", 4, 2e-3, 9)]),
            "cpu",
            UnitKind::CPU,
        );
        assert_eq!(first.fingerprint(), again.fingerprint());
        assert_ne!(first.fingerprint(), other.fingerprint());
        let mut all = first.clone();
        all.update(other.clone());
        assert_eq!(all, other);
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Choices>(&text).unwrap(), all);
    }
}
