//! A model as the text of a file.

use std::fmt::Write;

use super::Model;
use super::check::{INPUT, label};

/// Keys that have their default value are left out.
pub(super) fn to_toml(model: &Model) -> String {
    let [c, h, w] = model.input;
    let mut out = format!("name = {}\ninput = [{c}, {h}, {w}]\n", quoted(&model.name));
    if let Some(normalise) = &model.normalise {
        let _ = writeln!(out, "normalise = {}", quoted(&normalise.to_string()));
    }
    if let Some(augment) = &model.augment {
        let _ = writeln!(out, "augment = {}", quoted(&augment.to_string()));
    }
    for (i, layer) in model.layers.iter().enumerate() {
        out.push_str("\n[[layers]]\n");
        if let Some(name) = &layer.name {
            let _ = writeln!(out, "name = {}", quoted(name));
        }
        let _ = writeln!(out, "type = {}", quoted(layer.layer.name()));
        if layer.from != [i] {
            let names = layer.from.iter().map(|&value| match value.checked_sub(1) {
                None => quoted(INPUT),
                Some(i) => quoted(&label(
                    model.layers.get(i).and_then(|l| l.name.as_deref()),
                    i,
                )),
            });
            let names: Vec<String> = names.collect();
            let _ = match names.as_slice() {
                [one] => writeln!(out, "from = {one}"),
                many => writeln!(out, "from = [{}]", many.join(", ")),
            };
        }
        for key in layer.keys.iter().filter(|key| !key.is_default) {
            let _ = writeln!(out, "{} = {}", key.name, key.text);
        }
    }
    out
}

/// A TOML basic string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
