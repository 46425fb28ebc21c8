//! Compiling one body for several instruction sets and choosing among them while running.
//!
//! The build stays portable: nothing depends on compiler flags. A kernel is written once, as the
//! `#[inline(always)]` method of a small struct that holds its operands, and is compiled three times:
//! for AVX-512, for AVX2 with FMA, and for whatever the target guarantees. Which copy runs depends on
//! the machine alone, so results differ between machines at most, never between workers.
//!
//! There are two ways in:
//!
//! - [`dispatch`] runs a [`Body`]: plain loops over slices, which the compiler vectorises.
//! - [`Lane::vectorised`] runs a [`lanes::Kernel`], written with the explicit vectors of
//!   [`lanes::Lanes`], for the few loops that must own their registers.
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

pub mod lanes;
pub mod masks;
#[cfg(target_arch = "x86_64")]
mod masks_x86;
#[cfg(target_arch = "x86_64")]
mod x86;

use crate::float::Float;
use lanes::{Kernel, Portable};

/// An instruction set that kernels are compiled for, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What the compilation target guarantees.
    Portable,
    /// x86-64 with AVX2, FMA and BMI2.
    Avx2,
    /// x86-64 with the AVX-512 subsets F, VL, DQ and BW besides.
    Avx512,
}

impl std::fmt::Display for Level {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Level::Portable => "portable",
            Level::Avx2 => "AVX2",
            Level::Avx512 => "AVX-512",
        })
    }
}

/// The best instruction set this machine has. Cheap: the answer is cached.
#[inline]
pub fn level() -> Level {
    #[cfg(test)]
    if let Some(forced) = FORCED.get() {
        return forced;
    }
    detected()
}

#[inline]
fn detected() -> Level {
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx512() && has_avx2() {
            return Level::Avx512;
        }
        if has_avx2() {
            return Level::Avx2;
        }
    }
    Level::Portable
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi2")
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
}

/// Plain loops to be compiled for every instruction set; see the module's example.
pub trait Body {
    /// What it returns.
    type Output;

    /// The loops. Must be `#[inline(always)]`. `FMA` says whether fused multiply-add is an
    /// instruction here: where it is not, `mul_add` is a slow library call.
    fn run<const FMA: bool>(self) -> Self::Output;
}

/// Runs a body with the best instruction set of this machine.
#[inline]
pub fn dispatch<B: Body>(body: B) -> B::Output {
    match level() {
        // SAFETY: `level` found the features on this machine.
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
    /// Runs a kernel with the best vectors of this machine.
    fn vectorised<K: Kernel<Self>>(kernel: K) -> K::Output;
}

macro_rules! lane {
    ($t:ty) => {
        impl Lane for $t {
            #[inline]
            fn vectorised<K: Kernel<Self>>(kernel: K) -> K::Output {
                match level() {
                    // SAFETY: `level` found the features on this machine.
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

#[cfg(test)]
thread_local! {
    static FORCED: std::cell::Cell<Option<Level>> = const { std::cell::Cell::new(None) };
}

/// Runs a test once per instruction set that this machine has.
#[cfg(test)]
pub(crate) fn at_every_level(mut test: impl FnMut(Level)) {
    for level in [Level::Portable, Level::Avx2, Level::Avx512] {
        if level <= detected() {
            FORCED.set(Some(level));
            test(level);
        }
    }
    FORCED.set(None);
}
