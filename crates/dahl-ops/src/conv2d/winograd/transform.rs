//! The one-dimensional transforms, for output tiles of two and of four.
//!
//! With `G`, `B` and `A` the matrices of an algorithm, a tile of output is
//! `Aᵀ [(G w Gᵀ) ⊙ (Bᵀ x B)] A`; the gradient of the filter is `Gᵀ [(Bᵀ x B) ⊙ (A dy Aᵀ)] G`. Each
//! matrix is applied to rows and then to columns, so one-dimensional versions suffice. They work on
//! whole vectors: what lies in a vector's lanes is the caller's business.

use crate::float::Float;
use crate::simd::lanes::Lanes;

/// Largest number of points an algorithm has along one axis.
pub(super) const MOST: usize = 6;
/// Largest output tile along one axis.
pub(super) const TILE: usize = 4;

/// A minimal filtering algorithm for kernels of three. Of the arrays, the first [`Algorithm::POINTS`]
/// (transformed), [`Algorithm::OUT`] (output) or three (filter) vectors count.
pub(super) trait Algorithm<T: Float, S: Lanes<T>>: Copy {
    /// Outputs of a tile along one axis.
    const OUT: usize;
    /// Points along one axis: `OUT + 2`.
    const POINTS: usize;

    /// `Bᵀ x`
    fn input(s: S, x: [S::V; MOST]) -> [S::V; MOST];
    /// `Aᵀ m`
    fn output(s: S, m: [S::V; MOST]) -> [S::V; MOST];
    /// `A y`
    fn output_adjoint(s: S, y: [S::V; MOST]) -> [S::V; MOST];
    /// `G w`
    fn filter(s: S, w: [S::V; 3]) -> [S::V; MOST];
    /// `Gᵀ u`
    fn filter_adjoint(s: S, u: [S::V; MOST]) -> [S::V; 3];
}

/// F(2, 3): four points (0, 1, −1, ∞) for two outputs.
#[derive(Clone, Copy)]
pub(super) struct Two;

impl<T: Float, S: Lanes<T>> Algorithm<T, S> for Two {
    const OUT: usize = 2;
    const POINTS: usize = 4;

    #[inline(always)]
    fn input(s: S, [a, b, c, d, e, f]: [S::V; MOST]) -> [S::V; MOST] {
        [s.sub(a, c), s.add(b, c), s.sub(c, b), s.sub(b, d), e, f]
    }
    #[inline(always)]
    fn output(s: S, [a, b, c, d, e, f]: [S::V; MOST]) -> [S::V; MOST] {
        [s.add(a, s.add(b, c)), s.sub(s.sub(b, c), d), c, d, e, f]
    }
    #[inline(always)]
    fn output_adjoint(s: S, [a, b, _, _, e, f]: [S::V; MOST]) -> [S::V; MOST] {
        [
            a,
            s.add(a, b),
            s.sub(a, b),
            s.sub(s.splat(T::ZERO), b),
            e,
            f,
        ]
    }
    #[inline(always)]
    fn filter(s: S, [a, b, c]: [S::V; 3]) -> [S::V; MOST] {
        let half = s.splat(T::from_f64(0.5));
        let (even, odd) = (s.mul(half, s.add(a, c)), s.mul(half, b));
        [a, s.add(even, odd), s.sub(even, odd), c, c, c]
    }
    #[inline(always)]
    fn filter_adjoint(s: S, [a, b, c, d, ..]: [S::V; MOST]) -> [S::V; 3] {
        let half = s.splat(T::from_f64(0.5));
        let (even, odd) = (s.mul(half, s.add(b, c)), s.mul(half, s.sub(b, c)));
        [s.add(a, even), odd, s.add(even, d)]
    }
}

/// F(4, 3): six points (0, p, −p, q, −q, ∞) for four outputs.
///
/// With `p = √½` and `q = √2` the powers of the points stay small and `p²q² = 1`: rounding errors are
/// a fraction of those of the customary 1 and 2.
#[derive(Clone, Copy)]
pub(super) struct Four;

/// `p` and `q`.
const P: f64 = std::f64::consts::FRAC_1_SQRT_2;
const Q: f64 = std::f64::consts::SQRT_2;
/// Their squares and cubes.
const P2: f64 = 0.5;
const Q2: f64 = 2.0;
const P3: f64 = P * P2;
const Q3: f64 = Q * Q2;
/// What `G` divides by at ±p and ±q: 2p²(p² − q²) and 2q²(q² − p²).
const AT_P: f64 = 2.0 * P2 * (P2 - Q2);
const AT_Q: f64 = 2.0 * Q2 * (Q2 - P2);

