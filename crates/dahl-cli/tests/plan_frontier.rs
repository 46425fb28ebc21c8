//! `dahl plan frontier`: the answer's form, the table, and what it says of bad files.

mod common;

use common::{dahl, folder, refuse};
use serde_json::Value;

/// Two stages; the first can be slower without anybody waiting for it.
const TABLE: &str = "stage,instruction,frequency,time,energy
0,forward,2,1.0,100
0,forward,1,1.5,60
0,backward,2,2.0,200
0,backward,1,3.0,120
1,forward,2,2.0,200
1,backward,2,4.0,400
";

#[test]
fn points_go_from_the_fastest_to_the_thriftiest() {
    let file = folder("plan_frontier").join("stages.csv");
    std::fs::write(&file, TABLE).expect("a file");
    let file = file.to_str().expect("UTF-8");
    let args = [
        "plan",
        "frontier",
        "--profile",
        file,
        "--micro-batches",
        "4",
    ];
    let text = dahl(&[&args[..], &["--waiting-watts", "20", "--json"]].concat());
    let answer: Value = serde_json::from_str(&text).expect("JSON");
    let points = answer["points"].as_array().expect("points");
    let number = |p: &Value, key: &str| p[key].as_f64().expect("a number");
    // One to fill, four times six, two to drain.
    assert!(
        (number(&points[0], "seconds") - 27.0).abs() < 1e-9,
        "{answer}"
    );
    for point in points {
        let (joules, bound) = (number(point, "joules"), number(point, "lower_bound"));
        assert!(bound <= joules, "{point}");
    }
    let text = dahl(&args);
    for part in ["no less than", "27.000000 s", "4 micro-batches", "1F1B"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let picture = std::path::Path::new(file).with_file_name("frontier.svg");
    let path = picture.to_str().expect("UTF-8");
    dahl(&[&args[..], &["--svg", path]].concat());
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    assert!(
        svg.starts_with("<svg ") && svg.contains("no less than"),
        "{svg}"
    );
}

/// The frontier of a model's plans is drawn by the same module.
#[test]
fn plans_of_a_model_are_drawn_with_what_they_were_compared_with() {
    let picture = folder("plan_model_frontier").join("frontier.svg");
    let path = picture.to_str().expect("UTF-8");
    let machine = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines/laptop.toml");
    dahl(&[
        "plan",
        "small-cnn",
        "--machine",
        machine,
        "--batch",
        "8",
        "--time-limit",
        "1",
        "--frontier",
        path,
    ]);
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    for part in ["frontier", "this plan", "time of a step"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
}

#[test]
fn bad_files_are_refused() {
    let file = folder("plan_frontier_bad").join("bad.csv");
    let file = file.to_str().expect("UTF-8");
    let args = [
        "plan",
        "frontier",
        "--profile",
        file,
        "--micro-batches",
        "4",
    ];
    refuse(&args, "", 1, &["cannot read", "bad.csv"]);
    std::fs::write(file, TABLE.replace("1.5", "fast")).expect("a file");
    refuse(&args, "", 1, &["bad.csv", "line 3", "time", "\"fast\""]);
    refuse(&args[..4], "", 2, &["--micro-batches"]);
}
