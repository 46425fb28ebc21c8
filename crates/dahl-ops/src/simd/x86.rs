//! The vectors of AVX2 and AVX-512, and the functions that are compiled for them.

// Loops over small arrays are unrolled into registers; iterators in their place are not always
// inlined into code for another instruction set.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use super::Body;
use super::lanes::{CHUNK, Kernel, LINE, Lanes};
use crate::float::Float;

/// Proof that the machine has AVX2, FMA and BMI2.
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Proof that the machine has AVX-512 F, VL, DQ and BW, and what [`Avx2`] proves.
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// # Safety
/// The machine has AVX2, FMA and BMI2.
#[target_feature(enable = "avx2,fma,bmi2")]
pub(super) unsafe fn body_avx2<B: Body>(body: B) -> B::Output {
    body.run::<true>()
}

/// # Safety
/// The machine has AVX-512 F, VL, DQ and BW, AVX2, FMA and BMI2.
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi2")]
pub(super) unsafe fn body_avx512<B: Body>(body: B) -> B::Output {
    body.run::<true>()
}

/// # Safety
/// As [`body_avx2`].
#[target_feature(enable = "avx2,fma,bmi2")]
pub(super) unsafe fn kernel_avx2<T: Float, K: Kernel<T>>(kernel: K) -> K::Output
where
    Avx2: Lanes<T>,
{
    kernel.run(Avx2(()))
}

/// # Safety
/// As [`body_avx512`].
#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,bmi2")]
pub(super) unsafe fn kernel_avx512<T: Float, K: Kernel<T>>(kernel: K) -> K::Output
where
    Avx512: Lanes<T>,
{
    kernel.run(Avx512(()))
}

/// The operations that differ between vector types only by name.
macro_rules! lanes {
    ($t:ty, $v:ty, $lanes:literal, $rows:literal, $splat:ident, $add:ident, $sub:ident, $mul:ident,
     $madd:ident, $max:ident, $load:ident, $store:ident) => {
        type V = $v;
        const LANES: usize = $lanes;
        const ROWS: usize = $rows;
        const FMA: bool = true;

        #[inline(always)]
        fn splat(self, x: $t) -> $v {
            // SAFETY: `self` proves that the machine has the instruction.
            unsafe { $splat(x) }
        }
        #[inline(always)]
        fn add(self, a: $v, b: $v) -> $v {
            // SAFETY: as above.
            unsafe { $add(a, b) }
        }
        #[inline(always)]
        fn sub(self, a: $v, b: $v) -> $v {
            // SAFETY: as above.
            unsafe { $sub(a, b) }
        }
        #[inline(always)]
        fn mul(self, a: $v, b: $v) -> $v {
            // SAFETY: as above.
            unsafe { $mul(a, b) }
        }
        #[inline(always)]
        fn madd(self, a: $v, b: $v, c: $v) -> $v {
            // SAFETY: as above.
            unsafe { $madd(a, b, c) }
        }
        #[inline(always)]
        fn max(self, a: $v, b: $v) -> $v {
            // SAFETY: as above.
            unsafe { $max(a, b) }
        }
        #[inline(always)]
        unsafe fn load(self, from: *const $t) -> $v {
            // SAFETY: as above, and the caller's promise.
            unsafe { $load(from) }
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut $t, v: $v) {
            // SAFETY: as above, and the caller's promise.
            unsafe { $store(to, v) }
        }
    };
}

impl Lanes<f32> for Avx2 {
    lanes!(
        f32,
        __m256,
        8,
        6,
        _mm256_set1_ps,
        _mm256_add_ps,
        _mm256_sub_ps,
        _mm256_mul_ps,
        _mm256_fmadd_ps,
        _mm256_max_ps,
        _mm256_loadu_ps,
        _mm256_storeu_ps
    );

