//! Stochastic gradient descent with momentum, Nesterov's variant and L2 weight decay.
//!
//! ```text
//!     g ← g + decay · p
//!     b ← momentum · b + g          (only with momentum)
//!     g ← g + momentum · b          (Nesterov)   or   g ← b
//!     p ← p − rate · g
//! ```
//!
//! Dampening is 0. A momentum buffer starts as zeros, which gives PyTorch's first step, where the
//! buffer is a copy of the gradient.

use dahl_core::{View, ViewMut};

use crate::elementwise::walk::update;
use crate::float::Float;

/// The values of one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sgd<T> {
    /// Learning rate.
    pub rate: T,
    /// Weight decay, 0 for none.
    pub decay: T,
    /// Momentum; used only where a buffer is given.
    pub momentum: T,
    /// Nesterov's variant of momentum.
    pub nesterov: bool,
}

impl<T: Float> Sgd<T> {
    /// From a row of three values: rate, decay, momentum.
    ///
    /// # Panics
    /// If the view is not 1×1×1×3.
    pub(crate) fn read(values: View<'_, T>, nesterov: bool) -> Self {
        assert_eq!(values.dims(), [1, 1, 1, 3], "sgd: rate, decay, momentum");
        let row = values.row([0, 0, 0]);
        Sgd {
            rate: row[0],
            decay: row[1],
            momentum: row[2],
            nesterov,
        }
    }
}

/// One step without momentum.
///
/// # Panics
/// If the extents differ.
pub(crate) fn step<T: Float>(sgd: &Sgd<T>, grad: View<'_, T>, param: ViewMut<'_, T>) {
    let Sgd { rate, decay, .. } = *sgd;
    if decay == T::ZERO {
        update([param], [grad], |[p], [g]| [p - rate * g]);
    } else {
        update([param], [grad], |[p], [g]| [p - rate * (g + decay * p)]);
    }
}

/// One step with momentum, whose buffer is updated too.
///
/// # Panics
/// If the extents differ.
pub(crate) fn step_momentum<T: Float>(
    sgd: &Sgd<T>,
    grad: View<'_, T>,
    param: ViewMut<'_, T>,
    buffer: ViewMut<'_, T>,
) {
    let Sgd {
        rate,
        decay,
        momentum,
        nesterov,
    } = *sgd;
    update([param, buffer], [grad], |[p, b], [g]| {
        let g = g + decay * p;
        let b = momentum * b + g;
        let g = if nesterov { g + momentum * b } else { b };
        [p - rate * g, b]
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_worked_by_hand() {
        let dims = [1, 1, 1, 2];
        let (mut p, mut b) = ([1.0f64, -2.0], [0.5, 0.0]);
        let g = [2.0, 4.0];
        let grad = View::from_slice(&g, dims);
        let values = [0.5, 0.25, 0.5];
        let sgd = Sgd::read(View::from_slice(&values, [1, 1, 1, 3]), false);
        step(&sgd, grad, ViewMut::from_slice(&mut p, dims));
        assert_eq!(p, [1.0 - 0.5 * 2.25, -2.0 - 0.5 * 3.5]);
        p = [1.0, -2.0];
        let (pv, bv) = (
            ViewMut::from_slice(&mut p, dims),
            ViewMut::from_slice(&mut b, dims),
        );
        step_momentum(
            &Sgd {
                nesterov: true,
                ..sgd
            },
            grad,
            pv,
            bv,
        );
        assert_eq!(b, [0.25 + 2.25, 3.5]);
        assert_eq!(p, [1.0 - 0.5 * (2.25 + 1.25), -2.0 - 0.5 * (3.5 + 1.75)]);
    }
}
