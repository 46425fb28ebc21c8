//! `dahl plan placement`: the answer's form, the table, and what it says of bad files.

mod common;

use common::{dahl, folder, refuse};
use serde_json::{Value, json};

/// Four nodes in a row, of which the third is by far the longest.
fn row() -> Value {
    let node = |id: u32, time: f64| {
        json!({ "id": id, "supportedOnFpga": 1, "cpuLatency": 10.0 * time, "fpgaLatency": time,
                "isBackwardNode": 0, "colorClass": id, "size": 2.0 })
    };
    let edge = |a: u32| json!({ "sourceId": a, "destId": a + 1, "cost": 0.5 });
    json!({ "maxSizePerFPGA": 8.0, "maxFPGAs": 2, "maxCPUs": 0,
            "nodes": [node(1, 1.0), node(2, 2.0), node(3, 6.0), node(4, 1.0)],
            "edges": [edge(1), edge(2), edge(3)] })
}

#[test]
fn the_best_cut_of_a_row_is_found() {
    let file = folder("plan_placement_row").join("row.json");
    std::fs::write(&file, row().to_string()).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let answer: Value =
        serde_json::from_str(&dahl(&["plan", "placement", file, "--json"])).expect("JSON");
    assert_eq!(answer["max_load"], json!(7.5), "{answer}");
    assert_eq!(answer["lower_bound"], json!(7.5), "{answer}");
    assert_eq!(answer["devices"][0]["nodes"], json!([1, 2]), "{answer}");
    assert_eq!(answer["devices"][1]["nodes"], json!([3, 4]), "{answer}");
    assert_eq!(
        answer["devices"][1]["kind"],
        json!("accelerator"),
        "{answer}"
    );
    let text = dahl(&["plan", "placement", file]);
    for part in ["communication", "7.5000", "proven optimal"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn bad_files_and_limits_are_refused() {
    let file = folder("plan_placement_bad").join("bad.json");
    let file = file.to_str().expect("UTF-8");
    refuse(
        &["plan", "placement", file],
        "",
        1,
        &["cannot read", "bad.json"],
    );
    std::fs::write(file, "{\"maxFPGAs\": 1}").expect("a file");
    refuse(
        &["plan", "placement", file],
        "",
        1,
        &["bad.json", "missing field"],
    );
    let mut small = row();
    small["maxSizePerFPGA"] = json!(3);
    std::fs::write(file, small.to_string()).expect("a file");
    refuse(
        &["plan", "placement", file],
        "",
        1,
        &["maxSizePerFPGA", "2 more"],
    );
    refuse(
        &["plan", "placement", file, "--time-limit=-1"],
        "",
        2,
        &["--time-limit"],
    );
}
