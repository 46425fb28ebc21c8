//! Keys: how a layer, a loss and an optimiser are written down, from what serde knows of their structs.
//!
//! A struct that derives `Serialize` and `Deserialize` has all that files, tables, fingerprints and error
//! texts need: which keys there are and in which order, their values, and which may be left out because
//! reading without them gives the same. Nothing here knows what the keys mean.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use dahl_core::text::unknown;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use toml::Value;

/// What can be named in files: a struct with its keys and the name of its type there.
///
/// Keys that are added to a type later should have `#[serde(default, skip_serializing_if = …)]`, so that
/// fingerprints of what was written before stay.
pub trait Named: Serialize + DeserializeOwned + fmt::Debug + Send + Sync + 'static {
    /// Its `type` in model files, or its name on the command line.
    const NAME: &'static str;
}

/// The same for somebody who does not know the type. Every [`Named`] type has it.
pub trait Keys: fmt::Debug + Send + Sync {
    /// [`Named::NAME`].
    fn name(&self) -> &'static str;
    /// The keys in the order of the struct's fields, or why serde cannot write them.
    fn keys(&self) -> Result<Vec<Key>, String>;
    /// For finding one type among many.
    fn as_any(&self) -> &dyn Any;
}

impl<T: Named> Keys for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn keys(&self) -> Result<Vec<Key>, String> {
        let all = table(self)?;
        let same = |change: &dyn Fn(&mut Given)| {
            let mut other = all.clone();
            change(&mut other);
            read::<T>(other).is_ok_and(|t| table(&t).as_ref() == Ok(&all))
        };
        let fields = fields::<T>();
        let order = |key: &str| fields.iter().position(|f| *f == key);
        let mut keys: Vec<Key> = (all.0.iter())
            .map(|(name, value)| {
                let short = shorter(value).filter(|short| {
                    same(&|t| {
                        t.0.insert(name.clone(), short.clone());
                    })
                });
                Key {
                    name: name.clone(),
                    value: value.clone(),
                    text: short.as_ref().unwrap_or(value).to_string(),
                    is_default: same(&|t| {
                        t.0.remove(name);
                    }),
                }
            })
            .collect();
        keys.sort_by_key(|key| order(&key.name));
        Ok(keys)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// The key.
    pub name: String,
    /// Its value in full.
    pub value: Value,
    /// The value as a file writes it: the shortest that reads back as the same.
    pub text: String,
    /// Whether leaving the key out means the same.
    pub is_default: bool,
}

impl Key {
    /// The value as words of 64 bits, for fingerprints.
    pub(crate) fn words(&self) -> Vec<u64> {
        fn add(value: &Value, words: &mut Vec<u64>) {
            match value {
                Value::Integer(n) => words.push(*n as u64),
                Value::Boolean(b) => words.push(u64::from(*b)),
                Value::Float(x) => words.push(x.to_bits()),
                Value::Array(list) => list.iter().for_each(|v| add(v, words)),
                other => {
                    let text = other.to_string();
                    words.push(text.len() as u64);
                    words.extend(text.bytes().map(u64::from));
                }
            }
        }
        let mut words = Vec::new();
        add(&self.value, &mut words);
        words
    }
}

/// `[n, n]` as `n`, where a type reads both.
fn shorter(value: &Value) -> Option<Value> {
    match value.as_array()?.as_slice() {
        [a @ Value::Integer(_), b] if a == b => Some(a.clone()),
        _ => None,
    }
}

/// Keys that somebody gave; the others keep their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given(pub(crate) BTreeMap<String, Value>);

impl Given {
    /// With this key, if there is a value for it. A value that no file could hold counts as none.
    pub fn set(mut self, key: &str, value: Option<impl Serialize>) -> Self {
        if let Some(value) = value.and_then(|v| Value::try_from(v).ok()) {
            self.0.insert(key.to_owned(), value);
        }
        self
    }
}

impl FromStr for Given {
    type Err = String;

    /// As on the command line: `label_smoothing=0.1,weight=[1,2]`, the values as in files.
    fn from_str(text: &str) -> Result<Given, String> {
        let table = toml::from_str::<BTreeMap<String, BTreeMap<String, Value>>>(&format!(
            "keys = {{ {text} }}"
        ));
        match table {
            Ok(mut table) if table.len() == 1 => {
                Ok(Given(table.remove("keys").unwrap_or_default()))
            }
            _ => Err(format!(
                "`{text}` are no keys; write for example key=0.1,list=[1,2],text=\"a\""
            )),
        }
    }
}

