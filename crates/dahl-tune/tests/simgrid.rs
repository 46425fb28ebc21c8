//! Shipped models on the example machines, performed again by SimGrid: the same seconds and joules.

use std::path::Path;
use std::process::Command;

use dahl_nn::models;
use dahl_nn::optim::Sgd;
use dahl_nn::{Model, Step};
use dahl_tune::{MachineModel, PlanOptions, SimulateOptions, load_machine, plan, simulate};

/// Debian's module is for the system's Python.
const PYTHON: &str = "/usr/bin/python3";

#[test]
fn simgrid_takes_as_long_for_shipped_models() {
    let known = Command::new(PYTHON).args(["-c", "import simgrid"]).output();
    if !known.is_ok_and(|o| o.status.success()) {
        dahl_test_support::skip!("no SimGrid for Python", "apt install python3-simgrid");
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::temp_dir().join(format!("dahl-shipped-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut files = Vec::new();
    // Cores with states; cores beside a card; cores, a card and a network.
    let cases: [(&str, Model, bool); 4] = [
        ("laptop", models::small_cnn(), true),
        ("rammus", models::lenet5(), false),
        ("two-nodes", models::lenet5(), false),
        ("two-nodes", models::small_cnn(), true),
    ];
    for (machine, model, planned) in cases {
        let file = root.join(format!("machines/{machine}.toml"));
        let machine: MachineModel = load_machine(&file).unwrap().into();
        let step = Step::new(model).batch(16).optimizer(Sgd::default());
        let options = PlanOptions {
            rounds: 1,
            search_grain: false,
            time_limit: std::time::Duration::from_secs(5),
            ..PlanOptions::default()
        };
        let planned = planned.then(|| plan(&step, &machine, &options).unwrap().plan);
        let step = match &planned {
            Some(plan) => plan.adopt(step).unwrap(),
            None => step,
        };
        let options = SimulateOptions {
            policy: "dmda".into(),
            plan: planned.as_ref().map(|p| &p.file),
            steps: 3,
            record: true,
            ..SimulateOptions::default()
        };
        let run = simulate(&step, &machine, &options).unwrap();
        let path = folder.join(format!("{}.json", files.len()));
        std::fs::write(&path, serde_json::to_string(&run.replay()).unwrap()).unwrap();
        files.push(path);
    }
    let mut replay = Command::new(PYTHON);
    let out = replay
        .arg(root.join("bench/simgrid/replay.py"))
        .args(&files)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    let _ = std::fs::remove_dir_all(&folder);
    assert!(out.status.success(), "{text}{errors}");
    assert_eq!(text.lines().count(), files.len() + 1, "{text}");
}
