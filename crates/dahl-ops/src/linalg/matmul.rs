//! Matrix product on one thread: a checked door to the `gemm` crates, which cuts the inner dimension.
//!
//! Operands are described by extents and two strides, so transposition is free. Nothing is
//! parallelised here, and nothing is packed here: that is `slice`'s business. What is decided here is the
//! order of additions: an inner dimension longer than [`SLICE`] is cut into equal slices, whose products are added
//! one after another. So results depend on extents, strides, the instruction level and the crates' version, and on no
//! machine's caches.

use std::marker::PhantomData;

use dahl_core::view::{View, ViewMut};

use super::slice::{self, Slice};
use crate::float::Float;
use crate::simd;

/// The longest slice of an inner dimension that is multiplied at once.
///
/// `gemm` cuts inner dimensions, too. Wherever its cut follows the L1 cache (`kernel_params`), it takes 512 at
/// least, whatever the cache and the element type; for destinations of up to 64×64 it takes 512, for dot products
/// (`horizontal_dispatcher`) 1024; vectors and inner dimensions of up to 2 it does not cut. So it never cuts one of
/// ours. What else it derives from caches, the block of rows and of columns and whether operands are packed, decides
/// which tile an element is in and where its factors lie; each element is still one chain of
/// multiply-adds over the slice, from zero, added to the destination in the end, and multiplied by ones only. Threads
/// it has none, because we ask for none. The tests compare with that chain bit for bit.
pub(crate) const SLICE: usize = 512;

/// A matrix that can be read.
#[derive(Clone, Copy)]
pub(crate) struct Mat<'a, T> {
    ptr: *const T,
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
    life: PhantomData<&'a [T]>,
}

/// A matrix that can be read and written.
pub(crate) struct MatMut<'a, T> {
    ptr: *mut T,
    rows: usize,
    cols: usize,
    row_stride: usize,
    life: PhantomData<&'a mut [T]>,
}

impl<'a, T> Mat<'a, T> {
    /// A matrix over raw memory.
    ///
    /// # Safety
    /// Every element the extents and strides reach must be valid to read for `'a` and not written
    /// meanwhile.
    pub(crate) unsafe fn from_raw(
        ptr: *const T,
        rows: usize,
        cols: usize,
        row_stride: usize,
    ) -> Self {
        Mat {
            ptr,
            rows,
            cols,
            row_stride,
            col_stride: 1,
            life: PhantomData,
        }
    }

    /// The first `rows` rows of `cols` elements of a slice, `row_stride` apart.
    ///
    /// # Panics
    /// If the slice is too short.
    pub(crate) fn from_slice(data: &'a [T], rows: usize, cols: usize, row_stride: usize) -> Self {
        check(data.len(), rows, cols, row_stride);
        Mat {
            ptr: data.as_ptr(),
            rows,
            cols,
            row_stride,
            col_stride: 1,
            life: PhantomData,
        }
    }

    /// The last two axes of a view, whose first two have extent 1.
    ///
    /// # Panics
    /// If they have not.
    pub(crate) fn from_view(view: View<'a, T>) -> Self {
        let [a, b, rows, cols] = view.dims();
        assert!(a == 1 && b == 1, "{:?} is not a matrix", view.dims());
        let row_stride = view.strides()[2];
        Mat {
            ptr: view.as_ptr(),
            rows,
            cols,
            row_stride,
            col_stride: 1,
            life: PhantomData,
        }
    }

    /// Rows become columns; nothing is moved.
    pub(crate) fn transposed(self) -> Self {
        Mat {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }
}

impl<'a, T> MatMut<'a, T> {
    /// A matrix over raw memory.
    ///
    /// # Safety
    /// Every element the extents and strides reach must be valid to read and write for `'a`, and
    /// reached by nothing else meanwhile.
    pub(crate) unsafe fn from_raw(
        ptr: *mut T,
        rows: usize,
        cols: usize,
        row_stride: usize,
    ) -> Self {
        MatMut {
            ptr,
            rows,
            cols,
            row_stride,
            life: PhantomData,
        }
    }

    /// The first `rows` rows of `cols` elements of a slice, `row_stride` apart.
    ///
    /// # Panics
    /// If the slice is too short, or rows overlap.
    pub(crate) fn from_slice(
        data: &'a mut [T],
        rows: usize,
        cols: usize,
        row_stride: usize,
    ) -> Self {
        check(data.len(), rows, cols, row_stride);
        assert!(
            row_stride >= cols || rows <= 1,
            "rows of {cols} overlap at stride {row_stride}"
        );
        MatMut {
            ptr: data.as_mut_ptr(),
            rows,
            cols,
            row_stride,
            life: PhantomData,
        }
    }

    /// The last two axes of a view, whose first two have extent 1.
    ///
    /// # Panics
    /// If they have not.
    pub(crate) fn from_view(mut view: ViewMut<'a, T>) -> Self {
        let [a, b, rows, cols] = view.dims();
        assert!(a == 1 && b == 1, "{:?} is not a matrix", view.dims());
        let row_stride = view.strides()[2];
        MatMut {
            ptr: view.as_mut_ptr(),
            rows,
            cols,
            row_stride,
            life: PhantomData,
        }
    }
}

fn check(len: usize, rows: usize, cols: usize, row_stride: usize) {
    let needed = if rows == 0 || cols == 0 {
        0
    } else {
        (rows - 1) * row_stride + cols
    };
    assert!(
        needed <= len,
        "a {rows}×{cols} matrix at stride {row_stride} needs {needed} elements, not {len}"
    );
}

/// `c = a · b`, or `c += a · b` if `accumulate`.
///
/// # Panics
/// If the extents do not fit.
pub(crate) fn matmul<T: Float>(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, accumulate: bool) {
    assert!(
        a.cols == b.rows && a.rows == c.rows && b.cols == c.cols,
        "{}×{} = {}×{} · {}×{}",
        c.rows,
        c.cols,
        a.rows,
        a.cols,
        b.rows,
        b.cols
    );
    if c.rows == 0 || c.cols == 0 {
        return;
    }
    let (level, length) = (simd::level(), slice_length(a.cols));
    let mut from = 0;
    loop {
        let k = length.min(a.cols - from);
        // SAFETY: the constructors promise that the extents and strides stay inside memory that is
        // readable, respectively ours alone, and a slice is a part of them; `level` is this machine's.
        unsafe {
            let slice = Slice {
                m: c.rows,
                n: c.cols,
                k,
                a: a.ptr.add(from * a.col_stride),
                a_strides: [a.row_stride, a.col_stride],
                b: b.ptr.add(from * b.row_stride),
                b_strides: [b.row_stride, b.col_stride],
                c: c.ptr,
                c_strides: [c.row_stride, 1],
                add: accumulate || from > 0,
            };
            slice::product(slice, level);
        }
        from += k;
        if from == a.cols {
            break;
        }
    }
}

/// The length of an inner dimension's slices, the last of which may be shorter: as few as [`SLICE`] allows, and alike,
/// because a short rest would cost a pass over the destination for little.
fn slice_length(k: usize) -> usize {
    match k <= SLICE {
        true => k,
        false => k.div_ceil(k.div_ceil(SLICE)),
    }
}

#[cfg(test)]
mod tests;
