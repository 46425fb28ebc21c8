//! Plans, and the steps inside of them.

use std::time::Duration;

use dahl::core::Machine;
use dahl::nn::{Model, Registry, Step};
use dahl::plan::PlanFile;
use dahl::tune::{MachineModel, PlanOptions};

use super::{said, text};
use crate::{Answer, Folder, Target};

pub(super) const PLAN: Target = Target {
    name: "plan",
    files: &[],
    made: || vec![planned().to_json().into_bytes()],
    words: &[
        "\"version\"",
        "\"target\"",
        "\"step\"",
        "\"order\"",
        "\"unit\"",
        "\"state\"",
        "\"start\"",
        "\"end\"",
        "\"transfers\"",
        "\"from\"",
        "\"to\"",
        "\"peaks\"",
        "\"expected\"",
        "\"deadline\"",
        "\"gap\"",
    ],
    parse: plan,
};

fn plan(_: &Folder, bytes: &[u8]) -> Answer {
    let plan = PlanFile::from_json(text(bytes)?).map_err(said)?;
    let written = plan.to_json();
    let again = PlanFile::from_json(&written);
    let again = again
        .unwrap_or_else(|e| panic!("a plan that was read is refused as written: {e}\n{written}"));
    assert_eq!(again, plan);
    let _ = plan.planned_transfers().map_err(said);
    let step = Step::from_json_with(&plan.target.step.to_string(), &Registry::default());
    step.map(drop).map_err(said)
}

pub(super) const STEP: Target = Target {
    name: "step",
    files: &[],
    made: || vec![serde_json::to_vec(&small()).expect("a step has a text")],
    words: &[
        "\"model\"",
        "\"batch\"",
        "\"dtype\"",
        "\"grain\"",
        "\"loss\"",
        "\"optimizer\"",
        "\"clip_norm\"",
        "\"kernels\"",
        "\"sgd\"",
        "\"adam\"",
        "\"adamw\"",
        "\"momentum\"",
        "\"betas\"",
        "\"weight_decay\"",
        "\"nesterov\"",
        "\"cross_entropy\"",
        "\"label_smoothing\"",
        "\"weight\"",
        "\"mse\"",
        "sample=8,channel=2",
        "auto/auto",
    ],
    parse: step,
};

fn step(_: &Folder, bytes: &[u8]) -> Answer {
    let step = Step::from_json_with(text(bytes)?, &Registry::default()).map_err(said)?;
    let written = serde_json::to_string(&step).expect("a step that was read has a text");
    let again = Step::from_json_with(&written, &Registry::default());
    let again = again
        .unwrap_or_else(|e| panic!("a step that was read is refused as written: {e}\n{written}"));
    assert_eq!(again.fingerprint(), step.fingerprint(), "{written}");
    Ok(())
}

/// A step of few tasks.
fn small() -> Step {
    let model = Model::builder("small", [1, 6, 6])
        .conv2d(2, 3)
        .relu()
        .flatten()
        .linear(3);
    Step::new(model.build().expect("a sound model"))
        .batch(4)
        .clip_norm(1.0)
}

/// A plan of it with transfers: the first one found, so that no clock decides which.
fn planned() -> PlanFile {
    let machine = include_str!("../../../../bench/planner/machines/gpu.toml");
    let machine = Machine::from_toml(machine, "gpu.toml").expect("a machine of the repository");
    let options = PlanOptions {
        search_grain: false,
        gap: 1.0,
        time_limit: Duration::ZERO,
        ..PlanOptions::default()
    };
    let planned = dahl::plan(&small(), &MachineModel::from(machine), &options);
    planned.expect("a plan of a small step").plan.file
}
