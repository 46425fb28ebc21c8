//! Pooling of typed arrays: what users call.

use dahl_core::{Recorder, Tensor};

use super::{AVERAGE, AVERAGE_GRAD, GLOBAL, GLOBAL_GRAD, MAX, MAX_GRAD, Max, MaxGrad, Windows};
use crate::op::extents;
use crate::simd::Lane;
use crate::window::{Planes, PlanesGrad, Window};

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

    fn windows(&self) -> Windows {
        let shift = self
            .padding
            .map(|p| isize::try_from(p).unwrap_or(isize::MAX / 4));
        Windows {
            window: Window {
                kernel: self.kernel,
                stride: self.stride,
                shift,
            },
        }
    }
}

#[track_caller]
fn pooled<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
) -> Tensor<'r, T> {
    let [samples, channels, height, width] = extents(x);
    let [h, w] = options.windows().window.plane([height, width]);
    recorder.temporary([samples, channels, h, w])
}

/// The largest element of each window. Forms: [`max_pool2d`], [`max_pool2d_into`]; with what the
/// gradient needs [`max_pool2d_places`], [`max_pool2d_places_into`].
#[track_caller]
pub fn max_pool2d<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
) -> Tensor<'r, T> {
    let mut y = pooled(recorder, x, options);
    max_pool2d_into(recorder, x, options, &mut y);
    y
}

/// The largest element of each window, written to `y`.
#[track_caller]
pub fn max_pool2d_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
    y: &mut Tensor<'_, T>,
) {
    let operands = Max {
        x: x.read(),
        y: y.write(),
        places: None,
    };
    MAX.submit_whole(recorder, operands, options.windows());
}

/// The largest element of each window, and its number in the window, counted row by row.
#[track_caller]
pub fn max_pool2d_places<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
) -> (Tensor<'r, T>, Tensor<'r, T>) {
    let mut y = pooled(recorder, x, options);
    let mut places = pooled(recorder, x, options);
    max_pool2d_places_into(recorder, x, options, &mut y, &mut places);
    (y, places)
}

/// The largest element of each window, and its number in the window, written to `y` and `places`.
#[track_caller]
pub fn max_pool2d_places_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
    y: &mut Tensor<'_, T>,
    places: &mut Tensor<'_, T>,
) {
    let operands = Max {
        x: x.read(),
        y: y.write(),
        places: Some(places.write()),
    };
    MAX.submit_whole(recorder, operands, options.windows());
}

/// The gradient by the input of [`max_pool2d_places`], which has this height and width. Forms:
/// [`max_pool2d_grad`], [`max_pool2d_grad_into`].
#[track_caller]
pub fn max_pool2d_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    dy: &Tensor<'_, T>,
    places: &Tensor<'_, T>,
    options: Pool2d,
    input: [usize; 2],
) -> Tensor<'r, T> {
    let [samples, channels, ..] = extents(dy);
    let mut dx = recorder.temporary([samples, channels, input[0], input[1]]);
    max_pool2d_grad_into(recorder, dy, places, options, &mut dx);
    dx
}

/// The gradient by the input of [`max_pool2d_places`], written to `dx`.
#[track_caller]
pub fn max_pool2d_grad_into<T: Lane>(
    recorder: &Recorder,
    dy: &Tensor<'_, T>,
    places: &Tensor<'_, T>,
    options: Pool2d,
    dx: &mut Tensor<'_, T>,
) {
    let (dy, places, dx) = (dy.read(), places.read(), dx.write());
    MAX_GRAD.submit_whole(recorder, MaxGrad { dy, places, dx }, options.windows());
}

/// The mean of each window. Forms: [`avg_pool2d`], [`avg_pool2d_into`].
#[track_caller]
pub fn avg_pool2d<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
) -> Tensor<'r, T> {
    let mut y = pooled(recorder, x, options);
    avg_pool2d_into(recorder, x, options, &mut y);
    y
}

/// The mean of each window, written to `y`.
#[track_caller]
pub fn avg_pool2d_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    options: Pool2d,
    y: &mut Tensor<'_, T>,
) {
    let (x, y) = (x.read(), y.write());
    AVERAGE.submit_whole(recorder, Planes { x, y }, options.windows());
}

/// The gradient by the input of [`avg_pool2d`], which has this height and width. Forms:
/// [`avg_pool2d_grad`], [`avg_pool2d_grad_into`].
#[track_caller]
pub fn avg_pool2d_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    dy: &Tensor<'_, T>,
    options: Pool2d,
    input: [usize; 2],
) -> Tensor<'r, T> {
    let [samples, channels, ..] = extents(dy);
    let mut dx = recorder.temporary([samples, channels, input[0], input[1]]);
    avg_pool2d_grad_into(recorder, dy, options, &mut dx);
    dx
}

/// The gradient by the input of [`avg_pool2d`], written to `dx`.
#[track_caller]
pub fn avg_pool2d_grad_into<T: Lane>(
    recorder: &Recorder,
    dy: &Tensor<'_, T>,
    options: Pool2d,
    dx: &mut Tensor<'_, T>,
) {
    let (dy, dx) = (dy.read(), dx.write());
    AVERAGE_GRAD.submit_whole(recorder, PlanesGrad { dy, dx }, options.windows());
}

/// The mean of each plane, as a plane of 1×1. Forms: [`adaptive_avg_pool2d`],
/// [`adaptive_avg_pool2d_into`], which makes planes of any size.
#[track_caller]
pub fn adaptive_avg_pool2d<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
) -> Tensor<'r, T> {
    let [samples, channels, ..] = extents(x);
    let mut y = recorder.temporary([samples, channels, 1, 1]);
    adaptive_avg_pool2d_into(recorder, x, &mut y);
    y
}

/// The means of as many pieces of each plane as `y` has pixels, written there.
#[track_caller]
pub fn adaptive_avg_pool2d_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    y: &mut Tensor<'_, T>,
) {
    let (x, y) = (x.read(), y.write());
    GLOBAL.submit(recorder, Planes { x, y }, ());
}

/// The gradient by the input of [`adaptive_avg_pool2d`], written to `dx`. Form: where told.
#[track_caller]
pub fn adaptive_avg_pool2d_grad_into<T: Lane>(
    recorder: &Recorder,
    dy: &Tensor<'_, T>,
    dx: &mut Tensor<'_, T>,
) {
    let (dy, dx) = (dy.read(), dx.write());
    GLOBAL_GRAD.submit(recorder, PlanesGrad { dy, dx }, ());
}
