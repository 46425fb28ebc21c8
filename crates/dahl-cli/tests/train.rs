//! `dahl train` and `dahl eval`: learning, metrics, interruptions, bad input.

mod common;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{dahl, dahl_with, folder, in_repository};

/// A path under a test's folder, as an argument.
fn at(folder: &Path, name: &str) -> String {
    folder
        .join(name)
        .to_str()
        .expect("a UTF-8 path")
        .to_string()
}

fn shipped() -> String {
    format!(
        "idx:{}",
        in_repository("crates/dahl-data/fashion-mnist-small")
    )
}

const SMALL: &[&str] = &[
    "train",
    "small-cnn",
    "--data",
    "synthetic:1x28x28:100",
    "--quiet",
];

fn small(more: &[&str]) -> Vec<String> {
    SMALL.iter().chain(more).map(|s| s.to_string()).collect()
}

fn run(args: &[String]) -> String {
    dahl(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Runs a command that must fail for a reason, without a panic and without leaving any file in `folder`
/// that was not there.
fn fails(args: &[&str], folder: &Path, parts: &[&str]) {
    let files = || {
        let mut names: Vec<_> = folder
            .read_dir()
            .expect("a folder")
            .map(|e| e.expect("an entry").file_name())
            .collect();
        names.sort();
        names
    };
    let before = files();
    let said = dahl_with(args, "");
    assert!(
        said.code.is_some_and(|c| c != 0),
        "dahl {args:?}: {:?} {}",
        said.code,
        said.out
    );
    assert!(
        !said.err.contains("panicked"),
        "dahl {args:?}: {}",
        said.err
    );
    for part in parts {
        assert!(
            said.err.contains(part),
            "dahl {args:?} should say {part:?}: {}",
            said.err
        );
    }
    assert_eq!(before, files(), "dahl {args:?} left something behind");
}

#[test]
fn a_few_epochs_teach_it_most_clothes() {
    let folder = folder("learning");
    let metrics = at(&folder, "metrics.jsonl");
    let data = shipped();
    let out = dahl(&[
        "train",
        "--data",
        &data,
        "--epochs",
        "2",
        "--metrics",
        &metrics,
    ]);
    assert!(
        out.contains("epoch   1:") && out.contains("validation"),
        "{out}"
    );
    let lines = lines(&metrics);
    let accuracy = lines[1]["val_accuracy"].as_f64().expect("a number");
    assert!(accuracy > 0.8, "only {accuracy}");
    assert!(lines[1]["loss"].as_f64() < lines[0]["loss"].as_f64());
}

fn lines(path: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).expect("metrics were written");
    text.lines()
        .map(|l| serde_json::from_str(l).expect("a line of JSON"))
        .collect()
}

#[test]
fn metrics_are_one_object_a_line() {
    let folder = folder("metrics");
    let metrics = at(&folder, "m.jsonl");
    let out = run(&small(&["--epochs", "3", "--metrics", &metrics]));
    assert_eq!(out, "", "--quiet");
    let lines = lines(&metrics);
    assert_eq!(lines.len(), 4);
    for (i, line) in lines[..3].iter().enumerate() {
        assert_eq!(line["event"], "epoch");
        assert_eq!(line["epoch"], i + 1);
        for key in [
            "loss",
            "accuracy",
            "val_loss",
            "val_accuracy",
            "seconds",
            "images_per_second",
        ] {
            let value = line[key]
                .as_f64()
                .unwrap_or_else(|| panic!("{key} in {line}"));
            assert!(value.is_finite() && value >= 0.0, "{key} in {line}");
        }
        assert!(
            line["accuracy"].as_f64() <= Some(1.0) && line["val_accuracy"].as_f64() <= Some(1.0)
        );
    }
    assert_eq!(lines[3]["event"], "done");
}

#[test]
fn saved_weights_evaluate_to_what_training_said() {
    let folder = folder("saved");
    let (weights, metrics) = (at(&folder, "w.safetensors"), at(&folder, "m.jsonl"));
    run(&small(&[
        "--epochs",
        "2",
        "--save",
        &weights,
        "--metrics",
        &metrics,
        "--dtype",
        "f64",
    ]));
    let data = [
        "--data",
        "synthetic:1x28x28:100",
        "--dtype",
        "f64",
        "--batch",
        "32",
        "--json",
    ];
    let eval = ["eval", "small-cnn", "--weights", &weights];
    let out = dahl(&[&eval[..], &data[..]].concat());
    let said: serde_json::Value = serde_json::from_str(out.trim()).expect("JSON");
    let last = &lines(&metrics)[1];
    assert_eq!(said["images"], 20);
    assert_eq!(said["accuracy"], last["val_accuracy"]);
    assert_eq!(said["loss"], last["val_loss"]);
}

#[test]
fn workers_and_policies_give_the_same_file() {
    let folder = folder("same-file");
    let mut first: Option<Vec<u8>> = None;
    for (workers, policy) in [
        ("1", "ws"),
        ("2", "ws"),
        ("3", "eager"),
        ("2", "dm"),
        ("2", "dmda"),
        ("2", "dmdas"),
    ] {
        let weights = at(&folder, &format!("{policy}-{workers}.safetensors"));
        run(&small(&[
            "--epochs",
            "2",
            "--workers",
            workers,
            "--policy",
            policy,
            "--save",
            &weights,
        ]));
        let bytes = std::fs::read(&weights).expect("weights");
        assert!(
            first.get_or_insert_with(|| bytes.clone()) == &bytes,
            "{workers} workers, {policy}"
        );
    }
}

/// After SIGKILL at a moment nobody chose, the run goes on and ends as if it had not been killed.
#[test]
fn killed_runs_go_on_to_the_same_bits() {
    let folder = folder("killed");
    let (whole, weights) = (
        at(&folder, "whole.safetensors"),
        at(&folder, "w.safetensors"),
    );
    let points = at(&folder, "points");
    let base = |epochs: u64, more: &[&str]| -> Vec<String> {
        let epochs = epochs.to_string();
        let args = ["train", "small-cnn", "--quiet", "--optimizer", "adam"];
        let data = ["--batch", "7", "--data", "synthetic:1x28x28:100"];
        let all = [&args[..], &data, &["--epochs", &epochs], more].concat();
        all.into_iter().map(String::from).collect()
    };
    let state = || dahl::nn::checkpoint::Checkpoint::load(Path::new(&points)).ok();
    let mut steps = 0;
    for attempt in 0..4 {
        let from = if attempt > 0 {
            "--resume"
        } else {
            "--checkpoint"
        };
        let mut args = vec![from, &points, "--checkpoint-every", "5"];
        if attempt > 0 {
            args.extend(["--checkpoint", &points]);
        }
        // More epochs than anybody waits for: it never ends by itself.
        let mut child = Command::new(env!("CARGO_BIN_EXE_dahl"))
            .args(base(100_000_000, &args))
            .env("DAHL_HOME", at(&folder, "home"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("dahl can be started");
        // Not before it has come further, then a little later each time.
        let came = loop {
            match state() {
                Some(state) if state.step > steps => break state.step,
                _ => std::thread::sleep(Duration::from_millis(1)),
            }
            let ended = child.try_wait().expect("a child");
            assert!(ended.is_none(), "{ended:?} after {steps} steps");
        };
        std::thread::sleep(Duration::from_millis(17 * attempt));
        child.kill().expect("SIGKILL");
        child.wait().expect("a child");
        steps = came;
    }
    let epochs = state().expect("a checkpoint").epoch + 1;
    run(&base(epochs, &["--resume", &points, "--save", &weights]));
    run(&base(epochs, &["--save", &whole]));
    assert!(std::fs::read(&whole).expect("weights") == std::fs::read(&weights).expect("weights"));
}

#[test]
fn missing_files_are_refused() {
    let folder = folder("missing");
    let save = at(&folder, "w.safetensors");
    let gone = at(&folder, "gone");
    let data = format!("idx:{gone}");
    fails(&["train", &gone, "--save", &save], &folder, &["gone"]);
    fails(
        &["train", "--data", &data, "--save", &save],
        &folder,
        &["gone"],
    );
    fails(
        &[
            "train",
            "--init",
            &gone,
            "--save",
            &save,
            "--data",
            "synthetic:1x28x28:50",
        ],
        &folder,
        &["gone"],
    );
    fails(
        &[
            "train",
            "--resume",
            &gone,
            "--save",
            &save,
            "--data",
            "synthetic:1x28x28:50",
        ],
        &folder,
        &["gone"],
    );
    fails(
        &[
            "train",
            "--save",
            &at(&folder, "no/w.safetensors"),
            "--data",
            "synthetic:1x28x28:50",
        ],
        &folder,
        &["no"],
    );
    fails(
        &[
            "eval",
            "small-cnn",
            "--weights",
            &gone,
            "--data",
            "synthetic:1x28x28:50",
        ],
        &folder,
        &["gone"],
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let folder = folder("unfit");
    let (save, weights) = (
        at(&folder, "w.safetensors"),
        at(&folder, "other.safetensors"),
    );
    fails(
        &[
            "train",
            "small-cnn",
            "--data",
            "synthetic:3x32x32:50",
            "--save",
            &save,
        ],
        &folder,
        &["3", "32"],
    );
    fails(
        &["train", "--data", "nonsense", "--save", &save],
        &folder,
        &["nonsense"],
    );
    fails(
        &[
            "train",
            "--data",
            "synthetic:1x28x28:50:11",
            "--save",
            &save,
        ],
        &folder,
        &["11"],
    );
    run(&small(&["--epochs", "1", "--save", &weights]));
    let data = ["--data", "synthetic:1x28x28:50"];
    let init = ["train", "lenet5", "--init", &weights, "--save", &save];
    fails(&[&init[..], &data[..]].concat(), &folder, &["0.weight"]);
    fails(
        &[&["eval", "lenet5", "--weights", &weights], &data[..]].concat(),
        &folder,
        &["0.weight"],
    );
    for bad in [
        ["--lr", "-1"],
        ["--batch", "0"],
        ["--grain", "sample=0"],
        ["--policy", "x"],
        ["--momentum", "-0.5"],
    ] {
        let args = ["train", "small-cnn", "--optimizer", "sgd", "--save", &save];
        fails(&[&args[..], &data[..], &bad[..]].concat(), &folder, &[]);
    }
}

#[test]
fn damaged_weights_are_refused() {
    let folder = folder("damaged");
    let (good, bad) = (
        at(&folder, "good.safetensors"),
        at(&folder, "bad.safetensors"),
    );
    run(&small(&["--epochs", "1", "--save", &good]));
    let bytes = std::fs::read(&good).expect("weights");
    let mut long = bytes.clone();
    long[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    for damaged in [
        &bytes[..0],
        &bytes[..7],
        &bytes[..40],
        &bytes[..bytes.len() - 1],
        &long,
    ] {
        std::fs::write(&bad, damaged).expect("a file");
        let data = ["--data", "synthetic:1x28x28:50"];
        let eval = ["eval", "small-cnn", "--weights", &bad];
        fails(
            &[&eval[..], &data[..]].concat(),
            &folder,
            &["bad.safetensors"],
        );
        let init = ["train", "small-cnn", "--init", &bad];
        fails(
            &[&init[..], &data[..]].concat(),
            &folder,
            &["bad.safetensors"],
        );
    }
}

#[test]
fn damaged_checkpoints_are_refused() {
    let folder = folder("damaged-point");
    let points = at(&folder, "points");
    run(&small(&["--epochs", "1", "--checkpoint", &points]));
    let files: Vec<_> = walk(Path::new(&points));
    assert!(!files.is_empty());
    for file in files {
        let bytes = std::fs::read(&file).expect("a file");
        std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("a file");
        let args = small(&["--epochs", "2", "--resume", &points]);
        fails(
            &args.iter().map(String::as_str).collect::<Vec<_>>(),
            &folder,
            &[],
        );
        std::fs::write(&file, &bytes).expect("a file");
    }
    run(&small(&["--epochs", "2", "--resume", &points]));
}

fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = folder
        .read_dir()
        .expect("a folder")
        .map(|e| e.expect("an entry").path());
    entries
        .flat_map(|p| if p.is_dir() { walk(&p) } else { vec![p] })
        .collect()
}

#[test]
fn a_loss_that_is_no_number_ends_the_run() {
    let folder = folder("nan");
    let (save, points) = (at(&folder, "w.safetensors"), at(&folder, "points"));
    let args = small(&[
        "--optimizer",
        "sgd",
        "--lr",
        "1e30",
        "--save",
        &save,
        "--checkpoint",
        &points,
    ]);
    fails(
        &args.iter().map(String::as_str).collect::<Vec<_>>(),
        &folder,
        &["loss", "learning rate"],
    );
}

/// A limit on the size of files stands for a full disk: the write fails half-way through.
#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_and_keeps_what_was_there() {
    let folder = folder("full");
    let (old, points) = (at(&folder, "w.safetensors"), at(&folder, "points"));
    std::fs::write(&old, "what was there").expect("a file");
    let full = |more: &str| {
        let dahl = assert_cmd::cargo::cargo_bin!("dahl");
        // Blocks of 512 bytes in POSIX, of 1024 in some shells; the weights take 28 kB.
        let script = format!(
            "trap '' XFSZ; ulimit -f 8; exec {} train small-cnn --data synthetic:1x28x28:60 --epochs 1 {more}",
            dahl.display()
        );
        let run = Command::new("sh").args(["-c", &script]).output();
        let run = run.expect("a shell");
        let err = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(!run.status.success() && !err.contains("panicked"), "{err}");
        err
    };
    let err = full(&format!("--save {old}"));
    assert!(err.contains("w.safetensors"), "{err}");
    assert_eq!(
        std::fs::read_to_string(&old).expect("a file"),
        "what was there"
    );
    let err = full(&format!("--checkpoint {points}"));
    assert!(err.contains("points"), "{err}");
    let left: Vec<_> = std::fs::read_dir(&points)
        .map(|d| d.filter_map(|e| e.ok()).map(|e| e.file_name()).collect())
        .unwrap_or_default();
    assert!(left.is_empty(), "half a checkpoint: {left:?}");
    let names = std::fs::read_dir(&folder).expect("a folder");
    let temporary = |e: &std::fs::DirEntry| e.file_name().to_string_lossy().ends_with(".tmp");
    assert_eq!(names.filter_map(|e| e.ok()).filter(temporary).count(), 0);
}

#[test]
fn memory_is_flat_over_epochs() {
    let folder = folder("flat");
    let peak = |epochs: &str| {
        let metrics = at(&folder, &format!("{epochs}.jsonl"));
        let args = small(&["--epochs", epochs, "--metrics", &metrics]);
        let mut dahl = Command::new(env!("CARGO_BIN_EXE_dahl"));
        // One heap: how many the allocator makes of it is a matter of load.
        dahl.args(args).env("MALLOC_ARENA_MAX", "1");
        dahl.env("DAHL_HOME", at(&folder, "home"));
        assert!(dahl.status().expect("dahl can be started").success());
        let text = std::fs::read_to_string(&metrics).expect("metrics");
        let last = text.lines().last().expect("a line");
        let done: serde_json::Value = serde_json::from_str(last).expect("JSON");
        done["peak_rss_bytes"].as_f64().expect("a number")
    };
    let (few, many) = (peak("3"), peak("90"));
    // Allocators and page caches move a little; a leak of one batch per epoch would be ten times this.
    assert!(
        many < few + 2e6,
        "{many} bytes after 90 epochs, {few} after 3"
    );
}

#[test]
fn losses_are_chosen_by_name_and_keys() {
    let folder = folder("losses");
    let smoothed = "cross_entropy:label_smoothing=0.1,weight=[1,2,1,1,1,1,1,1,1,0.5]";
    let metrics = at(&folder, "m.jsonl");
    run(&small(&[
        "--steps",
        "2",
        "--loss",
        smoothed,
        "--metrics",
        &metrics,
    ]));
    let losses = |path: &str| {
        let text = std::fs::read_to_string(path).expect("metrics");
        let line: serde_json::Value =
            serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        (
            line["loss"].as_f64().expect("a loss"),
            line["accuracy"].is_f64(),
        )
    };
    let plain = at(&folder, "plain.jsonl");
    run(&small(&["--steps", "2", "--metrics", &plain]));
    assert_ne!(losses(&metrics).0, losses(&plain).0);
    assert!(losses(&metrics).1, "classes have an accuracy");
    // Steps without data take any loss; those with data the one that their targets are for.
    let step = [
        "bench",
        "step",
        "small-cnn",
        "--batch",
        "4",
        "--seconds",
        "0.1",
        "--loss",
        "mse",
    ];
    let said = dahl_with(&step, "");
    assert_eq!(said.code, Some(0), "{}", said.err);
    let refused = |loss: &str, parts: &[&str]| {
        let args = small(&["--steps", "1", "--loss", loss]);
        fails(
            &args.iter().map(String::as_str).collect::<Vec<_>>(),
            &folder,
            parts,
        );
    };
    refused("mse", &["class numbers", "use a loss for classes"]);
    refused("hinge", &["unknown loss", "bce_with_logits"]);
    refused("l1:beta=1", &["l1: unknown key", "beta"]);
    refused(
        "cross_entropy:weight=[1,2]",
        &["weight has 2 numbers", "10 classes"],
    );
}
