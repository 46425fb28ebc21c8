//! [`Masks`] with AVX2 and AVX-512.

use std::arch::x86_64::*;

use super::masks::Masks;
use super::x86::{Avx2, Avx512};

/// The low `n` bits set.
#[inline(always)]
fn low(n: usize) -> u32 {
    ((1u64 << n) - 1) as u32
}

/// Lane masks for AVX2: `n` lanes from position `8 − n` on.
static MASK32: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
/// The same for 64-bit lanes, from position `4 − n` on.
static MASK64: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];

impl Masks<f32, __m512> for Avx512 {
    type M = __mmask16;

    #[inline(always)]
    unsafe fn load_n(self, p: *const f32, n: usize) -> __m512 {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe { _mm512_maskz_loadu_ps(low(n) as __mmask16, p) }
    }
    #[inline(always)]
    unsafe fn store_n(self, p: *mut f32, n: usize, v: __m512) {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe { _mm512_mask_storeu_ps(p, low(n) as __mmask16, v) }
    }
    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8, n: usize) -> __m512 {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let b = _mm_maskz_loadu_epi8(low(n) as __mmask16, p.cast());
            _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(b))
        }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8, n: usize, v: __m512) {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            _mm512_mask_cvtepi32_storeu_epi8(p.cast(), low(n) as __mmask16, _mm512_cvttps_epi32(v))
        }
    }
    #[inline(always)]
    fn relu(self, a: __m512) -> __m512 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_max_ps(_mm512_setzero_ps(), a) }
    }
    #[inline(always)]
    fn above(self, a: __m512, b: __m512) -> __mmask16 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(a, b) | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a, a) }
    }
    #[inline(always)]
    fn equal(self, a: __m512, b: __m512) -> __mmask16 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    fn select(self, m: __mmask16, a: __m512, b: __m512) -> __m512 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_mask_blend_ps(m, b, a) }
    }
    #[inline(always)]
    fn unzip(self, a: __m512, b: __m512) -> (__m512, __m512) {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe {
            let even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
            let odd = _mm512_or_epi32(even, _mm512_set1_epi32(1));
            (
                _mm512_permutex2var_ps(a, even, b),
                _mm512_permutex2var_ps(a, odd, b),
            )
        }
    }
    #[inline(always)]
    fn sum(self, a: __m512) -> f32 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_reduce_add_ps(a) }
    }
}

impl Masks<f64, __m512d> for Avx512 {
    type M = __mmask8;

    #[inline(always)]
    unsafe fn load_n(self, p: *const f64, n: usize) -> __m512d {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe { _mm512_maskz_loadu_pd(low(n) as __mmask8, p) }
    }
    #[inline(always)]
    unsafe fn store_n(self, p: *mut f64, n: usize, v: __m512d) {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe { _mm512_mask_storeu_pd(p, low(n) as __mmask8, v) }
    }
    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8, n: usize) -> __m512d {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let b = _mm_maskz_loadu_epi8(low(n) as __mmask16, p.cast());
            _mm512_cvtepi64_pd(_mm512_cvtepu8_epi64(b))
        }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8, n: usize, v: __m512d) {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            _mm512_mask_cvtepi64_storeu_epi8(p.cast(), low(n) as __mmask8, _mm512_cvttpd_epi64(v))
        }
    }
    #[inline(always)]
    fn relu(self, a: __m512d) -> __m512d {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_max_pd(_mm512_setzero_pd(), a) }
    }
    #[inline(always)]
    fn above(self, a: __m512d, b: __m512d) -> __mmask8 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_cmp_pd_mask::<_CMP_GT_OQ>(a, b) | _mm512_cmp_pd_mask::<_CMP_UNORD_Q>(a, a) }
    }
    #[inline(always)]
    fn equal(self, a: __m512d, b: __m512d) -> __mmask8 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    fn select(self, m: __mmask8, a: __m512d, b: __m512d) -> __m512d {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_mask_blend_pd(m, b, a) }
    }
    #[inline(always)]
    fn unzip(self, a: __m512d, b: __m512d) -> (__m512d, __m512d) {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe {
            let even = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
            let odd = _mm512_or_epi64(even, _mm512_set1_epi64(1));
            (
                _mm512_permutex2var_pd(a, even, b),
                _mm512_permutex2var_pd(a, odd, b),
            )
        }
    }
    #[inline(always)]
    fn sum(self, a: __m512d) -> f64 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm512_reduce_add_pd(a) }
    }
}

impl Masks<f32, __m256> for Avx2 {
    type M = __m256;

