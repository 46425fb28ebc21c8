//! The shipped models: small networks that need no file.
//!
//! Their texts are in the crate's folder `models`, as anybody would write them. Nothing here reads a file of
//! the user's: that is [`Model::load`].

use std::path::Path;

use crate::model::{Model, ModelError};

/// Names and texts, the first one the default.
const TABLE: [(&str, &str); 19] = [
    ("first", include_str!("../models/first.toml")),
    ("small-cnn", include_str!("../models/small-cnn.toml")),
    (
        "small-cnn-512",
        include_str!("../models/small-cnn-512.toml"),
    ),
    ("lenet5", include_str!("../models/lenet5.toml")),
    ("vgg-small", include_str!("../models/vgg-small.toml")),
    ("resnet18-32", include_str!("../models/resnet18-32.toml")),
    ("mlp", include_str!("../models/mlp.toml")),
    ("vgg11", include_str!("../models/vgg11.toml")),
    ("vgg16", include_str!("../models/vgg16.toml")),
    ("resnet18", include_str!("../models/resnet18.toml")),
    ("resnet34", include_str!("../models/resnet34.toml")),
    ("resnet34-32", include_str!("../models/resnet34-32.toml")),
    ("resnet50", include_str!("../models/resnet50.toml")),
    ("resnet50-32", include_str!("../models/resnet50-32.toml")),
    ("mobilenet-v2", include_str!("../models/mobilenet-v2.toml")),
    (
        "mobilenet-v2-32",
        include_str!("../models/mobilenet-v2-32.toml"),
    ),
    (
        "convnext-tiny",
        include_str!("../models/convnext-tiny.toml"),
    ),
    ("convnext-32", include_str!("../models/convnext-32.toml")),
    ("unet-32", include_str!("../models/unet-32.toml")),
];

/// The names that [`by_name`] takes.
pub const NAMES: [&str; TABLE.len()] = {
    let mut names = [""; TABLE.len()];
    let mut i = 0;
    while i < TABLE.len() {
        names[i] = TABLE[i].0;
        i += 1;
    }
    names
};

/// A shipped model; none of another name.
pub fn by_name(name: &str) -> Option<Model> {
    NAMES.contains(&name).then(|| shipped(name))
}

/// The model in a file, or the shipped one of this name if there is no such file.
pub fn find(path: &Path) -> Result<Model, ModelError> {
    let name = path.to_str().filter(|_| !path.exists());
    match name.map(|name| (name, by_name(name))) {
        Some((_, Some(model))) => Ok(model),
        // What looks like a name was meant as one.
        Some((name, None)) if !name.contains(['/', '.']) => Err(ModelError::Unknown(name.into())),
        _ => Model::load(path),
    }
}

/// One convolution and one linear layer for 28×28 images in grey: what `dahl train` trains by default.
pub fn first() -> Model {
    shipped("first")
}

/// A small CNN for 28×28 images in grey.
pub fn small_cnn() -> Model {
    shipped("small-cnn")
}

/// LeNet-5 for 28×28 images in grey.
pub fn lenet5() -> Model {
    shipped("lenet5")
}

/// A small VGG for 32×32 images in colour.
pub fn vgg_small() -> Model {
    shipped("vgg-small")
}

/// ResNet-18 for 32×32 images in colour.
pub fn resnet18() -> Model {
    shipped("resnet18-32")
}

fn shipped(name: &str) -> Model {
    let text = TABLE.iter().find(|(n, _)| *n == name).map(|(_, text)| text);
    text.and_then(|text| Model::from_toml(text, &format!("models/{name}.toml")).ok())
        .expect("a test reads every shipped model")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_model_is_read() {
        for name in NAMES {
            let model = by_name(name).unwrap();
            assert_eq!(model.name, name);
        }
        for (model, name) in [
            (first(), "first"),
            (small_cnn(), "small-cnn"),
            (lenet5(), "lenet5"),
            (vgg_small(), "vgg-small"),
            (resnet18(), "resnet18-32"),
        ] {
            assert_eq!(model.name, name);
        }
        assert!(by_name("lenet6").is_none());
    }
}
