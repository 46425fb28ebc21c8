//! Batch normalisation.

use dahl_ops::batch_norm::{
    Capped, Epsilon, Finish, InputGrad, Kept, Moments, Normalise, Normalised, PerChannel, Running,
    Sums,
};

use crate::launch::{Arg, Steps, Task};

/// Elements of a channel in a tile.
fn per_channel(dims: [usize; 4]) -> usize {
    dims[0] * dims[2] * dims[3]
}

/// What a positive part is cut off at, as kernels have it: 0 if it is not.
fn cap(of: Option<f64>) -> Arg {
    of.unwrap_or(0.0).into()
}

/// The moments of a tile.
pub(super) fn moments(t: &Task<'_>, s: &mut Steps) {
    let Moments { x, moments } = Moments::of(t.tensors);
    s.groups(
        "bn_moments",
        [x.into(), moments.into()],
        x.dims[1],
        per_channel(x.dims),
    );
}

/// Statistics from all moments.
pub(super) fn finish(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (Finish::of(t.tensors), Kept::of(t.params));
    let channels = all.moments.dims[3];
    let args = [
        all.moments.into(),
        all.total.into(),
        all.statistics.into(),
        all.running_mean.into(),
        all.running_var.into(),
        given.epsilon.into(),
        given.momentum.into(),
        channels.into(),
    ];
    s.items("bn_finish", args, channels);
}

/// Statistics from running mean and variance.
pub(super) fn running(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (Running::of(t.tensors), Epsilon::of(t.params));
    let channels = all.running_mean.dims[3];
    let args = [
        all.running_mean.into(),
        all.running_var.into(),
        all.statistics.into(),
        given.epsilon.into(),
        channels.into(),
    ];
    s.items("bn_running", args, channels);
}

/// A tile normalised.
pub(super) fn normalise(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (Normalise::of(t.tensors), Normalised::of(t.params));
    let x = all.x;
    let args = [
        x.into(),
        all.statistics.into(),
        all.scale.into(),
        all.shift.into(),
        all.y.into(),
        given.relu.into(),
        cap(given.cap),
        x.len().into(),
    ];
    s.items("bn_normalise", args, x.len());
}

/// The sums that the gradients need, of a tile.
pub(super) fn sums(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (Sums::of(t.tensors), Capped::of(t.params));
    let (x, y) = (all.x, all.y);
    let args = [
        x.into(),
        all.dy.into(),
        all.statistics.into(),
        y.unwrap_or(x).into(),
        y.is_some().into(),
        cap(given.cap),
        all.sums.into(),
    ];
    s.groups("bn_sums", args, x.dims[1], per_channel(x.dims));
}

/// The gradient by the input.
pub(super) fn input_grad(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (InputGrad::of(t.tensors), PerChannel::of(t.params));
    let (x, y) = (all.x, all.y);
    let args = [
        x.into(),
        all.dy.into(),
        all.statistics.into(),
        all.sums.into(),
        all.scale.into(),
        y.unwrap_or(x).into(),
        y.is_some().into(),
        cap(given.cap),
        all.dx.into(),
        (1.0 / given.count as f64).into(),
        x.len().into(),
    ];
    s.items("bn_input_grad", args, x.len());
}
