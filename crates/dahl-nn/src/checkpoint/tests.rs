//! Checkpoints come back whole, belong to their run, and survive what can happen to a disk.

use std::fs;

use dahl_core::DType;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::testing::TempDir;

fn model() -> Model {
    Model::builder("m", [1, 6, 6])
        .conv2d(2, 3)
        .batch_norm2d()
        .flatten()
        .linear(3)
        .build()
        .unwrap()
}

fn some(step: u64) -> Checkpoint {
    let model = model();
    let weights = crate::init::weights(&model, step, DType::F64);
    let trained = model.params().iter().filter(|p| p.role.is_trained());
    let optimizer = trained
        .map(|p| {
            (
                format!("{}.exp_avg", p.key),
                weights[&p.key].to_dtype(DType::F32),
            )
        })
        .collect();
    Checkpoint {
        model_fingerprint: model.fingerprint(),
        model_toml: model.to_toml(),
        weights,
        optimizer,
        step,
        epoch: 3,
        batch_in_epoch: 17,
        seed: u64::MAX - 5,
        totals: [("loss".into(), 1.0 / 3.0), ("worst".into(), f64::INFINITY)].into(),
        settings: json!({"batch": 32, "lr": 0.1, "optimizer": {"name": "sgd", "momentum": 0.9}}),
        data: None,
        class_names: vec!["cat".into(), "\"dahl_checksum\":\"".into()],
        normalise: None,
    }
}

#[test]
fn everything_comes_back() {
    let dir = TempDir::new();
    let place = dir.path().join("deep/er");
    some(1).save(&place).unwrap();
    some(41).save(&place).unwrap();
    let back = Checkpoint::load(&place).unwrap();
    assert_eq!(back, some(41));
    back.check_model(&model()).unwrap();
    back.check_settings(&some(41).settings).unwrap();
    let names: Vec<_> = fs::read_dir(&place)
        .unwrap()
        .flatten()
        .map(|e| e.file_name())
        .collect();
    assert_eq!(names, [FILE]);
    let first = fs::read(place.join(FILE)).unwrap();
    back.save(&place).unwrap();
    assert_eq!(first, fs::read(place.join(FILE)).unwrap());
}

#[test]
fn another_model_or_setting_is_named() {
    let checkpoint = some(1);
    let other = Model::builder("other", [1, 6, 6])
        .flatten()
        .linear(3)
        .build()
        .unwrap();
    let error = checkpoint.check_model(&other).unwrap_err().to_string();
    assert!(error.contains("another model than \"other\""), "{error}");
    let mut damaged = checkpoint.clone();
    damaged.weights.remove("0.bias");
    assert!(
        damaged
            .check_model(&model())
            .unwrap_err()
            .to_string()
            .contains("0.bias")
    );

    let differs = |settings: Value| {
        checkpoint
            .check_settings(&settings)
            .unwrap_err()
            .to_string()
    };
    let mut settings = checkpoint.settings.clone();
    settings["optimizer"]["momentum"] = json!(0.8);
    settings["seed"] = json!(1);
    let error = differs(settings);
    assert!(
        error.contains("optimizer.momentum = 0.9, this run has 0.8; seed = "),
        "{error}"
    );
    let mut settings = checkpoint.settings.clone();
    settings["seed"] = json!(1);
    assert!(differs(settings).contains("seed = nothing, this run has 1"));
    assert!(differs(json!(null)).contains("settings = {"));
}

