//! Reductions: to one value, or over some axes.
//!
//! The result is overwritten where it is declared as written, else joined with what is there: sums and
//! means add, the smallest and largest compare, and accumulators that tasks reduce into are merged the
//! same way.

use std::sync::Arc;

use dahl_core::graph::{larger, smaller};
use dahl_core::{Call, Codelet, Cost, Merge, Mode, Operands};

use super::{Done, Lazy, by_type, cpu, dims, expect_dims, expect_operands, only};
use crate::reduce::{axes, rows};
use crate::simd::Lane;

fn cost(call: &Call) -> Cost {
    Cost {
        flops: call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// Writes a value to an operand of one element, or joins it with the one there.
fn join<T: Lane>(ops: &Operands<'_>, i: usize, value: T, with: fn(T, T) -> T) {
    let fresh = ops.mode(i) == Mode::Write;
    let mut out = ops.write::<T>(i);
    let place = &mut out.row([0, 0, 0])[0];
    *place = if fresh { value } else { with(*place, value) };
}

/// Writes a sum to an operand of one element, or adds it.
pub(super) fn join_sum<T: Lane>(ops: &Operands<'_>, i: usize, value: T) {
    join(ops, i, value, |a, b| a + b);
}

fn sum_reference<T: Lane>(ops: &Operands<'_>) -> Done {
    let fresh = ops.mode(1) == Mode::Write;
    let (x, mut out) = (ops.read::<T>(0), ops.write::<T>(1));
    if fresh {
        out.fill(T::ZERO);
    }
    let (from, to) = (x.dims(), out.dims());
    dahl_core::view::for_rows(from, |at| {
        let place = std::array::from_fn(|a| if to[a] == 1 { 0 } else { at[a] });
        for (i, &v) in x.row(at).iter().enumerate() {
            out.row(place)[if to[3] == 1 { 0 } else { i }] += v;
        }
    });
    Ok(())
}

fn sum<T: Lane>(ops: &Operands<'_>) -> Done {
    let fresh = ops.mode(1) == Mode::Write;
    let x = ops.read::<T>(0);
    let mut out = ops.write::<T>(1);
    if out.len() == 1 {
        let place = &mut out.row([0, 0, 0])[0];
        let before = if fresh { T::ZERO } else { *place };
        *place = before + rows::sum(x);
        return Ok(());
    }
    if fresh {
        out.fill(T::ZERO);
    }
    axes::sum(x, out);
    Ok(())
}

/// Sums over the axes along which the result has extent 1: x, sums. Parameters, none needed: axes that
/// must be among them, counted as the operand's rank does.
pub static SUM: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2])?;
        let (x, rank) = (call.shape(0), call.shape(0).rank());
        let (from, to) = (dims(call, 0), dims(call, 1));
        if !(0..4).all(|a| to[a] == 1 || to[a] == from[a]) {
            let y = call.shape(1);
            return Err(format!(
                "sums (operand 1) have shape {y}: along each axis 1 or as in operand 0, {x}"
            ));
        }
        for i in 0..call.params.len() {
            let axis = call.int(i);
            match usize::try_from(axis).ok().filter(|a| *a < rank) {
                None => return Err(format!("operand 0 of shape {x} has no axis {axis}")),
                Some(a) if to[4 - rank + a] != 1 => {
                    return Err(format!(
                        "sums (operand 1) have shape {}, expected extent 1 along axis {axis}",
                        call.shape(1)
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    };
    Arc::new(
        Codelet::new("sum")
            .rule(rule)
            .cost(cost)
            .with(cpu("reference", |_| 100.0, |_| 0, by_type!(sum_reference)))
            .with(only(by_type!(sum))),
    )
});

fn to_one(call: &Call) -> Result<(), String> {
    expect_operands(call, &[2])?;
    expect_dims(call, 1, "result", [1; 4])
}

fn mean<T: Lane>(ops: &Operands<'_>) -> Done {
    let x = ops.read::<T>(0);
    let count = if ops.params().is_empty() {
        x.len() as f64
    } else {
        ops.float(0)
    };
    join_sum(ops, 1, rows::sum(x) / T::from_f64(count));
    Ok(())
}

/// The mean: x, result. Parameter, if x is a part: how many elements the whole has.
pub static MEAN: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("mean")
            .rule(to_one)
            .cost(cost)
            .with(only(by_type!(mean))),
    )
});

fn min<T: Lane>(ops: &Operands<'_>) -> Done {
    join(ops, 1, rows::min(ops.read::<T>(0)), smaller);
    Ok(())
}

/// The smallest element, not-a-number if there is one: x, result.
pub static MIN: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("min")
            .rule(to_one)
            .cost(cost)
            .merge(Merge::Min)
            .with(only(by_type!(min))),
    )
});

fn max<T: Lane>(ops: &Operands<'_>) -> Done {
    join(ops, 1, rows::max(ops.read::<T>(0)), larger);
    Ok(())
}

/// The largest element, not-a-number if there is one: x, result.
pub static MAX: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("max")
            .rule(to_one)
            .cost(cost)
            .merge(Merge::Max)
            .with(only(by_type!(max))),
    )
});
