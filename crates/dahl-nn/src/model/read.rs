//! Models from files: TOML to layers, each key checked, each error with its line.
//!
//! What every layer has is walked by hand; a layer's own keys are read by serde, whose errors are given the
//! layer and the line of the key.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use dahl_core::text::unknown;
use dahl_data::{DataError, Normalise};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::check::{Draft, assemble, label};
use super::{Model, ModelError, Place};
use crate::Registry;
use crate::keys::{Given, KeyError, names};

/// Larger files are not models.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file that holds a model.
pub(super) fn load(path: &Path, registry: &Registry) -> Result<Model, ModelError> {
    let file = path.display().to_string();
    let mut text = String::new();
    let read = File::open(path).and_then(|f| f.take(MAX_BYTES + 1).read_to_string(&mut text));
    let too_large = || std::io::Error::other("it is too large to be a model");
    match read {
        Err(source) => Err(ModelError::Io { file, source }),
        Ok(n) if n as u64 > MAX_BYTES => Err(ModelError::Io {
            file,
            source: too_large(),
        }),
        Ok(_) => from_toml(&text, &file, registry),
    }
}

/// Reads the text of a file that holds a model.
pub(super) fn from_toml(text: &str, file: &str, registry: &Registry) -> Result<Model, ModelError> {
    let lines = Lines::new(text, file);
    let table = DeTable::parse(text).map_err(|e| ModelError::Syntax {
        message: e.message().to_owned(),
        place: lines.place(e.span().unwrap_or(0..0)),
    })?;
    let table = table.into_inner();
    let wrong = |message: String, span: Range<usize>| ModelError::Model {
        message,
        place: lines.place(span),
    };
    let known = ["name", "input", "augment", "normalise", "layers"];
    if let Some(key) = table
        .keys()
        .find(|key| !known.contains(&key.get_ref().as_ref()))
    {
        let message = unknown("key", key.get_ref(), &known);
        return Err(wrong(message, key.span()));
    }
    let required = |key: &str, like: &str| {
        table.get(key).ok_or_else(|| ModelError::Model {
            message: format!("`{key}` is missing; add {like}"),
            place: Place::new(file, None),
        })
    };
    let name = required("name", "name = \"my-model\"")?;
    let name_text = name
        .get_ref()
        .as_str()
        .filter(|s| !s.is_empty() && s.len() <= 200);
    let name_text = name_text.ok_or_else(|| {
        wrong(
            "`name` must be a text of 1 to 200 bytes".into(),
            name.span(),
        )
    })?;
    let input = required("input", "input = [channels, height, width]")?;
    let sizes = input.get_ref().as_array().and_then(|a| {
        a.iter()
            .map(|v| size(v.get_ref()))
            .collect::<Option<Vec<usize>>>()
    });
    let sizes: [usize; 3] = sizes.and_then(|s| s.try_into().ok()).ok_or_else(|| {
        let message = "`input` must be [channels, height, width], three whole numbers";
        wrong(message.into(), input.span())
    })?;
    let layers = required("layers", "[[layers]] tables")?;
    let list = layers.get_ref().as_array().ok_or_else(|| {
        wrong(
            "`layers` must be a list of tables: write [[layers]]".into(),
            layers.span(),
        )
    })?;
    let drafts = list
        .iter()
        .enumerate()
        .map(|(i, value)| draft(value, i, &lines, registry));
    let drafts = drafts.collect::<Result<Vec<Draft>, ModelError>>()?;
    let place = lines.place(input.span());
    let mut model = assemble(
        name_text.to_owned(),
        sizes,
        drafts,
        Some(file.to_owned()),
        place,
    )?;
    let text = |key: &str| {
        let Some(value) = table.get(key) else {
            return Ok(None);
        };
        let text = value.get_ref().as_str();
        let text = text.ok_or_else(|| wrong(format!("`{key}` must be a text"), value.span()))?;
        Ok(Some((text, value.span())))
    };
    if let Some((text, span)) = text("augment")? {
        let read = text
            .parse()
            .map_err(|e: DataError| wrong(e.to_string(), span))?;
        model.augment = Some(read);
    }
    if let Some((text, span)) = text("normalise")? {
        let read: Normalise = text
            .parse()
            .map_err(|e: DataError| wrong(e.to_string(), span.clone()))?;
        if read.mean().len() != sizes[0] {
            let (given, channels) = (read.mean().len(), sizes[0]);
            let message = format!("`normalise` is for {given} channels, the input has {channels}");
            return Err(wrong(message, span));
        }
        model.normalise = Some(read);
    }
    Ok(model)
}

/// Keys that every layer has.
const COMMON: [&str; 3] = ["from", "name", "type"];

