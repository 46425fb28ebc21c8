//! Matrix product on one thread: a thin, checked door to the `gemm` crate.
//!
//! Operands are described by extents and two strides, so transposition is free. Nothing is
//! parallelised here, and nothing is blocked or packed here: the crate does that.

use std::marker::PhantomData;

use dahl_core::view::{View, ViewMut};

use crate::float::Float;

/// A matrix that can be read.
#[derive(Clone, Copy)]
pub struct Mat<'a, T> {
    ptr: *const T,
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
    life: PhantomData<&'a [T]>,
}

/// A matrix that can be read and written.
pub struct MatMut<'a, T> {
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
    pub unsafe fn from_raw(ptr: *const T, rows: usize, cols: usize, row_stride: usize) -> Self {
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
    pub fn from_slice(data: &'a [T], rows: usize, cols: usize, row_stride: usize) -> Self {
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
    pub fn from_view(view: View<'a, T>) -> Self {
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
    pub fn transposed(self) -> Self {
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
    pub unsafe fn from_raw(ptr: *mut T, rows: usize, cols: usize, row_stride: usize) -> Self {
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
    pub fn from_slice(data: &'a mut [T], rows: usize, cols: usize, row_stride: usize) -> Self {
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
    pub fn from_view(mut view: ViewMut<'a, T>) -> Self {
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
pub fn matmul<T: Float>(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>, accumulate: bool) {
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
    // SAFETY: the constructors promise that the extents and strides stay inside memory that is
    // readable, respectively ours alone; `T` is `f32` or `f64`, which the crate knows.
    unsafe {
        gemm::gemm(
            c.rows,
            c.cols,
            a.cols,
            c.ptr,
            1,
            c.row_stride as isize,
            accumulate,
            a.ptr,
            a.col_stride as isize,
            a.row_stride as isize,
            b.ptr,
            b.col_stride as isize,
            b.row_stride as isize,
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(n: usize) -> Vec<f64> {
        (0..n).map(|i| (i * 7 % 11) as f64 - 5.0).collect()
    }

    #[test]
    fn products_match_the_definition() {
        for (m, n, k) in [(1, 1, 1), (3, 5, 7), (17, 33, 20), (64, 1, 9)] {
            let (a, b) = (numbers(k * (m + 2)), numbers(k * (n + 1)));
            let mut c = numbers(m * (n + 3));
            let before = c.clone();
            // `a` is stored transposed, and every matrix has a margin.
            matmul(
                Mat::from_slice(&a, k, m, m + 2).transposed(),
                Mat::from_slice(&b, k, n, n + 1),
                MatMut::from_slice(&mut c, m, n, n + 3),
                true,
            );
            for i in 0..m {
                for j in 0..n + 3 {
                    let product: f64 = (0..k)
                        .map(|l| a[l * (m + 2) + i] * b[l * (n + 1) + j.min(n - 1)])
                        .sum();
                    let want = before[i * (n + 3) + j] + if j < n { product } else { 0.0 };
                    assert_eq!(c[i * (n + 3) + j], want, "{m}×{n}×{k} at {i},{j}");
                }
            }
        }
    }

    #[test]
    fn without_accumulation_the_destination_is_overwritten() {
        let mut c = [f32::NAN; 2];
        matmul(
            Mat::from_slice(&[1.0, 2.0], 1, 2, 2),
            Mat::from_slice(&[3.0, 4.0, 5.0, 6.0], 2, 2, 2),
            MatMut::from_view(ViewMut::from_slice(&mut c, [1, 1, 1, 2])),
            false,
        );
        assert_eq!(c, [13.0, 16.0]);
    }

    #[test]
    #[should_panic(expected = "1×2 = 1×2 · 3×2")]
    fn extents_that_do_not_fit_are_refused() {
        let (a, mut c) = ([0.0; 6], [0.0; 2]);
        matmul(
            Mat::from_slice(&a, 1, 2, 2),
            Mat::from_slice(&a, 3, 2, 2),
            MatMut::from_slice(&mut c, 1, 2, 2),
            false,
        );
    }
}
