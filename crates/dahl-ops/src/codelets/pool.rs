//! Pooling codelets. Parameters: the window's six; those of the mean over planes: none.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands};

use super::{Done, Lazy, by_type, expect_operands, expect_same, expect_window, only, window};
use crate::pool::average::{self, Divisor};
use crate::pool::max as kernel;
use crate::simd::Lane;

fn cost(call: &Call) -> Cost {
    let most = call
        .operands
        .iter()
        .map(|(s, _)| s.len())
        .max()
        .unwrap_or(0);
    Cost {
        flops: most as f64,
        bytes: call.bytes(),
    }
}

fn max<T: Lane>(ops: &Operands<'_>) -> Done {
    let places = (ops.len() == 3).then(|| ops.write::<T>(2));
    kernel::forward(
        ops.read::<T>(0),
        ops.write::<T>(1),
        places,
        &window(ops.params()),
    );
    Ok(())
}

/// y (and the places of maxima) from x, y, (places).
pub static MAX: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2, 3])?;
        expect_window(call).map(|_| ())
    };
    Arc::new(
        Codelet::new("max_pool2d")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(max))),
    )
});

fn max_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::backward(
        ops.read::<T>(0),
        ops.read::<T>(1),
        ops.write::<T>(2),
        &window(ops.params()),
    );
    Ok(())
}

/// dx from dy, places, dx.
pub static MAX_GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[3])?;
        expect_same(call, &[0, 1])?;
        expect_window(call).map(|_| ())
    };
    Arc::new(
        Codelet::new("max_pool2d_grad")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(max_grad))),
    )
});

fn windowed(call: &Call) -> Result<(), String> {
    expect_operands(call, &[2])?;
    expect_window(call).map(|_| ())
}

fn mean<T: Lane>(ops: &Operands<'_>) -> Done {
    average::forward(
        ops.read::<T>(0),
        ops.write::<T>(1),
        &window(ops.params()),
        Divisor::Kernel,
    );
    Ok(())
}

/// y from x, y.
pub static AVERAGE: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("avg_pool2d")
            .rule(windowed)
            .cost(cost)
            .with(only(by_type!(mean))),
    )
});

fn mean_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    average::backward(
        ops.read::<T>(0),
        ops.write::<T>(1),
        &window(ops.params()),
        Divisor::Kernel,
    );
    Ok(())
}

/// dx from dy, dx.
pub static AVERAGE_GRAD: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("avg_pool2d_grad")
            .rule(windowed)
            .cost(cost)
            .with(only(by_type!(mean_grad))),
    )
});

fn global<T: Lane>(ops: &Operands<'_>) -> Done {
    average::global(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// The mean of each plane: x, y.
pub static GLOBAL: Lazy = Lazy::new(|| {
    let rule = |call: &Call| expect_operands(call, &[2]);
    Arc::new(
        Codelet::new("adaptive_avg_pool2d")
            .rule(rule)
            .cost(cost)
            .with(only(by_type!(global))),
    )
});

fn global_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    average::global_backward(ops.read::<T>(0), ops.write::<T>(1));
    Ok(())
}

/// dx from dy, dx.
pub static GLOBAL_GRAD: Lazy = Lazy::new(|| {
    let rule = |call: &Call| expect_operands(call, &[2]);
    let codelet = Codelet::new("adaptive_avg_pool2d_grad")
        .rule(rule)
        .cost(cost);
    Arc::new(codelet.with(only(by_type!(global_grad))))
});
