//! Parts of vectors: tails of rows, comparisons, bytes.
//!
//! What [`Lanes`] leaves out because kernels on padded scratch memory do not need it. Kernels that
//! read and write rows of views do: a row ends where it ends, and what follows belongs to another
//! task.

#[cfg(doc)]
use super::lanes::Lanes;
use super::lanes::{Portable, WIDTH};
use crate::float::Float;

/// Operations on some lanes of a vector `V` of `T`. Every [`Lanes`] has them.
pub trait Masks<T: Float, V: Copy>: Copy {
    /// One truth value per lane.
    type M: Copy;

    /// The first `n ≤ LANES` elements, the other lanes zero.
    ///
    /// # Safety
    /// `n` elements from `from` on can be read.
    unsafe fn load_n(self, from: *const T, n: usize) -> V;
    /// Writes the first `n ≤ LANES` elements.
    ///
    /// # Safety
    /// `n` elements from `to` on can be written.
    unsafe fn store_n(self, to: *mut T, n: usize, v: V);
    /// The first `n ≤ LANES` bytes as numbers, the other lanes zero.
    ///
    /// # Safety
    /// `n` bytes from `from` on can be read.
    unsafe fn load_bytes(self, from: *const u8, n: usize) -> V;
    /// Writes the first `n ≤ LANES` lanes, whole numbers from 0 to 255, as bytes.
    ///
    /// # Safety
    /// `n` bytes from `to` on can be written.
    unsafe fn store_bytes(self, to: *mut u8, n: usize, v: V);
    /// The positive part; not-a-number stays.
    fn relu(self, a: V) -> V;
    /// Where `a > b` or `a` is not a number.
    fn above(self, a: V, b: V) -> Self::M;
    /// Where `a = b`.
    fn equal(self, a: V, b: V) -> Self::M;
    /// `a` where `m` holds, else `b`.
    fn select(self, m: Self::M, a: V, b: V) -> V;
    /// The elements at even and at odd places of `a` followed by `b`.
    fn unzip(self, a: V, b: V) -> (V, V);
    /// The sum of all lanes, in an order fixed for the instruction set.
    fn sum(self, a: V) -> T;
}

impl<T: Float> Masks<T, [T; WIDTH]> for Portable {
    type M = [bool; WIDTH];

