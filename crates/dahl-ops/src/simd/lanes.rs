//! Explicit vectors: a handful of operations that every instruction set has.
//!
//! A value of a type that implements [`Lanes`] is a proof that the machine has its instructions, so
//! the arithmetic is safe to call; only memory accesses are not. Kernels pad
//! their scratch memory to whole [`CHUNK`]s where they can, which keeps layouts the same on
//! every machine; what tails of rows need is in [`Masks`].

use super::masks::Masks;
use crate::float::Float;

/// Elements that kernels treat together. At least the widest vector, the same for every instruction
/// set and element type, so that scratch sizes depend on shapes alone.
pub(crate) const CHUNK: usize = 16;

/// Columns that [`Lanes::columns_in`] and [`Lanes::columns_out`] move at a time.
pub(crate) const COLUMNS: usize = 4;

/// Columns that [`Lanes::lines_in`] and [`Lanes::lines_out`] move at a time: a cache line of `f32`.
pub(crate) const LINE: usize = 16;

/// A kernel written with explicit vectors.
pub trait Kernel<T: Float> {
    /// What it returns.
    type Output;

    /// The kernel. Must be `#[inline(always)]`, and so must all it calls.
    fn run<S: Lanes<T>>(self, simd: S) -> Self::Output;
}

/// Vectors of `T` in one instruction set.
pub trait Lanes<T: Float>: Copy + Masks<T, <Self as Lanes<T>>::V> {
    /// A vector of [`Lanes::LANES`] elements.
    type V: Copy;
    /// Elements in a vector; divides [`CHUNK`].
    const LANES: usize;
    /// Rows of a register block two vectors wide that leave registers for its operands.
    const ROWS: usize;
    /// Whether [`Lanes::madd`] rounds once.
    const FMA: bool;

