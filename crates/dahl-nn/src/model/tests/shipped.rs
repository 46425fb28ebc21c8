//! The models in `models/`.

use std::path::{Path, PathBuf};

use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("models")
}

#[test]
fn all_of_them_are_read_and_have_their_size() {
    // Parameters as torch counts them in the same networks.
    let expected = [
        ("convnext-32", "3×32×32", 4_222_810),
        ("convnext-tiny", "3×224×224", 28_589_128),
        ("first", "1×28×28", 16 * 9 + 16 + 2704 * 10 + 10),
        ("lenet5", "1×28×28", 61_706),
        ("mlp", "1×28×28", 784 * 256 + 256 + 256 * 128 + 128 + 1_290),
        ("mobilenet-v2", "3×224×224", 3_504_872),
        ("mobilenet-v2-32", "3×32×32", 2_236_682),
        ("resnet18", "3×224×224", 11_689_512),
        ("resnet18-32", "3×32×32", 11_173_962),
        ("resnet34", "3×224×224", 21_797_672),
        ("resnet34-32", "3×32×32", 21_282_122),
        ("resnet50", "3×224×224", 25_557_032),
        ("resnet50-32", "3×32×32", 23_520_842),
        ("small-cnn", "1×28×28", 6_810),
        ("small-cnn-512", "1×512×512", 40 + 4 * 255 * 255 * 10 + 10),
        ("unet-32", "3×32×32", 115_825),
        ("vgg-small", "3×32×32", 1_116_970),
        ("vgg11", "3×224×224", 132_863_336),
        ("vgg16", "3×224×224", 138_357_544),
    ];
    let mut found: Vec<(String, String, usize)> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .map(|path| {
            let model = Model::load(&path).unwrap();
            assert_eq!(
                path.file_stem().unwrap().to_str(),
                Some(model.name.as_str())
            );
            let outputs = match (model.name.as_str(), model.input[1]) {
                ("unet-32", _) => 32 * 32,
                (_, 224) => 1000,
                _ => 10,
            };
            assert_eq!(model.classes(), outputs);
            let again = Model::from_toml(&model.to_toml(), "again").unwrap();
            assert_eq!(again.fingerprint(), model.fingerprint());
            (
                model.name.clone(),
                model.extents()[0].to_string(),
                model.parameter_count(),
            )
        })
        .collect();
    found.sort();
    let expected = expected.map(|(name, input, n)| (name.to_owned(), input.to_owned(), n));
    assert_eq!(found, expected);
}

#[test]
fn the_residual_one_has_the_usual_shape() {
    let model = Model::load(&folder().join("resnet18-32.toml")).unwrap();
    let adds: Vec<(usize, String)> = model
        .layers
        .iter()
        .enumerate()
        .filter(|(_, l)| l.layer.name() == "add")
        .map(|(i, l)| (l.from.len(), model.extents()[i + 1].to_string()))
        .collect();
    let stages = ["64×32×32", "128×16×16", "256×8×8", "512×4×4"];
    let expected: Vec<(usize, String)> = stages
        .iter()
        .flat_map(|s| [(2, s.to_string()), (2, s.to_string())])
        .collect();
    assert_eq!(adds, expected);
    let keys: Vec<&str> = model.params().iter().map(|p| p.key.as_str()).collect();
    // 20 convolutions, 20 batch norms of five tensors, one linear layer.
    assert_eq!(keys.len(), 20 + 100 + 2);
    for key in [
        "conv1.weight",
        "layer1.0.bn1.running_var",
        "layer2.0.downsample.0.weight",
        "fc.bias",
    ] {
        assert!(keys.contains(&key), "{key}");
    }
}

/// Weights of torchvision load: every key is there, with its shape, and no other.
#[test]
fn keys_and_shapes_are_those_of_torchvision() {
    let text = include_str!("../../../tests/fixtures/torchvision.json");
    let file: serde_json::Value = serde_json::from_str(text).unwrap();
    for (name, keys) in file["models"].as_object().unwrap() {
        let model = crate::models::by_name(name).unwrap();
        let own = model
            .params()
            .iter()
            .map(|p| (p.key.clone(), serde_json::json!(p.shape)));
        let own: serde_json::Map<String, serde_json::Value> = own.collect();
        assert_eq!(&own, keys.as_object().unwrap(), "{name}");
    }
}
