//! Pooling, as PyTorch's `max_pool2d`, `avg_pool2d` and `adaptive_avg_pool2d` (to 1×1).
//!
//! Samples and channels of a split array can be pooled by themselves.
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

use std::sync::Arc;

use dahl_core::{Call, Codelet, Operand, Recorder, Tensor};

use super::{expect_plane, extents, plane, submit_checked};
use crate::codelets::{self, Lazy, expect_dims, expect_operands, expect_window, window_params};
use crate::simd::Lane;
use crate::window::Window;

/// How pooling is done: windows side by side and no padding unless set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool2d {
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
}

impl Pool2d {
    /// Windows of this height and width, side by side.
    pub fn new(kernel: [usize; 2]) -> Self {
        Pool2d {
            kernel,
            stride: kernel,
            padding: [0, 0],
        }
    }

    /// Sets the stride along height and width.
    pub fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// Sets the padding along height and width, at most half the window. It never is a maximum, and
    /// counts as zeros in a mean.
    pub fn padding(mut self, padding: [usize; 2]) -> Self {
        self.padding = padding;
        self
    }

    fn window(&self) -> Window {
        let shift = self
            .padding
            .map(|p| isize::try_from(p).unwrap_or(isize::MAX / 4));
        Window {
            kernel: self.kernel,
            stride: self.stride,
            shift,
        }
    }
}

fn rule(call: &Call) -> Result<(), String> {
    expect_operands(call, &[2, 3])?;
    let win = expect_window(call)?;
    if (0..2).any(|a| win.shift[a].unsigned_abs() > win.kernel[a] / 2) {
        return Err(format!(
            "padding {:?} is more than half the kernel {:?}",
            win.shift, win.kernel
        ));
    }
    expect_plane(call, &win, 1)?;
    let ([n, c, ..], [.., h, w]) = (call.shape(0).dims4(), call.shape(1).dims4());
    let names = ["input", "output", "places"];
    (1..call.operands.len()).try_for_each(|i| expect_dims(call, i, names[i], [n, c, h, w]))
}

static MAX: Lazy = Lazy::new(|| Arc::new(Codelet::new("max_pool2d").rule(rule)));
static AVERAGE: Lazy = Lazy::new(|| Arc::new(Codelet::new("avg_pool2d").rule(rule)));
static GLOBAL: Lazy = Lazy::new(|| {
    Arc::new(Codelet::new("adaptive_avg_pool2d").rule(|call| {
        expect_operands(call, &[2])?;
        let [n, c, ..] = call.shape(0).dims4();
        expect_dims(call, 1, "output", [n, c, 1, 1])
    }))
});

#[track_caller]
fn pooled<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
) -> Tensor<'r, T> {
    let [samples, channels, height, width] = extents(x);
    let [h, w] = plane(&options.window(), [height, width]);
    recorder.temporary([samples, channels, h, w])
}

#[track_caller]
fn max(recorder: &Recorder, operands: &[Operand<'_>], options: Pool2d) {
    let params = window_params(&options.window());
    submit_checked(recorder, &codelets::pool::MAX, &MAX, operands, &params);
}

/// The largest element of each window. Forms: [`max_pool2d`], [`max_pool2d_into`]; with what the
/// gradient needs [`max_pool2d_places`].
#[track_caller]
pub fn max_pool2d<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
) -> Tensor<'r, T> {
    let mut out = pooled(recorder, x, options);
    max_pool2d_into(recorder, x, options, &mut out);
    out
}

/// The largest element of each window, written to `out`.
#[track_caller]
pub fn max_pool2d_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
    out: &mut Tensor<'_, T>,
) {
    max(recorder, &[x.read(), out.write()], options);
}

/// The largest element of each window, and its number in the window, counted row by row.
#[track_caller]
pub fn max_pool2d_places<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
) -> (Tensor<'r, T>, Tensor<'r, T>) {
    let mut out = pooled(recorder, x, options);
    let mut places = pooled(recorder, x, options);
    max(recorder, &[x.read(), out.write(), places.write()], options);
    (out, places)
}

/// The mean of each window. Forms: [`avg_pool2d`], [`avg_pool2d_into`].
#[track_caller]
pub fn avg_pool2d<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
) -> Tensor<'r, T> {
    let mut out = pooled(recorder, x, options);
    avg_pool2d_into(recorder, x, options, &mut out);
    out
}

/// The mean of each window, written to `out`.
#[track_caller]
pub fn avg_pool2d_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
    out: &mut Tensor<'_, T>,
) {
    let (operands, params) = ([x.read(), out.write()], window_params(&options.window()));
    submit_checked(
        recorder,
        &codelets::pool::AVERAGE,
        &AVERAGE,
        &operands,
        &params,
    );
}

/// The mean of each plane, as a plane of 1×1. Forms: [`adaptive_avg_pool2d`],
/// [`adaptive_avg_pool2d_into`].
#[track_caller]
pub fn adaptive_avg_pool2d<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
) -> Tensor<'r, T> {
    let [samples, channels, ..] = extents(x);
    let mut out = recorder.temporary([samples, channels, 1, 1]);
    adaptive_avg_pool2d_into(recorder, x, &mut out);
    out
}

/// The mean of each plane, written to `out`.
#[track_caller]
pub fn adaptive_avg_pool2d_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    out: &mut Tensor<'_, T>,
) {
    let operands = [x.read(), out.write()];
    submit_checked(recorder, &codelets::pool::GLOBAL, &GLOBAL, &operands, &[]);
}
