//! Layer norm and group norm: a group of items for everything that is normalised together.

use dahl_ops::norm::group::{
    GroupNorm, GroupNormAffineGrad, GroupNormInputGrad, GroupNormParams, Groups,
};
use dahl_ops::norm::layer::{Epsilon, LayerNorm, LayerNormAffineGrad, LayerNormInputGrad};

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

fn forward(
    [x, scale, shift, y, statistics]: [Tensor; 5],
    with: Together,
    epsilon: f64,
    s: &mut Steps,
) {
    let args = [
        x.into(),
        scale.into(),
        shift.into(),
        y.into(),
        statistics.into(),
        with.count.into(),
        with.groups.into(),
        with.plane.into(),
        epsilon.into(),
    ];
    s.groups("sample_norm", args, x.len() / with.count, with.count);
}

fn input_grad([x, dy, statistics, scale, dx]: [Tensor; 5], with: Together, s: &mut Steps) {
    let args = [
        x.into(),
        dy.into(),
        statistics.into(),
        scale.into(),
        dx.into(),
        with.count.into(),
        with.groups.into(),
        with.plane.into(),
    ];
    s.groups(
        "sample_norm_input_grad",
        args,
        x.len() / with.count,
        with.count,
    );
}

/// [`LayerNorm`].
pub(super) fn layer(t: &Task<'_>, s: &mut Steps) {
    let o = LayerNorm::of(t.tensors);
    let all = [o.x, o.scale, o.shift, o.y, o.statistics];
    forward(
        all,
        Together::layer(o.scale),
        Epsilon::of(t.params).epsilon,
        s,
    );
}

/// [`LayerNormInputGrad`].
pub(super) fn layer_input_grad(t: &Task<'_>, s: &mut Steps) {
    let o = LayerNormInputGrad::of(t.tensors);
    input_grad(
        [o.x, o.dy, o.statistics, o.scale, o.dx],
        Together::layer(o.scale),
        s,
    );
}

/// [`LayerNormAffineGrad`].
pub(super) fn layer_affine_grad(t: &Task<'_>, s: &mut Steps) {
    let o = LayerNormAffineGrad::of(t.tensors);
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

/// [`GroupNorm`].
pub(super) fn group(t: &Task<'_>, s: &mut Steps) {
    let o = GroupNorm::of(t.tensors);
    let p = GroupNormParams::of(t.params);
    let all = [o.x, o.scale, o.shift, o.y, o.statistics];
    forward(all, Together::group(o.x, p.groups), p.epsilon, s);
}

/// [`GroupNormInputGrad`].
pub(super) fn group_input_grad(t: &Task<'_>, s: &mut Steps) {
    let o = GroupNormInputGrad::of(t.tensors);
    let with = Together::group(o.x, Groups::of(t.params).groups);
    input_grad([o.x, o.dy, o.statistics, o.scale, o.dx], with, s);
}

/// [`GroupNormAffineGrad`].
pub(super) fn group_affine_grad(t: &Task<'_>, s: &mut Steps) {
    let o = GroupNormAffineGrad::of(t.tensors);
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