/// What is wrong with the keys that somebody gave.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum KeyError {
    /// There is no such key.
    #[error("{}", unknown("key", key, &known.iter().map(String::as_str).collect::<Vec<_>>()))]
    Unknown {
        /// The key.
        key: String,
        /// All keys, sorted.
        known: Vec<String>,
    },
    /// A key that must be given was not.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A value that the key cannot have.
    #[error("`{key}` {problem}")]
    Value {
        /// The key.
        key: String,
        /// What it must be.
        problem: String,
    },
    /// The struct refuses all of them.
    #[error("{0}")]
    Whole(String),
}

impl de::Error for KeyError {
    fn custom<M: fmt::Display>(message: M) -> Self {
        KeyError::Whole(message.to_string())
    }

    fn missing_field(field: &'static str) -> Self {
        KeyError::Missing(field.to_owned())
    }
}

/// The struct with these keys.
pub(crate) fn read<T: DeserializeOwned>(given: Given) -> Result<T, KeyError> {
    T::deserialize(Fields(given))
}

fn table<T: Named>(of: &T) -> Result<Given, String> {
    if fields::<T>().is_empty() {
        return Ok(Given::default());
    }
    match Value::try_from(of) {
        Ok(Value::Table(table)) => Ok(Given(table.into_iter().collect())),
        Ok(other) => Err(format!("is written as {other}, not as keys")),
        Err(error) => Err(format!("cannot be written down: {error}")),
    }
}

/// The names of a struct's fields, in their order.
pub(crate) fn fields<T: DeserializeOwned>() -> &'static [&'static str] {
    struct Ask<'a>(&'a mut &'static [&'static str]);

    impl<'de> Deserializer<'de> for Ask<'_> {
        type Error = KeyError;

        fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, KeyError> {
            Err(KeyError::Whole("only asked".into()))
        }

        fn deserialize_newtype_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            visitor: V,
        ) -> Result<V::Value, KeyError> {
            visitor.visit_newtype_struct(self)
        }

        fn deserialize_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, KeyError> {
            *self.0 = fields;
            Err(KeyError::Whole("only asked".into()))
        }

        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
            unit unit_struct seq tuple tuple_struct map enum identifier ignored_any
        }
    }

    let mut fields: &'static [&'static str] = &[];
    let _ = T::deserialize(Ask(&mut fields));
    fields
}

/// Given keys as serde reads a struct from them, with errors that name the key.
struct Fields(Given);

impl Fields {
    fn only(&self, fields: &[&str]) -> Result<(), KeyError> {
        match self.0.0.keys().find(|key| !fields.contains(&key.as_str())) {
            None => Ok(()),
            Some(key) => {
                let mut known: Vec<String> = fields.iter().map(|f| f.to_string()).collect();
                known.sort();
                let key = key.clone();
                Err(KeyError::Unknown { key, known })
            }
        }
    }
}

