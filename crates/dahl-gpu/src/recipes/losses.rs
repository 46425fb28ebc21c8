//! Losses against arrays of targets, and cross-entropy with smoothing and class weights.

use dahl_ops::cross_entropy::Scale;
use dahl_ops::loss::smooth::{
    SmoothEvaluate, SmoothParams, SmoothTrain, SmoothTrainParams, WeightsTotal,
};
use dahl_ops::loss::soft::{SoftEvaluate, SoftTrain};
use dahl_ops::loss::values::Distance;
use dahl_ops::loss::values::{ValuesEvaluate, ValuesTrain};

use super::reduce::{add_all, sum_axes};
use crate::launch::{Arg, Steps, Task};
use crate::tensor::Tensor;

/// The number that kernels know a distance by.
fn number(distance: Distance) -> Arg {
    Arg::Int(match distance {
        Distance::Mse => 0,
        Distance::L1 => 1,
        Distance::BceWithLogits => 2,
    })
}

fn compare(
    distance: Distance,
    [scores, targets, losses]: [Tensor; 3],
    gradient: Option<(f64, Tensor)>,
    s: &mut Steps,
) {
    let (scale, grad) = gradient.unzip();
    let count = scores.len() / losses.len();
    let args = [
        scores.into(),
        targets.into(),
        losses.into(),
        grad.unwrap_or(losses).into(),
        grad.is_some().into(),
        scale.unwrap_or(0.0).into(),
        number(distance),
        count.into(),
    ];
    s.groups("value_losses", args, losses.len(), count);
}

/// [`ValuesTrain`].
pub(super) fn train(distance: Distance, t: &Task<'_>, s: &mut Steps) {
    let o = ValuesTrain::of(t.tensors);
    let gradient = Some((Scale::of(t.params).scale, o.gradient));
    compare(distance, [o.scores, o.targets, o.losses], gradient, s);
}

/// [`ValuesEvaluate`].
pub(super) fn evaluate(distance: Distance, t: &Task<'_>, s: &mut Steps) {
    let o = ValuesEvaluate::of(t.tensors);
    compare(distance, [o.scores, o.targets, o.losses], None, s);
}

fn smooth(
    o: SmoothEvaluate<Tensor>,
    p: SmoothParams,
    gradient: Option<(f64, Tensor)>,
    s: &mut Steps,
) {
    let [_, _, samples, classes] = o.logits.dims;
    let right = s.scratch([1, 1, 1, samples]);
    let (scale, grad) = gradient.unzip();
    let args = [
        o.logits.into(),
        o.labels.into(),
        o.weights.unwrap_or(o.labels).into(),
        o.weights.is_some().into(),
        o.total.unwrap_or(o.labels).into(),
        o.total.is_some().into(),
        o.losses.into(),
        right.into(),
        grad.unwrap_or(right).into(),
        grad.is_some().into(),
        scale.unwrap_or(0.0).into(),
        p.smoothing.into(),
        p.batch.into(),
    ];
    s.groups("smooth_losses", args, samples, classes);
    sum_axes(right, o.correct, false, 1.0, s);
}

/// [`SmoothTrain`].
pub(super) fn smooth_train(t: &Task<'_>, s: &mut Steps) {
    let o = SmoothTrain::of(t.tensors);
    let p = SmoothTrainParams::of(t.params);
    let gradient = Some((p.scale, o.gradient));
    let o = SmoothEvaluate {
        logits: o.logits,
        labels: o.labels,
        weights: o.weights,
        total: o.total,
        losses: o.losses,
        correct: o.correct,
    };
    let (smoothing, batch) = (p.smoothing, p.batch);
    smooth(o, SmoothParams { smoothing, batch }, gradient, s);
}

/// [`SmoothEvaluate`].
pub(super) fn smooth_evaluate(t: &Task<'_>, s: &mut Steps) {
    smooth(
        SmoothEvaluate::of(t.tensors),
        SmoothParams::of(t.params),
        None,
        s,
    );
}

fn soft(o: SoftEvaluate<Tensor>, gradient: Option<(f64, Tensor)>, s: &mut Steps) {
    let [_, _, samples, classes] = o.logits.dims;
    let right = s.scratch([1, 1, 1, samples]);
    let (scale, grad) = gradient.unzip();
    let args = [
        o.logits.into(),
        o.shares.into(),
        o.losses.into(),
        right.into(),
        grad.unwrap_or(right).into(),
        grad.is_some().into(),
        scale.unwrap_or(0.0).into(),
    ];
    s.groups("soft_losses", args, samples, classes);
    sum_axes(right, o.correct, false, 1.0, s);
}

/// [`SoftTrain`].
pub(super) fn soft_train(t: &Task<'_>, s: &mut Steps) {
    let o = SoftTrain::of(t.tensors);
    let gradient = Some((Scale::of(t.params).scale, o.gradient));
    let o = SoftEvaluate {
        logits: o.logits,
        shares: o.shares,
        losses: o.losses,
        correct: o.correct,
    };
    soft(o, gradient, s);
}

/// [`SoftEvaluate`].
pub(super) fn soft_evaluate(t: &Task<'_>, s: &mut Steps) {
    soft(SoftEvaluate::of(t.tensors), None, s);
}

/// [`WeightsTotal`].
pub(super) fn weights_total(t: &Task<'_>, s: &mut Steps) {
    let o = WeightsTotal::of(t.tensors);
    let each = s.scratch(o.labels.dims);
    let args = [
        o.labels.into(),
        o.weights.into(),
        each.into(),
        o.labels.len().into(),
    ];
    s.items("label_weights", args, o.labels.len());
    add_all(each, o.total, s);
}
