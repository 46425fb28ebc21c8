//! What programs measured and keep: profiles, performance models, metrics.

use dahl::core::graph::Choices;
use dahl::core::{Cost, DType, Seconds, Shape};
use dahl::runtime::perf_store;
use dahl::sched::model::{Key, PerfModel};
use dahl::tune::{Profile, perf_rows};
use dahl::{Metrics, core::UnitKind, core::graph::Choice};
use serde_json::json;

use super::{said, texts};
use crate::{Folder, Target};

pub(super) const PROFILE: Target = Target {
    name: "profile",
    files: &[],
    made: || {
        let one = profile();
        vec![serde_json::to_vec_pretty(&one).expect("a profile has a text")]
    },
    words: &[
        "\"version\"",
        "\"gpus\"",
        "\"choices\"",
        "\"overheads\"",
        "\"instead_of\"",
        "\"footprint\"",
        "\"shapes\"",
        "\"kind\"",
    ],
    parse: |folder, bytes| {
        let profile = Profile::load(&folder.write("profile.json", bytes)).map_err(said)?;
        let _ = perf_rows(&model(), Some(&profile));
        let _ = profile.choices.fingerprint();
        Ok(())
    },
};

pub(super) const PERF_STORE: Target = Target {
    name: "perf-store",
    files: &[],
    made: || vec![stored()],
    words: &[
        "\"version\"",
        "\"records\"",
        "\"key\"",
        "\"cost\"",
        "\"history\"",
        "\"shapes\"",
        "\"footprint\"",
        "\"flops\"",
        "\"bytes\"",
    ],
    parse: |folder, bytes| {
        let path = folder.write("perf.json", bytes);
        let (model, warning) = perf_store::load(&path).map_err(said)?;
        if let Some(warning) = warning {
            return Err(warning.to_string());
        }
        let _ = perf_rows(&model, Some(&profile()));
        let mut merged = self::model();
        merged.merge(&model);
        let again = PerfModel::from_records(merged.records());
        again
            .map(drop)
            .unwrap_or_else(|e| panic!("a model that was read and merged is refused: {e}"));
        Ok(())
    },
};

pub(super) const METRICS: Target = Target {
    name: "metrics",
    files: &[],
    made: || {
        texts(&[
            "{\"event\":\"epoch\",\"epoch\":1,\"loss\":0.5}\n{\"epoch\":2,\"event\":\"epoch\",\"accuracy\":null}\n\
                 {\"event\":\"done\",\"joules\":1e3}\n{\"event\":\"epo",
        ])
    },
    words: &[
        "\"event\":",
        "\"epoch\":",
        "\"done\"",
        "{\"event\":\"epoch\",\"epoch\":3}\n",
    ],
    parse: |folder, bytes| {
        let path = folder.write("metrics.jsonl", bytes);
        let mut metrics = Metrics::resume(&path, 1).map_err(said)?;
        metrics
            .line(&json!({"event": "epoch", "epoch": 2}))
            .map_err(said)?;
        drop(metrics);
        let again = Metrics::resume(&path, 2);
        again
            .map(drop)
            .unwrap_or_else(|e| panic!("metrics that were gone on with are refused: {e}"));
        Ok(())
    },
};

fn key(codelet: &str, shapes: &[&[usize]]) -> Key {
    let shape = |s: &&[usize]| Shape::new(s).expect("a shape");
    Key {
        codelet: codelet.into(),
        implementation: "reference".into(),
        unit: "cpu".into(),
        dtype: DType::F32,
        footprint: 42,
        shapes: shapes.iter().map(shape).collect(),
    }
}

/// A few durations.
fn model() -> PerfModel {
    let mut model = PerfModel::new();
    for n in 1..40 {
        let cost = Cost {
            flops: 1e6,
            bytes: 4e3,
        };
        let seconds = Seconds(1e-4 * f64::from(n % 7 + 1));
        model.record(&key("add", &[&[4, 6]]), cost, seconds);
        model.record(&key("fill", &[&[24], &[]]), cost, seconds);
    }
    model
}

fn stored() -> Vec<u8> {
    Folder::with(|folder| {
        let path = folder.path().join("perf.json");
        perf_store::save(&path, &model()).expect("a temporary file");
        std::fs::read(path).expect("a temporary file")
    })
}

fn profile() -> Profile {
    let key = key("add", &[&[4, 6]]);
    let choice = Choice {
        codelet: key.codelet,
        kind: UnitKind::CPU,
        dtype: key.dtype,
        footprint: key.footprint,
        shapes: key.shapes,
        implementation: key.implementation,
        seconds: 1e-4,
        instead_of: Some(("fast".into(), 2e-4)),
    };
    let speeds = json!({"flops_f32": 1e11, "flops_f64": 5e10, "bandwidth": 1e10, "overhead": 1e-6});
    let overheads = json!([{
        "what": "m", "policy": "ws", "workers": 2, "task": 1e-5, "modelled": 1e-5, "dispatch": 1e-7, "wake_latency": 1e-6,
        "variation": {"stddev": 0.1, "core_stddev": 0.1, "interruption_rate": 1.0, "interruption_seconds": 1e-5},
    }]);
    let all = json!({
        "version": 2, "processor": "p", "cores": 2, "alone": speeds, "together": speeds, "gpus": {"gpu:g": speeds},
        "choices": Choices::from(vec![choice]), "overheads": overheads,
    });
    serde_json::from_value(all).expect("a profile")
}