impl<'de> Deserializer<'de> for Fields {
    type Error = KeyError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, KeyError> {
        visitor.visit_map(Entries {
            left: self.0.0.into_iter(),
            value: None,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, KeyError> {
        self.only(fields)?;
        self.deserialize_any(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, KeyError> {
        self.only(&[])?;
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, KeyError> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Entries {
    left: std::collections::btree_map::IntoIter<String, Value>,
    value: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Entries {
    type Error = KeyError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, KeyError> {
        self.value = self.left.next();
        match &self.value {
            Some((key, _)) => seed.deserialize(StrDeserializer::new(key)).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, KeyError> {
        let Some((key, value)) = self.value.take() else {
            return Err(KeyError::Whole("a value without its key".into()));
        };
        seed.deserialize(value).map_err(|e| KeyError::Value {
            problem: problem(e.message()),
            key,
        })
    }
}

/// serde's words for a bad value, as people say them.
fn problem(message: &str) -> String {
    let Some((_, expected)) = message.split_once("expected ") else {
        return format!("cannot be used: {message}");
    };
    let must_be = match expected.trim() {
        "usize" | "u64" | "u32" => "a whole number, 1 or more",
        "a boolean" => "true or false",
        "f64" | "f32" => "a number",
        other => other,
    };
    format!("must be {must_be}")
}

/// How one of the things of a table is read.
#[derive(Debug)]
pub struct Reader<T: ?Sized> {
    /// Its name in files.
    pub name: &'static str,
    /// From keys.
    pub(crate) read: fn(Given) -> Result<std::sync::Arc<T>, KeyError>,
}

impl<T: ?Sized> Clone for Reader<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Reader<T> {}

/// The names of a table's things.
pub(crate) fn names<T: ?Sized>(table: &[Reader<T>]) -> Vec<&'static str> {
    table.iter().map(|entry| entry.name).collect()
}

/// Writes a thing by its name, with its keys beside: `{"name": "adam", "eps": 1e-8, …}`.
pub(crate) fn serialize<S: Serializer>(of: &dyn Keys, serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::{Error, SerializeMap};
    let keys = of.keys().map_err(S::Error::custom)?;
    let mut map = serializer.serialize_map(Some(keys.len() + 1))?;
    map.serialize_entry("name", of.name())?;
    for key in keys {
        map.serialize_entry(&key.name, &key.value)?;
    }
    map.end()
}

/// Reads what [`serialize`] wrote: the name and the keys.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<(String, Given), D::Error> {
    use serde::Deserialize;
    let mut table = BTreeMap::<String, Value>::deserialize(deserializer)?;
    match table.remove("name") {
        Some(Value::String(name)) => Ok((name, Given(table))),
        _ => Err(de::Error::missing_field("name")),
    }
}

/// A thing as [`Given`] is read: its name, then those keys that are not at their defaults.
pub(crate) fn display(of: &dyn Keys, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(of.name())?;
    let keys = of.keys().map_err(|_| fmt::Error)?.into_iter();
    for (i, key) in keys.filter(|key| !key.is_default).enumerate() {
        let text = key.text.replace(", ", ",");
        write!(f, "{}{}={text}", [':', ','][usize::from(i > 0)], key.name)?;
    }
    Ok(())
}

/// Whether two things are the same type with the same keys.
pub(crate) fn same(a: &dyn Keys, b: &dyn Keys) -> bool {
    a.name() == b.name() && a.keys() == b.keys()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct Many {
        size: usize,
        #[serde(default)]
        flag: bool,
        #[serde(default = "half")]
        part: f64,
        list: Vec<usize>,
    }

    impl Named for Many {
        const NAME: &'static str = "many";
    }

    #[derive(Debug, Serialize, Deserialize)]
    struct None;

    impl Named for None {
        const NAME: &'static str = "none";
    }

    fn half() -> f64 {
        0.5
    }

    #[test]
    fn keys_are_the_fields_in_their_order() {
        let many = Many {
            size: 3,
            flag: true,
            part: 0.5,
            list: vec![2, 2],
        };
        let keys = many.keys().unwrap();
        let seen: Vec<(&str, &str, bool)> = keys
            .iter()
            .map(|k| (k.name.as_str(), k.text.as_str(), k.is_default))
            .collect();
        let expected = [
            ("size", "3", false),
            ("flag", "true", false),
            ("part", "0.5", true),
            ("list", "[2, 2]", false),
        ];
        assert_eq!(seen, expected);
        assert_eq!(keys[3].words(), [2, 2]);
        assert_eq!(None.keys().unwrap(), []);
    }

    #[test]
    fn bad_keys_are_named() {
        let says = |given: Given| read::<Many>(given).unwrap_err().to_string();
        let size = Given::default().set("size", Some(1));
        assert_eq!(says(size.clone()), "`list` is missing");
        assert_eq!(
            says(size.clone().set("deep", Some(1))),
            "unknown key \"deep\"; there are: flag, list, part, size"
        );
        assert_eq!(
            says(size.clone().set("flag", Some(1))),
            "`flag` must be true or false"
        );
        assert_eq!(
            says(size.set("size", Some(-1))),
            "`size` must be a whole number, 1 or more"
        );
        assert!("flag = true, a = 1".parse::<Given>().is_ok());
        for text in ["flag", "flag=", "size=1}\nmore={a=1", "size=1,size=2"] {
            let error = text.parse::<Given>().unwrap_err();
            assert!(error.contains("are no keys"), "{text}: {error}");
        }
        assert!(read::<None>(Given::default()).is_ok());
        assert!(read::<None>(Given::default().set("a", Some(1))).is_err());
    }
}
