//! Checkpoints and weights: files as they are, with their checksum made right, and bundles of a header and the bytes
//! behind it, of which the header's length is made right, too.

use std::fs;
use std::sync::LazyLock;

use dahl::core::DType;
use dahl::core::hash::Checksum;
use dahl::nn::checkpoint::{Checkpoint, FILE};
use dahl::nn::{Model, init, weights};
use serde_json::json;

use super::said;
use crate::bundle;
use crate::{Answer, Folder, Target};

const WORDS: &[&str] = &[
    "=== header\n",
    "=== data\n",
    "\"__metadata__\"",
    "\"dtype\"",
    "\"shape\"",
    "\"data_offsets\"",
    "\"F16\"",
    "\"BF16\"",
    "\"F32\"",
    "\"F64\"",
    "\"I64\"",
    "\"U8\"",
    "\"dahl_checksum\"",
    "\"dahl_checkpoint\"",
    "\"dahl_classes\"",
    "\"dahl/totals/loss\"",
    "\"dahl/optimizer/0.weight.exp_avg\"",
    "\\\"format\\\":3",
    "\\\"settings\\\"",
];

pub(super) const CHECKPOINT: Target = Target {
    name: "checkpoint",
    files: &[],
    made: checkpoints,
    words: WORDS,
    parse: |folder, bytes| {
        let read = |bytes: &[u8]| {
            folder.write(FILE, bytes);
            let checkpoint = Checkpoint::load(folder.path()).map_err(said)?;
            let _ = checkpoint.summary();
            Ok(())
        };
        both(bytes, read)
    },
};

pub(super) const WEIGHTS: Target = Target {
    name: "weights",
    files: &[
        "crates/dahl-nn/tests/fixtures/foreign",
        "crates/dahl-nn/tests/fixtures/runs/l1.safetensors",
    ],
    made: || vec![split(&fixed_weights()), fixed_weights()],
    words: WORDS,
    parse: |folder, bytes| {
        let read = |bytes: &[u8]| {
            let loaded = weights::load(&folder.write("w.safetensors", bytes)).map_err(said)?;
            let _ = weights::check(&loaded.weights, &MODEL).map_err(said);
            let narrow = weights::to_dtype(&loaded.weights, DType::F32);
            assert_eq!(narrow.len(), loaded.weights.len());
            Ok(())
        };
        both(bytes, read)
    },
};

static MODEL: LazyLock<Model> = LazyLock::new(|| {
    let model = Model::builder("m", [1, 4, 4])
        .conv2d(2, 3)
        .batch_norm2d()
        .flatten()
        .linear(3);
    model.build().expect("a sound model")
});

/// The file as it is, unless it is a bundle; and with the right checksum, if it has one.
fn both(bytes: &[u8], read: impl Fn(&[u8]) -> Answer) -> Answer {
    let mut file = match bundle::parts(bytes) {
        Some(parts) => {
            let [header, data] = ["header", "data"].map(|name| bundle::part(&parts, name));
            [&(header.len() as u64).to_le_bytes(), header, data].concat()
        }
        None => bytes.to_vec(),
    };
    match repair(&mut file) {
        // Nothing differs: once is enough.
        false => read(&file),
        true => {
            let _ = read(bytes);
            read(&file)
        }
    }
}

/// Puts the right checksum where a file has a place for one; whether it had another.
fn repair(file: &mut [u8]) -> bool {
    const BEFORE: &[u8] = b"\"dahl_checksum\":\"";
    const LENGTH: usize = 16;
    let Some(at) = file.windows(BEFORE.len()).position(|w| w == BEFORE) else {
        return false;
    };
    let start = at + BEFORE.len();
    let Some(place) = file.get_mut(start..start + LENGTH) else {
        return false;
    };
    let old: [u8; LENGTH] = std::array::from_fn(|i| place[i]);
    place.fill(b'0');
    let sum = format!("{:016x}", Checksum::of(file));
    file[start..start + LENGTH].copy_from_slice(sum.as_bytes());
    old != sum.as_bytes()
}

/// A proper file as a bundle.
fn split(file: &[u8]) -> Vec<u8> {
    let (length, rest) = file
        .split_first_chunk::<8>()
        .expect("eight bytes of length");
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    bundle::join(&[("header", header), ("data", data)])
}

fn fixed_weights() -> Vec<u8> {
    Folder::with(|folder| {
        let path = folder.path().join("w.safetensors");
        let names = ["cat", "dog", "owl"].map(String::from);
        let values = init::weights(&MODEL, 1, DType::F32);
        weights::write_named(&path, &values, &names, None).expect("a temporary file");
        fs::read(path).expect("a temporary file")
    })
}

fn checkpoints() -> Vec<Vec<u8>> {
    let model = &*MODEL;
    let weights = init::weights(model, 1, DType::F64);
    let trained = model.params().iter().filter(|p| p.role.is_trained());
    let moment = |key: &String| (format!("{key}.exp_avg"), weights[key].to_dtype(DType::F32));
    let optimizer = trained.map(|p| moment(&p.key)).collect();
    let data = json!({
        "name": "synthetic:1x4x4:20", "samples": 20, "batches": 5, "shape": [1, 4, 4], "classes": 3,
        "class_names": [], "scaling": "00", "content": "0123456789abcdef",
    });
    let checkpoint = Checkpoint {
        model_fingerprint: model.fingerprint(),
        model_toml: model.to_toml(),
        weights,
        optimizer,
        step: 5,
        epoch: 1,
        batch_in_epoch: 2,
        seed: 7,
        totals: [("loss".into(), 0.5), ("worst".into(), f64::INFINITY)].into(),
        settings: json!({"batch": 32, "optimizer": {"name": "adam", "betas": [0.9, 0.999]}}),
        data: Some(serde_json::from_value(data).expect("an identity")),
        class_names: vec!["cat".into()],
        normalise: None,
    };
    let file = Folder::with(|folder| {
        checkpoint.save(folder.path()).expect("a temporary folder");
        fs::read(folder.path().join(FILE)).expect("a temporary file")
    });
    vec![split(&file), file]
}
