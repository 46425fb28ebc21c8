//! The dropout codelet, which serves both directions.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands};

use super::{Done, Lazy, by_type, expect_operands, expect_same, only};
use crate::dropout::{Place, apply};
use crate::philox::Stream;
use crate::simd::Lane;

fn dropout<T: Lane>(ops: &Operands<'_>) -> Done {
    let (x, step, y) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let (start, whole) = ops.origin(0);
    let step = step.at([0, 0, 0, 0]).to_f64() as u32;
    let stream = Stream {
        seed: ops.int(1) as u64,
        step,
        layer: ops.int(2) as u32,
    };
    apply(
        x,
        y,
        ops.float(0),
        stream,
        Place {
            start,
            whole: whole.dims4(),
        },
    );
    Ok(())
}

/// y from x, the number of the step, y. Parameters: probability, seed, layer.
pub static DROPOUT: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        expect_same(call, &[0, 2])
    };
    Arc::new(
        Codelet::new("dropout")
            .rule(rule)
            .cost(|c| Cost {
                flops: 12.0 * c.shape(0).len() as f64,
                bytes: c.bytes(),
            })
            .with(only(by_type!(dropout))),
    )
});
