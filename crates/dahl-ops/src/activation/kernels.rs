//! Activations and their gradients over views.
//!
//! Each is a plain function of one element (`one`), so that fused loops can use it too, and a loop over
//! views. Sums and products run as written: every instruction set gives the same bits.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, SQRT_2};

use dahl_core::{View, ViewMut};

use super::special::{Special, erf, exp, exp_minus_1, tanh as hyperbolic};
use crate::elementwise::walk::map;

/// √(2/π), the slope inside the tanh form of GELU.
pub(crate) const GELU_SLOPE: f64 = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// The cubic term inside the tanh form of GELU.
pub(crate) const GELU_CUBIC: f64 = 0.044715;

/// 1/√(2π), the height of the normal density.
pub(crate) const DENSITY: f64 = FRAC_2_SQRT_PI / (2.0 * SQRT_2);

/// Functions of one element.
pub(crate) mod one {
    use super::*;

    /// `1 / (1 + e⁻ˣ)`
    #[inline(always)]
    pub(crate) fn sigmoid<T: Special>(x: T) -> T {
        let e = exp(-x.abs());
        let over = if x < T::ZERO { e } else { T::ONE };
        over / (T::ONE + e)
    }

    /// `x` if it is positive, else `slope · x`.
    #[inline(always)]
    pub(crate) fn leaky<T: Special>(x: T, slope: T) -> T {
        if x > T::ZERO { x } else { slope * x }
    }

    /// `x` if it is positive, else `alpha · (eˣ − 1)`.
    #[inline(always)]
    pub(crate) fn elu<T: Special>(x: T, alpha: T) -> T {
        let low = alpha * exp_minus_1(if x > T::ZERO { T::ZERO } else { x });
        if x > T::ZERO { x } else { low }
    }

    /// `dy` times the derivative of [`elu`] at `x`.
    #[inline(always)]
    pub(crate) fn elu_grad<T: Special>(dy: T, x: T, alpha: T) -> T {
        let low = dy * alpha * exp(if x > T::ZERO { T::ZERO } else { x });
        if x > T::ZERO { dy } else { low }
    }

    /// `x · Φ(x)`, Φ being the normal distribution.
    #[inline(always)]
    pub(crate) fn gelu<T: Special>(x: T) -> T {
        let [e, _] = erf(x * T::from_f64(FRAC_1_SQRT_2));
        x * T::from_f64(0.5) * (T::ONE + e)
    }

    /// `dy · (Φ(x) + x · Φ′(x))`
    #[inline(always)]
    pub(crate) fn gelu_grad<T: Special>(dy: T, x: T) -> T {
        let [e, bell] = erf(x * T::from_f64(FRAC_1_SQRT_2));
        dy * (T::from_f64(0.5) * (T::ONE + e) + x * bell * T::from_f64(DENSITY))
    }

    #[inline(always)]
    fn inside<T: Special>(x: T) -> T {
        T::from_f64(GELU_SLOPE) * (x + T::from_f64(GELU_CUBIC) * x * x * x)
    }

    /// `x/2 · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))`
    #[inline(always)]
    pub(crate) fn gelu_tanh<T: Special>(x: T) -> T {
        T::from_f64(0.5) * x * (T::ONE + hyperbolic(inside(x)))
    }

    /// `dy` times the derivative of [`gelu_tanh`] at `x`.
    #[inline(always)]
    pub(crate) fn gelu_tanh_grad<T: Special>(dy: T, x: T) -> T {
        let (half, t) = (T::from_f64(0.5), hyperbolic(inside(x)));
        let slope = T::from_f64(GELU_SLOPE) * (T::ONE + T::from_f64(3.0 * GELU_CUBIC) * x * x);
        // Where tanh is 1 the second term is 0, even if the slope is infinite.
        let bend = T::ONE - t * t;
        let second = if bend == T::ZERO {
            T::ZERO
        } else {
            half * x * bend * slope
        };
        dy * (half * (T::ONE + t) + second)
    }

    /// `x / (1 + e⁻ˣ)`
    #[inline(always)]
    pub(crate) fn silu<T: Special>(x: T) -> T {
        x * sigmoid(x)
    }

