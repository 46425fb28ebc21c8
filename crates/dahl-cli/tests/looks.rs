//! What people look at: words, columns that fit a terminal, one and many.

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

/// What a run says of itself: what decides on its bits, and lines that eighty columns hold.
#[test]
fn training_names_its_kernels_and_fits_eighty_columns() {
    let home = folder("looks-train-home");
    let train = "train small-cnn --data synthetic:1x28x28:640 --batch 8 --epochs 2 --workers 1";
    let out = dahl(&home, &train.split(' ').collect::<Vec<_>>());
    let kernels = out.lines().nth(1).expect("a second line");
    assert!(kernels.starts_with("kernels: cpu "), "{kernels}");
    assert!(kernels.ends_with("; chosen by static costs"), "{kernels}");
    let epochs: Vec<&str> = out.lines().filter(|l| l.starts_with("epoch ")).collect();
    assert_eq!(epochs.len(), 2, "{out}");
    for line in epochs {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(
        out.contains("1280 images,") && out.contains(" 1 worker "),
        "{out}"
    );
    // With a profile, it is named.
    let calibrate = "calibrate --model small-cnn --batch 8 --seconds 0.01 --workers 1";
    dahl(&home, &calibrate.split(' ').collect::<Vec<_>>());
    let out = dahl(&home, &train.split(' ').collect::<Vec<_>>());
    let kernels = out.lines().nth(1).expect("a second line");
    assert!(
        kernels.contains("chosen by calibration profile"),
        "{kernels}"
    );
}

#[test]
fn one_is_singular() {
    let home = folder("looks-one-home");
    let machine = common::in_repository("machines/laptop.toml");
    let one =
        "train small-cnn --data synthetic:1x28x28:1 --val-limit 0 --batch 1 --epochs 1 --workers 1";
    let simulate = format!("simulate small-cnn --batch 1 --machine {machine}");
    for (command, part) in [
        (one, ": 6810 parameters, 1 image, 0 more"),
        (one, " s, 1 image, "),
        (one, " of 1 worker "),
        (&simulate, "1 step in "),
    ] {
        let out = dahl(&home, &command.split(' ').collect::<Vec<_>>());
        assert!(out.contains(part), "{part:?} in {out}");
    }
}
