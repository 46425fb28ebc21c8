//! `dahl perf`: what was timed, in words and columns that fit a terminal.

mod common;

use std::process::Command;

use common::folder;

fn dahl(home: &std::path::Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
    let output = command.args(args).env("DAHL_HOME", home).output();
    let output = output.expect("dahl can be started");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {err}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn durations_are_shown_in_words_and_fit_eighty_columns() {
    let home = folder("perf-home");
    assert!(dahl(&home, &["perf"]).contains("run `dahl calibrate`"));
    let calibrate = "calibrate --model small-cnn --batch 8 --seconds 0.01 --workers 1";
    dahl(&home, &calibrate.split(' ').collect::<Vec<_>>());
    let rows: serde_json::Value =
        serde_json::from_str(&dahl(&home, &["perf", "--json"])).expect("JSON");
    let rows = rows.as_array().expect("rows");
    let codelet = |row: &serde_json::Value| row["codelet"].as_str().expect("a name").to_owned();
    let shown = dahl(&home, &["perf"]);
    for row in rows {
        // Each codelet has a line of its own.
        let name = codelet(row);
        assert!(shown.lines().any(|line| line == name), "{name}: {shown}");
    }
    let name = codelet(&rows[0]);
    let one = dahl(&home, &["perf", &name]);
    for row in rows.iter().filter(|row| codelet(row) == name) {
        let shapes = row["shapes"].as_str().expect("shapes");
        assert!(one.lines().any(|l| l.starts_with(shapes)), "{one}");
    }
    for text in [&shown, &one] {
        assert!(
            text.contains("median") && text.contains("of best"),
            "{text}"
        );
        for odd in ['{', '}']
            .map(String::from)
            .iter()
            .chain(&["ln_scale".into(), " 0 s + ".into()])
        {
            assert!(!text.contains(odd.as_str()), "{odd}: {text}");
        }
        // Of sentences the terminal's width decides; tables fit any.
        for line in text
            .lines()
            .filter(|l| l.starts_with(' ') || l.starts_with('═'))
        {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
