//! Element types: `f32` and `f64`, and nothing else.
//!
//! [`Element`] is what user code is generic over; [`DType`] is what remains once the type is erased.
//! The trait is sealed: every kernel is written for exactly these two types, so a third one cannot
//! appear by accident.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The element type of an array, once erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE 754 single precision.
    F32,
    /// IEEE 754 double precision.
    F64,
}

impl DType {
    /// Size of one element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F64 => 8,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DType::F32 => "f32",
            DType::F64 => "f64",
        })
    }
}

impl std::str::FromStr for DType {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "f32" => Ok(DType::F32),
            "f64" => Ok(DType::F64),
            other => Err(format!("unknown element type `{other}`: use f32 or f64")),
        }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// An element of an array: `f32` or `f64`.
pub trait Element:
    sealed::Sealed + Copy + Default + PartialOrd + fmt::Debug + fmt::Display + Send + Sync + 'static
{
    /// The erased name of this type.
    const DTYPE: DType;

    /// Rounds a double to this type.
    fn from_f64(value: f64) -> Self;

    /// Widens to a double, exactly.
    fn to_f64(self) -> f64;
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;

    fn from_f64(value: f64) -> Self {
        value as f32
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }
}

impl Element for f64 {
    const DTYPE: DType = DType::F64;

    fn from_f64(value: f64) -> Self {
        value
    }

    fn to_f64(self) -> f64 {
        self
    }
}
