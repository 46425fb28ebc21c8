//! Tensors: boxes of elements in a device's memory, as launches name them.
//!
//! A tensor knows where its first element is and how to reach the others; it cannot be looked at from
//! the host. Kernels get it as a pointer to a buffer and a [`Laid`], the same structure in Rust and C.

/// Where a tensor's first element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// At this address, as the device's pool knows it.
    At(usize),
    /// So many bytes into the scratch memory of the launches it belongs to.
    Scratch(usize),
}

/// A box of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its first element.
    pub base: Base,
    /// Extents.
    pub dims: [usize; 4],
    /// Strides in elements; the last is 1.
    pub strides: [usize; 4],
}

/// A tensor as kernels see it beside a pointer to its buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Laid {
    /// Elements from the beginning of the buffer to the first one.
    pub at: i64,
    /// Extents.
    pub dims: [i32; 4],
    /// Strides of all axes but the last.
    pub strides: [i32; 3],
    /// 1 if the elements lie next to each other.
    pub flat: i32,
}

/// Strides of a box whose elements lie next to each other.
pub(crate) fn row_major(dims: [usize; 4]) -> [usize; 4] {
    [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1]
}

impl Tensor {
    /// A box without gaps.
    pub fn contiguous(base: Base, dims: [usize; 4]) -> Self {
        Tensor {
            base,
            dims,
            strides: row_major(dims),
        }
    }

    /// Number of elements.
    #[allow(clippy::len_without_is_empty)]
    pub(crate) fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether the elements lie next to each other.
    pub(crate) fn is_flat(&self) -> bool {
        let want = row_major(self.dims);
        (0..4).all(|a| self.dims[a] == 1 || self.strides[a] == want[a])
    }

    /// Elements from the first to the last, both included.
    pub(crate) fn span(&self) -> usize {
        let reach = |a: usize| (self.dims[a] - 1) * self.strides[a];
        (0..4).map(reach).sum::<usize>() + 1
    }

    /// The same first element with other extents.
    pub(crate) fn with_dims(self, dims: [usize; 4]) -> Self {
        Tensor { dims, ..self }
    }

    /// A row of values, one per channel, as an image of one sample and one pixel.
    pub(crate) fn per_channel(self) -> Self {
        Tensor {
            dims: [1, self.dims[3], 1, 1],
            strides: [self.strides[0], 1, 1, 1],
            ..self
        }
    }

    /// The samples `from..from + count` of it; `size` is that of an element.
    pub(crate) fn samples(self, from: usize, count: usize, size: usize) -> Self {
        let skip = from * self.strides[0] * size;
        Tensor {
            base: match self.base {
                Base::At(a) => Base::At(a + skip),
                Base::Scratch(a) => Base::Scratch(a + skip),
            },
            dims: [count, self.dims[1], self.dims[2], self.dims[3]],
            ..self
        }
    }

    /// As kernels see it, `at` elements into its buffer. Extents and strides were checked to fit when
    /// the task was read.
    pub(crate) fn laid(&self, at: usize) -> Laid {
        let [a, b, c, _] = self.strides;
        Laid {
            at: at as i64,
            dims: self.dims.map(|d| d as i32),
            strides: [a, b, c].map(|s| s as i32),
            flat: i32::from(self.is_flat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_seen() {
        let t = Tensor::contiguous(Base::At(64), [2, 3, 4, 5]);
        assert!(t.is_flat() && t.len() == 120 && t.span() == 120);
        let part = t.with_dims([2, 2, 4, 5]);
        assert!(!part.is_flat() && part.span() == 100);
        assert!(t.with_dims([1, 2, 4, 5]).is_flat());
        assert_eq!(t.samples(1, 1, 4).base, Base::At(64 + 60 * 4));
        assert_eq!(size_of::<Laid>(), 40);
    }
}