    #[inline(always)]
    unsafe fn columns_in(self, from: *const f32, stride: usize, to: *mut f32) {
        // SAFETY: `self` proves the instructions, the caller the memory: rows `r` and `r + 4` for `r`
        // in 0..4 and 8..12 are all sixteen.
        unsafe {
            for half in (0..CHUNK).step_by(8) {
                let mut rows = [_mm256_setzero_ps(); 4];
                for r in 0..4 {
                    rows[r] = halves_256(from.add((half + r) * stride), 4 * stride);
                }
                let columns = transpose_256(rows);
                for x in 0..4 {
                    _mm256_storeu_ps(to.add(x * CHUNK + half), columns[x]);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn columns_out(self, from: *const f32, to: *mut f32, stride: usize) {
        // SAFETY: as `columns_in`.
        unsafe {
            for half in (0..CHUNK).step_by(8) {
                let mut columns = [_mm256_setzero_ps(); 4];
                for x in 0..4 {
                    columns[x] = _mm256_loadu_ps(from.add(x * CHUNK + half));
                }
                let rows = transpose_256(columns);
                for r in 0..4 {
                    let at = to.add((half + r) * stride);
                    _mm_storeu_ps(at, _mm256_castps256_ps128(rows[r]));
                    _mm_storeu_ps(at.add(4 * stride), _mm256_extractf128_ps::<1>(rows[r]));
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn lines_in(self, from: *const f32, stride: usize, to: *mut f32) {
        // SAFETY: `self` proves the instructions, the caller the memory.
        unsafe {
            for x in (0..LINE).step_by(8) {
                for half in (0..CHUNK).step_by(8) {
                    let mut rows = [[_mm256_setzero_ps(); 4]; 2];
                    for r in 0..4 {
                        for g in 0..2 {
                            rows[g][r] =
                                halves_256(from.add((half + r) * stride + x + 4 * g), 4 * stride);
                        }
                    }
                    for g in 0..2 {
                        let columns = transpose_256(rows[g]);
                        for i in 0..4 {
                            _mm256_storeu_ps(to.add((x + 4 * g + i) * CHUNK + half), columns[i]);
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn lines_out(self, from: *const f32, to: *mut f32, stride: usize) {
        // SAFETY: as `lines_in`.
        unsafe {
            for r in (0..CHUNK).step_by(4) {
                for x in (0..LINE).step_by(8) {
                    let mut columns = [_mm256_setzero_ps(); 4];
                    for i in 0..4 {
                        columns[i] = halves_256(from.add((x + i) * CHUNK + r), 4 * CHUNK);
                    }
                    let rows = transpose_256(columns);
                    for i in 0..4 {
                        _mm256_storeu_ps(to.add((r + i) * stride + x), rows[i]);
                    }
                }
            }
        }
    }
}

/// Two halves that lie `stride` apart, in one vector.
///
/// # Safety
/// The machine has AVX2, and the elements can be read.
#[inline(always)]
unsafe fn halves_256(from: *const f32, stride: usize) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        let low = _mm256_castps128_ps256(_mm_loadu_ps(from));
        _mm256_insertf128_ps::<1>(low, _mm_loadu_ps(from.add(stride)))
    }
}

/// Transposes the two 4 × 4 blocks that lie in the halves of four vectors.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
unsafe fn transpose_256(v: [__m256; 4]) -> [__m256; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (
            _mm256_unpacklo_ps(v[0], v[1]),
            _mm256_unpackhi_ps(v[0], v[1]),
        );
        let (c, d) = (
            _mm256_unpacklo_ps(v[2], v[3]),
            _mm256_unpackhi_ps(v[2], v[3]),
        );
        [
            _mm256_shuffle_ps::<0x44>(a, c),
            _mm256_shuffle_ps::<0xee>(a, c),
            _mm256_shuffle_ps::<0x44>(b, d),
            _mm256_shuffle_ps::<0xee>(b, d),
        ]
    }
}

impl Lanes<f64> for Avx2 {
    lanes!(
        f64,
        __m256d,
        4,
        6,
        _mm256_set1_pd,
        _mm256_add_pd,
        _mm256_sub_pd,
        _mm256_mul_pd,
        _mm256_fmadd_pd,
        _mm256_max_pd,
        _mm256_loadu_pd,
        _mm256_storeu_pd
    );
}

impl Lanes<f32> for Avx512 {
    lanes!(
        f32,
        __m512,
        16,
        12,
        _mm512_set1_ps,
        _mm512_add_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_fmadd_ps,
        _mm512_max_ps,
        _mm512_loadu_ps,
        _mm512_storeu_ps
    );

    #[inline(always)]
    unsafe fn columns_in(self, from: *const f32, stride: usize, to: *mut f32) {
        // SAFETY: `self` proves the instructions, the caller the memory: rows `r`, `r + 4`, `r + 8`
        // and `r + 12` for `r` in 0..4 are all sixteen.
        unsafe {
            let mut rows = [_mm512_setzero_ps(); 4];
            for r in 0..4 {
                rows[r] = quarters_512(from.add(r * stride), 4 * stride);
            }
            let columns = transpose_512(rows);
            for x in 0..4 {
                _mm512_storeu_ps(to.add(x * CHUNK), columns[x]);
            }
        }
    }

    #[inline(always)]
    unsafe fn columns_out(self, from: *const f32, to: *mut f32, stride: usize) {
        // SAFETY: as `columns_in`.
        unsafe {
            let mut columns = [_mm512_setzero_ps(); 4];
            for x in 0..4 {
                columns[x] = _mm512_loadu_ps(from.add(x * CHUNK));
            }
            let rows = transpose_512(columns);
            for r in 0..4 {
                let at = to.add(r * stride);
                _mm_storeu_ps(at, _mm512_castps512_ps128(rows[r]));
                _mm_storeu_ps(at.add(4 * stride), _mm512_extractf32x4_ps::<1>(rows[r]));
                _mm_storeu_ps(at.add(8 * stride), _mm512_extractf32x4_ps::<2>(rows[r]));
                _mm_storeu_ps(at.add(12 * stride), _mm512_extractf32x4_ps::<3>(rows[r]));
            }
        }
    }

    #[inline(always)]
    unsafe fn lines_in(self, from: *const f32, stride: usize, to: *mut f32) {
        // SAFETY: `self` proves the instructions, the caller the memory.
        unsafe {
            // All rows are read before any column is made, four lines at a time.
            let mut rows = [[_mm512_setzero_ps(); 4]; 4];
            for r in 0..4 {
                for g in 0..4 {
                    rows[g][r] = quarters_512(from.add(r * stride + 4 * g), 4 * stride);
                }
            }
            for g in 0..4 {
                let columns = transpose_512(rows[g]);
                for x in 0..4 {
                    _mm512_storeu_ps(to.add((4 * g + x) * CHUNK), columns[x]);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn lines_out(self, from: *const f32, to: *mut f32, stride: usize) {
        // SAFETY: as `lines_in`.
        unsafe {
            for r in (0..CHUNK).step_by(4) {
                let mut columns = [_mm512_setzero_ps(); 4];
                for x in 0..4 {
                    columns[x] = quarters_512(from.add(x * CHUNK + r), 4 * CHUNK);
                }
                let rows = transpose_512(columns);
                for i in 0..4 {
                    _mm512_storeu_ps(to.add((r + i) * stride), rows[i]);
                }
            }
        }
    }
}

/// Four quarters that lie `stride` apart, in one vector.
///
/// # Safety
/// The machine has AVX-512 F, and the elements can be read.
#[inline(always)]
unsafe fn quarters_512(from: *const f32, stride: usize) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let v = _mm512_castps128_ps512(_mm_loadu_ps(from));
        let v = _mm512_insertf32x4::<1>(v, _mm_loadu_ps(from.add(stride)));
        let v = _mm512_insertf32x4::<2>(v, _mm_loadu_ps(from.add(2 * stride)));
        _mm512_insertf32x4::<3>(v, _mm_loadu_ps(from.add(3 * stride)))
    }
}

/// Transposes the four 4 × 4 blocks that lie in the quarters of four vectors.
///
/// # Safety
/// The machine has AVX-512 F.
#[inline(always)]
unsafe fn transpose_512(v: [__m512; 4]) -> [__m512; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let (a, b) = (
            _mm512_unpacklo_ps(v[0], v[1]),
            _mm512_unpackhi_ps(v[0], v[1]),
        );
        let (c, d) = (
            _mm512_unpacklo_ps(v[2], v[3]),
            _mm512_unpackhi_ps(v[2], v[3]),
        );
        [
            _mm512_shuffle_ps::<0x44>(a, c),
            _mm512_shuffle_ps::<0xee>(a, c),
            _mm512_shuffle_ps::<0x44>(b, d),
            _mm512_shuffle_ps::<0xee>(b, d),
        ]
    }
}

impl Lanes<f64> for Avx512 {
    lanes!(
        f64,
        __m512d,
        8,
        12,
        _mm512_set1_pd,
        _mm512_add_pd,
        _mm512_sub_pd,
        _mm512_mul_pd,
        _mm512_fmadd_pd,
        _mm512_max_pd,
        _mm512_loadu_pd,
        _mm512_storeu_pd
    );
}
