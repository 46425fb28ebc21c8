//! Every loss against PyTorch, in both precisions: the loss of a few steps and the weights after them. The
//! steps are made by `fixtures/make_losses.py`.

use std::collections::BTreeMap;

use dahl_core::DType;
use dahl_nn::losses::{LOSSES, Loss, Targets};
use dahl_nn::model::Model;
use dahl_nn::optim::Sgd;
use dahl_nn::step::Step;
use dahl_runtime::Runtime;
use dahl_test_support::arrays::{read, write};
use dahl_test_support::runs::{first_weights, fixtures, noise};

#[derive(serde::Deserialize)]
struct Case {
    name: String,
    toml: String,
    loss: Loss,
    batch: usize,
    rate: f64,
    dtype: DType,
    /// The loss before every step.
    losses: Vec<f64>,
    /// The last weights.
    weights: BTreeMap<String, Vec<f64>>,
}

#[derive(serde::Deserialize)]
struct File {
    torch: String,
    cases: Vec<Case>,
}

/// As `numbers` of `make_losses.py`.
fn number(stream: u64, i: usize) -> f64 {
    (noise(stream, i as u64) >> 40) as f64 / 16_777_216.0
}

fn check(case: &Case) {
    let name = format!("{} {}", case.name, case.dtype);
    let tolerance = match case.dtype {
        DType::F32 => 2e-6,
        DType::F64 => 1e-14,
    };
    let near = |what: &str, got: f64, want: f64| {
        let error = (got - want).abs() / want.abs().max(1.0);
        assert!(
            error <= tolerance,
            "{name}: {what} is {got}, not {want}: {error:e}"
        );
    };
    let step = Step::new(Model::from_toml(&case.toml, &case.name).unwrap())
        .batch(case.batch)
        .dtype(case.dtype)
        .loss(case.loss.clone())
        .optimizer(Sgd::default());
    let lowered = step.lower().unwrap();
    let mut runtime = Runtime::builder().workers(2).build().unwrap();
    let first = first_weights(&step.model);
    for (param, array) in step.model.params().iter().zip(&lowered.state.params) {
        let values = first[&param.key].data.to_f64();
        write(&mut runtime, array.first().unwrap(), &values);
    }
    let (io, classes) = (&lowered.io, step.model.classes() as u64);
    let pixel = |i| number(3, i) * 2.0 - 1.0;
    let pixels: Vec<f64> = (0..io.inputs.shape.len()).map(pixel).collect();
    write(&mut runtime, &io.inputs, &pixels);
    let target = |i| match step.loss.targets() {
        Targets::Classes => ((noise(1, i as u64) >> 8) % classes) as f64,
        Targets::Values | Targets::Shares => number(4, i),
    };
    let targets: Vec<f64> = (0..io.targets.shape.len()).map(target).collect();
    write(&mut runtime, &io.targets, &targets);
    let values = step.optimizer.values(case.rate, 1);
    write(&mut runtime, &io.values, &values);
    for (i, &want) in case.losses.iter().enumerate() {
        runtime.launch(&lowered.graph).unwrap();
        runtime.wait().unwrap();
        let losses = read(&mut runtime, &io.losses);
        let mean = losses.iter().sum::<f64>() / case.batch as f64;
        near(&format!("the loss of step {i}"), mean, want);
    }
    for (param, array) in step.model.params().iter().zip(&lowered.state.params) {
        let (got, want) = (
            read(&mut runtime, array.first().unwrap()),
            &case.weights[&param.key],
        );
        assert_eq!(got.len(), want.len(), "{name}: {}", param.key);
        for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
            near(&format!("{}[{i}]", param.key), got, want);
        }
    }
}

#[test]
fn losses_and_their_gradients_are_pytorchs() {
    let text = std::fs::read_to_string(fixtures().join("losses.json")).unwrap();
    let file: File = serde_json::from_str(&text).unwrap();
    assert!(!file.torch.is_empty());
    file.cases.iter().for_each(check);
    for entry in LOSSES {
        let of = |case: &&Case| case.loss.name() == entry.name;
        assert!(
            file.cases.iter().filter(of).count() >= 2,
            "{} has no cases",
            entry.name
        );
    }
}
