//! Winograd codelets: 3×3 convolutions of stride 1 in a transformed domain.
//!
//! Transformed filters are vectors whose layout only these kernels know. Parameters: the window's six,
//! then the output tile (2 or 4), then for the forward pass 1 if the positive part is taken; the
//! filter's transform has the tile and 1 if it is for input gradients.

use std::sync::Arc;

use dahl_core::{Call, Codelet, Cost, Operands, Param, TaskError};

use super::{
    Done, Lazy, by_type, cpu, dims, elements, expect_operands, expect_window, only, scratch, window,
};
use crate::conv2d::winograd::{self as kernel, Tile};
use crate::simd::Lane;

/// The tile for an output of this height and width, as a parameter.
pub fn tile_for(height: usize, width: usize) -> i64 {
    match Tile::for_output(height, width) {
        Tile::Two => 2,
        Tile::Four => 4,
    }
}

/// The tile of a parameter.
pub fn tile(param: i64) -> Tile {
    if param == 2 { Tile::Two } else { Tile::Four }
}

fn tile_of(params: &[Param], i: usize) -> Tile {
    tile(match params[i] {
        Param::Int(v) => v,
        Param::Float(v) => v as i64,
    })
}

fn flat<'a, T>(view: dahl_core::View<'a, T>) -> Result<&'a [T], TaskError> {
    view.as_slice()
        .ok_or_else(|| TaskError("a transformed filter must be whole".into()))
}

fn filter<T: Lane>(ops: &Operands<'_>) -> Done {
    let (w, mut u) = (ops.read::<T>(0), ops.write::<T>(1));
    let u = u
        .as_slice()
        .ok_or_else(|| TaskError("a transformed filter must be whole".into()))?;
    let tile = tile_of(ops.params(), 0);
    match ops.int(1) {
        0 => kernel::transform_filter(tile, w, u),
        _ => kernel::transform_filter_for_input_grad(tile, w, u),
    }
    Ok(())
}

/// u from w, u.
pub static FILTER: Lazy = Lazy::new(|| {
    let rule = |call: &Call| {
        expect_operands(call, &[2])?;
        let (t, w) = (tile_of(&call.params, 0), dims(call, 0));
        let want = match call.int(1) {
            0 => kernel::filter_len(t, w),
            _ => kernel::filter_for_input_grad_len(t, w),
        };
        super::expect_dims(call, 1, "transformed filter", [1, 1, 1, want])
    };
    Arc::new(
        Codelet::new("winograd_filter")
            .rule(rule)
            .cost(|c| Cost {
                flops: 4.0 * c.shape(1).len() as f64,
                bytes: c.bytes(),
            })
            .with(only(by_type!(filter))),
    )
});

/// Cost of the products: one per point, tile, input and output channel.
fn cost(image: [usize; 4], channels: usize, t: Tile, bytes: f64) -> Cost {
    let (out, points) = if t == Tile::Two { (2, 16) } else { (4, 36) };
    let tiles = image[0] * image[2].div_ceil(out) * image[3].div_ceil(out);
    Cost {
        flops: 2.0 * (tiles * points * image[1] * channels) as f64,
        bytes,
    }
}

fn rule(call: &Call) -> Result<(), String> {
    expect_operands(call, &[3, 4])?;
    let win = expect_window(call)?;
    if !kernel::supports(&win) {
        return Err(format!(
            "kernel {:?} and stride {:?}: only 3×3 and 1×1",
            win.kernel, win.stride
        ));
    }
    Ok(())
}

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let (n, win, tile) = (ops.len(), window(ops.params()), tile_of(ops.params(), 6));
    let (x, u) = (ops.read::<T>(0), flat(ops.read::<T>(1))?);
    let b = (n == 4).then(|| ops.read::<T>(2));
    let y = ops.write::<T>(n - 1);
    let len = kernel::forward_scratch_len(tile, x.dims(), y.dims());
    kernel::forward(tile, x, u, b, ops.int(7) != 0, y, &win, scratch(ops, len));
    Ok(())
}

/// y from x, u, (bias,) y.
pub static FORWARD: Lazy = Lazy::new(|| {
    fn y(call: &Call) -> [usize; 4] {
        dims(call, call.operands.len() - 1)
    }
    Arc::new(
        Codelet::new("conv2d_winograd")
            .rule(rule)
            .cost(|c| cost(y(c), dims(c, 0)[1], tile_of(&c.params, 6), c.bytes()))
            .with(cpu(
                "vector",
                |_| 1.0,
                |c| {
                    elements(
                        c,
                        kernel::forward_scratch_len(tile_of(&c.params, 6), dims(c, 0), y(c)),
                    )
                },
                by_type!(forward),
            )),
    )
});

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let (win, tile) = (window(ops.params()), tile_of(ops.params(), 6));
    let (dy, u, dx) = (ops.read::<T>(0), flat(ops.read::<T>(1))?, ops.write::<T>(2));
    let len = kernel::input_grad_scratch_len(tile, dy.dims(), dx.dims());
    kernel::input_grad(tile, dy, u, dx, &win, scratch(ops, len));
    Ok(())
}

/// dx from dy, u, dx.
pub static INPUT_GRAD: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("conv2d_winograd_input_grad")
            .rule(rule)
            .cost(|c| cost(dims(c, 2), dims(c, 0)[1], tile_of(&c.params, 6), c.bytes()))
            .with(cpu(
                "vector",
                |_| 1.0,
                |c| {
                    elements(
                        c,
                        kernel::input_grad_scratch_len(
                            tile_of(&c.params, 6),
                            dims(c, 0),
                            dims(c, 2),
                        ),
                    )
                },
                by_type!(input_grad),
            )),
    )
});

fn filter_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let (win, tile) = (window(ops.params()), tile_of(ops.params(), 6));
    let (x, dy, mut du) = (ops.read::<T>(0), ops.read::<T>(1), ops.write::<T>(2));
    let du = du
        .as_slice()
        .ok_or_else(|| TaskError("a transformed gradient must be whole".into()))?;
    let len = kernel::filter_grad_scratch_len(tile, x.dims(), dy.dims());
    kernel::filter_grad_accumulate(tile, x, dy, du, &win, scratch(ops, len));
    Ok(())
}

/// du += from x, dy, du.
pub static FILTER_GRAD: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("conv2d_winograd_filter_grad")
            .rule(rule)
            .cost(|c| cost(dims(c, 1), dims(c, 0)[1], tile_of(&c.params, 6), c.bytes()))
            .with(cpu(
                "vector",
                |_| 1.0,
                |c| {
                    elements(
                        c,
                        kernel::filter_grad_scratch_len(
                            tile_of(&c.params, 6),
                            dims(c, 0),
                            dims(c, 1),
                        ),
                    )
                },
                by_type!(filter_grad),
            )),
    )
});

fn filter_finish<T: Lane>(ops: &Operands<'_>) -> Done {
    kernel::filter_grad_finish(
        tile_of(ops.params(), 0),
        flat(ops.read::<T>(0))?,
        ops.write::<T>(1),
    );
    Ok(())
}

/// dw += from du, dw.
pub static FILTER_FINISH: Lazy = Lazy::new(|| {
    Arc::new(
        Codelet::new("winograd_filter_finish")
            .rule(|call| expect_operands(call, &[2]))
            .cost(|c| Cost {
                flops: 4.0 * c.shape(0).len() as f64,
                bytes: c.bytes(),
            })
            .with(only(by_type!(filter_finish))),
    )
});
