//! Exponential, hyperbolic tangent and error function, made of additions, multiplications and selections
//! only, so that a loop over them is vectorised.
//!
//! No instruction set fuses or reorders anything here: every machine gives the same bits. Results are
//! within 3 ULPs in double and 4 in single precision; not-a-number stays. Nothing raises, and nothing here
//! is meant for arguments outside the ranges given.
//!
//! ```text
//!     eˣ = 2ᵏ · eʳ,  k the integer nearest to x / ln 2,  eʳ − 1 = r + r² · (1/2! + r/3! + …)
//!     tanh u = t / (t + 2),  t = e²ᵘ − 1                          u = |x|
//!     erf x = x · S(x²) up to 1, then 1 − e^(−u²) · L((u − 3) / (u + 3))
//! ```
//!
//! `tests/fixtures/erf.py` gives the polynomials S and L.

// Coefficients stand as their script prints them.
#![allow(clippy::approx_constant, clippy::excessive_precision)]

use crate::float::Float;

/// A [`Float`] with the constants that these functions need.
pub(crate) trait Special: Float {
    /// Below this, the exponential is less than the smallest normal number.
    const LOWEST: Self;
    /// Adding this to a small number rounds it to an integer, which the lowest bits of the sum then hold.
    const ROUNDER: Self;
    /// ln 2 as the sum of a number with so many zero bits at the end that multiples of it are exact, and
    /// the rest.
    const LN_2: [Self; 2];
    /// 1/2!, 1/3!, 1/4!, …
    const TAYLOR: &'static [Self];
    /// From here on the error function is 1.
    const FAR: Self;
    /// erf(x) / x in powers of x², up to x = 1.
    const SMALL: &'static [Self];
    /// erfc(u) · exp(u²) in powers of (u − 3) / (u + 3), from u = 1 on.
    const LARGE: &'static [Self];

    /// 2ᵏ, from [`Special::ROUNDER`]` + k`.
    fn power_of_two(rounded: Self) -> Self;
    /// `self` with the sign of another number.
    fn with_sign_of(self, other: Self) -> Self;
}

macro_rules! special {
    ($t:ident, $bias:literal, $mantissa:literal, { $($body:tt)* }) => {
        impl Special for $t {
            $($body)*

            #[inline(always)]
            fn power_of_two(rounded: Self) -> Self {
                $t::from_bits(rounded.to_bits().wrapping_add($bias) << $mantissa)
            }
            #[inline(always)]
            fn with_sign_of(self, other: Self) -> Self {
                self.copysign(other)
            }
        }
    };
}

special!(f64, 1023, 52, {
    const LOWEST: f64 = -708.0;
    const ROUNDER: f64 = 6755399441055744.0;
    const LN_2: [f64; 2] = [0.6931471803691238, 1.9082149292705877e-10];
    const TAYLOR: &'static [f64] = &[
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
        1.0 / 40320.0,
        1.0 / 362880.0,
        1.0 / 3628800.0,
        1.0 / 39916800.0,
        1.0 / 479001600.0,
        1.0 / 6227020800.0,
    ];
    const FAR: f64 = 6.0;
    const SMALL: &'static [f64] = &[
        1.1283791670955126,
        -0.37612638903183543,
        0.11283791670945006,
        -0.02686617064323777,
        0.0052239776071164225,
        -0.0008548325975389692,
        0.00012055294904839707,
        -1.492473690741966e-05,
        1.6447424703317362e-06,
        -1.6208483801871705e-07,
        1.3720064546777686e-08,
        -7.795898827002142e-10,
    ];
    const LARGE: &'static [f64] = &[
        0.17900115118138996,
        -0.32623356004303716,
        0.24560380171233195,
        -0.15011593650078744,
        0.07166583719774874,
        -0.024392499318273194,
        0.004269136347508256,
        0.0007077464443901538,
        -0.0005970623517093284,
        4.525472635483354e-05,
        6.406182073530546e-05,
        -1.284889451252353e-05,
        -8.008021319412685e-06,
        2.023603179641757e-06,
        1.2801900862962662e-06,
    ];
});

special!(f32, 127, 23, {
    const LOWEST: f32 = -87.0;
    const ROUNDER: f32 = 12582912.0;
    const LN_2: [f32; 2] = [0.693145751953125, 1.4286068e-6];
    const TAYLOR: &'static [f32] = &[
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
    ];
    const FAR: f32 = 4.0;
    const SMALL: &'static [f32] = &[
        1.1283791658483509,
        -0.37612626666720334,
        0.11283594715160218,
        -0.026854212010626412,
        0.005189087423433974,
        -0.000801686428716587,
        7.875875062685488e-05,
    ];
    const LARGE: &'static [f32] = &[
        0.17900114450585103,
        -0.32623367423291655,
        0.24560599224302346,
        -0.15009834297159,
        0.07160350390773605,
        -0.02507963778089453,
        0.002742749070858971,
    ];
});

/// A polynomial by its coefficients, the constant one first.
#[inline(always)]
fn polynomial<T: Special>(coefficients: &[T], x: T) -> T {
    let mut sum = T::ZERO;
    for &c in coefficients.iter().rev() {
        sum = sum * x + c;
    }
    sum
}

/// `eʳ − 1` and `2ᵏ`, so that `eˣ = 2ᵏ · eʳ`.
#[inline(always)]
fn parts<T: Special>(x: T) -> [T; 2] {
    let rounded = x * T::from_f64(std::f64::consts::LOG2_E) + T::ROUNDER;
    let k = rounded - T::ROUNDER;
    let r = (x - k * T::LN_2[0]) - k * T::LN_2[1];
    [
        r + r * r * polynomial(T::TAYLOR, r),
        T::power_of_two(rounded),
    ]
}

