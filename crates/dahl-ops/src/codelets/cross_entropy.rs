//! Cross-entropy codelets: loss, correct predictions and, in training, the gradient.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands};

use super::{
    Done, Lazy, by_type, cpu, dims, elements, expect_dims, expect_operands, expect_same, only,
    scratch,
};
use crate::cross_entropy::{Labels, forward, forward_backward};
use crate::simd::Lane;

fn cost(call: &Call) -> Cost {
    Cost {
        flops: 20.0 * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

fn train<T: Lane>(ops: &Operands<'_>) -> Done {
    let labels = Labels::Classes(ops.read::<T>(1));
    let scale = T::from_f64(ops.float(0));
    let totals = forward_backward(
        ops.read::<T>(0),
        labels,
        scale,
        ops.write::<T>(2),
        ops.write::<T>(4),
    );
    ops.write::<T>(3).fill(T::from_f64(totals.correct as f64));
    Ok(())
}

/// Losses, the count of correct predictions and the gradient of the scaled sum of losses: logits,
/// labels, losses, correct, gradient. Parameter: the scale.
pub static TRAIN: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[5])?;
        expect_dims(call, 1, "labels", [1, 1, 1, dims(call, 0)[2]])?;
        expect_dims(call, 2, "losses", [1, 1, 1, dims(call, 0)[2]])?;
        expect_dims(call, 3, "correct", [1, 1, 1, 1])?;
        expect_same(call, &[0, 4])
    };
    Arc::new(
        Codelet::new("cross_entropy")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(train))),
    )
});

fn evaluate<T: Lane>(ops: &Operands<'_>) -> Done {
    let (logits, labels) = (ops.read::<T>(0), Labels::Classes(ops.read::<T>(1)));
    let row = scratch::<T>(ops, logits.dims()[3]);
    let totals = forward(logits, labels, ops.write::<T>(2), row);
    ops.write::<T>(3).fill(T::from_f64(totals.correct as f64));
    Ok(())
}

/// Losses and the count of correct predictions: logits, labels, losses, correct.
pub static EVALUATE: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[4])?;
        expect_dims(call, 1, "labels", [1, 1, 1, dims(call, 0)[2]])
    };
    Arc::new(
        Codelet::new("cross_entropy_evaluate")
            .rule(rule)
            .cost(cost)
            .with(cpu(
                "vector",
                |_| 1.0,
                |c| elements(c, dims(c, 0)[3]),
                by_type!(evaluate),
            )),
    )
});
