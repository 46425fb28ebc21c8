//! Pooling: the largest or the mean of each window, the means of pieces of whole planes, and their gradients, as
//! PyTorch's `max_pool2d`, `avg_pool2d` and `adaptive_avg_pool2d`.
//!
//! Padding never wins a maximum, and counts in a mean unless told otherwise. Positions outside the input
//! view are padding, see [`crate::window`]. Samples and channels of a split array can be pooled by
//! themselves.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::{Pool2d, max_pool2d_into};
//!
//! let arena = Arena::new();
//! let x = arena.from_slice([1, 1, 2, 2], &[1.0f32, 4.0, 3.0, 2.0])?;
//! let mut y = arena.zeros::<f32, 4>([1, 1, 1, 1])?;
//! let recorder = Recorder::new();
//! max_pool2d_into(&recorder, &x, Pool2d::new([2, 2]), &mut y);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&y)?, [4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod average;
pub(crate) mod max;
mod typed;

use dahl_core::{Call, Codelet, Cost, Operands};

use crate::declare::{Shaped, operands, params};
use crate::op::{Done, Op, by_type, only};
use crate::simd::Lane;
use crate::window::{Planes, PlanesGrad, Window, expect_channels};

pub use typed::*;

operands! {
    /// Operands of [`MAX`].
    Max {
        x: one [Read] 4 "the input: samples × channels × height × width",
        y: one [Write] 4 "each window's largest element",
        places: maybe [Write] 4 "its number in the window, row by row, as large as y",
    }
}

operands! {
    /// Operands of [`MAX_GRAD`].
    MaxGrad {
        dy: one [Read] 4 "the gradient by the output",
        places: one [Read] 4 "where each window's largest element was, as large",
        dx: one [Write] 4 "the gradient by the input",
    }
}

params! {
    /// The parameter of pooling by windows.
    Windows {
        window: Window, "kernel, stride and shift, each along height and width";
    }
}

fn cost(call: &Call) -> Cost {
    let largest = call.operands.iter().map(|(s, _)| s.len()).max();
    Cost {
        flops: largest.unwrap_or(0) as f64,
        bytes: call.bytes(),
    }
}

/// A window, and input and output of the same samples and channels.
fn windowed(call: &Call, x: &Shaped, y: &Shaped) -> Result<Window, String> {
    let win = Windows::of(&call.params).window;
    win.check()?;
    expect_channels(x, y)?;
    Ok(win)
}

/// What whole arrays satisfy besides: padding within PyTorch's bounds, and an output of the right size.
fn whole(win: &Window, x: &Shaped, y: &Shaped) -> Result<(), String> {
    if (0..2).any(|a| win.shift[a].unsigned_abs() > win.kernel[a] / 2) {
        let (p, k) = (win.shift, win.kernel);
        return Err(format!("padding {p:?} is more than half the kernel {k:?}"));
    }
    win.expect_plane(x, y)
}

/// The largest element of each window, and where it is.
pub static MAX: Op<Max, Windows> = Op::new(|| {
    let rule = |call: &Call| {
        let Max { x, y, places } = Max::shapes(call);
        windowed(call, &x, &y)?;
        places.map_or(Ok(()), |p| p.expect_like(&y))
    };
    let whole = |call: &Call| {
        let Max { x, y, .. } = Max::shapes(call);
        whole(&Windows::of(&call.params).window, &x, &y)
    };
    Codelet::new("max_pool2d")
        .rule(rule)
        .whole(whole)
        .cost(cost)
        .gradients(&["max_pool2d_grad"])
        .with(only(by_type!(max_forward)))
});

/// The gradient goes to where the largest elements were.
pub static MAX_GRAD: Op<MaxGrad, Windows> = Op::new(|| {
    let rule = |call: &Call| {
        let MaxGrad { dy, places, dx } = MaxGrad::shapes(call);
        places.expect_like(&dy)?;
        windowed(call, &dx, &dy).map(|_| ())
    };
    let whole = |call: &Call| {
        let MaxGrad { dy, dx, .. } = MaxGrad::shapes(call);
        whole(&Windows::of(&call.params).window, &dx, &dy)
    };
    Codelet::new("max_pool2d_grad")
        .rule(rule)
        .whole(whole)
        .cost(cost)
        .with(only(by_type!(max_backward)))
});

/// The mean of each window.
pub static AVERAGE: Op<Planes, Windows> = Op::new(|| {
    let rule = |call: &Call| {
        let Planes { x, y } = Planes::shapes(call);
        windowed(call, &x, &y).map(|_| ())
    };
    let whole = |call: &Call| {
        let Planes { x, y } = Planes::shapes(call);
        whole(&Windows::of(&call.params).window, &x, &y)
    };
    Codelet::new("avg_pool2d")
        .rule(rule)
        .whole(whole)
        .cost(cost)
        .gradients(&["avg_pool2d_grad"])
        .with(only(by_type!(mean)))
});

