//! Convolution of typed arrays: what users call.

use dahl_core::{Recorder, Tensor, Vector};

use super::plain::{
    BIAS_GRAD, BiasGrad, FILTER_GRAD, FORWARD, FilterGrad, Forward, INPUT_GRAD, InputGrad, Params,
    Slide,
};
use crate::op::extents;
use crate::simd::Lane;
use crate::window::Window;

/// How a convolution is done: stride 1 and no padding unless set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    stride: [usize; 2],
    padding: [usize; 2],
    pub(super) relu: bool,
    pub(super) tile: Option<[[usize; 2]; 2]>,
}

impl Default for Conv2d {
    fn default() -> Self {
        Conv2d {
            stride: [1, 1],
            padding: [0, 0],
            relu: false,
            tile: None,
        }
    }
}

impl Conv2d {
    /// Stride 1, no padding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the stride along height and width.
    pub fn stride(mut self, stride: [usize; 2]) -> Self {
        self.stride = stride;
        self
    }

    /// Sets how many zeros surround the input above and below, left and right.
    pub fn padding(mut self, padding: [usize; 2]) -> Self {
        self.padding = padding;
        self
    }

    /// Takes the positive part of the result in the same task.
    pub fn relu(mut self) -> Self {
        self.relu = true;
        self
    }

    /// The operands are tiles: the row and column in the whole input where the input tile starts, and
    /// those in the whole output where the output tile starts. The input tile must hold all that the
    /// output tile needs, for what it lacks counts as padding. Only for [`conv2d_into`].
    pub fn tile(mut self, input: [usize; 2], output: [usize; 2]) -> Self {
        self.tile = Some([input, output]);
        self
    }

    pub(super) fn window(&self, kernel: [usize; 2]) -> Window {
        let signed = |v: usize| isize::try_from(v).unwrap_or(isize::MAX / 4);
        let [input, output] = self.tile.unwrap_or_default();
        let shift = [0, 1].map(|a| {
            let before = signed(output[a].saturating_mul(self.stride[a]));
            signed(input[a])
                .saturating_add(signed(self.padding[a]))
                .saturating_sub(before)
        });
        Window {
            kernel,
            stride: self.stride,
            shift,
        }
    }
}

/// The window of a convolution with these filters.
pub(super) fn window_of<T: Lane>(w: &Tensor<'_, T>, options: &Conv2d) -> Window {
    let [_, _, height, width] = extents(w);
    options.window([height, width])
}

impl Conv2d {
    /// The same for whole arrays.
    fn whole(self) -> Self {
        Conv2d { tile: None, ..self }
    }
}

/// The convolution of `x` (samples × channels × height × width) with the filters `w` (outputs ×
/// channels × height × width). Forms: [`conv2d`], [`conv2d_into`].
#[track_caller]
pub fn conv2d<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    w: &Tensor<'_, T>,
    bias: Option<&Vector<'_, T>>,
    options: Conv2d,
) -> Tensor<'r, T> {
    let options = options.whole();
    let [samples, _, height, width] = extents(x);
    let [h, v] = window_of(w, &options).plane([height, width]);
    let mut y = recorder.temporary([samples, extents(w)[0], h, v]);
    conv2d_into(recorder, x, w, bias, options, &mut y);
    y
}

/// The convolution of `x` with the filters `w`, written to `y`.
#[track_caller]
pub fn conv2d_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    w: &Tensor<'_, T>,
    bias: Option<&Vector<'_, T>>,
    options: Conv2d,
    y: &mut Tensor<'_, T>,
) {
    let params = Params {
        window: window_of(w, &options),
        relu: options.relu,
    };
    let operands = Forward {
        x: x.read(),
        w: w.read(),
        bias: bias.map(|b| b.read()),
        y: y.write(),
    };
    match options.tile {
        None => FORWARD.submit_whole(recorder, operands, params),
        Some(_) => FORWARD.submit(recorder, operands, params),
    }
}

/// The gradient by the input of [`conv2d`], which has this height and width. Forms:
/// [`conv2d_input_grad`], [`conv2d_input_grad_into`].
#[track_caller]
pub fn conv2d_input_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    dy: &Tensor<'_, T>,
    w: &Tensor<'_, T>,
    options: Conv2d,
    input: [usize; 2],
) -> Tensor<'r, T> {
    let mut dx = recorder.temporary([extents(dy)[0], extents(w)[1], input[0], input[1]]);
    conv2d_input_grad_into(recorder, dy, w, options, &mut dx);
    dx
}

/// The gradient by the input of [`conv2d`], written to `dx`. Operands are whole arrays.
#[track_caller]
pub fn conv2d_input_grad_into<T: Lane>(
    recorder: &Recorder,
    dy: &Tensor<'_, T>,
    w: &Tensor<'_, T>,
    options: Conv2d,
    dx: &mut Tensor<'_, T>,
) {
    let window = window_of(w, &options.whole());
    let (dy, w, dx) = (dy.read(), w.read(), dx.write());
    INPUT_GRAD.submit_whole(recorder, InputGrad { dy, w, dx }, Slide { window });
}

/// The gradient by the filters of [`conv2d`], which have this height and width. Forms:
/// [`conv2d_filter_grad`], [`conv2d_filter_grad_reduce`].
#[track_caller]
pub fn conv2d_filter_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    dy: &Tensor<'_, T>,
    options: Conv2d,
    kernel: [usize; 2],
) -> Tensor<'r, T> {
    let mut dw = recorder.temporary([extents(dy)[1], extents(x)[1], kernel[0], kernel[1]]);
    conv2d_filter_grad_reduce(recorder, x, dy, options, &mut dw);
    dw
}

/// `dw +=` the gradient by the filters of [`conv2d`], several tasks at the same time; the graph fixes the
/// order. Operands are whole images.
#[track_caller]
pub fn conv2d_filter_grad_reduce<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    dy: &Tensor<'_, T>,
    options: Conv2d,
    dw: &mut Tensor<'_, T>,
) {
    let window = window_of(dw, &options.whole());
    let (x, dy, dw) = (x.read(), dy.read(), dw.reduce());
    FILTER_GRAD.submit_whole(recorder, FilterGrad { x, dy, dw }, Slide { window });
}

/// The gradient by the bias of [`conv2d`]. Forms: [`conv2d_bias_grad`], [`conv2d_bias_grad_reduce`].
#[track_caller]
pub fn conv2d_bias_grad<'r, T: Lane>(recorder: &'r Recorder, dy: &Tensor<'_, T>) -> Vector<'r, T> {
    let mut db = recorder.temporary([extents(dy)[1]]);
    conv2d_bias_grad_reduce(recorder, dy, &mut db);
    db
}

/// `db +=` the gradient by the bias of [`conv2d`], several tasks at the same time; the graph fixes the
/// order.
#[track_caller]
pub fn conv2d_bias_grad_reduce<T: Lane>(
    recorder: &Recorder,
    dy: &Tensor<'_, T>,
    db: &mut Vector<'_, T>,
) {
    let (dy, db) = (dy.read(), db.reduce());
    BIAS_GRAD.submit(recorder, BiasGrad { dy, db }, ());
}