/// `eˣ` of a number that is not positive; 0 where that is less than the smallest normal number.
#[inline(always)]
pub(crate) fn exp<T: Special>(x: T) -> T {
    let [less, scale] = parts(if x < T::LOWEST { T::LOWEST } else { x });
    let y = scale + scale * less;
    if x < T::LOWEST { T::ZERO } else { y }
}

/// `eˣ − 1` of a number up to 80.
#[inline(always)]
pub(crate) fn exp_minus_1<T: Special>(x: T) -> T {
    let [less, scale] = parts(if x < T::LOWEST { T::LOWEST } else { x });
    (scale - T::ONE) + scale * less
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh<T: Special>(x: T) -> T {
    let (u, most) = (x.abs(), T::from_f64(20.0));
    let u = if u > most { most } else { u };
    let t = exp_minus_1(u + u);
    (t / (t + T::from_f64(2.0))).with_sign_of(x)
}

/// The error function, and `exp(−x²)`, which comes with it.
#[inline(always)]
pub(crate) fn erf<T: Special>(x: T) -> [T; 2] {
    let three = T::from_f64(3.0);
    let bell = exp(-(x * x));
    let u = x.abs();
    let u = if u > T::FAR { T::FAR } else { u };
    let far = T::ONE - bell * polynomial(T::LARGE, (u - three) / (u + three));
    let near = u * polynomial(T::SMALL, u * u);
    let y = if u > T::ONE { far } else { near };
    [y.with_sign_of(x), bell]
}

/// The error function as mathematics has it, term by term: what [`erf`] is checked against.
///
/// ```text
///     up to 1:  2/√π · Σ (−1)ⁿ · x^(2n+1) / (n! · (2n+1))
///     beyond:   1 − e^(−x²)/√π / (x + 1/2 / (x + 2/2 / (x + 3/2 / …)))
/// ```
pub(crate) fn erf_by_definition(x: f64) -> f64 {
    let (height, u) = (std::f64::consts::FRAC_2_SQRT_PI, x.abs());
    if u > 1.0 {
        let fraction = (1..400).rev().fold(u, |f, n| u + 0.5 * f64::from(n) / f);
        return (1.0 - 0.5 * height * (-x * x).exp() / fraction).copysign(x);
    }
    let term = |rest: f64, n: i32| 1.0 / f64::from(2 * n + 1) - x * x / f64::from(n + 1) * rest;
    height * x * (0..25).rev().fold(0.0, term)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::ulps;

    /// The largest distance from what is right, over a fine grid and tiny numbers, in ULPs.
    fn worst<T: Special>(f: fn(T) -> T, want: fn(f64) -> f64, low: f64, high: f64) -> u64 {
        let steps = 40_000;
        let grid = (0..=steps).map(|i| low + (high - low) * f64::from(i) / f64::from(steps));
        let tiny = (-30..0)
            .map(|e| high.abs().min(1.0) * 2f64.powi(e))
            .flat_map(|x| [x, -x]);
        grid.chain(tiny.filter(|x| (low..=high).contains(x)))
            .map(|x| {
                let x = T::from_f64(x);
                ulps(f(x), T::from_f64(want(x.to_f64())))
            })
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn exponentials_are_right_to_the_last_places() {
        assert!(worst::<f64>(exp, f64::exp, -707.0, 0.0) <= 2);
        assert!(worst::<f32>(exp, f64::exp, -86.0, 0.0) <= 2);
        assert!(worst::<f64>(exp_minus_1, f64::exp_m1, -40.0, 80.0) <= 2);
        assert!(worst::<f32>(exp_minus_1, f64::exp_m1, -20.0, 80.0) <= 2);
        assert_eq!(exp(0.0), 1.0);
        assert_eq!((exp(-1e4), exp(f32::NEG_INFINITY)), (0.0, 0.0));
        assert_eq!(exp_minus_1(f64::NEG_INFINITY), -1.0);
    }

    #[test]
    fn the_hyperbolic_tangent_is_right_to_the_last_places() {
        assert!(worst::<f64>(tanh, f64::tanh, -25.0, 25.0) <= 3);
        assert!(worst::<f32>(tanh, f64::tanh, -12.0, 12.0) <= 4);
        assert_eq!((tanh(f64::INFINITY), tanh(f32::NEG_INFINITY)), (1.0, -1.0));
        assert_eq!(tanh(-0.0f64).to_bits(), (-0.0f64).to_bits());
    }

    #[test]
    fn the_error_function_is_right_to_the_last_places() {
        // From tables.
        assert!(ulps(erf_by_definition(0.5), 0.520_499_877_813_046_5) <= 2);
        assert!(ulps(erf_by_definition(2.0), 0.995_322_265_018_952_7) <= 2);
        assert!(worst::<f64>(|x| erf(x)[0], erf_by_definition, -7.0, 7.0) <= 3);
        assert!(worst::<f32>(|x| erf(x)[0], erf_by_definition, -7.0, 7.0) <= 4);
        assert_eq!(
            (erf(f64::INFINITY), erf(-1e30f32)),
            ([1.0, 0.0], [-1.0, 0.0])
        );
    }

    #[test]
    fn what_is_not_a_number_stays() {
        for f in [exp, exp_minus_1, tanh, |x| erf(x)[0], |x| erf(x)[1]] {
            assert!(f(f64::NAN).is_nan());
        }
        for f in [exp, exp_minus_1, tanh, |x| erf(x)[0], |x| erf(x)[1]] {
            assert!(f(f32::NAN).is_nan());
        }
    }
}