/// The gradient is shared among each window's elements.
pub static AVERAGE_GRAD: Op<PlanesGrad, Windows> = Op::new(|| {
    let rule = |call: &Call| {
        let PlanesGrad { dy, dx } = PlanesGrad::shapes(call);
        windowed(call, &dx, &dy).map(|_| ())
    };
    let whole = |call: &Call| {
        let PlanesGrad { dy, dx } = PlanesGrad::shapes(call);
        whole(&Windows::of(&call.params).window, &dx, &dy)
    };
    Codelet::new("avg_pool2d_grad")
        .rule(rule)
        .whole(whole)
        .cost(cost)
        .with(only(by_type!(mean_grad)))
});

/// The mean of each plane, or of as many pieces of it as the output has pixels.
pub static GLOBAL: Op<Planes> = Op::new(|| {
    let rule = |call: &Call| {
        let Planes { x, y } = Planes::shapes(call);
        expect_channels(&x, &y)
    };
    Codelet::new("adaptive_avg_pool2d")
        .rule(rule)
        .cost(cost)
        .gradients(&["adaptive_avg_pool2d_grad"])
        .with(only(by_type!(plane_mean)))
});

/// The gradient is shared among the elements of each piece.
pub static GLOBAL_GRAD: Op<PlanesGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let PlanesGrad { dy, dx } = PlanesGrad::shapes(call);
        expect_channels(&dx, &dy)
    };
    Codelet::new("adaptive_avg_pool2d_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(plane_mean_grad)))
});

fn max_forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, win) = (Max::at(ops.len()), Windows::of(ops.params()).window);
    let places = at.places.map(|p| ops.write::<T>(p));
    max::forward(ops.read::<T>(at.x), ops.write::<T>(at.y), places, &win);
    Ok(())
}

fn max_backward<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, win) = (MaxGrad::at(ops.len()), Windows::of(ops.params()).window);
    let (dy, places) = (ops.read::<T>(at.dy), ops.read::<T>(at.places));
    max::backward(dy, places, ops.write::<T>(at.dx), &win);
    Ok(())
}

fn mean<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, win) = (Planes::at(ops.len()), Windows::of(ops.params()).window);
    let (x, y) = (ops.read::<T>(at.x), ops.write::<T>(at.y));
    average::forward(x, y, &win);
    Ok(())
}

fn mean_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, win) = (PlanesGrad::at(ops.len()), Windows::of(ops.params()).window);
    let (dy, dx) = (ops.read::<T>(at.dy), ops.write::<T>(at.dx));
    average::backward(dy, dx, &win);
    Ok(())
}

fn plane_mean<T: Lane>(ops: &Operands<'_>) -> Done {
    let Planes { x, y } = Planes::at(ops.len());
    average::adaptive(ops.read::<T>(x), ops.write::<T>(y));
    Ok(())
}

fn plane_mean_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let PlanesGrad { dy, dx } = PlanesGrad::at(ops.len());
    average::adaptive_backward(ops.read::<T>(dy), ops.write::<T>(dx));
    Ok(())
}

#[cfg(test)]
pub(crate) mod testing {
    use crate::window::Window;

    /// Input extents, output extents and window, with and without padding and overlap.
    pub fn cases() -> Vec<([usize; 4], [usize; 4], Window)> {
        [
            ([2, 3, 8, 10], 2, 2, 0),
            ([1, 2, 9, 37], 2, 2, 0),
            ([1, 1, 7, 7], 3, 2, 1),
            ([2, 1, 6, 5], 3, 1, 1),
            ([1, 2, 5, 9], 3, 3, 0),
            ([1, 1, 4, 4], 2, 2, 1),
        ]
        .into_iter()
        .map(|(x, k, s, p): ([usize; 4], usize, usize, usize)| {
            let out = |n: usize| (n + 2 * p - k) / s + 1;
            let shift = [p as isize; 2];
            (
                x,
                [x[0], x[1], out(x[2]), out(x[3])],
                Window {
                    kernel: [k; 2],
                    stride: [s; 2],
                    shift,
                },
            )
        })
        .collect()
    }

    /// Distinct numbers in no order.
    pub fn numbers(n: usize) -> Vec<f64> {
        (0..n)
            .map(|i| (i * 7919 % 10007) as f64 / 5003.0 - 1.0)
            .collect()
    }
}
