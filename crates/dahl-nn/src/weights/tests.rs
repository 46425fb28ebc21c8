//! Weights go round bit for bit, fit or say why not, and no file can do harm.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::testing::TempDir;

fn some() -> Weights {
    let f64s = vec![
        f64::NAN,
        f64::INFINITY,
        -0.0,
        f64::MIN_POSITIVE / 8.0,
        1.0 / 3.0,
        -7.5,
    ];
    let f32s = vec![f32::from_bits(0x7fc0_1234), f32::NEG_INFINITY, 1e-45];
    Weights::from([
        (
            "10.weight".into(),
            Tensor {
                shape: vec![2, 3],
                data: Data::F64(f64s),
            },
        ),
        (
            "2.bias".into(),
            Tensor {
                shape: vec![3],
                data: Data::F32(f32s),
            },
        ),
        (
            "count".into(),
            Tensor {
                shape: vec![],
                data: Data::I64(vec![i64::MIN]),
            },
        ),
        (
            "none".into(),
            Tensor {
                shape: vec![0, 4],
                data: Data::F32(vec![]),
            },
        ),
    ])
}

fn bits(weights: &Weights) -> Vec<(String, Vec<usize>, Vec<u64>)> {
    let words = |data: &Data| match data {
        Data::F32(v) => v.iter().map(|x| u64::from(x.to_bits())).collect(),
        Data::F64(v) => v.iter().map(|x| x.to_bits()).collect(),
        Data::I64(v) => v.iter().map(|&x| x as u64).collect(),
    };
    weights
        .iter()
        .map(|(k, t)| (k.clone(), t.shape.clone(), words(&t.data)))
        .collect()
}

#[test]
fn a_file_gives_back_every_bit_and_equal_weights_are_equal_files() {
    let dir = TempDir::new();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    write(&a, &some()).unwrap();
    let back = read(&a).unwrap();
    assert_eq!(bits(&back), bits(&some()));
    write(&b, &back).unwrap();
    assert_eq!(fs::read(&a).unwrap(), fs::read(&b).unwrap());
}

#[test]
fn files_are_those_of_the_reference_implementation() {
    let dir = TempDir::new();
    let (ours, theirs) = (dir.path().join("ours"), dir.path().join("theirs"));
    write(&ours, &some()).unwrap();
    let bytes = fs::read(&ours).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let notes = [("format".to_owned(), "pt".to_owned())].into();
    fs::write(
        &theirs,
        safetensors::serialize(tensors.tensors(), Some(notes)).unwrap(),
    )
    .unwrap();
    assert_eq!(bits(&read(&theirs).unwrap()), bits(&some()));
}

#[test]
fn conversion_rounds_and_leaves_integers() {
    let weights = Weights::from([
        (
            "a".into(),
            Tensor {
                shape: vec![2],
                data: Data::F64(vec![0.1, 1e300]),
            },
        ),
        (
            "n".into(),
            Tensor {
                shape: vec![],
                data: Data::I64(vec![3]),
            },
        ),
    ]);
    let single = to_dtype(&weights, DType::F32);
    assert_eq!(single["a"].data, Data::F32(vec![0.1, f32::INFINITY]));
    assert_eq!(single["n"], weights["n"]);
    assert_eq!(
        to_dtype(&single, DType::F64)["a"].data.to_f64()[0],
        f64::from(0.1f32)
    );
}

