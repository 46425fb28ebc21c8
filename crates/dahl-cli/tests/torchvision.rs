//! Weights of torchvision: loaded as its state dict has them, they give its scores.

mod common;

use std::process::Command;

use common::{dahl, folder};
use serde_json::Value;

const NAMES: [&str; 5] = ["resnet18", "resnet34", "resnet50", "vgg11", "mobilenet_v2"];

/// torchvision is no part of the tests' environment: where somebody has it, its networks are compared.
#[test]
fn state_dicts_of_torchvision_give_its_scores() {
    let python = std::env::var("DAHL_TORCH_PYTHON").unwrap_or_default();
    if python.is_empty() {
        dahl_test_support::skip!(optional: "no PyTorch", "name a Python that has it, and torchvision, in DAHL_TORCH_PYTHON");
    }
    let here = folder("torchvision");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/torchvision.py");
    let made = Command::new(&python)
        .arg(script)
        .arg(&here)
        .args(NAMES)
        .output();
    let made = made.expect("Python starts");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let data = format!("npz:{}", here.join("images.npz").display());
    for name in NAMES {
        let at = |end: &str| here.join(format!("{name}.{end}")).display().to_string();
        let (model, weights) = (name.replace('_', "-"), at("safetensors"));
        let said = dahl(&[
            "predict",
            &model,
            "--weights",
            &weights,
            "--data",
            &data,
            "--dtype",
            "f64",
            "--json",
        ]);
        let theirs: Vec<Vec<f64>> =
            serde_json::from_slice(&std::fs::read(at("json")).expect("scores")).expect("numbers");
        assert_eq!(said.lines().count(), theirs.len(), "{name}");
        for (line, theirs) in said.lines().zip(&theirs) {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let ours: Vec<f64> = serde_json::from_value(line["scores"].clone()).expect("numbers");
            assert_eq!(ours.len(), theirs.len(), "{name}");
            let size = theirs.iter().fold(0.0f64, |m, s| m.max(s.abs()));
            for (class, (a, b)) in ours.iter().zip(theirs).enumerate() {
                assert!(
                    (a - b).abs() <= 1e-9 * size,
                    "{name}: score {class} is {a}, not {b}"
                );
            }
        }
    }
}
