//! Batch normalisation.

use crate::launch::{Steps, Task};

/// Elements of a channel in a tile.
fn per_channel(dims: [usize; 4]) -> usize {
    dims[0] * dims[2] * dims[3]
}

/// The moments of a tile: x, moments.
pub fn moments(t: &Task<'_>, s: &mut Steps) {
    let (x, out) = (t.tensors[0], t.tensors[1]);
    s.groups(
        "bn_moments",
        [x.into(), out.into()],
        x.dims[1],
        per_channel(x.dims),
    );
}

/// moments, their total, statistics, running mean, running variance; ε, momentum.
pub fn finish(t: &Task<'_>, s: &mut Steps) {
    let [all, total, stats, mean, var] = [0, 1, 2, 3, 4].map(|i| t.tensors[i]);
    let channels = all.dims[3];
    let args = [
        all.into(),
        total.into(),
        stats.into(),
        mean.into(),
        var.into(),
        t.float(0).into(),
        t.float(1).into(),
        channels.into(),
    ];
    s.items("bn_finish", args, channels);
}

/// running mean, running variance, statistics; ε.
pub fn running(t: &Task<'_>, s: &mut Steps) {
    let [mean, var, stats] = [0, 1, 2].map(|i| t.tensors[i]);
    let channels = mean.dims[3];
    let args = [
        mean.into(),
        var.into(),
        stats.into(),
        t.float(0).into(),
        channels.into(),
    ];
    s.items("bn_running", args, channels);
}

/// x, statistics, scale, shift, y; whether the positive part is taken.
pub fn normalise(t: &Task<'_>, s: &mut Steps) {
    let [x, stats, scale, shift, y] = [0, 1, 2, 3, 4].map(|i| t.tensors[i]);
    let args = [
        x.into(),
        stats.into(),
        scale.into(),
        shift.into(),
        y.into(),
        (t.int(0) != 0).into(),
        x.len().into(),
    ];
    s.items("bn_normalise", args, x.len());
}

/// x, dy, statistics, sums, (y).
pub fn sums(t: &Task<'_>, s: &mut Steps) {
    let [x, dy, stats, out] = [0, 1, 2, 3].map(|i| t.tensors[i]);
    let y = t.tensors.get(4).copied();
    let args = [
        x.into(),
        dy.into(),
        stats.into(),
        y.unwrap_or(x).into(),
        y.is_some().into(),
        out.into(),
    ];
    s.groups("bn_sums", args, x.dims[1], per_channel(x.dims));
}

/// x, dy, statistics, sums, scale, dx, (y); how many elements a channel has.
pub fn input_grad(t: &Task<'_>, s: &mut Steps) {
    let [x, dy, stats, sums, scale, dx] = [0, 1, 2, 3, 4, 5].map(|i| t.tensors[i]);
    let y = t.tensors.get(6).copied();
    let args = [
        x.into(),
        dy.into(),
        stats.into(),
        sums.into(),
        scale.into(),
        y.unwrap_or(x).into(),
        y.is_some().into(),
        dx.into(),
        (1.0 / t.int(0) as f64).into(),
        x.len().into(),
    ];
    s.items("bn_input_grad", args, x.len());
}