    /// `dy` times the derivative of [`silu`] at `x`.
    #[inline(always)]
    pub(crate) fn silu_grad<T: Special>(dy: T, x: T) -> T {
        let s = sigmoid(x);
        dy * s * (T::ONE + x * (T::ONE - s))
    }
}

/// `out = 1 / (1 + e⁻ˣ)`
pub(crate) fn sigmoid<T: Special>(x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| one::sigmoid(x));
}

/// `dx = dy · y · (1 − y)`, from the output.
pub(crate) fn sigmoid_grad<T: Special>(dy: View<'_, T>, y: View<'_, T>, dx: ViewMut<'_, T>) {
    map(dx, [dy, y], |[dy, y]| dy * (T::ONE - y) * y);
}

/// `out = tanh x`
pub(crate) fn tanh<T: Special>(x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| hyperbolic(x));
}

/// `dx = dy · (1 − y²)`, from the output.
pub(crate) fn tanh_grad<T: Special>(dy: View<'_, T>, y: View<'_, T>, dx: ViewMut<'_, T>) {
    map(dx, [dy, y], |[dy, y]| dy * (T::ONE - y * y));
}

/// `out = x` where it is positive, else `slope · x`.
pub(crate) fn leaky_relu<T: Special>(slope: T, x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| one::leaky(x, slope));
}

/// `dx = dy` where the input is positive, else `slope · dy`.
pub(crate) fn leaky_relu_grad<T: Special>(
    slope: T,
    dy: View<'_, T>,
    x: View<'_, T>,
    dx: ViewMut<'_, T>,
) {
    map(
        dx,
        [dy, x],
        |[dy, x]| {
            if x > T::ZERO { dy } else { slope * dy }
        },
    );
}

/// `out = x` where it is positive, else `alpha · (eˣ − 1)`.
pub(crate) fn elu<T: Special>(alpha: T, x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| one::elu(x, alpha));
}

/// `dx = dy` where the input is positive, else `alpha · dy · eˣ`.
pub(crate) fn elu_grad<T: Special>(alpha: T, dy: View<'_, T>, x: View<'_, T>, dx: ViewMut<'_, T>) {
    map(dx, [dy, x], |[dy, x]| one::elu_grad(dy, x, alpha));
}

/// `out = x · Φ(x)`
pub(crate) fn gelu<T: Special>(x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| one::gelu(x));
}

/// `dx` of [`gelu`], from the input.
pub(crate) fn gelu_grad<T: Special>(dy: View<'_, T>, x: View<'_, T>, dx: ViewMut<'_, T>) {
    map(dx, [dy, x], |[dy, x]| one::gelu_grad(dy, x));
}

/// [`gelu`] with tanh in place of the error function.
pub(crate) fn gelu_tanh<T: Special>(x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| one::gelu_tanh(x));
}

/// `dx` of [`gelu_tanh`], from the input.
pub(crate) fn gelu_tanh_grad<T: Special>(dy: View<'_, T>, x: View<'_, T>, dx: ViewMut<'_, T>) {
    map(dx, [dy, x], |[dy, x]| one::gelu_tanh_grad(dy, x));
}

/// `out = x / (1 + e⁻ˣ)`
pub(crate) fn silu<T: Special>(x: View<'_, T>, out: ViewMut<'_, T>) {
    map(out, [x], |[x]| one::silu(x));
}

