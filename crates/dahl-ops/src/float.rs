//! The arithmetic that kernels need of an element, beyond what `dahl-core` asks of one.
//!
//! `dahl-core` moves elements and never computes with them, so its trait has no operators. This one
//! adds them, for exactly the same two types. The machine's vector registers are [`crate::simd`].
//!
//! Exponentials, logarithms and powers are the `libm` crate's, not the system's: C libraries differ from each other, and
//! choose among versions of a function by the processor, so that the last bit would differ between machines. Reference implementations call the system's: they check these.

use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use dahl_core::dtype::Element;

/// An element that can be computed with: `f32` or `f64`.
pub trait Float:
    Element
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Minus infinity: the identity of `max`.
    const NEG_INFINITY: Self;
    /// Infinity: the identity of `min`.
    const INFINITY: Self;

    /// `self · a + b` rounded once. Slow where the machine has no such instruction: kernels call it
    /// only in code compiled for machines that do.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// e to the power of `self`.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// ln(1 + self), exact where `self` is tiny.
    fn ln_1p(self) -> Self;
    /// `self` to the power `p`.
    fn powf(self, p: Self) -> Self;
    /// Nearest integer, halves to the even one.
    fn round_even(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// Whether this is not a number.
    fn is_nan(self) -> bool;
}

macro_rules! float {
    ($t:ident, $exp:ident, $ln:ident, $ln_1p:ident, $pow:ident) => {
        impl Float for $t {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const NEG_INFINITY: Self = $t::NEG_INFINITY;
            const INFINITY: Self = $t::INFINITY;

            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                $t::mul_add(self, a, b)
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $t::sqrt(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                libm::$exp(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                libm::$ln(self)
            }
            #[inline(always)]
            fn ln_1p(self) -> Self {
                libm::$ln_1p(self)
            }
            #[inline(always)]
            fn powf(self, p: Self) -> Self {
                libm::$pow(self, p)
            }
            #[inline(always)]
            fn round_even(self) -> Self {
                $t::round_ties_even(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $t::abs(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
        }
    };
}

float!(f32, expf, logf, log1pf, powf);
float!(f64, exp, log, log1p, pow);
