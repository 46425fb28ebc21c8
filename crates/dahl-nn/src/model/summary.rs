//! A model as the rows of a table.

use super::Model;

/// What a table says about one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The layer's name, or `layers[3]`.
    pub layer: String,
    /// Its type with its keys: `conv2d out_channels=16 kernel=3`.
    pub kind: String,
    /// What it reads, unless that is just the layer before.
    pub from: String,
    /// The extent of what it gives.
    pub output: String,
    /// How many numbers training changes in it.
    pub parameters: usize,
}

/// One row per layer.
pub(super) fn rows(model: &Model) -> Vec<Row> {
    let row = |(i, layer): (usize, &super::Entry)| {
        let keys = layer.keys.iter().filter(|key| !key.is_default);
        let kind = keys.fold(layer.layer.name().to_owned(), |text, key| {
            format!("{text} {}={}", key.name, key.text.replace(", ", ","))
        });
        let sources = layer.from.iter().map(|&v| match v.checked_sub(1) {
            Some(before) => model.label(before),
            None => super::check::INPUT.to_owned(),
        });
        Row {
            layer: model.label(i),
            kind,
            from: if layer.from == [i] {
                String::new()
            } else {
                sources.collect::<Vec<_>>().join(", ")
            },
            output: model.extents()[i + 1].to_string(),
            parameters: model
                .params_of(i)
                .filter(|(_, p)| p.role.is_trained())
                .map(|(_, p)| p.len())
                .sum(),
        }
    };
    model.layers.iter().enumerate().map(row).collect()
}
