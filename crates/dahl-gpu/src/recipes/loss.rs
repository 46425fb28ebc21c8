//! Softmax and cross-entropy.

use super::reduce::sum_axes;
use crate::launch::{Steps, Task};
use crate::tensor::Tensor;

fn rows(t: Tensor) -> usize {
    t.len() / t.dims[3]
}

/// y from x, y.
pub fn softmax(t: &Task<'_>, s: &mut Steps) {
    let (x, y) = (t.tensors[0], t.tensors[1]);
    s.groups("softmax", [x.into(), y.into()], rows(x), x.dims[3]);
}

/// dx from y, dy, dx.
pub fn softmax_grad(t: &Task<'_>, s: &mut Steps) {
    let [y, dy, dx] = [0, 1, 2].map(|i| t.tensors[i]);
    let args = [y.into(), dy.into(), dx.into()];
    s.groups("softmax_grad", args, rows(y), y.dims[3]);
}

/// The Jacobian of one row: y, Jacobian.
pub fn softmax_jacobian(t: &Task<'_>, s: &mut Steps) {
    let (y, out) = (t.tensors[0], t.tensors[1]);
    let args = [y.into(), out.into(), y.dims[3].into()];
    s.items("softmax_jacobian", args, out.len());
}

fn losses(t: &Task<'_>, grad: Option<Tensor>, scale: f64, s: &mut Steps) {
    let [x, labels, losses, correct] = [0, 1, 2, 3].map(|i| t.tensors[i]);
    let right = s.scratch([1, 1, 1, x.dims[2]]);
    let args = [
        x.into(),
        labels.into(),
        losses.into(),
        right.into(),
        grad.unwrap_or(right).into(),
        grad.is_some().into(),
        scale.into(),
    ];
    s.groups("cross_entropy", args, x.dims[2], x.dims[3]);
    sum_axes(right, correct, false, 1.0, s);
}

/// logits, labels, losses, correct, gradient; scale.
pub fn train(t: &Task<'_>, s: &mut Steps) {
    losses(t, Some(t.tensors[4]), t.float(0), s);
}

/// logits, labels, losses, correct.
pub fn evaluate(t: &Task<'_>, s: &mut Steps) {
    losses(t, None, 1.0, s);
}
