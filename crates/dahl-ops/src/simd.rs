//! Compiling one body for several instruction sets and choosing among them while running.
//!
//! The build stays portable: nothing depends on compiler flags. A kernel is written once, as the
//! `#[inline(always)]` method of a small struct that holds its operands, and is compiled three times:
//! for AVX-512, for AVX2 with FMA, and for whatever the target guarantees. Which copy runs is one
//! [`level()`] for the whole process, so results differ between machines at most, never between workers, and not
//! between machines that agree on a level.
//!
//! There are two ways in:
//!
//! - [`dispatch`] runs a [`Body`]: plain loops over slices, which the compiler vectorises.
//! - [`Lane::vectorised`] runs a `lanes::Kernel`, written with the explicit vectors of
//!   `lanes::Lanes`, for the few loops that must own their registers.
//!
//! ```
//! use dahl_ops::simd::{Body, dispatch};
//!
//! struct Axpy<'a>(f32, &'a [f32], &'a mut [f32]);
//!
//! impl Body for Axpy<'_> {
//!     type Output = ();
//!
//!     #[inline(always)]
//!     fn run<const FMA: bool>(self) {
//!         for (y, x) in self.2.iter_mut().zip(self.1) {
//!             *y = if FMA { self.0.mul_add(*x, *y) } else { self.0 * x + *y };
//!         }
//!     }
//! }
//!
//! let mut y = [1.0; 3];
//! dispatch(Axpy(2.0, &[1.0, 2.0, 3.0], &mut y));
//! assert_eq!(y, [3.0, 5.0, 7.0]);
//! ```
//!
//! A body whose method lacks `#[inline(always)]`, or that calls a function which does, is still
//! correct but is compiled for the baseline.

pub(crate) mod lanes;
mod level;
pub(crate) mod masks;
#[cfg(target_arch = "x86_64")]
mod masks_x86;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::float::Float;
use lanes::{Kernel, Portable};
#[cfg(test)]
pub(crate) use level::at_every_level;
pub use level::{Level, LevelError, VARIABLE, check, level, set_level};

/// Plain loops to be compiled for every instruction set; see the module's example.
pub trait Body {
    /// What it returns.
    type Output;

    /// The loops. Must be `#[inline(always)]`. `FMA` says whether fused multiply-add is an
    /// instruction here: where it is not, `mul_add` is a slow library call.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs a body with the instruction set of [`level()`].
#[inline]
pub fn dispatch<B: Body>(body: B) -> B::Output {
    match level() {
        // SAFETY: `level` never gives a level that this machine lacks.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::body_avx512(body) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::body_avx2(body) },
        _ => body.run::<false>(),
    }
}

/// An element type that has explicit vectors: `f32` or `f64`.
pub trait Lane: Float {
    /// Runs a kernel with the vectors of [`level()`].
    fn vectorised<K: Kernel<Self>>(kernel: K) -> K::Output;
}

macro_rules! lane {
    ($t:ty) => {
        impl Lane for $t {
            #[inline]
            fn vectorised<K: Kernel<Self>>(kernel: K) -> K::Output {
                match level() {
                    // SAFETY: `level` never gives a level that this machine lacks.
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => unsafe { x86::kernel_avx512::<$t, K>(kernel) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => unsafe { x86::kernel_avx2::<$t, K>(kernel) },
                    _ => kernel.run(Portable),
                }
            }
        }
    };
}

lane!(f32);
lane!(f64);
