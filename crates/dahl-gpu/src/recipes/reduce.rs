//! Sums over axes, and reductions to one value.
//!
//! How terms are shared among groups depends on extents and group sizes only, so sums run in the same
//! order every time.

use dahl_ops::conv2d::plain::BiasGrad as ConvBiasGrad;
use dahl_ops::linalg::products::Dot;
use dahl_ops::linear::BiasGrad;
use dahl_ops::optim::Squares;
use dahl_ops::reduce::{Count, Sums, ToOne};

use crate::launch::{Arg, Steps, Task, adds};
use crate::tensor::{Base, Tensor, row_major};

/// Terms up to which one item adds them all, if there are enough results to keep items busy.
const FEW: usize = 64;

/// `y (+)= Σ x / divisor` over the axes along which `y` has extent 1.
pub(super) fn sum_axes(x: Tensor, y: Tensor, add: bool, divisor: f64, s: &mut Steps) {
    let kept = x.with_dims(y.dims);
    let over: [usize; 4] = std::array::from_fn(|a| if y.dims[a] == 1 { x.dims[a] } else { 1 });
    let terms: usize = over.iter().product();
    let args = [
        kept.into(),
        Arg::Extents(x.with_dims(over)),
        terms.into(),
        y.into(),
        add.into(),
        divisor.into(),
    ];
    if terms <= FEW {
        let [a, b, c, d, e, f] = args;
        s.items("sum_items", [a, b, c, d, e, f, y.len().into()], y.len());
    } else {
        s.groups("sum_groups", args, y.len(), terms);
    }
}

/// The numbers kernels know operations by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fold {
    Sum = 0,
    Min = 1,
    Max = 2,
    Dot = 3,
}

/// `y = join(y, fold / divisor)`, by one group or, for many elements, by many and then one.
fn fold(op: Fold, [a, b]: [Tensor; 2], y: Tensor, join: bool, divisor: f64, s: &mut Steps) {
    let n = a.len();
    // Enough for each item of a group to be worth its start.
    let chunk = (s.tuning.group * 32).max(n.div_ceil(1024));
    let args = |op: Fold, [a, b]: [Tensor; 2], chunk: usize, y: Tensor, join: bool, by: f64| {
        [
            a.into(),
            b.into(),
            Arg::Int(op as i32),
            a.len().into(),
            chunk.into(),
            y.into(),
            join.into(),
            by.into(),
        ]
    };
    let parts = n.div_ceil(chunk);
    if parts == 1 {
        s.groups("fold", args(op, [a, b], n, y, join, divisor), 1, n);
        return;
    }
    let part = s.scratch([1, 1, 1, parts]);
    s.groups(
        "fold",
        args(op, [a, b], chunk, part, false, 1.0),
        parts,
        chunk,
    );
    let last = if op == Fold::Dot { Fold::Sum } else { op };
    s.groups(
        "fold",
        args(last, [part; 2], parts, y, join, divisor),
        1,
        parts,
    );
}

/// Sums over axes, or of all elements.
pub(super) fn sum(t: &Task<'_>, s: &mut Steps) {
    let (Sums { x, total }, add) = (Sums::of(t.tensors), adds(Sums::of(t.modes).total));
    if total.len() == 1 {
        fold(Fold::Sum, [x; 2], total, add, 1.0, s);
    } else {
        sum_axes(x, total, add, 1.0, s);
    }
}

fn to_one(op: Fold, divisor: f64, t: &Task<'_>, s: &mut Steps) {
    let (ToOne { x, total }, add) = (ToOne::of(t.tensors), adds(ToOne::of(t.modes).total));
    fold(op, [x; 2], total, add, divisor, s);
}

/// `y += Σ x`, a single value.
pub(super) fn add_all(x: Tensor, y: Tensor, s: &mut Steps) {
    fold(Fold::Sum, [x; 2], y, true, 1.0, s);
}

pub(super) fn mean(t: &Task<'_>, s: &mut Steps) {
    let elements = ToOne::of(t.tensors).x.len() as f64;
    let count = Count::of(t.params).count.unwrap_or(elements);
    to_one(Fold::Sum, count, t, s);
}

/// The smallest.
pub(super) fn min(t: &Task<'_>, s: &mut Steps) {
    to_one(Fold::Min, 1.0, t, s);
}

/// The largest.
pub(super) fn max(t: &Task<'_>, s: &mut Steps) {
    to_one(Fold::Max, 1.0, t, s);
}

/// `c (+)= Σ a · b`
pub(super) fn dot(t: &Task<'_>, s: &mut Steps) {
    let (Dot { a, b, c }, add) = (Dot::of(t.tensors), adds(Dot::of(t.modes).c));
    fold(Fold::Dot, [a, b], c, add, 1.0, s);
}

/// `total += Σ x²` of a gradient.
pub(super) fn squares(t: &Task<'_>, s: &mut Steps) {
    let Squares { gradient, total } = Squares::of(t.tensors);
    fold(Fold::Dot, [gradient; 2], total, true, 1.0, s);
}

/// `db +=` the sum of each channel.
pub(super) fn channel_sums(t: &Task<'_>, s: &mut Steps) {
    let ConvBiasGrad { dy, db } = ConvBiasGrad::of(t.tensors);
    sum_axes(dy, db.per_channel(), true, 1.0, s);
}

/// `db +=` the sum of each column.
pub(super) fn column_sums(t: &Task<'_>, s: &mut Steps) {
    let BiasGrad { dy, db } = BiasGrad::of(t.tensors);
    sum_axes(dy, db, true, 1.0, s);
}

/// `y (+)= Σ` of the slices of a scratch tensor, first to last.
pub(super) fn add_parts(parts: Tensor, number: usize, y: Tensor, add: bool, s: &mut Steps) {
    debug_assert!(matches!(parts.base, Base::Scratch(_)) && parts.strides == row_major(parts.dims));
    let args = [
        parts.into(),
        number.into(),
        y.into(),
        add.into(),
        y.len().into(),
    ];
    s.items("add_parts", args, y.len());
}
