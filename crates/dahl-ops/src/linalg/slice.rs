//! One inner slice of a matrix product, at the level that [`crate::simd`] has chosen.
//!
//! The `gemm` crates do it where there are fused multiply-adds, [`super::portable`] elsewhere. Their entry chooses
//! an instruction set by itself; here their generic driver is called with the microkernels of *our* level, so that
//! a level means the same everywhere and one machine can compute as another would. Slices longer than
//! [`super::matmul::SLICE`] are refused: only up to there a result is independent of the machine's caches.

use dahl_core::DType;

use super::matmul::SLICE;
use super::portable;
use crate::float::Float;
use crate::simd::Level;

/// `c = a · b`, or `c += a · b` if `add`: `m`×`n` from `m`×`k` and `k`×`n`, with strides `[row, column]`.
pub(super) struct Slice<T> {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) a: *const T,
    pub(super) a_strides: [usize; 2],
    pub(super) b: *const T,
    pub(super) b_strides: [usize; 2],
    pub(super) c: *mut T,
    pub(super) c_strides: [usize; 2],
    pub(super) add: bool,
}

impl<T> Slice<T> {
    /// `cᵀ = bᵀ · aᵀ`: the same product, every element from the same factors in the same order.
    pub(super) fn transposed(self) -> Self {
        let back = |[row, column]: [usize; 2]| [column, row];
        Slice {
            m: self.n,
            n: self.m,
            a: self.b,
            a_strides: back(self.b_strides),
            b: self.a,
            b_strides: back(self.a_strides),
            c_strides: back(self.c_strides),
            ..self
        }
    }

    /// The same addresses under another name of the same type.
    fn cast<U>(self) -> Slice<U> {
        Slice {
            m: self.m,
            n: self.n,
            k: self.k,
            a: self.a.cast(),
            a_strides: self.a_strides,
            b: self.b.cast(),
            b_strides: self.b_strides,
            c: self.c.cast(),
            c_strides: self.c_strides,
            add: self.add,
        }
    }
}

/// Computes a slice.
///
/// # Safety
/// The extents and strides stay inside memory that can be read and, for `c`, that nothing else reaches; the machine
/// has the level.
pub(super) unsafe fn product<T: Float>(slice: Slice<T>, level: Level) {
    assert!(slice.k <= SLICE, "a slice of {} is too long", slice.k);
    // SAFETY: the caller's promises, and `T` is the type that its name says.
    unsafe {
        match (level, T::DTYPE) {
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512, DType::F32) => avx512_f32(slice.cast()),
            #[cfg(target_arch = "x86_64")]
            (Level::Avx512, DType::F64) => avx512_f64(slice.cast()),
            #[cfg(target_arch = "x86_64")]
            (Level::Avx2, DType::F32) => avx2_f32(slice.cast()),
            #[cfg(target_arch = "x86_64")]
            (Level::Avx2, DType::F64) => avx2_f64(slice.cast()),
            (_, DType::F32) => portable::product::<f32, 8>(slice.cast()),
            (_, DType::F64) => portable::product::<f64, 4>(slice.cast()),
        }
    }
}

/// A function that has `gemm` compute a slice with the microkernels of one level: their module, its witness type and
/// the elements of its vectors.
#[cfg(target_arch = "x86_64")]
macro_rules! by_gemm {
    ($name:ident, $t:ident, $kernels:ident :: $module:ident, $witness:ident, $lanes:literal) => {
        /// # Safety
        /// As [`product`].
        #[inline(never)]
        unsafe fn $name(slice: Slice<$t>) {
            use gemm_common::simd::{MixedSimd, $witness as Witness};
            use $kernels::microkernel::$module::$t::{H_M, H_N, H_UKR, MR_DIV_N, NR, UKR};

            // Microkernels write columns, so rows of the destination should be near each other.
            let by_column = slice.c_strides[0] <= slice.c_strides[1];
            let s = if by_column { slice } else { slice.transposed() };
            let Some(simd) = <Witness as MixedSimd<$t, $t, $t, $t>>::try_new() else {
                unreachable!("the level was chosen by these very features");
            };
            // SAFETY: the caller's promises; the microkernels and their counts are of one module, which needs
            // the features that `simd` proves.
            unsafe {
                gemm_common::gemm::gemm_basic_generic::<
                    _,
                    $t,
                    $lanes,
                    { MR_DIV_N * $lanes },
                    NR,
                    MR_DIV_N,
                    H_M,
                    H_N,
                >(
                    simd,
                    s.m,
                    s.n,
                    s.k,
                    s.c,
                    s.c_strides[1] as isize,
                    s.c_strides[0] as isize,
                    s.add,
                    s.a,
                    s.a_strides[1] as isize,
                    s.a_strides[0] as isize,
                    s.b,
                    s.b_strides[1] as isize,
                    s.b_strides[0] as isize,
                    1.0,
                    1.0,
                    false,
                    false,
                    false,
                    |a, b, c| a * b + c,
                    &UKR,
                    &H_UKR,
                    false,
                    gemm_common::Parallelism::None,
                );
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
by_gemm!(avx512_f32, f32, gemm_f32::avx512f, V4, 16);
#[cfg(target_arch = "x86_64")]
by_gemm!(avx512_f64, f64, gemm_f64::avx512f, V4, 8);
#[cfg(target_arch = "x86_64")]
by_gemm!(avx2_f32, f32, gemm_f32::fma, V3, 8);
#[cfg(target_arch = "x86_64")]
by_gemm!(avx2_f64, f64, gemm_f64::fma, V3, 4);