/// `dx` of [`silu`], from the input.
pub(crate) fn silu_grad<T: Special>(dy: View<'_, T>, x: View<'_, T>, dx: ViewMut<'_, T>) {
    map(dx, [dy, x], |[dy, x]| one::silu_grad(dy, x));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::assert_close;
    use crate::simd::at_every_level;

    type Forward = fn(View<'_, f64>, ViewMut<'_, f64>);
    type Backward = fn(View<'_, f64>, View<'_, f64>, ViewMut<'_, f64>);

    const DIMS: [usize; 4] = [1, 1, 5, 13];

    /// Name, forward, backward, and whether the gradient needs the output rather than the input.
    const ALL: [(&str, Forward, Backward, bool); 7] = [
        ("sigmoid", sigmoid, sigmoid_grad, true),
        ("tanh", tanh, tanh_grad, true),
        (
            "leaky_relu",
            |x, y| leaky_relu(0.2, x, y),
            |g, x, d| leaky_relu_grad(0.2, g, x, d),
            false,
        ),
        (
            "elu",
            |x, y| elu(0.7, x, y),
            |g, x, d| elu_grad(0.7, g, x, d),
            false,
        ),
        ("gelu", gelu, gelu_grad, false),
        ("gelu_tanh", gelu_tanh, gelu_tanh_grad, false),
        ("silu", silu, silu_grad, false),
    ];

    fn numbers() -> Vec<f64> {
        (0..65).map(|i| f64::from(i) * 0.17 - 5.5).collect()
    }

    fn apply(f: Forward, x: &[f64]) -> Vec<f64> {
        let mut y = vec![f64::NAN; x.len()];
        f(View::from_slice(x, DIMS), ViewMut::from_slice(&mut y, DIMS));
        y
    }

    #[test]
    fn gradients_match_finite_differences() {
        let (x, h) = (numbers(), 1e-6);
        let dy: Vec<f64> = (0..65).map(|i| f64::from(i * 7 % 11) / 3.0 - 1.0).collect();
        for (name, forward, backward, by_output) in ALL {
            let y = apply(forward, &x);
            let mut dx = vec![f64::NAN; 65];
            backward(
                View::from_slice(&dy, DIMS),
                View::from_slice(if by_output { &y } else { &x }, DIMS),
                ViewMut::from_slice(&mut dx, DIMS),
            );
            let moved = |by: f64| apply(forward, &x.iter().map(|x| x + by).collect::<Vec<_>>());
            let (up, down) = (moved(h), moved(-h));
            let differences: Vec<f64> = (0..65)
                .map(|i| dy[i] * (up[i] - down[i]) / (2.0 * h))
                .collect();
            assert_close(name, &dx, &differences, 1e-9, 0);
        }
    }

    #[test]
    fn every_instruction_set_gives_the_same_bits() {
        let x = numbers();
        for (name, forward, _, _) in ALL {
            let mut first = None;
            at_every_level(|level| {
                let y = apply(forward, &x);
                let first = first.get_or_insert_with(|| y.clone());
                assert_close(&format!("{name} {level:?}"), &y, first, 0.0, 0);
            });
        }
    }

    #[test]
    fn tiles_leave_alone_what_is_between_their_rows() {
        let mut all = vec![f64::NAN; 7 * 20];
        let x = numbers();
        for (name, forward, _, _) in ALL {
            all.fill(f64::NAN);
            // SAFETY: five rows of 13, 20 apart, from the 23rd element on, lie in the vector.
            let tile =
                unsafe { ViewMut::from_raw(all.as_mut_ptr().add(23), DIMS, [100, 100, 20, 1]) };
            forward(View::from_slice(&x, DIMS), tile);
            let inside = |i: &usize| (23..23 + 13).contains(&(i % 20 + 20)) && *i >= 23 && *i < 116;
            let got: Vec<f64> = (0..140).filter(inside).map(|i| all[i]).collect();
            assert_close(name, &got, &apply(forward, &x), 0.0, 0);
            assert_eq!(all.iter().filter(|v| !v.is_nan()).count(), 65, "{name}");
        }
    }

    #[test]
    fn extremes_stay_finite_and_what_is_not_a_number_stays() {
        let x = [-1e300, -745.0, 745.0, 1e300, f64::NAN];
        for (name, forward, backward, by_output) in ALL {
            let (dims, mut y, mut dx) = ([1, 1, 1, 5], [0.0; 5], [0.0; 5]);
            forward(
                View::from_slice(&x, dims),
                ViewMut::from_slice(&mut y, dims),
            );
            let from = if by_output { &y } else { &x };
            backward(
                View::from_slice(&[1.0; 5], dims),
                View::from_slice(from, dims),
                ViewMut::from_slice(&mut dx, dims),
            );
            assert!(
                y[..4].iter().chain(&dx[..4]).all(|v| v.is_finite()),
                "{name}: {y:?} {dx:?}"
            );
            assert!(y[4].is_nan(), "{name}");
        }
    }
}
