//! Shapes: how many elements an array has along each of its axes, at most four of them.
//!
//! Every shape is kept *right-aligned in four dimensions* (a 3 × 5 matrix is `1 × 1 × 3 × 5` plus the
//! rank 2), so that code working on boxes never branches on the rank. A `Shape` that exists is valid:
//! no extent is zero and the element count fits in memory, because [`Shape::new`] refuses the rest.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Largest number of axes an array can have (batch × channel × height × width).
pub(crate) const MAX_RANK: usize = 4;

/// Why a list of extents is not a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// More than four axes.
    #[error("shape {0:?} has {n} axes, at most {MAX_RANK} are possible", n = .0.len())]
    TooManyAxes(Vec<usize>),
    /// An extent is zero.
    #[error("shape {0:?} has no elements: axis {1} is zero")]
    Empty(Vec<usize>, usize),
    /// The number of bytes does not fit the address space.
    #[error("shape {0:?} is too large to address")]
    TooLarge(Vec<usize>),
}

/// The extents of an array, outermost axis first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    rank: u8,
    /// Right-aligned extents; the first `4 - rank` are 1.
    dims: [usize; MAX_RANK],
}

impl Shape {
    /// The shape of a scalar: no axes, one element.
    pub const SCALAR: Shape = Shape {
        rank: 0,
        dims: [1; MAX_RANK],
    };

    /// A shape from its extents, outermost first. Zero extents, more than four axes and shapes that
    /// no machine could address are refused.
    pub fn new(extents: &[usize]) -> Result<Self, ShapeError> {
        if extents.len() > MAX_RANK {
            return Err(ShapeError::TooManyAxes(extents.to_vec()));
        }
        if let Some(axis) = extents.iter().position(|&e| e == 0) {
            return Err(ShapeError::Empty(extents.to_vec(), axis));
        }
        let mut dims = [1; MAX_RANK];
        dims[MAX_RANK - extents.len()..].copy_from_slice(extents);
        // Eight bytes per element is the widest type; `isize::MAX` is what pointers can span.
        let bytes = dims.iter().try_fold(8usize, |acc, &d| acc.checked_mul(d));
        match bytes {
            Some(b) if b <= isize::MAX as usize => Ok(Shape {
                rank: extents.len() as u8,
                dims,
            }),
            _ => Err(ShapeError::TooLarge(extents.to_vec())),
        }
    }

    /// Number of axes.
    pub const fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The extents, outermost first; as many as the rank.
    pub fn extents(&self) -> &[usize] {
        &self.dims[MAX_RANK - self.rank()..]
    }

    /// The extents right-aligned in four dimensions, missing outer ones being 1.
    pub const fn dims4(&self) -> [usize; MAX_RANK] {
        self.dims
    }

    /// Number of elements. Named as for slices; never zero, see [`Shape::new`].
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> usize {
        self.dims[0] * self.dims[1] * self.dims[2] * self.dims[3]
    }

    /// Row-major strides in elements, right-aligned in four dimensions; the innermost is 1.
    pub const fn strides4(&self) -> [usize; MAX_RANK] {
        let d = &self.dims;
        [d[1] * d[2] * d[3], d[2] * d[3], d[3], 1]
    }
}

impl std::ops::Index<usize> for Shape {
    type Output = usize;

    fn index(&self, axis: usize) -> &usize {
        &self.extents()[axis]
    }
}

/// `2×3×4`; a scalar prints as `scalar`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank == 0 {
            return f.write_str("scalar");
        }
        for (i, e) in self.extents().iter().enumerate() {
            if i > 0 {
                f.write_str("×")?;
            }
            write!(f, "{e}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Shape {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.extents().serialize(s)
    }
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Shape::new(&Vec::<usize>::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_are_right_aligned() {
        let s = Shape::new(&[3, 5]).unwrap();
        assert_eq!(s.dims4(), [1, 1, 3, 5]);
        assert_eq!(s.strides4(), [15, 15, 5, 1]);
        assert_eq!((s.rank(), s.len(), s[0], s[1]), (2, 15, 3, 5));
        assert_eq!(s.to_string(), "3×5");
        assert_eq!(Shape::SCALAR.len(), 1);
    }

    #[test]
    fn what_cannot_be_an_array_is_refused() {
        assert!(matches!(
            Shape::new(&[1; 5]),
            Err(ShapeError::TooManyAxes(_))
        ));
        assert!(matches!(Shape::new(&[3, 0]), Err(ShapeError::Empty(_, 1))));
        assert!(matches!(
            Shape::new(&[usize::MAX]),
            Err(ShapeError::TooLarge(_))
        ));
        assert!(matches!(
            Shape::new(&[1 << 32, 1 << 32]),
            Err(ShapeError::TooLarge(_))
        ));
        assert!(serde_json::from_str::<Shape>("[2,0]").is_err());
    }
}