/// One `[[layers]]` table.
fn draft(
    value: &Spanned<DeValue<'_>>,
    index: usize,
    lines: &Lines,
    registry: &Registry,
) -> Result<Draft, ModelError> {
    let line = lines.line(value.span().start);
    let place = lines.place(value.span());
    let untyped = |message: String, place: Place| ModelError::Layer {
        kind: "layer".into(),
        layer: label(None, index),
        message,
        place,
    };
    let Some(table) = value.get_ref().as_table() else {
        let message = "must be a table: write [[layers]] and a line with `type`";
        return Err(untyped(message.into(), place));
    };
    let types = || names(&registry.layers).join(", ");
    let Some(kind) = table.get("type") else {
        let message = format!("`type` is missing; one of {}", types());
        return Err(untyped(message, place));
    };
    let Some(kind_name) = kind.get_ref().as_str() else {
        let message = format!("`type` must be one of {}", types());
        return Err(untyped(message, lines.place(kind.span())));
    };
    let reader = Keys {
        table,
        kind: kind_name,
        index,
        lines,
    };
    let name = reader.get("name", "a text in quotes", |v| {
        v.as_str().map(str::to_owned)
    })?;
    let from = reader.get("from", "a layer's name or a list of names", source_names)?;
    let Some(entry) = registry.layers.iter().find(|entry| entry.name == kind_name) else {
        let message = unknown("type", kind_name, &names(&registry.layers));
        return Err(untyped(message, lines.place(kind.span())));
    };
    let layer = (entry.read)(reader.own()?).map_err(|error| reader.refuse(error, &place))?;
    Ok(Draft {
        name,
        layer,
        from,
        place,
        line: Some(line),
    })
}

fn source_names(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::String(name) => Some(vec![name.to_string()]),
        DeValue::Array(list) => list
            .iter()
            .map(|v| v.get_ref().as_str().map(str::to_owned))
            .collect(),
        _ => None,
    }
}

/// The keys of one layer.
struct Keys<'a, 'i> {
    table: &'a DeTable<'i>,
    kind: &'a str,
    index: usize,
    lines: &'a Lines,
}

impl Keys<'_, '_> {
    fn error(&self, message: String, place: Place) -> ModelError {
        let name = self.table.get("name").and_then(|v| v.get_ref().as_str());
        ModelError::Layer {
            kind: self.kind.to_owned(),
            layer: label(name, self.index),
            message,
            place,
        }
    }

    /// The value of a key through `read`, if it is there; an error saying what it must be if unfit.
    fn get<T>(
        &self,
        key: &str,
        must_be: &str,
        read: impl Fn(&DeValue<'_>) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        let unfit = || {
            let message = format!("`{key}` must be {must_be}");
            self.error(message, self.lines.place(value.span()))
        };
        read(value.get_ref()).map(Some).ok_or_else(unfit)
    }

    /// The keys that are the layer's own.
    fn own(&self) -> Result<Given, ModelError> {
        let mut given = Given::default();
        for (key, value) in self.table {
            let name = key.get_ref().as_ref();
            if COMMON.contains(&name) {
                continue;
            }
            let read = toml::Value::deserialize(ValueDeserializer::from(value.clone()));
            let read = read.map_err(|e| {
                let message = format!("`{name}` cannot be read: {}", e.message());
                self.error(message, self.lines.place(value.span()))
            })?;
            given.0.insert(name.to_owned(), read);
        }
        Ok(given)
    }

    /// An error of the layer's own keys, with the line of the key.
    fn refuse(&self, error: KeyError, layer: &Place) -> ModelError {
        let line = |key: &str, of_value: bool| {
            let found = self.table.get_key_value(key);
            found.map_or_else(Place::default, |(key, value)| {
                let span = if of_value { value.span() } else { key.span() };
                self.lines.place(span)
            })
        };
        let place = match &error {
            KeyError::Unknown { key, .. } => line(key, false),
            KeyError::Value { key, .. } => line(key, true),
            KeyError::Missing(_) | KeyError::Whole(_) => layer.clone(),
        };
        let error = match error {
            KeyError::Unknown { key, mut known } => {
                known.extend(COMMON.map(str::to_owned));
                known.sort();
                KeyError::Unknown { key, known }
            }
            error => error,
        };
        self.error(error.to_string(), place)
    }
}

/// A whole number that an array's size can be.
fn size(value: &DeValue<'_>) -> Option<usize> {
    let n = value.as_integer()?;
    let n = u64::from_str_radix(n.as_str(), n.radix()).ok()?;
    usize::try_from(n)
        .ok()
        .filter(|&n| n <= super::MAX_ELEMENTS)
}

/// Where the lines of a text start.
struct Lines {
    file: String,
    starts: Vec<usize>,
}

impl Lines {
    fn new(text: &str, file: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|&(_, b)| b == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(i, _)| i + 1)).collect();
        Lines {
            file: file.to_owned(),
            starts,
        }
    }

    fn line(&self, offset: usize) -> usize {
        self.starts.partition_point(|&start| start <= offset).max(1)
    }

    fn place(&self, span: Range<usize>) -> Place {
        Place::new(&self.file, Some(self.line(span.start)))
    }
}