impl<T: Float, S: Lanes<T>> Algorithm<T, S> for Four {
    const OUT: usize = 4;
    const POINTS: usize = 6;

    #[inline(always)]
    fn input(s: S, x: [S::V; MOST]) -> [S::V; MOST] {
        let k = |v: f64| s.splat(T::from_f64(v));
        let (even_p, odd_p) = (s.madd(k(-Q2), x[2], x[4]), s.madd(k(-Q2), x[1], x[3]));
        let (even_q, odd_q) = (s.madd(k(-P2), x[2], x[4]), s.madd(k(-P2), x[1], x[3]));
        [
            s.madd(k(-P2 - Q2), x[2], s.add(x[0], x[4])),
            s.madd(k(P), odd_p, even_p),
            s.madd(k(-P), odd_p, even_p),
            s.madd(k(Q), odd_q, even_q),
            s.madd(k(-Q), odd_q, even_q),
            s.madd(k(-P2 - Q2), x[3], s.add(x[1], x[5])),
        ]
    }
    #[inline(always)]
    fn output(s: S, m: [S::V; MOST]) -> [S::V; MOST] {
        let k = |v: f64| s.splat(T::from_f64(v));
        let (even_p, odd_p) = (s.add(m[1], m[2]), s.sub(m[1], m[2]));
        let (even_q, odd_q) = (s.add(m[3], m[4]), s.sub(m[3], m[4]));
        [
            s.add(m[0], s.add(even_p, even_q)),
            s.madd(k(P), odd_p, s.mul(k(Q), odd_q)),
            s.madd(k(P2), even_p, s.mul(k(Q2), even_q)),
            s.madd(k(P3), odd_p, s.madd(k(Q3), odd_q, m[5])),
            m[4],
            m[5],
        ]
    }
    #[inline(always)]
    fn output_adjoint(s: S, y: [S::V; MOST]) -> [S::V; MOST] {
        let k = |v: f64| s.splat(T::from_f64(v));
        let (even_p, odd_p) = (
            s.madd(k(P2), y[2], y[0]),
            s.madd(k(P3), y[3], s.mul(k(P), y[1])),
        );
        let (even_q, odd_q) = (
            s.madd(k(Q2), y[2], y[0]),
            s.madd(k(Q3), y[3], s.mul(k(Q), y[1])),
        );
        [
            y[0],
            s.add(even_p, odd_p),
            s.sub(even_p, odd_p),
            s.add(even_q, odd_q),
            s.sub(even_q, odd_q),
            y[3],
        ]
    }
    #[inline(always)]
    fn filter(s: S, w: [S::V; 3]) -> [S::V; MOST] {
        let k = |v: f64| s.splat(T::from_f64(v));
        let (even_p, odd_p) = (
            s.madd(k(P2 / AT_P), w[2], s.mul(k(1.0 / AT_P), w[0])),
            s.mul(k(P / AT_P), w[1]),
        );
        let (even_q, odd_q) = (
            s.madd(k(Q2 / AT_Q), w[2], s.mul(k(1.0 / AT_Q), w[0])),
            s.mul(k(Q / AT_Q), w[1]),
        );
        [
            w[0],
            s.add(even_p, odd_p),
            s.sub(even_p, odd_p),
            s.add(even_q, odd_q),
            s.sub(even_q, odd_q),
            w[2],
        ]
    }
    #[inline(always)]
    fn filter_adjoint(s: S, u: [S::V; MOST]) -> [S::V; 3] {
        let k = |v: f64| s.splat(T::from_f64(v));
        let (even_p, odd_p) = (s.add(u[1], u[2]), s.sub(u[1], u[2]));
        let (even_q, odd_q) = (s.add(u[3], u[4]), s.sub(u[3], u[4]));
        [
            s.madd(k(1.0 / AT_P), even_p, s.madd(k(1.0 / AT_Q), even_q, u[0])),
            s.madd(k(P / AT_P), odd_p, s.mul(k(Q / AT_Q), odd_q)),
            s.madd(k(P2 / AT_P), even_p, s.madd(k(Q2 / AT_Q), even_q, u[5])),
        ]
    }
}
