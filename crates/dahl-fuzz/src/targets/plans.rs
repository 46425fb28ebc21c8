//! Plans, and the steps inside of them.

use std::time::Duration;

use dahl::core::{Machine, UnitId};
use dahl::nn::{Model, Registry, Step};
use dahl::plan::{PlanFile, PlanPolicy};
use dahl::tune::{AnyPlan, MachineModel, PlanOptions, RunConfig};

use super::{said, text};
use crate::{Answer, Folder, Target};

pub(super) const PLAN: Target = Target {
    name: "plan",
    files: &[],
    made: || {
        [planned(), left()]
            .map(|plan| plan.to_json().into_bytes())
            .into()
    },
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
        "\"policy\"",
        "\"name\"",
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

pub(super) const NODES: Target = Target {
    name: "nodes",
    files: &[],
    made: || {
        let step = serde_json::to_value(small()).expect("a step has a text");
        let node = |name: &str, share: f64| {
            let (state, on) = (0, true);
            serde_json::json!({"name": name, "share": share, "state": state, "on": on})
        };
        let two = [node("a", 0.75), node("b", 0.25)];
        let pipeline =
            serde_json::json!({"name": "2:1f1b", "kept": [], "cut": [2], "replicas": [1, 1]});
        let plan = |nodes: &[serde_json::Value], pipeline: &serde_json::Value| {
            let plan = serde_json::json!({
                "cluster": 1, "step": step, "nodes": nodes, "policy": "ws", "pipeline": pipeline
            });
            plan.to_string().into_bytes()
        };
        let none = serde_json::Value::Null;
        // One of a node alone, which this process can go on with.
        vec![
            plan(&two, &none),
            plan(&two, &pipeline),
            plan(&[node("a", 1.0)], &pipeline),
        ]
    },
    words: &[
        "\"cluster\"",
        "\"nodes\"",
        "\"name\"",
        "\"share\"",
        "\"state\"",
        "\"on\"",
        "\"policy\"",
        "\"pipeline\"",
        "\"kept\"",
        "\"cut\"",
        "\"replicas\"",
        "\"2:zb-v\"",
        "\"pipedream:2\"",
    ],
    parse: nodes,
};

fn nodes(folder: &Folder, bytes: &[u8]) -> Answer {
    match AnyPlan::load(&folder.write("plan.json", bytes)).map_err(said)? {
        AnyPlan::One(_) => Err("a plan for one computer, which has a target of its own".into()),
        AnyPlan::Nodes(plan) => {
            plan.adopt(small()).map_err(said)?;
            let run = plan.apply(RunConfig::default());
            run.map(drop).map_err(said)
        }
    }
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

fn machine() -> Machine {
    let machine = include_str!("../../../../bench/planner/machines/gpu.toml");
    Machine::from_toml(machine, "gpu.toml").expect("a machine of the repository")
}

/// The same with order and unit left to a policy on all units.
fn left() -> PlanFile {
    let (mut plan, machine) = (planned(), machine());
    plan.transfers.clear();
    plan.tasks.iter_mut().for_each(|task| task.state = 0);
    let all: Vec<UnitId> = (0..machine.units.len() as u16).map(UnitId).collect();
    plan.left_to(PlanPolicy::new("dmda", &machine, &all, 0), &machine)
}

/// A plan of it with transfers: the first one found, so that no clock decides which.
fn planned() -> PlanFile {
    let options = PlanOptions {
        search_grain: false,
        fixed: true,
        gap: 1.0,
        time_limit: Duration::ZERO,
        ..PlanOptions::default()
    };
    let planned = dahl::plan(&small(), &MachineModel::from(machine()), &options);
    planned.expect("a plan of a small step").plan.file
}
