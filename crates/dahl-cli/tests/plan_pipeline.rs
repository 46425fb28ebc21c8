//! `dahl plan pipeline`: the answer's form, the table, and what it says of bad files.

mod common;

use common::{dahl, folder, refuse};
use serde_json::{Value, json};

/// Four layers, of which the first two take half of the time.
const PROFILE: &str = "node1 -- Input -- forward_compute_time=9.0, backward_compute_time=0.0, activation_size=5.0, parameter_size=0.0
node2 -- Conv2d -- forward_compute_time=10.0, backward_compute_time=20.0, activation_size=4e6, parameter_size=1e9
node3 -- ReLU -- forward_compute_time=5.0, backward_compute_time=15.0, activation_size=4e6, parameter_size=0.0
node4 -- Conv2d -- forward_compute_time=10.0, backward_compute_time=20.0, activation_size=4e6, parameter_size=1e9
node5 -- Linear -- forward_compute_time=5.0, backward_compute_time=15.0, activation_size=4e6, parameter_size=1e9
\tnode1 -- node2
\tnode2 -- node3
\tnode3 -- node4
\tnode4 -- node5
";

#[test]
fn a_profile_is_cut_in_the_middle() {
    let file = folder("plan_pipeline_row").join("row.graph.txt");
    std::fs::write(&file, PROFILE).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let equal = [
        "plan",
        "pipeline",
        file,
        "--nodes",
        "2",
        "--bandwidth",
        "1e9",
    ];
    let text = dahl(&[&equal[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let keys: Vec<&String> = answer.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["lower_bound", "search_seconds", "seconds", "stages"]);
    assert!((answer["seconds"].as_f64().expect("a number") - 0.05).abs() < 1e-12);
    assert_eq!(answer["seconds"], answer["lower_bound"]);
    let stages = answer["stages"].as_array().expect("stages");
    assert_eq!(stages.len(), 2);
    assert_eq!(stages[0]["first"], json!("node2"));
    assert_eq!(stages[0]["last"], json!("node3"));
    assert_eq!(stages[1]["replicas"], json!(1));
    // Two versions of 1 GB and 8 MB.
    assert_eq!(stages[0]["memory_bytes"], json!(2_016_000_000.0));
    let text = dahl(&equal);
    for part in ["node3", "50.0 ms", "gap 0.00 %", "on one unit: 100 ms"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn models_are_cut_by_their_own_times() {
    let machine = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../machines/four-nodes.toml"
    );
    let args = [
        "plan",
        "pipeline",
        "resnet18-32",
        "--machine",
        machine,
        "--json",
    ];
    let answer: Value = serde_json::from_str(&dahl(&args)).expect("JSON");
    assert_eq!(answer["seconds"], answer["lower_bound"], "{answer}");
    assert_eq!(answer["stages"][0]["first"], json!("conv1"), "{answer}");
}

#[test]
fn bad_files_and_limits_are_refused() {
    let file = folder("plan_pipeline_bad").join("bad.graph.txt");
    let file = file.to_str().expect("UTF-8");
    let plan = |more: &[&'static str]| {
        let args = ["plan", "pipeline", file].into_iter();
        args.chain(more.iter().copied())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let refused = |more: &[&'static str], code: i32, parts: &[&str]| {
        let args = plan(more);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        refuse(&args, "", code, parts);
    };
    let equal = ["--nodes", "2", "--bandwidth", "1e9"];
    refused(&equal, 1, &["cannot read", "bad.graph.txt"]);
    std::fs::write(file, "node1 -- A -- forward_compute_time=1").expect("a file");
    refused(
        &equal,
        1,
        &[
            "bad.graph.txt",
            "line 1",
            "backward_compute_time",
            "cut off",
        ],
    );
    std::fs::write(file, PROFILE).expect("a file");
    refused(&[], 2, &["--machine"]);
    refused(&["--nodes", "2"], 2, &["--bandwidth"]);
    refused(&["--nodes", "2", "--bandwidth", "0"], 2, &["above 0"]);
    refused(&["--nodes", "0", "--bandwidth", "1"], 2, &["1..=4096"]);
    let small = ["--nodes", "2", "--bandwidth", "1e9", "--memory", "1GB"];
    refused(&small, 1, &["no pipeline fits", "953.7 MiB", "--memory"]);
}
