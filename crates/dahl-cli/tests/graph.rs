//! `dahl graph`: what it draws, and what it says of files that are not programs.

mod common;

use common::{dahl, folder, in_repository, refuse, succeed};
use serde_json::{Value, json};

/// A program that writes the halves of an array and reads a part that lies in both.
fn halves() -> Value {
    json!({
        "arrays": [{"name": "x", "shape": [8], "dtype": "f32"}, {"name": "y", "shape": [4], "dtype": "f32"}],
        "tasks": [
            {"codelet": "fill", "accesses": [{"array": 0, "mode": "write", "region": [[0, 4]]}]},
            {"codelet": "fill", "accesses": [{"array": 0, "mode": "write", "region": [[4, 8]]}]},
            {"codelet": "copy", "section": "middle", "accesses": [
                {"array": 0, "mode": "read", "region": [[2, 6]]}, {"array": 1, "mode": "write"}]}
        ]
    })
}

fn graph_of(program: &Value) -> Value {
    let out = succeed(&["graph", "-", "--format", "json"], &program.to_string());
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn dependencies_follow_regions() {
    assert_eq!(graph_of(&halves())["edges"], json!([[0, 2], [1, 2]]));
    let mut apart = halves();
    apart["tasks"][2]["accesses"][0]["region"] = json!([[0, 4]]);
    assert_eq!(graph_of(&apart)["edges"], json!([[0, 2]]));
}

#[test]
fn dot_names_tasks_sections_and_edges() {
    let out = succeed(&["graph", "-"], &halves().to_string());
    assert!(out.starts_with("digraph"), "{out}");
    for part in [
        "fill #0",
        "copy #2",
        "x[2..6]",
        "\"middle\"",
        "t0 -> t2;",
        "t1 -> t2;",
    ] {
        assert!(out.contains(part), "{part:?} is missing from {out}");
    }
    assert!(!out.contains("t0 -> t1"), "{out}");
}

#[test]
fn quotes_in_names_do_not_break_the_drawing() {
    let mut program = halves();
    program["arrays"][0]["name"] = json!("a \"quoted\\\" name");
    let out = succeed(&["graph", "-"], &program.to_string());
    assert!(out.contains(r#"a \"quoted\\\" name"#), "{out}");
}

#[test]
fn what_is_printed_can_be_read_again() {
    let file = folder("graph-again").join("graph.json");
    let first = dahl(&[
        "graph",
        &in_repository("examples/graph.json"),
        "--format",
        "json",
    ]);
    std::fs::write(&file, &first).unwrap();
    let second = dahl(&["graph", file.to_str().unwrap(), "--format", "json"]);
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let (first, second) = (parse(&first), parse(&second));
    assert_eq!(first["edges"], second["edges"]);
    assert_eq!(first["temporary_bytes"], second["temporary_bytes"]);
}

#[test]
fn the_shipped_example_is_one_training_step() {
    let file = in_repository("examples/graph.json");
    let graph: Value = serde_json::from_str(&dahl(&["graph", &file, "--format", "json"])).unwrap();
    let tasks = graph["program"]["tasks"].as_array().unwrap();
    let count = |name: &str| tasks.iter().filter(|t| t["codelet"] == name).count();
    assert_eq!((count("conv2d_relu_max_pool2d"), count("sgd")), (2, 3));
    assert_eq!(count("merge"), 1, "the filter's gradient is reduced");
}

#[test]
fn large_graphs_are_drawn_on_demand_only() {
    let program = halves().to_string();
    refuse(
        &["graph", "-", "--limit", "2"],
        &program,
        1,
        &["3 tasks", "--limit"],
    );
    succeed(&["graph", "-", "--limit", "3"], &program);
}

#[test]
fn missing_files_and_folders_are_errors() {
    let missing = folder("graph-missing").join("none.json");
    refuse(
        &["graph", missing.to_str().unwrap()],
        "",
        1,
        &["cannot read", "none.json"],
    );
    let here = folder("graph-folder");
    refuse(
        &["graph", here.to_str().unwrap()],
        "",
        1,
        &["cannot read", "graph-folder"],
    );
    refuse(&["graph"], "", 2, &["<FILE>"]);
}

#[test]
fn files_that_are_not_programs_are_errors() {
    refuse(&["graph", "-"], "", 1, &["not JSON"]);
    refuse(&["graph", "-"], "digraph {}", 1, &["not JSON", "line 1"]);
    refuse(&["graph", "-"], "{\"arrays\": [", 1, &["not JSON"]);
    refuse(&["graph", "-"], "[1, 2]", 1, &["not a program"]);
    refuse(
        &["graph", "-"],
        "{\"arrays\": []}",
        1,
        &["not a program", "tasks"],
    );
    let mut strange = halves();
    strange["tasks"][0]["colour"] = json!("red");
    refuse(
        &["graph", "-"],
        &strange.to_string(),
        1,
        &["not a program", "colour"],
    );
    refuse(&["graph", "-"], &"[".repeat(100_000), 1, &["not JSON"]);

    let file = folder("graph-bytes").join("latin1.json");
    std::fs::write(&file, b"{\"arrays\": \xff\xfe}").unwrap();
    refuse(
        &["graph", file.to_str().unwrap()],
        "",
        1,
        &["cannot read", "UTF-8"],
    );
}

#[test]
fn regions_outside_their_array_are_errors() {
    for region in [
        json!([[4, 9]]),
        json!([[4, 4]]),
        json!([[5, 4]]),
        json!([[0, 4], [0, 1]]),
    ] {
        let mut program = halves();
        program["tasks"][1]["accesses"][0]["region"] = region;
        refuse(&["graph", "-"], &program.to_string(), 1, &["tasks[1]"]);
    }
    let mut negative = halves();
    negative["tasks"][1]["accesses"][0]["region"] = json!([[-1, 4]]);
    refuse(
        &["graph", "-"],
        &negative.to_string(),
        1,
        &["not a program"],
    );
}

#[test]
fn arrays_that_do_not_exist_or_cannot_are_errors() {
    let mut program = halves();
    program["tasks"][2]["accesses"][1]["array"] = json!(7);
    refuse(
        &["graph", "-"],
        &program.to_string(),
        1,
        &["tasks[2]", "array 7 does not exist"],
    );

    for shape in [
        json!([0]),
        json!([1, 1, 1, 1, 1]),
        json!([4294967296u64, 4294967296u64]),
    ] {
        let mut program = halves();
        program["arrays"][1]["shape"] = shape;
        refuse(&["graph", "-"], &program.to_string(), 1, &[]);
    }
    let mut program = halves();
    program["tasks"][0]["accesses"][0]["mode"] = json!("scribble");
    refuse(
        &["graph", "-"],
        &program.to_string(),
        1,
        &["not a program", "scribble"],
    );
}

#[test]
fn programs_without_a_meaning_are_errors() {
    let mut unwritten = halves();
    unwritten["arrays"][0]["temporary"] = json!(true);
    unwritten["tasks"].as_array_mut().unwrap().remove(0);
    refuse(
        &["graph", "-"],
        &unwritten.to_string(),
        1,
        &["copy \"middle\"", "no task has written"],
    );

    let mut twice = halves();
    twice["tasks"][2]["accesses"][1] = json!({"array": 0, "mode": "write", "region": [[5, 8]]});
    refuse(
        &["graph", "-"],
        &twice.to_string(),
        1,
        &["operand 0 and operand 1 overlap"],
    );
}
