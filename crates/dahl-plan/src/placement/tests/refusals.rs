//! Hostile input gets an error that names the thing, never a panic or a wrong answer.

use serde_json::{Value, json};

use super::super::{PlacementProblem, solve};
use super::check;

fn base() -> Value {
    let node = |id: i64, backward: bool| {
        json!({
            "id": id, "supportedOnFpga": 1, "cpuLatency": 10.0, "fpgaLatency": 1.0,
            "isBackwardNode": backward, "colorClass": if backward { 7 - id } else { id }, "size": 4.0,
        })
    };
    let edge = |a: i64, b: i64| json!({ "sourceId": a, "destId": b, "cost": 0.5 });
    json!({
        "maxSizePerFPGA": 20.0, "maxFPGAs": 2, "maxCPUs": 1,
        "nodes": [node(1, false), node(2, false), node(3, false), node(4, true), node(5, true), node(6, true)],
        "edges": [edge(1, 2), edge(2, 3), edge(3, 4), edge(4, 5), edge(5, 6)],
    })
}

/// The error for the base problem with some fields changed.
fn refusal(changes: &[(&str, Value)]) -> String {
    let mut value = base();
    for (place, new) in changes {
        let (parent, key) = place.rsplit_once('/').expect("a path");
        let parent = value.pointer_mut(parent).expect("an existing parent");
        match (parent, new) {
            (Value::Object(map), Value::Null) => drop(map.remove(key)),
            (Value::Object(map), new) => drop(map.insert(key.into(), new.clone())),
            (Value::Array(list), new) => list.push(new.clone()),
            (other, _) => panic!("{place} is inside {other}"),
        }
    }
    let text = value.to_string();
    match PlacementProblem::from_json(&text).and_then(|p| solve(&p, &mut || true)) {
        Ok(answer) => panic!("{changes:?} gave {answer:?}"),
        Err(error) => error.to_string(),
    }
}

#[track_caller]
fn expect(changes: &[(&str, Value)], words: &[&str]) {
    let message = refusal(changes);
    for word in words {
        assert!(
            message.contains(word),
            "`{word}` is missing from: {message}"
        );
    }
}

#[test]
fn the_base_problem_is_solved() {
    let problem = PlacementProblem::from_json(&base().to_string()).expect("a sound problem");
    check(
        &problem,
        &solve(&problem, &mut || true).expect("a placement"),
    );
}

#[test]
fn fields_must_be_there_and_make_sense() {
    for field in ["maxSizePerFPGA", "maxFPGAs", "maxCPUs", "nodes", "edges"] {
        expect(
            &[(&format!("/{field}"), Value::Null)],
            &[field, "missing", "line"],
        );
    }
    for field in [
        "id",
        "supportedOnFpga",
        "cpuLatency",
        "fpgaLatency",
        "isBackwardNode",
        "size",
    ] {
        expect(
            &[(&format!("/nodes/1/{field}"), Value::Null)],
            &[field, "missing"],
        );
    }
    for field in ["sourceId", "destId", "cost"] {
        expect(
            &[(&format!("/edges/1/{field}"), Value::Null)],
            &[field, "missing"],
        );
    }
    for field in ["cpuLatency", "fpgaLatency", "size"] {
        expect(
            &[(&format!("/nodes/1/{field}"), json!(-1.5))],
            &[field, "node 2", "-1.5"],
        );
    }
    expect(
        &[("/edges/0/cost", json!(-2))],
        &["cost", "edge 1 -> 2", "-2"],
    );
    expect(&[("/maxSizePerFPGA", json!(-1))], &["maxSizePerFPGA", "-1"]);
    expect(&[("/maxFPGAs", json!(-1))], &["-1", "number of devices"]);
    expect(&[("/maxCPUs", json!(1.5))], &["1.5", "number of devices"]);
    expect(
        &[("/nodes/0/supportedOnFpga", json!(2))],
        &["true, false, 1 or 0"],
    );
    expect(&[("/nodes/0/size", json!("big"))], &["big", "f64"]);
    expect(
        &[
            ("/nodes/0/cpuLatency", json!(1e308)),
            ("/nodes/1/cpuLatency", json!(1e308)),
        ],
        &["cpuLatency", "sum"],
    );
}

#[test]
fn text_that_is_no_problem_is_refused() {
    let good = base().to_string();
    for text in ["", "{", "[]", "null", "3", "\u{0}", &"[".repeat(100_000)] {
        assert!(PlacementProblem::from_json(text).is_err(), "{text:.20}");
    }
    for end in (0..good.len()).step_by(37) {
        assert!(
            PlacementProblem::from_json(&good[..end]).is_err(),
            "cut at {end}"
        );
    }
    for number in ["NaN", "Infinity", "1e999", "-"] {
        let text = good.replacen("10.0", number, 1);
        assert_ne!(text, good);
        let error = PlacementProblem::from_json(&text)
            .expect_err(number)
            .to_string();
        assert!(error.contains("line"), "{error}");
    }
}

#[test]
fn graphs_must_be_graphs() {
    let edge = |a: i64, b: i64, cost: f64| json!({ "sourceId": a, "destId": b, "cost": cost });
    expect(&[("/edges/-", edge(3, 1, 0.5))], &["1", "2", "3", "cycle"]);
    expect(&[("/edges/-", edge(2, 2, 0.5))], &["nodes 2 ", "cycle"]);
    expect(
        &[("/edges/-", edge(1, 99, 0.5))],
        &["edge 1 -> 99", "no node 99"],
    );
    expect(&[("/edges/-", edge(5, 2, 0.5))], &["5 -> 2", "backward"]);
    expect(
        &[("/edges/-", edge(1, 3, 0.75))],
        &["node 1", "0.5", "0.75"],
    );
    expect(&[("/nodes/1/id", json!(1))], &["node 1", "twice"]);
}

#[test]
fn what_does_not_fit_is_named_with_what_is_missing() {
    let alone = ("/maxCPUs", json!(0));
    expect(
        &[alone.clone(), ("/maxFPGAs", json!(0))],
        &["maxFPGAs", "maxCPUs", "6 nodes"],
    );
    expect(
        &[alone.clone(), ("/nodes/4/supportedOnFpga", json!(0))],
        &["nodes 2, 5", "5 cannot run"],
    );
    expect(
        &[alone.clone(), ("/maxSizePerFPGA", json!(7))],
        &["nodes 1, 6", "8: 1 more", "(7)"],
    );
    expect(
        &[alone.clone(), ("/maxSizePerFPGA", json!(11))],
        &["24: 2 more", "2 accelerators"],
    );
    // 16 of 24 must be together, as three classes cannot be halved.
    expect(
        &[alone, ("/maxSizePerFPGA", json!(13))],
        &["at least 16", "3 more", "(13)"],
    );
}

#[test]
fn nothing_to_place_needs_no_device() {
    let text = r#"{"maxSizePerFPGA":0,"maxFPGAs":0,"maxCPUs":0,"nodes":[],"edges":[]}"#;
    let problem = PlacementProblem::from_json(text).expect("a sound problem");
    let answer = solve(&problem, &mut || true).expect("an answer");
    assert!(answer.devices.is_empty() && answer.max_load == 0.0 && answer.is_optimal());
}
