//! Adam, with L2 weight decay added to the gradient, and AdamW, with decay applied to the parameter.
//!
//! ```text
//!     AdamW: p ← p · (1 − rate · decay)          Adam: g ← g + decay · p
//!     m ← m + (g − m) · (1 − β₁)
//!     v ← β₂ · v + (1 − β₂) · g²
//!     p ← p − rate / (1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)
//! ```

use dahl_core::{View, ViewMut};

use crate::elementwise::walk::update;
use crate::float::Float;

/// The values of one step. Corrections are computed in double precision whatever the element type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Adam {
    /// Learning rate.
    pub rate: f64,
    /// Decay of the mean and of the mean square.
    pub betas: [f64; 2],
    /// Added to the root of the mean square.
    pub epsilon: f64,
    /// Weight decay, 0 for none.
    pub decay: f64,
    /// Decay the parameter itself (AdamW) rather than through the gradient.
    pub decoupled: bool,
    /// Which step this is, the first being 1.
    pub step: f64,
}

impl Adam {
    /// From a row of six values: rate, β₁, β₂, ε, decay, step.
    ///
    /// # Panics
    /// If the view is not 1×1×1×6.
    pub(crate) fn read<T: Float>(values: View<'_, T>, decoupled: bool) -> Self {
        assert_eq!(
            values.dims(),
            [1, 1, 1, 6],
            "adam: rate, betas, epsilon, decay, step"
        );
        let v = |i: usize| values.row([0, 0, 0])[i].to_f64();
        Adam {
            rate: v(0),
            betas: [v(1), v(2)],
            epsilon: v(3),
            decay: v(4),
            decoupled,
            step: v(5),
        }
    }
}

/// One step: `param`, `mean` and `square` are updated.
///
/// # Panics
/// If the extents differ.
pub(crate) fn step<T: Float>(
    adam: &Adam,
    grad: View<'_, T>,
    param: ViewMut<'_, T>,
    mean: ViewMut<'_, T>,
    square: ViewMut<'_, T>,
) {
    let t = T::from_f64;
    let [beta1, beta2] = adam.betas;
    let rate = t(adam.rate / (1.0 - libm::pow(beta1, adam.step)));
    let root = t((1.0 - libm::pow(beta2, adam.step)).sqrt());
    let (epsilon, new1, old2, new2) = (t(adam.epsilon), t(1.0 - beta1), t(beta2), t(1.0 - beta2));
    let (keep, decay) = match adam.decoupled {
        true => (t(1.0 - adam.rate * adam.decay), T::ZERO),
        false => (T::ONE, t(adam.decay)),
    };
    update([param, mean, square], [grad], |[p, m, v], [g]| {
        let p = p * keep;
        let g = g + decay * p;
        let m = m + (g - m) * new1;
        let v = old2 * v + new2 * g * g;
        [p - rate * (m / (v.sqrt() / root + epsilon)), m, v]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first step moves each parameter by the learning rate against its gradient's sign.
    #[test]
    fn the_first_step_is_the_rate() {
        let dims = [1, 1, 1, 3];
        let (mut p, mut m, mut v) = ([1.0f64; 3], [0.0; 3], [0.0; 3]);
        let g = [3.0, -0.01, 100.0];
        let values = [0.1, 0.9, 0.999, 0.0, 0.0, 1.0];
        let adam = Adam::read(View::from_slice(&values, [1, 1, 1, 6]), false);
        let [pv, mv, vv] = [&mut p, &mut m, &mut v].map(|s| ViewMut::from_slice(s, dims));
        step(&adam, View::from_slice(&g, dims), pv, mv, vv);
        crate::compare::assert_close("adam", &p, &[0.9, 1.1, 0.9], 1e-14, 2);
    }
}
