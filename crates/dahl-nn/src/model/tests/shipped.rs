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
        ("first", "1×28×28", 16 * 9 + 16 + 2704 * 10 + 10),
        ("lenet5", "1×28×28", 61_706),
        ("resnet18-32", "3×32×32", 11_173_962),
        ("small-cnn", "1×28×28", 6_810),
        ("small-cnn-512", "1×512×512", 40 + 4 * 255 * 255 * 10 + 10),
        ("vgg-small", "3×32×32", 1_116_970),
    ];
    let mut found: Vec<(String, String, usize)> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let model = Model::load(&path).unwrap();
            assert_eq!(
                path.file_stem().unwrap().to_str(),
                Some(model.name.as_str())
            );
            assert_eq!(model.classes(), 10);
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
