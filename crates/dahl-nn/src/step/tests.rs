//! One step, one graph: however it is lowered or written down.

use dahl_core::DType;
use dahl_core::graph::{Choice, Choices};
use dahl_core::{Shape, UnitKind};

use super::*;
use crate::lower::grain::Parts;
use crate::optim::Sgd;

fn model() -> Model {
    Model::builder("net", [2, 8, 8])
        .conv2d(4, 3)
        .batch_norm2d()
        .relu()
        .dropout(0.3)
        .flatten()
        .linear(5)
        .build()
        .unwrap()
}

fn sgd(nesterov: bool) -> Optimizer {
    Sgd {
        momentum: 0.9,
        nesterov,
        ..Sgd::default()
    }
    .into()
}

fn choices(seconds: f64) -> Choices {
    vec![Choice {
        codelet: "linear".into(),
        kind: UnitKind::CPU,
        dtype: DType::F32,
        footprint: 7,
        shapes: vec![Shape::new(&[2, 3]).unwrap()],
        implementation: "reference".into(),
        seconds,
        instead_of: None,
    }]
    .into()
}

/// Steps that all compute something else.
fn all() -> Vec<Step> {
    let step = || Step::new(model());
    let narrow = Model::builder("net", [2, 8, 8]).flatten().linear(5);
    let parts = Parts {
        sample: 2,
        ..Parts::ONE
    };
    vec![
        step(),
        Step::new(narrow.build().unwrap()),
        step().batch(8),
        step().dtype(DType::F64),
        step().grain(Grain::Fixed(parts)),
        step().grain(Grain::Layers(vec![None, Some(parts), None])),
        step().optimizer(sgd(false)),
        step().optimizer(sgd(true)),
        step().clip_norm(1.0),
        step().clip_norm(2.0),
        step().seed(u64::MAX),
        step().accumulate(4),
        step().ema(0.99),
        step().ema(0.9).accumulate(2),
        step().kernels(choices(1.0)),
        step().kernels(Kernels::Rank(0)),
        step().kernels(Kernels::Rank(1)),
        step().micro_batches(4),
        step().micro_batches(8),
        step().delays(vec![1]),
        step().delays(vec![0, 0, 0, 0, 0, 1]),
    ]
}

#[test]
fn a_step_written_down_is_the_same_step() {
    for step in all() {
        let text = serde_json::to_string(&step).unwrap();
        let again: Step = serde_json::from_str(&text).unwrap();
        assert_eq!(again.fingerprint(), step.fingerprint(), "{text}");
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
        let graphs = [&step, &again].map(|s| s.lower().unwrap().graph.fingerprint());
        assert_eq!(graphs[0], graphs[1], "{text}");
    }
}

#[test]
fn fingerprints_tell_steps_apart_and_ignore_names_and_durations() {
    let prints: Vec<u64> = all().iter().map(Step::fingerprint).collect();
    for (i, print) in prints.iter().enumerate() {
        assert!(!prints[..i].contains(print), "step {i}");
    }
    let mut renamed = model();
    renamed.name = "another".into();
    assert_eq!(Step::new(renamed).fingerprint(), prints[0]);
    let timed = |seconds| Step::new(model()).kernels(choices(seconds)).fingerprint();
    assert_eq!(timed(1.0), timed(2.0));
    assert_eq!(
        Step::new(model()).kernels(Choices::default()).fingerprint(),
        prints[0]
    );
}

#[test]
fn every_option_reaches_the_graph() {
    let print = |step: Step| step.lower().unwrap().graph.fingerprint();
    let plain = print(Step::new(model()).optimizer(sgd(false)));
    assert_ne!(
        plain,
        print(Step::new(model()).optimizer(sgd(true))),
        "nesterov"
    );
    let clipped = Step::new(model()).optimizer(sgd(false)).clip_norm(1.0);
    assert_ne!(plain, print(clipped), "clipping");
    let seeded = Step::new(model()).optimizer(sgd(false)).seed(1);
    assert_ne!(plain, print(seeded), "the seed of dropout");
}

#[test]
fn shared_state_gives_the_same_graph() {
    let step = Step::new(model()).clip_norm(1.0).optimizer(sgd(true));
    let alone = step.lower().unwrap().graph.fingerprint();
    let state = step.state().unwrap();
    for _ in 0..2 {
        let shared = step.lower_as(Pass::Train, step.batch, &state, 0).unwrap();
        assert_eq!(shared.graph.fingerprint(), alone);
    }
}

#[test]
fn settings_out_of_range_are_named() {
    let says = |step: Step| step.lower().err().unwrap().to_string();
    assert!(says(Step::new(model()).batch(0)).contains("the batch is 0"));
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = says(Step::new(model()).clip_norm(bad));
        assert!(error.contains("a finite number above 0"), "{error}");
    }
    let text = serde_json::to_string(&Step::new(model())).unwrap();
    for (from, to, says) in [
        ("\"batch\":32", "\"batch\":0", "the batch is 0"),
        ("\"auto\"", "\"depth=2\"", "unknown dimension"),
        ("\"cross_entropy\"", "\"hinge\"", "hinge"),
        ("linear", "lineal", "lineal"),
        ("\"seed\"", "\"sead\"", "sead"),
        ("\"eps\":1e-8", "\"eps\":-1.0", "epsilon is -1"),
    ] {
        assert!(text.contains(from), "{text}");
        let error = serde_json::from_str::<Step>(&text.replace(from, to)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
