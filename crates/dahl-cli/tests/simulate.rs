//! `dahl simulate` and `dahl machine --describe`: predictions that repeat, files that read back, mistakes
//! that are named.

mod common;

use common::{dahl, folder, in_repository, refuse};
use serde_json::Value;

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&dahl(args)).expect("one line of JSON")
}

fn number(value: &Value, path: &str) -> f64 {
    let found = value.pointer(path).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("{path} in {value}"))
}

#[test]
fn a_prediction_adds_up_and_repeats() {
    let machine = in_repository("machines/rammus.toml");
    let args = [
        "simulate",
        "lenet5",
        "--machine",
        &machine,
        "--batch",
        "64",
        "--policy",
        "dmda",
        "--steps",
        "3",
        "--noise",
        "0.05",
        "--seed",
        "7",
        "--json",
    ];
    let report = json(&args);
    assert_eq!(report, json(&args), "the same question has the same answer");
    let parts = ["base_joules", "unit_joules", "transfer_joules"];
    let sum: f64 = parts
        .iter()
        .map(|p| number(&report, &format!("/energy/{p}")))
        .sum();
    let joules = number(&report, "/energy/joules");
    assert!((sum - joules).abs() <= 1e-9 * joules);
    assert!(joules > 0.0);
    let tasks: f64 = report["units"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|u| number(u, "/tasks"))
        .sum();
    assert_eq!(tasks, 3.0 * number(&report, "/tasks_per_step"));
    let known: f64 = ["measured", "fitted", "static", "assumed"]
        .iter()
        .map(|k| number(&report, &format!("/durations/{k}")))
        .sum();
    assert_eq!(known, tasks);
    // Nobody measured that machine.
    assert_eq!(number(&report, "/durations/measured"), 0.0);
}

#[test]
fn a_simulated_run_can_be_looked_at_as_a_real_one() {
    let trace = folder("simulated-trace").join("run.trace");
    let trace = trace.to_str().expect("UTF-8");
    let machine = in_repository("machines/two-nodes.toml");
    let said = dahl(&[
        "simulate",
        "first",
        "--machine",
        &machine,
        "--policy",
        "dmda",
        "--trace",
        trace,
    ]);
    assert!(said.contains("per step of"), "{said}");
    let summary = dahl(&["trace", "summary", trace]);
    assert!(summary.contains("desktop-cpu:0"), "{summary}");
}

#[test]
fn a_described_machine_can_be_simulated_in_both_formats() {
    let folder = folder("described");
    let at = |name: &str| folder.join(name).to_str().expect("UTF-8").to_owned();
    let laptop = in_repository("machines/laptop.toml");
    dahl(&[
        "machine",
        "--describe",
        "--from",
        &laptop,
        "-o",
        &at("m.xml"),
        "--format",
        "simgrid",
    ]);
    let text = std::fs::read_to_string(at("m.xml")).expect("it was written");
    assert!(text.contains("wattage_per_state"));
    let seconds = |machine: &str| {
        let report = json(&["simulate", "first", "--machine", machine, "--json"]);
        number(&report, "/makespan_seconds")
    };
    let (toml, xml) = (seconds(&laptop), seconds(&at("m.xml")));
    assert!((toml - xml).abs() <= 1e-9 * toml);
    // This computer: without calibration its speeds are unknown, which the error says.
    let here = assert_cmd::Command::new(env!("CARGO_BIN_EXE_dahl"))
        .env("DAHL_HOME", &folder)
        .args(["machine", "--describe", "-o", &at("here.toml")])
        .output()
        .expect("dahl can be started");
    assert!(here.status.success());
    assert!(String::from_utf8_lossy(&here.stderr).contains("dahl calibrate"));
    refuse(
        &[
            "simulate",
            "first",
            "--machine",
            &at("here.toml"),
            "--times",
            "none",
        ],
        "",
        1,
        &["add flops and bandwidth to the machine file"],
    );
}

#[test]
fn mistakes_are_named() {
    let machine = in_repository("machines/laptop.toml");
    refuse(
        &["simulate", "first", "--machine", "nowhere.toml"],
        "",
        1,
        &["cannot read nowhere.toml"],
    );
    refuse(
        &[
            "simulate",
            "first",
            "--machine",
            &machine,
            "--policy",
            "best",
        ],
        "",
        1,
        &["unknown policy \"best\"", "dmdas"],
    );
    refuse(
        &["simulate", "first", "--machine", &machine, "--noise", "9"],
        "",
        1,
        &["sigma 9", "0 to 3"],
    );
    let tiny = folder("tiny").join("m.toml");
    let text = std::fs::read_to_string(&machine).expect("it is there");
    std::fs::write(&tiny, text.replace("16 GiB", "10 KiB")).expect("it can be written");
    refuse(
        &[
            "simulate",
            "first",
            "--machine",
            tiny.to_str().expect("UTF-8"),
        ],
        "",
        1,
        &["in memory \"host\", which has 10.0 KiB"],
    );
}
