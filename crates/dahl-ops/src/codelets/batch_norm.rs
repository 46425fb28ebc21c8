//! Batch normalisation codelets. Activations are tiles; what is kept per channel is a row.
//!
//! The moments of all tiles are the slices of one block (tiles × 3 × channels), merged in order by
//! whoever finishes them.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands};

use super::{Done, Lazy, by_type, dims, expect_operands, expect_same, only};
use crate::batch_norm::{backward, moments as kernel, normalise as forward};
use crate::simd::Lane;

fn cost(call: &Call) -> Cost {
    Cost {
        flops: 4.0 * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

fn moments<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::moments(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// The moments (3 × channels) of a tile: x, moments.
pub static MOMENTS: Lazy = Lazy::new(|| {
    let rule = |call: &Call| expect_operands(call, &[2]);
    Arc::new(
        Codelet::new("batch_norm_moments")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(moments))),
    )
});

fn finish<T: Lane>(ops: &Operands<'_>) -> Done {
    let all = ops.read::<T>(0);
    let mut total = ops.write::<T>(1);
    let [_, tiles, rows, channels] = all.dims();
    let part = |i: usize| all.part([0, i, 0, 0], [1, 1, rows, channels]);
    total.copy_from(part(0));
    (1..tiles).for_each(|i| kernel::merge(part(i), total.reborrow()));
    let running = (
        ops.write::<T>(3),
        ops.write::<T>(4),
        T::from_f64(ops.float(1)),
    );
    kernel::finish(
        total.as_view(),
        T::from_f64(ops.float(0)),
        ops.write::<T>(2),
        Some(running),
    );
    Ok(())
}

/// Statistics (2 × channels) and running mean and variance from all moments: moments, their total,
/// statistics, running mean, running variance. Parameters: ε, momentum.
pub static FINISH: Lazy = Lazy::new(|| {
    let rule = |call: &Call| expect_operands(call, &[5]);
    Arc::new(
        Codelet::new("batch_norm_finish")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(finish))),
    )
});

fn running<T: Lane>(ops: &Operands<'_>) -> Done {
    let epsilon = T::from_f64(ops.float(0));
    kernel::from_running(
        ops.read::<T>(0),
        ops.read::<T>(1),
        epsilon,
        ops.write::<T>(2),
    );
    Ok(())
}

/// Statistics from running mean and variance, for evaluation. Parameter: ε.
pub static RUNNING: Lazy = Lazy::new(|| {
    let rule = |call: &Call| expect_operands(call, &[3]);
    Arc::new(
        Codelet::new("batch_norm_running")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(running))),
    )
});

fn normalise<T: Lane>(ops: &Operands<'_>) -> Done {
    let affine = Some((ops.read::<T>(2), ops.read::<T>(3)));
    forward::normalise(
        ops.read::<T>(0),
        ops.read::<T>(1),
        affine,
        ops.int(0) != 0,
        ops.write::<T>(4),
    );
    Ok(())
}

/// y from x, statistics, scale, shift, y. Parameter: 1 if the positive part is taken.
pub static NORMALISE: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[5])?;
        expect_same(call, &[0, 4])
    };
    Arc::new(
        Codelet::new("batch_norm")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(normalise))),
    )
});

/// With the forward pass's output as one more operand where it took the positive part.
fn positive<'a, T: Lane>(ops: &'a Operands<'_>, usual: usize) -> Option<dahl_core::View<'a, T>> {
    (ops.len() > usual).then(|| ops.read::<T>(usual))
}

fn sums<T: Lane>(ops: &Operands<'_>) -> Done {
    let relu = positive(ops, 4);
    backward::sums(
        ops.read::<T>(0),
        ops.read::<T>(1),
        relu,
        ops.read::<T>(2),
        ops.write::<T>(3),
    );
    Ok(())
}

/// Sums (2 × channels) += of a tile: x, dy, statistics, sums, (y).
pub static SUMS: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[4, 5])?;
        expect_same(call, &[0, 1])
    };
    Arc::new(
        Codelet::new("batch_norm_sums")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(sums))),
    )
});

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let relu = positive(ops, 6);
    let (x, dy, stats) = (ops.read::<T>(0), ops.read::<T>(1), ops.read::<T>(2));
    let (sums, scale) = (ops.read::<T>(3), Some(ops.read::<T>(4)));
    backward::input_grad(
        x,
        dy,
        relu,
        stats,
        sums,
        scale,
        ops.int(0) as usize,
        ops.write::<T>(5),
    );
    Ok(())
}

/// dx from x, dy, statistics, sums, scale, dx, (y). Parameter: how many elements a channel has.
pub static INPUT_GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[6, 7])?;
        if dims(call, 0) != dims(call, 5) {
            return Err("the input's gradient has another shape than the input".into());
        }
        expect_same(call, &[0, 1])
    };
    Arc::new(
        Codelet::new("batch_norm_input_grad")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(input_grad))),
    )
});
