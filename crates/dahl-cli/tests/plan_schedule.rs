//! `dahl plan schedule`: the picture in letters, its figures, and what is refused.

mod common;

use common::{dahl, refuse};
use serde_json::Value;

#[test]
fn a_schedule_is_drawn() {
    let args = [
        "plan",
        "schedule",
        "--stages",
        "4",
        "--micro-batches",
        "8",
        "--schedule",
        "zb-h1",
    ];
    let text = dahl(&args);
    for part in [
        "   0 FFFF...BW",
        "makespan 27.0000, no less than 27.0000",
        "bubble 12.50 %",
        "4, 4, 4, 4",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let answer: Value =
        serde_json::from_str(&dahl(&[&args[..], &["--json"]].concat())).expect("JSON");
    assert_eq!(answer["makespan"], 27.0);
    assert_eq!(answer["orders"][0][0]["operation"], "Forward");
}

#[test]
fn wrong_times_and_names_are_refused() {
    let plan = ["plan", "schedule", "--stages", "2", "--micro-batches", "4"];
    let with = |more: &[&'static str]| [&plan[..], more].concat();
    refuse(&with(&["--schedule", "zb-h3"]), "", 2, &["zb-h3", "zb-h1"]);
    refuse(
        &with(&["--times", "1,1"]),
        "",
        1,
        &["--times", "three numbers"],
    );
    refuse(
        &with(&["--times", "1,1,1"]),
        "",
        1,
        &["--times has 1", "--stages is 2"],
    );
    refuse(&with(&["--times", "1,1,1:1,NaN,1"]), "", 1, &["NaN"]);
}
