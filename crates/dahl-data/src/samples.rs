//! Samples and labels as plain values, for programs that bring their own.

use std::borrow::Cow;

use dahl_core::Element;

use super::error::{DataError, shape};
use super::sample_size;

/// Samples one after another, each channel by channel and row by row: owned, or borrowed from the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum Samples<'a> {
    /// Bytes, which models see divided by 255.
    Bytes(Cow<'a, [u8]>),
    /// Single precision.
    F32(Cow<'a, [f32]>),
    /// Double precision.
    F64(Cow<'a, [f64]>),
}

macro_rules! samples_from {
    ($element:ty, $variant:ident) => {
        impl From<Vec<$element>> for Samples<'_> {
            fn from(values: Vec<$element>) -> Self {
                Samples::$variant(values.into())
            }
        }

        impl<'a> From<&'a [$element]> for Samples<'a> {
            fn from(values: &'a [$element]) -> Self {
                Samples::$variant(values.into())
            }
        }

        impl<'a> From<&'a Vec<$element>> for Samples<'a> {
            fn from(values: &'a Vec<$element>) -> Self {
                Samples::$variant(values.into())
            }
        }
    };
}

samples_from!(u8, Bytes);
samples_from!(f32, F32);
samples_from!(f64, F64);

impl Samples<'_> {
    /// How many values there are in all.
    fn len(&self) -> usize {
        match self {
            Samples::Bytes(v) => v.len(),
            Samples::F32(v) => v.len(),
            Samples::F64(v) => v.len(),
        }
    }

    /// How many samples of this shape they are; an error if something is left over, or is not finite.
    pub fn count(&self, of: [usize; 3]) -> Result<usize, DataError> {
        let (size, len) = (sample_size(of)?, self.len());
        if !len.is_multiple_of(size) {
            return Err(DataError::Usage(format!(
                "{len} values are no whole number of samples of {}, which have {size} each",
                shape(of)
            )));
        }
        let bad = match self {
            Samples::Bytes(_) => None,
            Samples::F32(v) => v.iter().position(|x| !x.is_finite()),
            Samples::F64(v) => v.iter().position(|x| !x.is_finite()),
        };
        match bad {
            None => Ok(len / size),
            Some(at) => Err(DataError::Usage(format!(
                "value {} of sample {} is not a finite number; replace it or leave the sample out",
                at % size,
                at / size
            ))),
        }
    }

    /// Writes values from place `first` on, as models see them.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn copy_to<T: Element>(&self, first: usize, out: &mut [T]) {
        let range = first..first + out.len();
        match self {
            Samples::Bytes(v) => each(out, &v[range], |b| f64::from(b) / 255.0),
            Samples::F32(v) => each(out, &v[range], f64::from),
            Samples::F64(v) => each(out, &v[range], |x| x),
        }
    }
}

fn each<T: Element, S: Copy>(out: &mut [T], from: &[S], value: impl Fn(S) -> f64) {
    for (o, &x) in out.iter_mut().zip(from) {
        *o = T::from_f64(value(x));
    }
}

/// What samples should give.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// A class number per sample.
    Classes(Vec<usize>),
    /// Values, as many per sample as the model gives.
    Values(Vec<f64>),
}

impl From<Vec<usize>> for Labels {
    fn from(classes: Vec<usize>) -> Self {
        Labels::Classes(classes)
    }
}

impl From<Vec<u8>> for Labels {
    fn from(classes: Vec<u8>) -> Self {
        Labels::Classes(classes.into_iter().map(usize::from).collect())
    }
}

impl From<Vec<f32>> for Labels {
    fn from(values: Vec<f32>) -> Self {
        Labels::Values(values.into_iter().map(f64::from).collect())
    }
}

impl From<Vec<f64>> for Labels {
    fn from(values: Vec<f64>) -> Self {
        Labels::Values(values)
    }
}

/// What a model's loss compares its outputs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// One of so many classes per sample.
    Classes(usize),
    /// So many values per sample.
    Values(usize),
    /// The share of each of so many classes; a class number is a share of 1.
    Shares(usize),
}

impl Labels {
    /// How many numbers a sample has, if there are labels for so many samples and all are finite.
    pub(crate) fn width(&self, samples: usize) -> Result<usize, DataError> {
        let (len, what) = match self {
            Labels::Classes(v) => (v.len(), "labels"),
            Labels::Values(v) => (v.len(), "target values"),
        };
        if let Labels::Values(v) = self
            && let Some(at) = v.iter().position(|x| !x.is_finite())
        {
            return Err(DataError::Usage(format!(
                "target value {at} is {}; targets must be finite",
                v[at]
            )));
        }
        match self {
            Labels::Values(_) if samples > 0 && len > 0 && len.is_multiple_of(samples) => {
                Ok(len / samples)
            }
            Labels::Classes(_) if len == samples => Ok(1),
            _ => Err(DataError::Usage(format!(
                "{len} {what} for {samples} samples: each sample needs its own"
            ))),
        }
    }

    /// Whether they are what a model's loss expects; `width` as [`Labels::width`] gave it.
    pub(crate) fn check(&self, width: usize, expects: Expects) -> Result<(), String> {
        match (self, expects) {
            (Labels::Classes(v), Expects::Classes(most) | Expects::Shares(most)) => {
                match v.iter().position(|&label| label >= most) {
                    None => Ok(()),
                    Some(i) => Err(format!(
                        "sample {i} has label {}, but the model has {most} classes (0 to {})",
                        v[i],
                        most.saturating_sub(1)
                    )),
                }
            }
            (Labels::Values(_), Expects::Values(n) | Expects::Shares(n)) if width == n => Ok(()),
            (Labels::Values(_), Expects::Values(n) | Expects::Shares(n)) => Err(format!(
                "a sample has {width} target values, the model gives {n}"
            )),
            (Labels::Classes(_), Expects::Values(n)) => Err(format!(
                "the labels are class numbers, the loss compares {n} values; give values, or use a loss \
                 for classes"
            )),
            (Labels::Values(_), Expects::Classes(_)) => Err(
                "the targets are values, the loss wants class numbers; give class numbers, or use a loss \
                 for values"
                    .into(),
            ),
        }
    }

    /// Appends the labels of one sample.
    pub(crate) fn push_to<T: Element>(
        &self,
        sample: usize,
        width: usize,
        expects: Option<Expects>,
        out: &mut Vec<T>,
    ) {
        match self {
            Labels::Classes(v) => push_class(v[sample], expects, out),
            Labels::Values(v) => {
                let own = &v[sample * width..][..width];
                out.extend(own.iter().map(|&x| T::from_f64(x)));
            }
        }
    }
}

/// Appends the number of a class, or where shares are expected, 1 for it and 0 for the others.
pub(crate) fn push_class<T: Element>(class: usize, expects: Option<Expects>, out: &mut Vec<T>) {
    match expects {
        Some(Expects::Shares(classes)) => {
            let share = |c| T::from_f64(f64::from(u8::from(c == class)));
            out.extend((0..classes).map(share));
        }
        _ => out.push(T::from_f64(class as f64)),
    }
}
