//! Optimisers.

use crate::launch::{Steps, Task};

/// values, gradient, parameter.
pub fn sgd(t: &Task<'_>, s: &mut Steps) {
    let [values, g, p] = [0, 1, 2].map(|i| t.tensors[i]);
    s.items(
        "sgd",
        [values.into(), g.into(), p.into(), p.len().into()],
        p.len(),
    );
}

/// values, gradient, parameter, buffer; whether it is Nesterov's variant.
pub fn sgd_momentum(t: &Task<'_>, s: &mut Steps) {
    let [values, g, p, b] = [0, 1, 2, 3].map(|i| t.tensors[i]);
    let args = [
        values.into(),
        g.into(),
        p.into(),
        b.into(),
        (t.int(0) != 0).into(),
        p.len().into(),
    ];
    s.items("sgd_momentum", args, p.len());
}

/// values, gradient, parameter, mean, mean square; whether decay is decoupled.
pub fn adam(t: &Task<'_>, s: &mut Steps) {
    let [values, g, p, mean, square] = [0, 1, 2, 3, 4].map(|i| t.tensors[i]);
    let shared = s.scratch([1, 1, 1, 8]);
    let decoupled = t.int(0) != 0;
    s.items(
        "adam_values",
        [values.into(), shared.into(), decoupled.into()],
        1,
    );
    let args = [
        shared.into(),
        g.into(),
        p.into(),
        mean.into(),
        square.into(),
        p.len().into(),
    ];
    s.items("adam", args, p.len());
}

/// total of squares, gradient; the largest norm.
pub fn clip(t: &Task<'_>, s: &mut Steps) {
    let (total, g) = (t.tensors[0], t.tensors[1]);
    let args = [total.into(), g.into(), t.float(0).into(), g.len().into()];
    s.items("clip_norm", args, g.len());
}