    #[inline(always)]
    unsafe fn load_n(self, p: *const f32, n: usize) -> __m256 {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let m = _mm256_loadu_si256(MASK32.as_ptr().add(8 - n).cast());
            _mm256_maskload_ps(p, m)
        }
    }
    #[inline(always)]
    unsafe fn store_n(self, p: *mut f32, n: usize, v: __m256) {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let m = _mm256_loadu_si256(MASK32.as_ptr().add(8 - n).cast());
            _mm256_maskstore_ps(p, m, v)
        }
    }
    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8, n: usize) -> __m256 {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let mut b = [0u8; 16];
            for (i, b) in b.iter_mut().enumerate().take(n) {
                *b = *p.add(i);
            }
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadu_si128(b.as_ptr().cast())))
        }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8, n: usize, v: __m256) {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let mut w = [0i32; 8];
            _mm256_storeu_si256(w.as_mut_ptr().cast(), _mm256_cvttps_epi32(v));
            for (i, w) in w.into_iter().enumerate().take(n) {
                *p.add(i) = w as u8;
            }
        }
    }
    #[inline(always)]
    fn relu(self, a: __m256) -> __m256 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm256_max_ps(_mm256_setzero_ps(), a) }
    }
    #[inline(always)]
    fn above(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe {
            _mm256_or_ps(
                _mm256_cmp_ps::<_CMP_GT_OQ>(a, b),
                _mm256_cmp_ps::<_CMP_UNORD_Q>(a, a),
            )
        }
    }
    #[inline(always)]
    fn equal(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    fn select(self, m: __m256, a: __m256, b: __m256) -> __m256 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm256_blendv_ps(b, a, m) }
    }
    #[inline(always)]
    fn unzip(self, a: __m256, b: __m256) -> (__m256, __m256) {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe {
            // Pairs end up in the right order within halves; exchange the middle quarters.
            let mend = |v| _mm256_castpd_ps(_mm256_permute4x64_pd::<0xd8>(_mm256_castps_pd(v)));
            (
                mend(_mm256_shuffle_ps::<0x88>(a, b)),
                mend(_mm256_shuffle_ps::<0xdd>(a, b)),
            )
        }
    }
    #[inline(always)]
    fn sum(self, a: __m256) -> f32 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe {
            let h = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a));
            let q = _mm_add_ps(h, _mm_movehl_ps(h, h));
            _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)))
        }
    }
}

impl Masks<f64, __m256d> for Avx2 {
    type M = __m256d;

    #[inline(always)]
    unsafe fn load_n(self, p: *const f64, n: usize) -> __m256d {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let m = _mm256_loadu_si256(MASK64.as_ptr().add(4 - n).cast());
            _mm256_maskload_pd(p, m)
        }
    }
    #[inline(always)]
    unsafe fn store_n(self, p: *mut f64, n: usize, v: __m256d) {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let m = _mm256_loadu_si256(MASK64.as_ptr().add(4 - n).cast());
            _mm256_maskstore_pd(p, m, v)
        }
    }
    #[inline(always)]
    unsafe fn load_bytes(self, p: *const u8, n: usize) -> __m256d {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let mut b = [0u8; 16];
            for (i, b) in b.iter_mut().enumerate().take(n) {
                *b = *p.add(i);
            }
            _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_loadu_si128(b.as_ptr().cast())))
        }
    }
    #[inline(always)]
    unsafe fn store_bytes(self, p: *mut u8, n: usize, v: __m256d) {
        // SAFETY: `self` proves that the machine has these instructions, the caller the memory.
        unsafe {
            let mut w = [0i32; 4];
            _mm_storeu_si128(w.as_mut_ptr().cast(), _mm256_cvttpd_epi32(v));
            for (i, w) in w.into_iter().enumerate().take(n) {
                *p.add(i) = w as u8;
            }
        }
    }
    #[inline(always)]
    fn relu(self, a: __m256d) -> __m256d {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm256_max_pd(_mm256_setzero_pd(), a) }
    }
    #[inline(always)]
    fn above(self, a: __m256d, b: __m256d) -> __m256d {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe {
            _mm256_or_pd(
                _mm256_cmp_pd::<_CMP_GT_OQ>(a, b),
                _mm256_cmp_pd::<_CMP_UNORD_Q>(a, a),
            )
        }
    }
    #[inline(always)]
    fn equal(self, a: __m256d, b: __m256d) -> __m256d {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm256_cmp_pd::<_CMP_EQ_OQ>(a, b) }
    }
    #[inline(always)]
    fn select(self, m: __m256d, a: __m256d, b: __m256d) -> __m256d {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe { _mm256_blendv_pd(b, a, m) }
    }
    #[inline(always)]
    fn unzip(self, a: __m256d, b: __m256d) -> (__m256d, __m256d) {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe {
            let mend = |v| _mm256_permute4x64_pd::<0xd8>(v);
            (
                mend(_mm256_unpacklo_pd(a, b)),
                mend(_mm256_unpackhi_pd(a, b)),
            )
        }
    }
    #[inline(always)]
    fn sum(self, a: __m256d) -> f64 {
        // SAFETY: `self` proves that the machine has these instructions.
        unsafe {
            let h = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd::<1>(a));
            _mm_cvtsd_f64(_mm_add_sd(h, _mm_unpackhi_pd(h, h)))
        }
    }
}
