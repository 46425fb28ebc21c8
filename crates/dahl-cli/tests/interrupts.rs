//! Signals at any moment: nothing is lost, exit codes are the documented ones, and what was stopped goes on to the bits
//! of the unbroken run. `DAHL_TEST_INTERRUPTS` says how many moments are tried (12 unless set).
//!
//! Moments are drawn at random; no outcome depends on when a signal comes: whatever it meets must be right.

#![cfg(unix)]

mod common;
#[path = "interrupts/signals.rs"]
mod signals;

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{folder, in_repository};
use signals::{NOTHING_YET, Random, Runs, Stopped, at_home, dahl, moments, run, strings};

fn rows(path: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).expect("metrics");
    let rows = text.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().expect("lines of JSON")
}

/// Epochs and what was learnt in them.
fn learnt(path: &Path) -> Vec<(u64, String, String)> {
    let epochs = rows(path).into_iter().filter(|r| r["event"] == "epoch");
    let key = |r: &serde_json::Value, k: &str| r[k].to_string();
    epochs
        .map(|r| {
            (
                r["epoch"].as_u64().unwrap(),
                key(&r, "loss"),
                key(&r, "val_loss"),
            )
        })
        .collect()
}

struct Files {
    folder: PathBuf,
}

impl Files {
    fn at(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn train(&self) -> Vec<String> {
        let mut args = strings(&[
            "train",
            "small-cnn",
            "--data",
            "synthetic:1x28x28:1500",
            "--batch",
            "8",
            "--epochs",
            "3",
        ]);
        for (option, name) in [
            ("--checkpoint", "points"),
            ("--save", "w.safetensors"),
            ("--metrics", "m.jsonl"),
            ("--trace", "t.trace"),
        ] {
            args.push(option.into());
            args.push(self.at(name).to_str().expect("UTF-8").into());
        }
        args
    }
}

#[test]
fn training_goes_on_to_the_same_bits() {
    let home = folder("interrupts-home");
    let whole = Files {
        folder: folder("interrupts-whole"),
    };
    let unbroken = run(dahl(&home, &whole.train()), &[]);
    assert!(unbroken.status.success(), "{}", unbroken.err);
    let mut runs = Runs::new(2, 1, unbroken.took);
    while runs.goes_on() {
        let moment = runs.left;
        let files = Files {
            folder: folder("interrupts-train"),
        };
        let mut command = dahl(&home, &files.train());
        // Interrupted again and again, then let go.
        for attempt in 0.. {
            let (after, signal) = runs.moment();
            let signals = [(after, signal)];
            let ended = run(command, if attempt < 3 { &signals } else { &[] });
            let Some(how) = runs.ended(&ended, signal) else {
                if attempt == 0 {
                    runs.took = runs.took.min(ended.took);
                }
                break;
            };
            if how == Stopped::BeforeAnything {
                assert!(
                    !ended.out.contains("epoch"),
                    "moment {moment}: {}",
                    ended.out
                );
                // What was there, if anything, is there.
                command = match files.at("points/checkpoint.safetensors").exists() {
                    true => resuming(&home, &files),
                    false => dahl(&home, &files.train()),
                };
                continue;
            }
            let last = ended.err.lines().last().unwrap_or_default();
            let (_, go_on) = last
                .split_once("; to go on: ")
                .unwrap_or_else(|| panic!("{}", ended.err));
            assert!(
                go_on.ends_with(files.at("points").to_str().unwrap()),
                "{go_on}"
            );
            let trained = !last.contains("after step 0 ");
            assert_eq!(files.at("w.safetensors").exists(), trained, "{last}");
            assert!(files.at("t.trace").exists(), "{last}");
            assert_eq!(
                rows(&files.at("m.jsonl")).last().expect("a row")["event"],
                "done"
            );
            command = Command::new("sh");
            // The signal is for dahl, not for the shell.
            command.args(["-c", &format!("exec {go_on}")]);
            at_home(&mut command, &home);
        }
        let bytes = |files: &Files| std::fs::read(files.at("w.safetensors")).expect("weights");
        assert!(
            bytes(&whole) == bytes(&files),
            "moment {moment}: other bits"
        );
        let metrics = |files: &Files| learnt(&files.at("m.jsonl"));
        assert_eq!(metrics(&whole), metrics(&files), "moment {moment}");
    }
}

fn resuming(home: &Path, files: &Files) -> Command {
    let mut args = files.train();
    let place = args
        .iter()
        .position(|a| a == "--checkpoint")
        .expect("an option");
    args[place] = "--resume".into();
    dahl(home, &args)
}

#[test]
fn plans_are_the_best_so_far() {
    let home = folder("interrupts-plan-home");
    let mut runs = Runs::new(4, 2, Duration::from_millis(2300));
    while runs.goes_on() {
        let folder = folder("interrupts-plan");
        let file = folder.join("plan.json");
        let machine = in_repository("machines/laptop.toml");
        let args = strings(&[
            "plan",
            "lenet5",
            "--batch",
            "8",
            "--machine",
            &machine,
            "--time-limit",
            "2",
            "-o",
            file.to_str().unwrap(),
        ]);
        let (after, signal) = runs.moment();
        let ended = run(dahl(&home, &args), &[(after, signal)]);
        let how = runs.ended(&ended, signal);
        if how == Some(Stopped::BeforeAnything) {
            assert!(ended.out.is_empty() && !file.exists());
            continue;
        }
        assert_eq!(
            how.is_some(),
            ended.err.contains("the best plan so far"),
            "{}",
            ended.err
        );
        // It is a plan, and it can be simulated.
        let again = strings(&[
            "simulate",
            "lenet5",
            "--batch",
            "8",
            "--machine",
            &machine,
            "--plan",
            file.to_str().unwrap(),
        ]);
        let simulated = run(dahl(&home, &again), &[]);
        assert!(simulated.status.success(), "{}", simulated.err);
    }
}

/// Without a file the plan is printed, and the exit code says that the search was not completed.
#[test]
fn plans_that_are_only_printed_say_that_they_were_stopped() {
    let home = folder("interrupts-printed-home");
    let machine = in_repository("machines/laptop.toml");
    let plan = [
        "plan",
        "lenet5",
        "--machine",
        &machine,
        "--time-limit",
        "600",
    ];
    for more in [&[][..], &["--json"], &["-o", "-"]] {
        let command = dahl(&home, &strings(&[&plan[..], more].concat()));
        let ended = run(command, &[(Duration::from_secs(4), libc::SIGTERM)]);
        let said = match ended
            .stopped_by(libc::SIGTERM)
            .expect("ten minutes are longer")
        {
            Stopped::BeforeAnything => ended.out.is_empty(),
            Stopped::Cleanly => ended.err.contains("the best plan so far"),
        };
        assert!(said, "{more:?}: {}", ended.err);
    }
}

#[test]
fn calibration_keeps_what_it_has_measured() {
    let args = strings(&[
        "calibrate",
        "--model",
        "small-cnn",
        "--model",
        "lenet5",
        "--batch",
        "8",
        "--seconds",
        "0.01",
        "--workers",
        "1",
    ]);
    let unbroken = run(dahl(&folder("interrupts-calibrated"), &args), &[]);
    assert!(unbroken.status.success(), "{}", unbroken.err);
    let mut runs = Runs::new(4, 3, unbroken.took);
    while runs.goes_on() {
        let home = folder("interrupts-calibrate");
        let (after, signal) = runs.moment();
        let ended = run(dahl(&home, &args), &[(after, signal)]);
        match runs.ended(&ended, signal) {
            None => runs.took = runs.took.min(ended.took),
            Some(Stopped::BeforeAnything) => {
                assert_eq!(home.read_dir().unwrap().count(), 0);
            }
            Some(Stopped::Cleanly) => {
                assert!(
                    ended.err.contains("of 2 models calibrated"),
                    "{}",
                    ended.err
                );
                let names = home.read_dir().unwrap().flatten().map(|e| e.file_name());
                let names: Vec<String> = names.map(|n| n.to_string_lossy().into()).collect();
                for file in ["profile-", "times-"] {
                    assert!(names.iter().any(|n| n.starts_with(file)), "{names:?}");
                }
            }
        }
        // What was kept can be used and completed.
        let train = [
            "train",
            "small-cnn",
            "--data",
            "synthetic:1x28x28:16",
            "--steps",
            "1",
            "--quiet",
        ];
        for next in [strings(&train), args.clone()] {
            let ended = run(dahl(&home, &next), &[]);
            assert!(ended.status.success(), "{next:?}: {}", ended.err);
        }
    }
}

/// A second signal does not wait for anything: whatever it meets, the process ends, and a checkpoint is whole.
#[test]
fn a_second_signal_ends_it_at_once() {
    let home = folder("interrupts-twice-home");
    let mut random = Random(4);
    for _ in 0..moments(4) {
        let files = Files {
            folder: folder("interrupts-twice"),
        };
        let mut args = files.train();
        args.extend(strings(&["--epochs", "1000000", "--checkpoint-every", "3"]));
        args.retain({
            let mut kept = false;
            move |a| {
                // The first number of epochs goes.
                let drop = !kept && (a == "--epochs" || a == "3");
                kept |= a == "3";
                !drop
            }
        });
        let after = Duration::from_secs_f64(0.6 * random.part());
        let (first, second) = (random.signal(), random.signal());
        let ended = run(dahl(&home, &args), &[(after, first), (after, second)]);
        let (code, by) = (ended.status.code(), ended.status.signal());
        let expected = [first, second];
        let right = code.map_or(expected.contains(&by.unwrap_or(0)), |c| {
            expected.contains(&(c - 128))
        });
        assert!(right, "{:?} {}", ended.status, ended.err);
        let file = files.at("points/checkpoint.safetensors");
        if file.exists() {
            let eval = strings(&[
                "eval",
                "small-cnn",
                "--data",
                "synthetic:1x28x28:20",
                "--weights",
                file.to_str().unwrap(),
            ]);
            let ended = run(dahl(&home, &eval), &[]);
            assert!(ended.status.success(), "{}", ended.err);
        }
    }
}

/// Building the graph of so many layers takes many seconds, whatever the machine: a signal does not wait for that.
#[test]
fn nobody_waits_for_a_large_model_to_be_built() {
    let (home, folder) = (folder("interrupts-large-home"), folder("interrupts-large"));
    let file = folder.join("large.toml");
    let layer = "[[layers]]\ntype = \"conv2d\"\nout_channels = 1\nkernel = 1\n";
    let text = format!(
        "name = \"large\"\ninput = [1, 2, 2]\n{}[[layers]]\ntype = \"flatten\"\n",
        layer.repeat(200_000)
    );
    std::fs::write(&file, text).expect("a file");
    let weights = folder.join("w.safetensors");
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let args = [
            "train",
            file.to_str().unwrap(),
            "--data",
            "synthetic:1x2x2:64:4",
            "--save",
            weights.to_str().unwrap(),
            "--units",
            "cpu:1",
        ];
        let mut command = dahl(&home, &strings(&args));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().expect("dahl can be started");
        // The first line comes when the model has been read, and before its graph is built.
        let mut first = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        BufReader::new(out).read_line(&mut first).expect("a line");
        assert!(first.starts_with("large: 400000 parameters"), "{first}");
        // SAFETY: a signal to a child of ours that has not been waited for.
        unsafe { libc::kill(child.id() as i32, signal) };
        let output = child.wait_with_output().expect("a child");
        let err = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(128 + signal), "{err}");
        assert_eq!(err, NOTHING_YET);
        assert!(!weights.exists());
    }
}
