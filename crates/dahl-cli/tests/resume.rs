//! `dahl train --checkpoint` and `--resume`: what is refused, what is kept, and what failing files do.

mod common;

use std::path::{Path, PathBuf};

use common::{Said, dahl_with, folder};

struct Place(PathBuf);

impl Place {
    fn at(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").into()
    }

    /// Trains for an epoch on 64 images, with more arguments.
    fn train(&self, more: &[&str]) -> Said {
        let all = [
            "train",
            "small-cnn",
            "--limit",
            "64",
            "--val-limit",
            "32",
            "--epochs",
            "1",
        ];
        dahl_with(&[&all[..], more].concat(), "")
    }

    fn checkpoint(&self) -> Vec<u8> {
        std::fs::read(self.0.join("points/checkpoint.safetensors")).expect("a checkpoint")
    }
}

fn started(name: &str) -> Place {
    let place = Place(folder(name));
    let said = place.train(&[
        "--checkpoint",
        &place.at("points"),
        "--metrics",
        &place.at("m.jsonl"),
    ]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    place
}

fn refuses(said: &Said, parts: &[&str]) {
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    for part in parts {
        assert!(said.err.contains(part), "{part:?} in {}", said.err);
    }
}

fn epochs(path: &str) -> Vec<String> {
    let text = std::fs::read_to_string(path).expect("metrics");
    let rows = text
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).expect("JSON"));
    rows.map(|r| format!("{} {}", r["event"].as_str().unwrap(), r["epoch"]))
        .collect()
}

#[test]
fn other_data_and_other_options_are_refused_and_destroy_nothing() {
    let place = started("resume-refused");
    let (points, metrics) = (place.at("points"), place.at("m.jsonl"));
    let (before, rows) = (place.checkpoint(), std::fs::read(&metrics).unwrap());
    let table: &[(&[&str], &[&str])] = &[
        (
            &["--limit", "32"],
            &[
                "fashion-mnist-small (64 samples",
                "fashion-mnist-small (32 samples",
            ],
        ),
        (
            &["--data", "synthetic:1x28x28:64"],
            &["fashion-mnist-small", "synthetic:1x28x28:64"],
        ),
        (&["--batch", "16"], &["batch = 32, this run has 16"]),
        (&["--lr", "0.5"], &["lr = 0.002, this run has 0.5"]),
        (&["--seed", "7"], &["seed = 42, this run has 7"]),
        (&["--dtype", "f64"], &["dtype"]),
        (&["--optimizer", "sgd"], &["optimizer"]),
        (&["--weight-decay", "0.1"], &["optimizer.weight_decay"]),
        (&["--clip-norm", "1"], &["clip_norm"]),
        (&["--no-shuffle"], &["shuffle"]),
        (&["--schedule", "cosine"], &["schedule"]),
        (&["--grain", "sample=2"], &["grain"]),
    ];
    for (change, says) in table {
        let fixed = [
            "train",
            "small-cnn",
            "--val-limit",
            "32",
            "--epochs",
            "2",
            "--resume",
            &points,
        ];
        let limit: &[&str] = if change[0] == "--limit" {
            &[]
        } else {
            &["--limit", "64"]
        };
        let said = dahl_with(
            &[&fixed[..], &["--metrics", &metrics], limit, change].concat(),
            "",
        );
        refuses(&said, says);
        assert!(place.checkpoint() == before, "{change:?}");
        assert_eq!(std::fs::read(&metrics).unwrap(), rows, "{change:?}");
    }
    let other = dahl_with(
        &["train", "lenet5", "--limit", "64", "--resume", &points],
        "",
    );
    refuses(&other, &["another model than \"lenet5\""]);
    assert!(place.checkpoint() == before);
}

