//! Optimisers.

use dahl_ops::optim::average::Average;
use dahl_ops::optim::{Adam, Clip, Decay, Momentum, Norm, Sgd, SgdMomentum};

use crate::launch::{Steps, Task};

/// One step without momentum.
pub(super) fn sgd(t: &Task<'_>, s: &mut Steps) {
    let Sgd {
        values,
        gradient: g,
        param: p,
    } = Sgd::of(t.tensors);
    s.items(
        "sgd",
        [values.into(), g.into(), p.into(), p.len().into()],
        p.len(),
    );
}

/// An average moved towards a parameter.
pub(super) fn average(t: &Task<'_>, s: &mut Steps) {
    let Average {
        weight,
        param,
        average,
    } = Average::of(t.tensors);
    let args = [
        weight.into(),
        param.into(),
        average.into(),
        param.len().into(),
    ];
    s.items("average", args, param.len());
}

/// One step with momentum.
pub(super) fn sgd_momentum(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (SgdMomentum::of(t.tensors), Momentum::of(t.params));
    let p = all.param;
    let args = [
        all.values.into(),
        all.gradient.into(),
        p.into(),
        all.buffer.into(),
        given.nesterov.into(),
        p.len().into(),
    ];
    s.items("sgd_momentum", args, p.len());
}

/// One step of Adam or AdamW.
pub(super) fn adam(t: &Task<'_>, s: &mut Steps) {
    let (all, given) = (Adam::of(t.tensors), Decay::of(t.params));
    let p = all.param;
    let shared = s.scratch([1, 1, 1, 8]);
    s.items(
        "adam_values",
        [all.values.into(), shared.into(), given.decoupled.into()],
        1,
    );
    let args = [
        shared.into(),
        all.gradient.into(),
        p.into(),
        all.mean.into(),
        all.square.into(),
        p.len().into(),
    ];
    s.items("adam", args, p.len());
}

/// A gradient scaled so that the norm of all is bounded.
pub(super) fn clip(t: &Task<'_>, s: &mut Steps) {
    let Clip { total, gradient: g } = Clip::of(t.tensors);
    let most = Norm::of(t.params).most;
    let args = [total.into(), g.into(), most.into(), g.len().into()];
    s.items("clip_norm", args, g.len());
}
