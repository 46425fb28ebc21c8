//! Convolution of batches of images, as PyTorch's `conv2d`.
//!
//! Samples and output channels of a split array can be convolved by themselves; tiles of height and
//! width say where they lie, see [`Conv2d::tile`].
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::{Conv2d, conv2d_into};
//!
//! let arena = Arena::new();
//! let x = arena.full([1, 1, 3, 3], 1.0f32)?;
//! let w = arena.full([1, 1, 3, 3], 1.0f32)?;
//! let mut y = arena.zeros::<f32, 4>([1, 1, 2, 2])?;
//! let recorder = Recorder::new();
//! conv2d_into(&recorder, &x, &w, None, Conv2d::new().stride([2, 2]).padding([1, 1]), &mut y);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&y)?, [4.0; 4]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use dahl_core::{Codelet, Param, Recorder, Tensor, Vector};

use super::{expect_plane, extents, plane, submit, submit_checked};
use crate::codelets::{self, Lazy, expect_window, window_params};
use crate::simd::Lane;
use crate::window::Window;

/// How a convolution is done: stride 1 and no padding unless set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2d {
    stride: [usize; 2],
    padding: [usize; 2],
    relu: bool,
    tile: Option<[[usize; 2]; 2]>,
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

    fn window(&self, kernel: [usize; 2]) -> Window {
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

static CHECK: Lazy = Lazy::new(|| {
    Arc::new(Codelet::new("conv2d").rule(|call| {
        (codelets::conv2d::FORWARD.rule)(call)?;
        expect_plane(call, &expect_window(call)?, call.operands.len() - 1)
    }))
});

fn window_of<T: Lane>(w: &Tensor<'_, T>, options: &Conv2d) -> Window {
    let [_, _, height, width] = extents(w);
    options.window([height, width])
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
    let options = Conv2d {
        tile: None,
        ..options
    };
    let [samples, _, height, width] = extents(x);
    let [h, wide] = plane(&window_of(w, &options), [height, width]);
    let mut out = recorder.temporary([samples, extents(w)[0], h, wide]);
    conv2d_into(recorder, x, w, bias, options, &mut out);
    out
}

/// The convolution of `x` with the filters `w`, written to `out`.
#[track_caller]
pub fn conv2d_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    w: &Tensor<'_, T>,
    bias: Option<&Vector<'_, T>>,
    options: Conv2d,
    out: &mut Tensor<'_, T>,
) {
    let mut params = window_params(&window_of(w, &options)).to_vec();
    params.push(Param::Int(i64::from(options.relu)));
    let mut operands = vec![x.read(), w.read()];
    operands.extend(bias.map(|b| b.read()));
    operands.push(out.write());
    let codelet = &codelets::conv2d::FORWARD;
    match options.tile {
        None => submit_checked(recorder, codelet, &CHECK, &operands, &params),
        Some(_) => submit(recorder, codelet, &operands, &params),
    }
}