#[test]
fn another_runs_folder_is_left_alone() {
    let place = started("resume-occupied");
    let (points, before) = (place.at("points"), place.checkpoint());
    let said = place.train(&["--checkpoint", &points]);
    refuses(
        &said,
        &[
            "has a checkpoint already (small-cnn on fashion-mnist-small",
            "--overwrite",
        ],
    );
    assert!(place.checkpoint() == before);
    // Going on from it elsewhere does not make this folder free either.
    assert_eq!(
        place.train(&["--checkpoint", &place.at("other")]).code,
        Some(0)
    );
    let from = place.at("other");
    refuses(
        &place.train(&["--resume", &from, "--checkpoint", &points]),
        &["already"],
    );
    assert!(place.checkpoint() == before);
    let said = place.train(&["--checkpoint", &points, "--overwrite", "--seed", "5"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(place.checkpoint() != before);
    std::fs::write(place.at("afile"), "").unwrap();
    let save = place.at("w.safetensors");
    let said = place.train(&["--checkpoint", &place.at("afile"), "--save", &save]);
    refuses(&said, &["afile"]);
    assert!(
        !said.out.contains("epoch "),
        "found before the first step: {}",
        said.out
    );
}

#[cfg(unix)]
#[test]
fn a_second_process_is_refused() {
    let place = started("resume-locked");
    let (points, metrics) = (place.at("points"), place.at("m.jsonl"));
    let folder = std::fs::File::open(&points).unwrap();
    folder.lock().unwrap();
    refuses(&place.train(&["--resume", &points]), &["points is in use"]);
    drop(folder);
    let file = std::fs::File::open(&metrics).unwrap();
    file.lock().unwrap();
    refuses(
        &place.train(&["--metrics", &metrics]),
        &["m.jsonl", "another process"],
    );
    drop(file);
    let said = place.train(&["--resume", &points, "--metrics", &metrics]);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[test]
fn metrics_go_on_where_the_checkpoint_is() {
    let place = started("resume-metrics");
    let (points, metrics) = (place.at("points"), place.at("m.jsonl"));
    let data = [
        "train",
        "small-cnn",
        "--limit",
        "64",
        "--val-limit",
        "32",
        "--resume",
        &points,
    ];
    let kept = place.0.join("kept");
    std::fs::create_dir(&kept).unwrap();
    let copy = |from: &Path, to: &Path| {
        std::fs::copy(
            from.join("checkpoint.safetensors"),
            to.join("checkpoint.safetensors"),
        )
        .unwrap()
    };
    copy(Path::new(&points), &kept);
    let go_on = |epochs: &str| {
        let said = dahl_with(
            &[&data[..], &["--epochs", epochs, "--metrics", &metrics]].concat(),
            "",
        );
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.out.contains("going on from") && said.out.contains("are written to"));
    };
    go_on("3");
    assert_eq!(
        epochs(&metrics),
        ["epoch 1", "epoch 2", "epoch 3", "done null"]
    );
    // Back to the first checkpoint: no epoch comes twice.
    copy(&kept, Path::new(&points));
    go_on("2");
    assert_eq!(epochs(&metrics), ["epoch 1", "epoch 2", "done null"]);
}

#[cfg(target_os = "linux")]
#[test]
fn files_beside_the_weights_that_fail_do_not_end_training() {
    let place = Place(folder("resume-full"));
    for option in ["--metrics", "--trace"] {
        let save = place.at("w.safetensors");
        let _ = std::fs::remove_file(&save);
        let said = place.train(&[option, "/dev/full", "--save", &save]);
        assert_eq!(said.code, Some(3), "{option}: {}", said.err);
        assert!(
            said.err.contains("/dev/full") && said.err.contains("No space left"),
            "{}",
            said.err
        );
        assert!(Path::new(&save).exists(), "{option}");
        assert!(said.out.contains("accuracy"), "{option}: {}", said.out);
    }
}

#[test]
fn checkpoints_are_weights_with_names_of_classes() {
    let place = started("resume-weights");
    for weights in [
        place.at("points"),
        place.at("points/checkpoint.safetensors"),
    ] {
        let eval = [
            "eval",
            "small-cnn",
            "--val-limit",
            "40",
            "--weights",
            &weights,
        ];
        let said = dahl_with(&eval, "");
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.out.contains("Ankle boot"), "{}", said.out);
        let said = dahl_with(&[&eval[..], &["--json"]].concat(), "");
        let json: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        let images = json["classes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["images"].as_u64().unwrap());
        assert_eq!(images.sum::<u64>(), 40);
        let init = place.train(&["--init", &weights]);
        assert_eq!(init.code, Some(0), "{}", init.err);
    }
    // Data without names of its own: those of the weights are used.
    let predict = [
        "predict",
        "small-cnn",
        "--data",
        "synthetic:1x28x28:30",
        "--val-limit",
        "2",
        "--json",
    ];
    let said = dahl_with(
        &[&predict[..], &["--weights", &place.at("points")]].concat(),
        "",
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
    let first: serde_json::Value = serde_json::from_str(said.out.lines().next().unwrap()).unwrap();
    assert_eq!(first["classes"][9], "Ankle boot");
}
