//! The extent of a value for one sample.

use std::fmt;

use super::MAX_ELEMENTS;

/// How large a value is, for one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Channels, height, width.
    Image([usize; 3]),
    /// A row of numbers.
    Flat(usize),
}

impl Extent {
    /// How many elements.
    #[allow(clippy::len_without_is_empty)] // never empty: a model with an empty value is refused
    pub fn len(&self) -> usize {
        match *self {
            Extent::Image([c, h, w]) => c * h * w,
            Extent::Flat(n) => n,
        }
    }

    /// Its sizes, the outermost first.
    pub(crate) fn sizes(&self) -> Vec<usize> {
        match self {
            Extent::Image(sizes) => sizes.to_vec(),
            Extent::Flat(n) => vec![*n],
        }
    }

    /// Channels of an image, or how many numbers.
    pub(crate) fn channels(&self) -> usize {
        match *self {
            Extent::Image([channels, ..]) => channels,
            Extent::Flat(n) => n,
        }
    }

    /// The extent if it has no zero and is not absurdly large.
    pub(crate) fn checked(self) -> Result<Extent, String> {
        let sizes: &[usize] = match &self {
            Extent::Image(sizes) => sizes,
            Extent::Flat(n) => std::slice::from_ref(n),
        };
        if sizes.contains(&0) {
            return Err(format!(
                "{self} has no elements; every size must be 1 or more"
            ));
        }
        elements(sizes).map(|_| self)
    }
}

/// The product of sizes, if an array may be that large.
pub(super) fn elements(sizes: &[usize]) -> Result<usize, String> {
    let product = sizes
        .iter()
        .try_fold(1usize, |n, &size| n.checked_mul(size));
    product.filter(|&n| n <= MAX_ELEMENTS).ok_or_else(|| {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        format!(
            "an array of {} elements is too large (at most {MAX_ELEMENTS})",
            sizes.join("×")
        )
    })
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Image([c, h, w]) => write!(f, "{c}×{h}×{w}"),
            Extent::Flat(n) => write!(f, "{n}"),
        }
    }
}
