//! Layer norm and group norm: a group of items for everything that is normalised together.

use dahl_ops::norm::group::{GroupNormParams, Groups};
use dahl_ops::norm::layer::Epsilon;
use dahl_ops::norm::operands::{Norm, NormAffineGrad, NormInputGrad};

use crate::launch::{Steps, Task};
use crate::tensor::Tensor;

/// What is normalised together: so many elements, so many times in a sample, with a scale per element or,
/// if a channel has so many pixels, per channel.
#[derive(Clone, Copy)]
struct Together {
    count: usize,
    groups: usize,
    plane: usize,
}

impl Together {
    fn layer(scale: Tensor) -> Self {
        Together {
            count: scale.len(),
            groups: 1,
            plane: 0,
        }
    }

    fn group(x: Tensor, groups: usize) -> Self {
        let [_, c, h, w] = x.dims;
        Together {
            count: c / groups * h * w,
            groups,
            plane: h * w,
        }
    }
}

/// [`Norm`] of what is normalised together.
fn forward(o: Norm<Tensor>, with: Together, epsilon: f64, s: &mut Steps) {
    let args = [
        o.x.into(),
        o.scale.into(),
        o.shift.into(),
        o.y.into(),
        o.statistics.into(),
        with.count.into(),
        with.groups.into(),
        with.plane.into(),
        epsilon.into(),
    ];
    s.groups("sample_norm", args, o.x.len() / with.count, with.count);
}

/// [`NormInputGrad`] of what is normalised together.
fn input_grad(o: NormInputGrad<Tensor>, with: Together, s: &mut Steps) {
    let args = [
        o.x.into(),
        o.dy.into(),
        o.statistics.into(),
        o.scale.into(),
        o.dx.into(),
        with.count.into(),
        with.groups.into(),
        with.plane.into(),
    ];
    let groups = o.x.len() / with.count;
    s.groups("sample_norm_input_grad", args, groups, with.count);
}

/// Layer norm.
pub(super) fn layer(t: &Task<'_>, s: &mut Steps) {
    let o = Norm::of(t.tensors);
    let with = Together::layer(o.scale);
    forward(o, with, Epsilon::of(t.params).epsilon, s);
}

/// Its gradient by the input.
pub(super) fn layer_input_grad(t: &Task<'_>, s: &mut Steps) {
    let o = NormInputGrad::of(t.tensors);
    let with = Together::layer(o.scale);
    input_grad(o, with, s);
}

/// Its gradients by scale and shift.
pub(super) fn layer_affine_grad(t: &Task<'_>, s: &mut Steps) {
    let o = NormAffineGrad::of(t.tensors);
    let count = o.dscale.len();
    let args = [
        o.x.into(),
        o.dy.into(),
        o.statistics.into(),
        o.dscale.into(),
        o.dshift.into(),
        count.into(),
        (o.x.len() / count).into(),
    ];
    s.items("layer_norm_affine_grad", args, count);
}

/// Group norm.
pub(super) fn group(t: &Task<'_>, s: &mut Steps) {
    let o = Norm::of(t.tensors);
    let GroupNormParams { groups, epsilon } = GroupNormParams::of(t.params);
    let with = Together::group(o.x, groups);
    forward(o, with, epsilon, s);
}

/// Its gradient by the input.
pub(super) fn group_input_grad(t: &Task<'_>, s: &mut Steps) {
    let o = NormInputGrad::of(t.tensors);
    let with = Together::group(o.x, Groups::of(t.params).groups);
    input_grad(o, with, s);
}

/// Its gradients by scale and shift.
pub(super) fn group_affine_grad(t: &Task<'_>, s: &mut Steps) {
    let o = NormAffineGrad::of(t.tensors);
    let [n, c, h, w] = o.x.dims;
    let args = [
        o.x.into(),
        o.dy.into(),
        o.statistics.into(),
        o.dscale.into(),
        o.dshift.into(),
        Groups::of(t.params).groups.into(),
    ];
    s.groups("group_norm_affine_grad", args, c, n * h * w);
}
