//! A data set that a program brings along.

use super::error::DataError;
use super::samples::{Labels, Samples};

/// Samples with their labels, in memory.
///
/// ```
/// use dahl_data::InMemory;
///
/// # fn main() -> Result<(), dahl_data::DataError> {
/// // Two samples of three floats, with class numbers; then with a value each, for regression.
/// let inputs = vec![0.5f32, 1.0, -1.0, 2.0, 0.0, 0.25];
/// let classes = InMemory::new([3, 1, 1], inputs.clone(), vec![0usize, 1])?;
/// let values = InMemory::new([3, 1, 1], inputs, vec![1.5f64, -2.0])?;
/// assert_eq!((classes.len(), values.len()), (2, 2));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct InMemory {
    name: String,
    shape: [usize; 3],
    samples: Samples<'static>,
    labels: Labels,
    count: usize,
    width: usize,
}

impl InMemory {
    /// Samples of a shape (channels, height, width; `[n, 1, 1]` for plain rows) as a vector of `u8`, `f32` or
    /// `f64`, with labels: class numbers (`usize` or `u8`), or values (`f32` or `f64`), as many per sample as
    /// the model gives.
    pub fn new(
        shape: [usize; 3],
        samples: impl Into<Samples<'static>>,
        labels: impl Into<Labels>,
    ) -> Result<InMemory, DataError> {
        let (samples, labels) = (samples.into(), labels.into());
        let count = samples.count(shape)?;
        if count == 0 {
            return Err(DataError::Empty {
                what: "data in memory".into(),
                hint: "",
            });
        }
        Ok(InMemory {
            name: "data in memory".into(),
            shape,
            width: labels.width(count)?,
            samples,
            labels,
            count,
        })
    }

    /// With a name for messages.
    pub fn named(mut self, name: impl Into<String>) -> InMemory {
        self.name = name.into();
        self
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many samples.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Never: there is at least one sample.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Channels, height and width of a sample.
    pub fn shape(&self) -> [usize; 3] {
        self.shape
    }

    pub(crate) fn samples(&self) -> &Samples<'static> {
        &self.samples
    }

    /// The labels, and how many numbers each sample has.
    pub(crate) fn labels(&self) -> (&Labels, usize) {
        (&self.labels, self.width)
    }
}
