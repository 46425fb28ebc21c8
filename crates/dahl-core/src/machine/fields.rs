//! The keys of one TOML table: read by name and type, each mistake with its line.
//!
//! A reader asks for every key it knows; keys that nobody asked for are refused with the list of
//! those that exist, since a misspelt key must not pass for a default.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::MachineError;

/// Where the lines of a file start.
pub(super) struct Lines<'t> {
    pub text: &'t str,
    pub file: &'t str,
}

impl Lines<'_> {
    /// An error at a place of the text.
    pub(super) fn error(&self, message: String, span: Range<usize>) -> MachineError {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        MachineError {
            file: self.file.to_owned(),
            line: Some(1 + before.iter().filter(|&&b| b == b'\n').count()),
            message,
        }
    }
}

/// One table.
pub(super) struct Fields<'a, 'i> {
    table: &'a DeTable<'i>,
    lines: &'a Lines<'a>,
    span: Range<usize>,
    /// How errors call it.
    label: String,
    asked: BTreeSet<&'static str>,
}

impl<'a, 'i> Fields<'a, 'i> {
    pub(super) fn new(
        table: &'a DeTable<'i>,
        span: Range<usize>,
        label: String,
        lines: &'a Lines<'a>,
    ) -> Self {
        let name = table.get("name").and_then(|v| v.get_ref().as_str());
        Fields {
            table,
            lines,
            span,
            label: match name {
                Some(name) if !label.is_empty() => format!("{label} {name:?}"),
                _ => label,
            },
            asked: BTreeSet::new(),
        }
    }

    /// Whether a key is there; asking does not make it one that exists.
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// An error about this table.
    pub(super) fn error(&self, message: impl std::fmt::Display) -> MachineError {
        self.lines
            .error(self.with_label(message), self.span.clone())
    }

    /// An error about one of its keys.
    pub(super) fn error_at(&self, key: &str, message: impl std::fmt::Display) -> MachineError {
        let span = self.table.get(key).map_or(self.span.clone(), Spanned::span);
        self.lines.error(self.with_label(message), span)
    }

    fn with_label(&self, message: impl std::fmt::Display) -> String {
        if self.label.is_empty() {
            message.to_string()
        } else {
            format!("{}: {message}", self.label)
        }
    }

    fn get<T>(
        &mut self,
        key: &'static str,
        must_be: &str,
        read: impl Fn(&DeValue<'_>) -> Option<T>,
    ) -> Result<Option<T>, MachineError> {
        self.asked.insert(key);
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        match read(value.get_ref()) {
            Some(value) => Ok(Some(value)),
            None => Err(self.error_at(key, format!("`{key}` must be {must_be}"))),
        }
    }

    pub(super) fn text(&mut self, key: &'static str) -> Result<Option<String>, MachineError> {
        self.get(key, "a text in quotes", |v| v.as_str().map(str::to_owned))
    }

    pub(super) fn number(&mut self, key: &'static str) -> Result<Option<f64>, MachineError> {
        self.get(key, "a number", |value| match value {
            DeValue::Float(x) => x.as_str().parse().ok(),
            DeValue::Integer(n) => i128::from_str_radix(n.as_str(), n.radix())
                .ok()
                .map(|n| n as f64),
            _ => None,
        })
    }

    /// A whole number, zero or more.
    pub(super) fn whole(&mut self, key: &'static str) -> Result<Option<u64>, MachineError> {
        self.get(key, "a whole number, 0 or more", whole)
    }

    /// True or false.
    pub(super) fn flag(&mut self, key: &'static str) -> Result<Option<bool>, MachineError> {
        self.get(key, "true or false", |v| v.as_bool())
    }

    /// An amount of memory: bytes, or a text such as "8 GiB".
    pub(super) fn bytes(&mut self, key: &'static str) -> Result<Option<u64>, MachineError> {
        let must_be = "a number of bytes or a text such as \"8 GiB\" or \"800 MB\"";
        self.get(key, must_be, |value| match value.as_str() {
            Some(text) => bytes(text),
            None => whole(value),
        })
    }

    /// A list of tables, each with its place; none if the key is missing.
    pub(super) fn tables(
        &mut self,
        key: &'static str,
    ) -> Result<Vec<(&'a DeTable<'i>, Range<usize>)>, MachineError> {
        self.asked.insert(key);
        let Some(value) = self.table.get(key) else {
            return Ok(Vec::new());
        };
        let list = value.get_ref().as_array().and_then(|list| {
            list.iter()
                .map(|v| v.get_ref().as_table().map(|t| (t, v.span())))
                .collect::<Option<Vec<_>>>()
        });
        list.ok_or_else(|| {
            self.error_at(
                key,
                format!("`{key}` must be a list of tables: [[{key}]] or [{{ … }}]"),
            )
        })
    }

    /// A list of texts; none if the key is missing.
    pub(super) fn texts(&mut self, key: &'static str) -> Result<Vec<String>, MachineError> {
        let texts = self.get(key, "a list of texts in quotes", |value| {
            let list = value.as_array()?.iter();
            list.map(|v| v.get_ref().as_str().map(str::to_owned))
                .collect()
        })?;
        Ok(texts.unwrap_or_default())
    }

    /// A table in this one.
    pub(super) fn table(&mut self, key: &'static str) -> Result<Option<Self>, MachineError> {
        self.asked.insert(key);
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        match value.get_ref().as_table() {
            Some(table) => {
                let label = self.with_label(key);
                Ok(Some(Fields::new(table, value.span(), label, self.lines)))
            }
            None => {
                let message = format!("`{key}` must be a table: {key} = {{ … }}");
                Err(self.error_at(key, message))
            }
        }
    }

    /// A value that must be there.
    pub(super) fn needed<T>(&self, key: &str, value: Option<T>) -> Result<T, MachineError> {
        value.ok_or_else(|| self.error(format!("`{key}` is missing")))
    }

    /// Refuses keys that nobody asked for.
    pub(super) fn finish(self) -> Result<(), MachineError> {
        let unknown = |key: &&Spanned<_>| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            !self.asked.contains(name.as_ref())
        };
        let Some(key) = self.table.keys().find(unknown) else {
            return Ok(());
        };
        let known: Vec<&str> = self.asked.iter().copied().collect();
        let message = crate::text::unknown("key", key.get_ref(), &known);
        Err(self.lines.error(self.with_label(message), key.span()))
    }
}

fn whole(value: &DeValue<'_>) -> Option<u64> {
    let n = value.as_integer()?;
    u64::from_str_radix(n.as_str(), n.radix()).ok()
}

/// `8 GiB` as bytes.
fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "B" => 1.0,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "TiB" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        _ => return None,
    };
    let value = number.parse::<f64>().ok()? * scale;
    (value <= i64::MAX as f64).then(|| value.round() as u64)
}
