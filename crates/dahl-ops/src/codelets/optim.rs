//! Optimiser codelets. What schedules change (rates, the step's number) is an array.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands};

use super::{Done, Lazy, by_type, expect_operands, expect_same, only};
use crate::optim::adam::{self, Adam};
use crate::optim::clip as norm;
use crate::optim::sgd::{self as kernel, Sgd};
use crate::simd::Lane;

fn cost(call: &Call) -> Cost {
    Cost {
        flops: 4.0 * call.shape(1).len() as f64,
        bytes: call.bytes(),
    }
}

fn sgd<T: Lane>(ops: &Operands<'_>) -> Done {
    let values = Sgd::read(ops.read::<T>(0), false);
    kernel::step(&values, ops.read::<T>(1), ops.write::<T>(2));
    Ok(())
}

/// One step without momentum: values, gradient, parameter.
pub static SGD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        expect_same(call, &[1, 2])
    };
    Arc::new(
        Codelet::new("sgd")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(sgd))),
    )
});

fn sgd_momentum<T: Lane>(ops: &Operands<'_>) -> Done {
    let values = Sgd::read(ops.read::<T>(0), ops.int(0) != 0);
    kernel::step_momentum(
        &values,
        ops.read::<T>(1),
        ops.write::<T>(2),
        ops.write::<T>(3),
    );
    Ok(())
}

/// One step with momentum: values, gradient, parameter, buffer. Parameter: 1 for Nesterov's variant.
pub static SGD_MOMENTUM: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[4])?;
        expect_same(call, &[1, 2, 3])
    };
    Arc::new(
        Codelet::new("sgd_momentum")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(sgd_momentum))),
    )
});

fn adam_step<T: Lane>(ops: &Operands<'_>) -> Done {
    let values = Adam::read(ops.read::<T>(0), ops.int(0) != 0);
    adam::step(
        &values,
        ops.read::<T>(1),
        ops.write::<T>(2),
        ops.write::<T>(3),
        ops.write::<T>(4),
    );
    Ok(())
}

/// One step: values, gradient, parameter, mean, mean square. Parameter: 1 for AdamW.
pub static ADAM: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[5])?;
        expect_same(call, &[1, 2, 3, 4])
    };
    Arc::new(
        Codelet::new("adam")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(adam_step))),
    )
});

fn squares<T: Lane>(ops: &Operands<'_>) -> Done {
    let sum = norm::squares(ops.read::<T>(0));
    ops.write::<T>(1).row([0, 0, 0])[0] += sum;
    Ok(())
}

/// total += the sum of squares: gradient, total.
pub static SQUARES: Lazy = Lazy::new(|| {
    let rule = |call: &Call| expect_operands(call, &[2]);
    Arc::new(
        Codelet::new("clip_squares")
            .rule(rule)
            .with(only(by_type!(squares))),
    )
});

fn clip<T: Lane>(ops: &Operands<'_>) -> Done {
    let total = ops.read::<T>(0).at([0, 0, 0, 0]);
    let factor = norm::factor(total, T::from_f64(ops.float(0)));
    norm::apply(factor, ops.write::<T>(1));
    Ok(())
}

/// Scales a gradient so that the global norm is at most the parameter: total of squares, gradient.
pub static CLIP: Lazy = Lazy::new(|| {
    let rule = |call: &Call| expect_operands(call, &[2]);
    Arc::new(Codelet::new("clip").rule(rule).with(only(by_type!(clip))))
});
