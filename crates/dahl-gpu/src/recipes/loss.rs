//! Softmax and cross-entropy.

use dahl_ops::cross_entropy::{Evaluate, Scale, Train};
use dahl_ops::softmax::{Jacobian, Softmax, SoftmaxGrad};

use super::reduce::sum_axes;
use crate::launch::{Steps, Task};
use crate::tensor::Tensor;

fn rows(t: Tensor) -> usize {
    t.len() / t.dims[3]
}

/// Each row normalised.
pub(super) fn softmax(t: &Task<'_>, s: &mut Steps) {
    let Softmax { x, y } = Softmax::of(t.tensors);
    s.groups("softmax", [x.into(), y.into()], rows(x), x.dims[3]);
}

/// The gradient by the input.
pub(super) fn softmax_grad(t: &Task<'_>, s: &mut Steps) {
    let SoftmaxGrad { y, dy, dx } = SoftmaxGrad::of(t.tensors);
    let args = [y.into(), dy.into(), dx.into()];
    s.groups("softmax_grad", args, rows(y), y.dims[3]);
}

/// The Jacobian of one row.
pub(super) fn softmax_jacobian(t: &Task<'_>, s: &mut Steps) {
    let Jacobian { y, j: out } = Jacobian::of(t.tensors);
    let args = [y.into(), out.into(), y.dims[3].into()];
    s.items("softmax_jacobian", args, out.len());
}

fn losses(all: Evaluate<Tensor>, grad: Option<Tensor>, scale: f64, s: &mut Steps) {
    let (x, labels, losses) = (all.logits, all.labels, all.losses);
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
    sum_axes(right, all.correct, false, 1.0, s);
}

/// Losses, correct predictions and gradient.
pub(super) fn train(t: &Task<'_>, s: &mut Steps) {
    let Train {
        logits,
        labels,
        losses: each,
        correct,
        gradient,
    } = Train::of(t.tensors);
    let all = Evaluate {
        logits,
        labels,
        losses: each,
        correct,
    };
    losses(all, Some(gradient), Scale::of(t.params).scale, s);
}

/// Losses and correct predictions.
pub(super) fn evaluate(t: &Task<'_>, s: &mut Steps) {
    losses(Evaluate::of(t.tensors), None, 1.0, s);
}
