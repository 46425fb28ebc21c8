//! Every element alone.

use crate::launch::{Arg, Steps, Task};

/// One input; in place if there is no other operand.
pub fn unary(kernel: &'static str, t: &Task<'_>, s: &mut Steps) {
    let (x, y) = (t.tensors[0], t.tensors[t.tensors.len() - 1]);
    let args = [
        x.into(),
        y.into(),
        x.len().into(),
        t.float(0).into(),
        t.float(1).into(),
    ];
    s.items(kernel, args, x.len());
}

/// Two inputs; the first is changed if there is no third operand.
pub fn binary(kernel: &'static str, t: &Task<'_>, s: &mut Steps) {
    let (a, b) = (t.tensors[0], t.tensors[1]);
    let y = t.tensors.get(2).copied().unwrap_or(a);
    s.items(
        kernel,
        [a.into(), b.into(), y.into(), a.len().into()],
        a.len(),
    );
}

/// [`binary`] with a parameter.
pub fn binary_with(kernel: &'static str, t: &Task<'_>, s: &mut Steps) {
    let (a, b) = (t.tensors[0], t.tensors[1]);
    let y = t.tensors.get(2).copied().unwrap_or(a);
    let args = [
        a.into(),
        b.into(),
        y.into(),
        a.len().into(),
        t.float(0).into(),
    ];
    s.items(kernel, args, a.len());
}

/// `b = b + a`.
pub fn add_assign(t: &Task<'_>, s: &mut Steps) {
    let (a, b) = (t.tensors[0], t.tensors[1]);
    s.items(
        "add",
        [b.into(), a.into(), b.into(), a.len().into()],
        a.len(),
    );
}

/// Joins operands 1, 2, … with operand 0, in this order.
pub fn merge(kernel: &'static str, t: &Task<'_>, s: &mut Steps) {
    let to = t.tensors[0];
    for &part in &t.tensors[1..] {
        let args = [to.into(), part.into(), to.into(), to.len().into()];
        s.items(kernel, args, to.len());
    }
}

/// y from x, step, y; probability, seed, layer.
pub fn dropout(t: &Task<'_>, s: &mut Steps) {
    let (x, step, y) = (t.tensors[0], t.tensors[1], t.tensors[2]);
    let (p, seed, layer) = (t.float(0), t.int(1), t.int(2));
    // A word below the threshold drops its element; 2³² drops all of them.
    let threshold = (p.clamp(0.0, 1.0) * 2f64.powi(32)).round() as i64;
    let factor = if threshold >> 32 == 1 {
        0.0
    } else {
        1.0 / (1.0 - p)
    };
    let args = [
        x.into(),
        step.into(),
        y.into(),
        x.len().into(),
        Arg::Long(t.first as i64),
        Arg::Long(threshold),
        factor.into(),
        Arg::Int(seed as i32),
        Arg::Int((seed >> 32) as i32),
        Arg::Int(layer as i32),
    ];
    s.items("dropout", args, x.len());
}
