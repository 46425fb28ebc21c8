//! Choosing implementations by what was measured.

use std::collections::BTreeMap;

use dahl_core::graph::{Choice, Choices};
use dahl_core::{DType, UnitKind};

use super::{Key, PerfModel};

/// Samples that an implementation needs before it is compared.
const ENOUGH: u64 = 5;

/// The fastest implementation of every call of which several were measured on `unit`.
pub fn fastest(model: &PerfModel, unit: &str, kind: UnitKind) -> Choices {
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
    let all: Vec<Choice> = calls.into_values().filter_map(decide).collect();
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_core::{Call, Codelet, Cost, Mode, Seconds, Shape};

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
        let choices = fastest(&model, "cpu", UnitKind::CPU);
        assert_eq!(choices.len(), 1);
        let names = ["slow", "fast"];
        let chooser = choices.chooser();
        let codelet = Codelet::new("c");
        assert_eq!(chooser(&codelet, &call(4), UnitKind::CPU, &names), Some(1));
        assert_eq!(chooser(&codelet, &call(5), UnitKind::CPU, &names), None);
        assert_eq!(chooser(&codelet, &call(4), UnitKind::GPU, &names), None);
        // An implementation that this program does not have is left to static costs.
        assert_eq!(chooser(&codelet, &call(4), UnitKind::CPU, &["slow"]), None);
        assert!(fastest(&model, "gpu", UnitKind::GPU).is_empty());
    }

    #[test]
    fn newer_decisions_replace_and_fingerprints_ignore_durations() {
        let first = fastest(
            &model(&[("a", 4, 2e-3, 9), ("b", 4, 1e-3, 9)]),
            "cpu",
            UnitKind::CPU,
        );
        let again = fastest(
            &model(&[("a", 4, 3e-3, 9), ("b", 4, 2e-3, 9)]),
            "cpu",
            UnitKind::CPU,
        );
        let other = fastest(
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