    #[inline(always)]
    unsafe fn load_n(self, from: *const T, n: usize) -> [T; WIDTH] {
        std::array::from_fn(|i| match i < n {
            // SAFETY: the caller's promise for `n` elements.
            true => unsafe { *from.add(i) },
            false => T::ZERO,
        })
    }
    #[inline(always)]
    unsafe fn store_n(self, to: *mut T, n: usize, v: [T; WIDTH]) {
        for (i, x) in v.into_iter().enumerate().take(n) {
            // SAFETY: the caller's promise for `n` elements.
            unsafe { *to.add(i) = x };
        }
    }
    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8, n: usize) -> [T; WIDTH] {
        std::array::from_fn(|i| match i < n {
            // SAFETY: the caller's promise for `n` bytes.
            true => T::from_f64(f64::from(unsafe { *from.add(i) })),
            false => T::ZERO,
        })
    }
    #[inline(always)]
    unsafe fn store_bytes(self, to: *mut u8, n: usize, v: [T; WIDTH]) {
        for (i, x) in v.into_iter().enumerate().take(n) {
            // SAFETY: the caller's promise for `n` bytes.
            unsafe { *to.add(i) = x.to_f64() as u8 };
        }
    }
    #[inline(always)]
    fn relu(self, a: [T; WIDTH]) -> [T; WIDTH] {
        a.map(|a| if a <= T::ZERO { T::ZERO } else { a })
    }
    #[inline(always)]
    fn above(self, a: [T; WIDTH], b: [T; WIDTH]) -> [bool; WIDTH] {
        std::array::from_fn(|i| a[i] > b[i] || a[i].is_nan())
    }
    #[inline(always)]
    fn equal(self, a: [T; WIDTH], b: [T; WIDTH]) -> [bool; WIDTH] {
        std::array::from_fn(|i| a[i] == b[i])
    }
    #[inline(always)]
    fn select(self, m: [bool; WIDTH], a: [T; WIDTH], b: [T; WIDTH]) -> [T; WIDTH] {
        std::array::from_fn(|i| if m[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    fn unzip(self, a: [T; WIDTH], b: [T; WIDTH]) -> ([T; WIDTH], [T; WIDTH]) {
        ([a[0], a[2], b[0], b[2]], [a[1], a[3], b[1], b[3]])
    }
    #[inline(always)]
    fn sum(self, a: [T; WIDTH]) -> T {
        (a[0] + a[2]) + (a[1] + a[3])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::lanes::{Kernel, Lanes};
    use crate::simd::{Lane, at_every_level};

    struct Check;

    impl<T: Float> Kernel<T> for Check {
        type Output = ();

        #[inline(always)]
        fn run<S: Lanes<T>>(self, s: S) {
            let (t, lanes) = (T::from_f64, S::LANES);
            let data: Vec<T> = (0..2 * lanes).map(|i| t(i as f64 - 3.0)).collect();
            let mut out = vec![T::ZERO; lanes];
            let bytes: Vec<u8> = (0..lanes as u8).map(|b| 250 - b).collect();
            for n in 0..=lanes {
                // SAFETY: `n ≤ LANES` elements of buffers that hold at least as many.
                unsafe {
                    let v = s.load_n(data.as_ptr().add(1), n);
                    out.fill(t(-9.0));
                    s.store_n(out.as_mut_ptr(), n, v);
                    assert_eq!(out[..n], data[1..1 + n]);
                    assert!(out[n..].iter().all(|&x| x == t(-9.0)));
                    s.store(out.as_mut_ptr(), v);
                    assert!(out[n..].iter().all(|&x| x == T::ZERO));
                    let mut back = vec![1u8; lanes];
                    s.store_bytes(back.as_mut_ptr(), n, s.load_bytes(bytes.as_ptr(), n));
                    assert_eq!(back[..n], bytes[..n]);
                    assert!(back[n..].iter().all(|&b| b == 1));
                }
            }
            let mut check = |v: S::V, want: &dyn Fn(usize) -> T| {
                // SAFETY: `out` holds a vector.
                unsafe { s.store(out.as_mut_ptr(), v) };
                for (i, &got) in out.iter().enumerate() {
                    let want = want(i);
                    assert!(
                        got == want || (got.is_nan() && want.is_nan()),
                        "{got} {want}"
                    );
                }
            };
            // SAFETY: `data` holds two vectors.
            let (a, b) = unsafe { (s.load(data.as_ptr()), s.load(data.as_ptr().add(lanes))) };
            let (zero, nan) = (s.splat(T::ZERO), s.splat(t(f64::NAN)));
            let d = &data;
            check(s.relu(a), &|i| if d[i] > T::ZERO { d[i] } else { T::ZERO });
            check(s.relu(nan), &|_| t(f64::NAN));
            let above = s.select(s.above(a, zero), a, b);
            check(above, &|i| if d[i] > T::ZERO { d[i] } else { d[lanes + i] });
            check(s.select(s.above(nan, a), nan, a), &|_| t(f64::NAN));
            check(s.select(s.above(a, nan), nan, a), &|i| d[i]);
            let equal = s.select(s.equal(a, s.splat(d[1])), a, b);
            check(equal, &|i| if i == 1 { d[1] } else { d[lanes + i] });
            check(s.unzip(a, b).0, &|i| d[2 * i]);
            check(s.unzip(a, b).1, &|i| d[2 * i + 1]);
            assert_eq!(s.sum(a), data[..lanes].iter().copied().sum());
        }
    }

    #[test]
    fn every_instruction_set_agrees() {
        at_every_level(|_| {
            f32::vectorised(Check);
            f64::vectorised(Check);
        });
    }
}
