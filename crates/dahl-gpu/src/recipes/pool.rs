//! Pooling and its gradients.

use super::reduce::sum_axes;
use crate::launch::{Steps, Task};
use crate::tensor::Tensor;

/// y (and places) from x, y, (places).
pub fn max(t: &Task<'_>, s: &mut Steps) {
    let (x, y) = (t.tensors[0], t.tensors[1]);
    let places = t.tensors.get(2).copied();
    let args = [
        x.into(),
        y.into(),
        places.unwrap_or(y).into(),
        places.is_some().into(),
        y.len().into(),
        t.window().into(),
    ];
    s.items("max_pool", args, y.len());
}

/// dx from dy, places, dx.
pub fn max_grad(t: &Task<'_>, s: &mut Steps) {
    let [dy, places, dx] = [0, 1, 2].map(|i| t.tensors[i]);
    let args = [
        dy.into(),
        places.into(),
        dx.into(),
        dx.len().into(),
        t.window().into(),
    ];
    s.items("max_pool_grad", args, dx.len());
}

fn windowed(kernel: &'static str, t: &Task<'_>, s: &mut Steps) {
    let (from, to) = (t.tensors[0], t.tensors[1]);
    let args = [from.into(), to.into(), to.len().into(), t.window().into()];
    s.items(kernel, args, to.len());
}

/// y from x, y.
pub fn average(t: &Task<'_>, s: &mut Steps) {
    windowed("avg_pool", t, s);
}

/// dx from dy, dx.
pub fn average_grad(t: &Task<'_>, s: &mut Steps) {
    windowed("avg_pool_grad", t, s);
}

/// The mean of each plane: x, y.
pub fn planes(t: &Task<'_>, s: &mut Steps) {
    let (x, y) = (t.tensors[0], t.tensors[1]);
    sum_axes(x, y, false, (x.dims[2] * x.dims[3]) as f64, s);
}

/// dx from dy, dx.
pub fn planes_grad(t: &Task<'_>, s: &mut Steps) {
    let (dy, dx) = (t.tensors[0], t.tensors[1]);
    let count = (dx.dims[2] * dx.dims[3]) as f64;
    let args = [dy.into(), dx.into(), dx.len().into(), count.into()];
    s.items("spread_planes", args, dx.len());
}

/// The gradient of what was pooled, from that of the pooled and the codes.
pub fn write_expanded(dy: Tensor, codes: Tensor, out: Tensor, side: usize, s: &mut Steps) {
    let args = [
        dy.into(),
        codes.into(),
        out.into(),
        side.into(),
        out.len().into(),
    ];
    s.items("pool_expand", args, out.len());
}

/// The convolution's output gradient from dy, codes, it.
pub fn expand(t: &Task<'_>, s: &mut Steps) {
    let [dy, codes, out] = [0, 1, 2].map(|i| t.tensors[i]);
    write_expanded(dy, codes, out, t.int(0).max(1) as usize, s);
}
