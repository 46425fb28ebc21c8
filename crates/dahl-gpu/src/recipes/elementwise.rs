//! Every element alone.

use dahl_ops::dropout::{Dropout, Dropped};
use dahl_ops::elementwise::binary::Added;
use dahl_ops::elementwise::unary::{Filled, Value};
use dahl_ops::elementwise::{Binary, Unary};

use crate::launch::{Arg, Steps, Task};

/// One input; in place if there is no other operand.
pub(super) fn unary(kernel: &'static str, t: &Task<'_>, s: &mut Steps) {
    let Unary { x, y } = Unary::of(t.tensors);
    let (y, [p, q]) = (y.unwrap_or(x), t.values());
    let args = [x.into(), y.into(), x.len().into(), p.into(), q.into()];
    s.items(kernel, args, x.len());
}

/// Two inputs; the first is changed if there is no third operand.
pub(super) fn binary(kernel: &'static str, t: &Task<'_>, s: &mut Steps) {
    let Binary { a, b, c } = Binary::of(t.tensors);
    let y = c.unwrap_or(a);
    s.items(
        kernel,
        [a.into(), b.into(), y.into(), a.len().into()],
        a.len(),
    );
}

/// [`binary`] with a parameter.
pub(super) fn binary_with(kernel: &'static str, t: &Task<'_>, s: &mut Steps) {
    let Binary { a, b, c } = Binary::of(t.tensors);
    let (y, [p, _]) = (c.unwrap_or(a), t.values());
    let args = [a.into(), b.into(), y.into(), a.len().into(), p.into()];
    s.items(kernel, args, a.len());
}

/// `x = value`
pub(super) fn filled(t: &Task<'_>, s: &mut Steps) {
    super::fill(Filled::of(t.tensors).x, Value::of(t.params).value, s);
}

/// `total = total + x`
pub(super) fn add_assign(t: &Task<'_>, s: &mut Steps) {
    let Added { x, total } = Added::of(t.tensors);
    let args = [total.into(), x.into(), total.into(), x.len().into()];
    s.items("add", args, x.len());
}

/// Joins operands 1, 2, … with operand 0. Sums of up to four, the default, are in the order of the host's tree.
pub(super) fn merge(kernel: &'static str, t: &Task<'_>, s: &mut Steps) {
    let to = t.tensors[0];
    if let ("add", &[_, a, b, c]) = (kernel, t.tensors) {
        let args = [a.into(), b.into(), c.into(), to.into(), to.len().into()];
        return s.items("add_tree", args, to.len());
    }
    for &part in &t.tensors[1..] {
        let args = [to.into(), part.into(), to.into(), to.len().into()];
        s.items(kernel, args, to.len());
    }
}

/// Elements dropped at random, by their place in the whole array.
pub(super) fn dropout(t: &Task<'_>, s: &mut Steps) {
    let (Dropped { x, step, y }, given) = (Dropped::of(t.tensors), Dropout::of(t.params));
    let (p, seed, layer) = (given.probability, given.seed, given.layer);
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
