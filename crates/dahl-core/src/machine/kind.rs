//! Kinds of units: an open set of short names.
//!
//! A kind says who can execute what: codelets have implementations for kinds, and devices have kernels for theirs.
//! The names [`UnitKind::CPU`] and [`UnitKind::GPU`] are used by this workspace; a device of another kind brings a
//! name of its own, and nothing here has to know it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kind of a unit, by its name: 1 to 15 characters from `a-z`, `0-9`, `-` and `_`.
///
/// ```
/// use dahl_core::UnitKind;
///
/// const FPGA: UnitKind = UnitKind::new("fpga");
/// assert_eq!("fpga".parse(), Ok(FPGA));
/// assert_ne!(FPGA, UnitKind::GPU);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UnitKind {
    /// The name, followed by zeros: equal names are equal bytes, ordered as the names are.
    name: [u8; UnitKind::LONGEST],
}

/// Why a text is not the name of a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a kind of unit is named by 1 to 15 characters from a-z, 0-9, - and _, not {0:?}")]
pub struct KindError(String);

impl UnitKind {
    /// Most characters of a name.
    const LONGEST: usize = 15;

    /// A CPU core, which runs the bodies of implementations on the host.
    pub const CPU: UnitKind = UnitKind::new("cpu");

    /// A GPU.
    pub const GPU: UnitKind = UnitKind::new("gpu");

    /// A connection to other nodes: sends and receives.
    pub const NET: UnitKind = UnitKind::new("net");

    /// The kind of this name, for constants; names from outside are parsed.
    ///
    /// # Panics
    /// If the name is not one of a kind: while compiling, in a constant.
    pub const fn new(name: &str) -> UnitKind {
        match UnitKind::read(name) {
            Some(kind) => kind,
            None => panic!("a kind of unit is named by 1 to 15 characters from a-z, 0-9, - and _"),
        }
    }

    const fn read(name: &str) -> Option<UnitKind> {
        let bytes = name.as_bytes();
        if bytes.is_empty() || bytes.len() > UnitKind::LONGEST {
            return None;
        }
        let mut kind = UnitKind {
            name: [0; UnitKind::LONGEST],
        };
        let mut i = 0;
        while i < bytes.len() {
            if !matches!(bytes[i], b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_') {
                return None;
            }
            kind.name[i] = bytes[i];
            i += 1;
        }
        Some(kind)
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        let len = self.name.iter().position(|&b| b == 0);
        let name = &self.name[..len.unwrap_or(UnitKind::LONGEST)];
        std::str::from_utf8(name).expect("ASCII, as checked when it was made")
    }
}

impl std::str::FromStr for UnitKind {
    type Err = KindError;

    fn from_str(name: &str) -> Result<UnitKind, KindError> {
        UnitKind::read(name).ok_or_else(|| KindError(name.into()))
    }
}

impl fmt::Display for UnitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for UnitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnitKind({self})")
    }
}

impl Serialize for UnitKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for UnitKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UnitKind, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_compared_and_ordered() {
        let kinds = ["cpu", "fpga", "gpu", "gpu2", "neural-engine_1"];
        let read: Vec<UnitKind> = kinds.iter().map(|k| k.parse().unwrap()).collect();
        assert!(read.is_sorted());
        assert_eq!(read[0], UnitKind::CPU);
        for (kind, name) in read.iter().zip(kinds) {
            assert_eq!(kind.to_string(), name);
            let text = serde_json::to_string(kind).unwrap();
            assert_eq!(text, format!("{name:?}"));
            assert_eq!(serde_json::from_str::<UnitKind>(&text).unwrap(), *kind);
        }
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for wrong in ["", "Cpu", "g pu", "gpu:0", "größer", "sixteen-letters-"] {
            let error = wrong.parse::<UnitKind>().unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
        let error = serde_json::from_str::<UnitKind>("\"G\"").unwrap_err();
        assert!(error.to_string().contains("a-z"), "{error}");
    }
}
