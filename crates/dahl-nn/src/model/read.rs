//! Models from files: TOML to layers, each key checked, each error with its line.
//!
//! The text is walked by hand rather than deserialised, because errors must name the layer and the line
//! of the key, and unknown keys must be refused with the list of known ones.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::check::{Draft, assemble, label};
use super::{Kind, Model, ModelError, Place};

/// Larger files are not models.
const MAX_BYTES: u64 = 16 << 20;

/// All types, for the error that lists them.
pub(super) const TYPES: &str = "conv2d, relu, max_pool2d, avg_pool2d, adaptive_avg_pool2d, batch_norm2d, dropout, \
                     flatten, linear, add";

/// Reads a file that holds a model.
pub(super) fn load(path: &Path) -> Result<Model, ModelError> {
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
        Ok(_) => from_toml(&text, &file),
    }
}

/// Reads the text of a file that holds a model.
pub(super) fn from_toml(text: &str, file: &str) -> Result<Model, ModelError> {
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
    let known = ["name", "input", "layers"];
    if let Some(key) = table
        .keys()
        .find(|key| !known.contains(&key.get_ref().as_ref()))
    {
        let message = format!(
            "unknown key {:?}; there are: {}",
            key.get_ref(),
            known.join(", ")
        );
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
        .map(|(i, value)| draft(value, i, &lines));
    let drafts = drafts.collect::<Result<Vec<Draft>, ModelError>>()?;
    let place = lines.place(input.span());
    assemble(
        name_text.to_owned(),
        sizes,
        drafts,
        Some(file.to_owned()),
        place,
    )
}

/// One `[[layers]]` table.
fn draft(value: &Spanned<DeValue<'_>>, index: usize, lines: &Lines) -> Result<Draft, ModelError> {
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
    let kind = match table.get("type").map(|v| (v.get_ref().as_str(), v.span())) {
        None => return Err(untyped(format!("`type` is missing; one of {TYPES}"), place)),
        Some((None, span)) => {
            return Err(untyped(
                format!("`type` must be one of {TYPES}"),
                lines.place(span),
            ));
        }
        Some((Some(kind), span)) => (kind, span),
    };
    let mut reader = Keys {
        table,
        kind: kind.0,
        index,
        lines,
        place: &place,
        seen: BTreeSet::new(),
    };
    reader.seen.insert("type");
    let name = reader.text("name")?;
    let from = reader.names("from")?;
    let kind = match reader.kind(kind.0)? {
        Some(kind) => kind,
        None => {
            let message = format!("unknown type {:?}; one of {TYPES}", kind.0);
            return Err(untyped(message, lines.place(kind.1)));
        }
    };
    reader.finish()?;
    Ok(Draft {
        name,
        kind,
        from,
        place,
        line: Some(line),
    })
}

/// The keys of one layer, and which of them somebody has asked for.
struct Keys<'a, 'i> {
    table: &'a DeTable<'i>,
    kind: &'a str,
    index: usize,
    lines: &'a Lines,
    place: &'a Place,
    seen: BTreeSet<&'static str>,
}

impl<'a, 'i> Keys<'a, 'i> {
    fn kind(&mut self, kind: &str) -> Result<Option<Kind>, ModelError> {
        Ok(Some(match kind {
            "conv2d" => Kind::Conv2d {
                out_channels: self.size("out_channels")?,
                kernel: self.pair("kernel", None)?,
                stride: self.pair("stride", Some([1, 1]))?,
                padding: self.pair("padding", Some([0, 0]))?,
                bias: self.flag("bias")?,
            },
            "max_pool2d" | "avg_pool2d" => {
                let kernel = self.pair("kernel", None)?;
                let stride = self.pair("stride", Some(kernel))?;
                let padding = self.pair("padding", Some([0, 0]))?;
                if kind == "max_pool2d" {
                    Kind::MaxPool2d {
                        kernel,
                        stride,
                        padding,
                    }
                } else {
                    Kind::AvgPool2d {
                        kernel,
                        stride,
                        padding,
                    }
                }
            }
            "linear" => Kind::Linear {
                out_features: self.size("out_features")?,
                bias: self.flag("bias")?,
            },
            "dropout" => Kind::Dropout {
                p: self.real("p", 0.5)?,
            },
            "relu" => Kind::Relu,
            "adaptive_avg_pool2d" => Kind::AdaptiveAvgPool2d,
            "batch_norm2d" => Kind::BatchNorm2d,
            "flatten" => Kind::Flatten,
            "add" => Kind::Add,
            _ => return Ok(None),
        }))
    }

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
        &mut self,
        key: &'static str,
        must_be: &str,
        read: impl Fn(&DeValue<'_>) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        self.seen.insert(key);
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        match read(value.get_ref()) {
            Some(value) => Ok(Some(value)),
            None => {
                let message = format!("`{key}` must be {must_be}");
                Err(self.error(message, self.lines.place(value.span())))
            }
        }
    }

    fn needed<T>(&self, key: &str, value: Option<T>) -> Result<T, ModelError> {
        value.ok_or_else(|| self.error(format!("`{key}` is missing"), self.place.clone()))
    }

    fn size(&mut self, key: &'static str) -> Result<usize, ModelError> {
        let value = self.get(key, "a whole number, 1 or more", size)?;
        self.needed(key, value)
    }

    fn pair(
        &mut self,
        key: &'static str,
        default: Option<[usize; 2]>,
    ) -> Result<[usize; 2], ModelError> {
        let read = |value: &DeValue<'_>| match value {
            DeValue::Array(list) => {
                let sizes: Option<Vec<usize>> = list.iter().map(|v| size(v.get_ref())).collect();
                sizes.and_then(|s| s.try_into().ok())
            }
            value => size(value).map(|n| [n, n]),
        };
        let value = self.get(key, "a whole number, or [height, width]", read)?;
        self.needed(key, value.or(default))
    }

    fn flag(&mut self, key: &'static str) -> Result<bool, ModelError> {
        Ok(self
            .get(key, "true or false", |v| v.as_bool())?
            .unwrap_or(true))
    }

    fn real(&mut self, key: &'static str, default: f64) -> Result<f64, ModelError> {
        let read = |value: &DeValue<'_>| match value {
            DeValue::Float(x) => x.as_str().parse().ok(),
            DeValue::Integer(n) => n.as_str().parse().ok(),
            _ => None,
        };
        Ok(self.get(key, "a number", read)?.unwrap_or(default))
    }

    fn text(&mut self, key: &'static str) -> Result<Option<String>, ModelError> {
        self.get(key, "a text in quotes", |v| v.as_str().map(str::to_owned))
    }

    fn names(&mut self, key: &'static str) -> Result<Option<Vec<String>>, ModelError> {
        let read = |value: &DeValue<'_>| match value {
            DeValue::String(name) => Some(vec![name.to_string()]),
            DeValue::Array(list) => list
                .iter()
                .map(|v| v.get_ref().as_str().map(str::to_owned))
                .collect(),
            _ => None,
        };
        self.get(key, "a layer's name or a list of names", read)
    }

    /// Refuses keys that nobody asked for.
    fn finish(self) -> Result<(), ModelError> {
        match self
            .table
            .keys()
            .find(|key| !self.seen.contains(key.get_ref().as_ref()))
        {
            None => Ok(()),
            Some(key) => {
                let known: Vec<&str> = self.seen.iter().copied().collect();
                let message = format!(
                    "unknown key {:?}; there are: {}",
                    key.get_ref(),
                    known.join(", ")
                );
                Err(self.error(message, self.lines.place(key.span())))
            }
        }
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