#[test]
fn check_names_every_difference() {
    let model = Model::builder("m", [1, 4, 4])
        .conv2d(2, 3)
        .batch_norm2d()
        .flatten()
        .linear(3)
        .named("head")
        .build()
        .unwrap();
    let mut weights = crate::init::weights(&model, 0, DType::F32);
    check(&weights, &model).unwrap();
    if let Data::F32(values) = &mut weights.get_mut("0.weight").unwrap().data {
        values[7] = f32::NAN;
    }
    weights.remove("0.bias");
    weights.get_mut("head.weight").unwrap().shape = vec![8, 3];
    weights.insert(
        "head.scale".into(),
        Tensor {
            shape: vec![],
            data: Data::F32(vec![1.0]),
        },
    );
    weights.get_mut("1.num_batches_tracked").unwrap().data = Data::F32(vec![1.0]);
    weights.get_mut("1.running_mean").unwrap().data = Data::I64(vec![1, 1]);
    assert_eq!(
        check(&weights, &model).unwrap_err().to_string(),
        "the weights do not fit the model m:\n  \
         \"0.weight\" has no finite number as element 7: training went wrong, or the file is damaged\n  \
         \"0.bias\" is missing (shape [2])\n  \
         \"1.running_mean\" has elements of type I64, the model expects F32 or F64\n  \
         \"1.num_batches_tracked\" has elements of type F32, the model expects I64\n  \
         \"head.weight\" has shape [8, 3], the model expects [3, 8]\n  \
         \"head.scale\" is unexpected: the model has no such key"
    );
}

#[test]
fn every_truncation_is_an_error() {
    let dir = TempDir::new();
    let path = dir.path().join("w");
    write(&path, &some()).unwrap();
    let whole = fs::read(&path).unwrap();
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(
            matches!(read(&path), Err(WeightsError::Format { .. })),
            "{len} bytes"
        );
    }
    fs::write(&path, [whole.as_slice(), b"x"].concat()).unwrap();
    assert!(read(&path).is_err());
    let error = read("/dev/zero".as_ref()).unwrap_err().to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

#[test]
fn hostile_headers_are_errors() {
    let dir = TempDir::new();
    let path = dir.path().join("w");
    let huge = u64::MAX;
    let headers = [
        r#"{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#.to_owned(),
        r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}}"#.to_owned(),
        r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#.to_owned(),
        format!(r#"{{"a":{{"dtype":"F32","shape":[2],"data_offsets":[{huge},{huge}]}}}}"#),
        r#"{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}}"#.to_owned(),
        r#"{"a":{"dtype":"X9","shape":[2],"data_offsets":[0,8]}}"#.to_owned(),
        r#"{"a":{"dtype":"F16","shape":[2],"data_offsets":[0,8]}}"#.to_owned(),
        "[".repeat(100_000),
        "{}".to_owned(),
    ];
    for header in headers {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend([0; 8]);
        fs::write(&path, bytes).unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, WeightsError::Format { .. }), "{error}");
    }
    fs::write(&path, u64::MAX.to_le_bytes()).unwrap();
    assert!(read(&path).is_err());
    assert!(matches!(read(dir.path()), Err(WeightsError::Io { .. })));
    assert!(matches!(
        read(&dir.path().join("none")),
        Err(WeightsError::Io { .. })
    ));
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let dir = TempDir::new();
        let path = dir.path().join("w");
        write(&path, &some()).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        fs::write(&path, bytes).unwrap();
        if let Ok(weights) = read(&path) {
            for tensor in weights.values() {
                prop_assert_eq!(tensor.shape.iter().product::<usize>(), tensor.data.len());
            }
        }
    }
}

/// Files as PyTorch 2.15 writes them: `{"a": torch.tensor([1.0, -2.5, 65504.0, 6e-8])}` in both half precisions, and
/// by `torch.save`.
#[test]
fn half_precision_is_widened_and_pickles_are_named() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/foreign");
    for (file, values) in [
        ("half.safetensors", [1.0, -2.5, 65504.0, 5.960_464_5e-8]),
        ("bfloat.safetensors", [1.0, -2.5, 65536.0, 6.007_030_6e-8]),
    ] {
        let weights = read(&folder.join(file)).unwrap();
        assert_eq!(weights["a"].data, Data::F32(values.to_vec()), "{file}");
    }
    for file in ["saved.pt", "saved-before-1.6.pt"] {
        let error = read(&folder.join(file)).unwrap_err().to_string();
        for part in [file, "torch.save", "save_file", "weights_only=True"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}