    /// All elements equal.
    fn splat(self, x: T) -> Self::V;
    /// `a + b`
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a − b`
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a · b`
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a · b + c`
    fn madd(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger of each pair.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;

    /// Reads a vector; no alignment is needed.
    ///
    /// # Safety
    /// `LANES` elements from `from` on can be read.
    unsafe fn load(self, from: *const T) -> Self::V;

    /// Writes a vector; no alignment is needed.
    ///
    /// # Safety
    /// `LANES` elements from `to` on can be written.
    unsafe fn store(self, to: *mut T, v: Self::V);

    /// Transposes [`COLUMNS`] columns of [`CHUNK`] rows: `to[x · CHUNK + r] = from[r · stride + x]`.
    ///
    /// # Safety
    /// The elements named can be read and written.
    #[inline(always)]
    unsafe fn columns_in(self, from: *const T, stride: usize, to: *mut T) {
        for r in 0..CHUNK {
            for x in 0..COLUMNS {
                // SAFETY: the caller's promise, for this very formula.
                unsafe { *to.add(x * CHUNK + r) = *from.add(r * stride + x) };
            }
        }
    }

    /// The way back: `to[r · stride + x] = from[x · CHUNK + r]`.
    ///
    /// # Safety
    /// The elements named can be read and written.
    #[inline(always)]
    unsafe fn columns_out(self, from: *const T, to: *mut T, stride: usize) {
        for r in 0..CHUNK {
            for x in 0..COLUMNS {
                // SAFETY: the caller's promise, for this very formula.
                unsafe { *to.add(r * stride + x) = *from.add(x * CHUNK + r) };
            }
        }
    }

    /// As [`Lanes::columns_in`] for [`LINE`] columns, but each row is read in one go: rows whose
    /// distance is a power of two compete for the same few lines of the cache.
    ///
    /// # Safety
    /// The elements named can be read and written.
    #[inline(always)]
    unsafe fn lines_in(self, from: *const T, stride: usize, to: *mut T) {
        for r in 0..CHUNK {
            for x in 0..LINE {
                // SAFETY: the caller's promise, for this very formula.
                unsafe { *to.add(x * CHUNK + r) = *from.add(r * stride + x) };
            }
        }
    }

    /// The way back, each row written in one go.
    ///
    /// # Safety
    /// The elements named can be read and written.
    #[inline(always)]
    unsafe fn lines_out(self, from: *const T, to: *mut T, stride: usize) {
        for r in 0..CHUNK {
            for x in 0..LINE {
                // SAFETY: the caller's promise, for this very formula.
                unsafe { *to.add(r * stride + x) = *from.add(x * CHUNK + r) };
            }
        }
    }
}

/// Vectors that every machine has: small arrays, which compilers map to what the target guarantees.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

/// Elements of a [`Portable`] vector.
pub(super) const WIDTH: usize = 4;

#[inline(always)]
fn zip<T: Float>(a: [T; WIDTH], b: [T; WIDTH], f: impl Fn(T, T) -> T) -> [T; WIDTH] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl<T: Float> Lanes<T> for Portable {
    type V = [T; WIDTH];
    const LANES: usize = WIDTH;
    const ROWS: usize = 4;
    const FMA: bool = false;

    #[inline(always)]
    fn splat(self, x: T) -> Self::V {
        [x; WIDTH]
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| a * b)
    }
    #[inline(always)]
    fn madd(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn load(self, from: *const T) -> Self::V {
        // SAFETY: the caller's promise; arrays have the alignment of their elements.
        unsafe { *from.cast() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut T, v: Self::V) {
        // SAFETY: as above.
        unsafe { *to.cast() = v }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::{Lane, at_every_level};

    struct Check;

    impl<T: Float> Kernel<T> for Check {
        type Output = ();

        #[inline(always)]
        fn run<S: Lanes<T>>(self, s: S) {
            let numbers: Vec<T> = (0..CHUNK * 8)
                .map(|i| T::from_f64(i as f64 - 20.0))
                .collect();
            let mut out = vec![T::ZERO; CHUNK * 8];
            assert!(CHUNK.is_multiple_of(S::LANES));
            // SAFETY: a chunk is at least a vector, and both buffers hold `CHUNK` rows of 8.
            unsafe {
                let (a, b) = (s.load(numbers.as_ptr()), s.load(numbers.as_ptr().add(7)));
                let c = s.splat(T::from_f64(-16.5));
                s.store(
                    out.as_mut_ptr(),
                    s.max(s.madd(a, b, s.sub(s.add(a, b), s.mul(b, b))), c),
                );
                for (i, got) in out[..S::LANES].iter().enumerate() {
                    let (a, b) = (i as f64 - 20.0, i as f64 - 13.0);
                    assert_eq!(got.to_f64(), (a * b + (a + b - b * b)).max(-16.5));
                }
                s.columns_in(numbers.as_ptr().add(3), 8, out.as_mut_ptr());
                for x in 0..COLUMNS {
                    for r in 0..CHUNK {
                        assert_eq!(out[x * CHUNK + r], numbers[3 + r * 8 + x]);
                    }
                }
                let mut back = vec![T::ZERO; CHUNK * 8];
                s.columns_out(out.as_ptr(), back.as_mut_ptr().add(3), 8);
                for (i, got) in back.iter().enumerate() {
                    let inside = (3..3 + COLUMNS).contains(&(i % 8));
                    assert_eq!(*got, if inside { numbers[i] } else { T::ZERO });
                }
                let wide: Vec<T> = (0..CHUNK * 20).map(|i| T::from_f64(i as f64)).collect();
                let (mut turned, mut back) =
                    (vec![T::ZERO; CHUNK * LINE], vec![T::ZERO; CHUNK * 20]);
                s.lines_in(wide.as_ptr().add(1), 20, turned.as_mut_ptr());
                s.lines_out(turned.as_ptr(), back.as_mut_ptr().add(1), 20);
                for (i, got) in back.iter().enumerate() {
                    let inside = (1..1 + LINE).contains(&(i % 20));
                    assert_eq!(*got, if inside { wide[i] } else { T::ZERO });
                    if inside {
                        assert_eq!(turned[(i % 20 - 1) * CHUNK + i / 20], wide[i]);
                    }
                }
            }
        }
    }

    #[test]
    fn every_instruction_set_computes_the_same() {
        at_every_level(|_| {
            f32::vectorised(Check);
            f64::vectorised(Check);
        });
    }
}
