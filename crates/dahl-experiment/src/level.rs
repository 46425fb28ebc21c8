//! A level of a factor: a text, a number or a truth value, equal if it reads alike.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Level {
    /// `true` or `false`.
    Truth(bool),
    /// A whole number.
    Whole(i64),
    /// Another number.
    Number(f64),
    /// A text.
    Text(String),
}

impl Level {
    /// Its place on an axis, where it is a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Level::Whole(n) => Some(*n as f64),
            Level::Number(x) => Some(*x),
            _ => None,
        }
    }

    /// Whether another level is this one, or begins as this one does before its star.
    pub(crate) fn matches(&self, level: &Level) -> bool {
        match (self, level) {
            (Level::Text(a), Level::Text(b)) if a.ends_with('*') => {
                b.starts_with(a.trim_end_matches('*'))
            }
            _ => self == level,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Truth(b) => write!(f, "{b}"),
            Level::Whole(n) => write!(f, "{n}"),
            Level::Number(x) => write!(f, "{x}"),
            Level::Text(t) => f.write_str(t),
        }
    }
}

impl TryFrom<toml::Value> for Level {
    type Error = String;

    fn try_from(value: toml::Value) -> Result<Level, String> {
        match value {
            toml::Value::Boolean(b) => Ok(Level::Truth(b)),
            toml::Value::Integer(n) => Ok(Level::Whole(n)),
            toml::Value::Float(x) if x.is_finite() => Ok(Level::Number(x)),
            toml::Value::String(t) if !t.is_empty() && t.len() <= 200 => Ok(Level::Text(t)),
            other => Err(format!(
                "{other} is no level: use texts, finite numbers, true or false"
            )),
        }
    }
}