#[test]
fn what_is_not_a_checkpoint_is_said() {
    let dir = TempDir::new();
    let error = Checkpoint::load(dir.path()).unwrap_err();
    assert!(matches!(error, CheckpointError::Missing { .. }), "{error}");
    let path = dir.path().join(FILE);
    weights::write(&path, &some(1).weights).unwrap();
    assert!(
        Checkpoint::load(dir.path())
            .unwrap_err()
            .to_string()
            .contains("no training state")
    );
    for (note, says) in [
        (r#"{"format":2}"#, "format 2, this program reads 3"),
        (r#"{"format":3}"#, "missing field"),
        ("{}", "does not say its format"),
        ("{", "EOF"),
    ] {
        let notes = Notes::from([(NOTE.into(), note.into())]);
        weights::write_with_notes(&path, std::iter::empty(), notes).unwrap();
        let error = Checkpoint::load(dir.path()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    fs::write(dir.path().join("file"), b"").unwrap();
    let error = some(1).save(&dir.path().join("file")).unwrap_err();
    assert!(
        matches!(error, CheckpointError::Directory { .. }),
        "{error}"
    );
}

#[test]
fn every_truncation_is_an_error() {
    let dir = TempDir::new();
    some(1).save(dir.path()).unwrap();
    let path = dir.path().join(FILE);
    let whole = fs::read(&path).unwrap();
    for len in (0..whole.len()).step_by(7) {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(Checkpoint::load(dir.path()).is_err(), "{len} bytes");
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let dir = TempDir::new();
    some(1).save(dir.path()).unwrap();
    let path = dir.path().join(FILE);
    let whole = fs::read(&path).unwrap();
    // A bit of every byte: header, notes, checksum, padding and tensors.
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&path, damaged).unwrap();
        assert!(Checkpoint::load(dir.path()).is_err(), "byte {at}");
    }
}

#[test]
fn a_checkpoint_is_a_file_of_weights() {
    let dir = TempDir::new();
    let checkpoint = some(7);
    checkpoint.save(dir.path()).unwrap();
    for path in [dir.path().to_owned(), dir.path().join(FILE)] {
        let loaded = weights::load(&path).unwrap();
        assert_eq!(loaded.weights, checkpoint.weights);
        assert_eq!(loaded.class_names, checkpoint.class_names);
        weights::check(&loaded.weights, &model()).unwrap();
    }
    // As any reader of safetensors sees it.
    let bytes = fs::read(dir.path().join(FILE)).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    for (key, tensor) in &checkpoint.weights {
        assert_eq!(tensors.tensor(key).unwrap().shape(), tensor.shape);
    }
    let others = tensors
        .names()
        .into_iter()
        .filter(|k| k.starts_with("dahl/"));
    assert_eq!(
        others.count() + checkpoint.weights.len(),
        tensors.names().len()
    );
}

#[test]
fn an_older_checkpoint_is_not_taken_for_weights() {
    let dir = TempDir::new();
    let path = dir.path().join(FILE);
    let notes = Notes::from([(NOTE.into(), r#"{"format":2}"#.into())]);
    weights::write_with_notes(&path, std::iter::empty(), notes).unwrap();
    let error = weights::read(dir.path()).unwrap_err().to_string();
    assert!(error.contains("checkpoint of format 2"), "{error}");
}

#[test]
fn folders_are_tried_before_they_are_needed() {
    let dir = TempDir::new();
    let place = CheckpointFolder::new(dir.path().join("deep/er")).every(3);
    let lock = place.open(None).unwrap();
    let error = place.open(None).unwrap_err();
    assert!(matches!(error, CheckpointError::InUse { .. }), "{error}");
    drop(lock);
    some(41).save(&place.folder).unwrap();
    let says = |resumed: Option<&Path>| place.open(resumed).unwrap_err().to_string();
    let error = says(None);
    assert!(
        error.contains("(m on no data, after step 41 in epoch 4)"),
        "{error}"
    );
    assert!(error.contains("--overwrite"), "{error}");
    assert_eq!(says(Some(dir.path())), error, "resumed from elsewhere");
    place
        .open(Some(&dir.path().join("deep/../deep/er")))
        .unwrap();
    place.clone().overwrite(true).open(None).unwrap();
    fs::write(place.folder.join(FILE), b"nonsense").unwrap();
    assert!(says(None).contains("cannot be read"));
    fs::write(dir.path().join("file"), b"").unwrap();
    for wrong in ["file", "file/in"] {
        let error = CheckpointFolder::new(dir.path().join(wrong)).open(None);
        let error = error.unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
}

/// Names the folder to the process that [`a_kill_leaves_a_complete_checkpoint`] starts of itself.
const SAVE_TO: &str = "DAHL_TEST_CHECKPOINTS";

#[test]
fn a_kill_leaves_a_complete_checkpoint() {
    if let Some(dir) = std::env::var_os(SAVE_TO) {
        for step in 1.. {
            some(step).save(Path::new(&dir)).unwrap();
        }
    }
    let dir = TempDir::new();
    for round in 0..12 {
        some(0).save(dir.path()).unwrap();
        let this = "checkpoint::tests::a_kill_leaves_a_complete_checkpoint";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", this])
            .env(SAVE_TO, dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // In the middle of its saving, at some moment of it.
        while Checkpoint::load(dir.path()).unwrap().step == 0 {
            assert_eq!(child.try_wait().unwrap(), None, "it saves for ever");
        }
        std::thread::sleep(std::time::Duration::from_micros(310 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        let found = Checkpoint::load(dir.path()).unwrap();
        assert_eq!(found, some(found.step));
    }
    some(5).save(dir.path()).unwrap();
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 1, "what the killed left is gone");
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let dir = TempDir::new();
        some(1).save(dir.path()).unwrap();
        let path = dir.path().join(FILE);
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte) in damage {
            // In the header, where damage does most.
            let at = at.index(bytes.len().min(2000));
            bytes[at] = byte;
        }
        fs::write(&path, bytes).unwrap();
        if let Ok(checkpoint) = Checkpoint::load(dir.path()) {
            let _ = checkpoint.check_model(&model());
            let _ = checkpoint.check_settings(&some(1).settings);
        }
    }
}
