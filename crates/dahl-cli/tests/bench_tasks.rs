//! `dahl bench tasks`: its report, for every pattern and policy, and what it refuses. How fast it is
//! has no place in a test.

mod common;

use common::{dahl, refuse};
use serde_json::Value;

#[test]
fn every_pattern_and_policy_reports() {
    for pattern in ["independent", "chain", "pairs"] {
        for policy in ["eager", "ws", "dm", "dmda", "dmdas"] {
            let args = ["bench", "tasks", "--pattern", pattern, "--policy", policy];
            let size = [
                "--tasks",
                "500",
                "--workers",
                "2",
                "--replays",
                "3",
                "--json",
            ];
            let out = dahl(&[&args[..], &size[..]].concat());
            assert_eq!(out.lines().count(), 1, "one line of JSON: {out}");
            let report: Value = serde_json::from_str(&out).expect("JSON");
            assert_eq!(report["pattern"], pattern);
            assert_eq!(report["policy"], policy);
            assert_eq!(
                (&report["tasks"], &report["workers"]),
                (&500.into(), &2.into())
            );
            for field in ["submit_ns", "first_ns", "replay_ns"] {
                assert!(
                    report[field].as_f64().is_some_and(|v| v > 0.0),
                    "{field} in {out}"
                );
            }
        }
    }
}

#[test]
fn people_get_a_table() {
    let out = dahl(&[
        "bench",
        "tasks",
        "--tasks",
        "100",
        "--workers",
        "1",
        "--replays",
        "1",
    ]);
    for part in ["nanoseconds", "recording", "first execution", "replay"] {
        assert!(out.contains(part), "{part:?} is missing from {out}");
    }
}

#[test]
fn an_unknown_policy_lists_the_known() {
    let args = ["bench", "tasks", "--tasks", "10", "--policy", "lucky"];
    refuse(
        &args,
        "",
        1,
        &["unknown policy \"lucky\"", "eager", "ws", "dmdas"],
    );
}

#[test]
fn numbers_out_of_range_are_refused() {
    refuse(
        &["bench", "tasks", "--workers", "0"],
        "",
        2,
        &["--workers", "0"],
    );
    refuse(&["bench", "tasks", "--workers", "-1"], "", 2, &["-1"]);
    refuse(
        &["bench", "tasks", "--workers", "many"],
        "",
        2,
        &["--workers", "many"],
    );
    refuse(
        &["bench", "tasks", "--workers", "70000"],
        "",
        2,
        &["--workers", "70000"],
    );
    refuse(
        &["bench", "tasks", "--tasks", "0"],
        "",
        2,
        &["--tasks", "0"],
    );
    refuse(
        &["bench", "tasks", "--tasks", "1e99"],
        "",
        2,
        &["--tasks", "1e99"],
    );
    refuse(
        &["bench", "tasks", "--replays", "0"],
        "",
        2,
        &["--replays", "0"],
    );
    refuse(
        &["bench", "tasks", "--pattern", "plaid"],
        "",
        2,
        &["plaid", "independent", "chain", "pairs"],
    );
}

#[test]
fn units_are_chosen_as_everywhere() {
    let args = [
        "bench",
        "tasks",
        "--tasks",
        "100",
        "--replays",
        "1",
        "--json",
    ];
    let with = |units: &str| {
        let out = dahl(&[&args[..], &["--units", units]].concat());
        serde_json::from_str::<Value>(&out).expect("JSON")
    };
    let report = with("cpu:3");
    assert_eq!(report["workers"], 3);
    assert_eq!(report["units"], "3 workers");
    refuse(
        &["bench", "tasks", "--units", "cpu:2", "--workers", "1"],
        "",
        2,
        &["--workers"],
    );
    refuse(
        &["bench", "tasks", "--units", "gpu:99"],
        "",
        1,
        &["gpu", "99"],
    );
    refuse(
        &["bench", "simulator", "--units", "gpu:0"],
        "",
        1,
        &["calibrate", "bench step --units"],
    );
}
