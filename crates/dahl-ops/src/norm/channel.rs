//! Layer norm over the channels of each pixel, as torchvision's `LayerNorm2d`.
//!
//! What others do by turning images to channels last and back is done in place here.

use dahl_core::{Call, Codelet, Recorder, Tensor, Vector};

use super::kernels::channel as kernel;
use super::layer::Epsilon;
use super::operands::{self, Norm, NormAffineGrad, NormInputGrad};
use super::{bodies, cost};
use crate::declare::Shaped;
use crate::op::{Done, Op, by_type, extents, like, only};
use crate::simd::Lane;

/// Refuses statistics that are not two numbers for each pixel of `x`, and rows that are not one for each channel.
fn expect<const N: usize>(
    x: &Shaped,
    statistics: &Shaped,
    rows: [&Shaped; N],
) -> Result<(), String> {
    let [n, c, h, w] = x.dims();
    rows.iter().try_for_each(|r| r.expect([1, 1, 1, c]))?;
    statistics.expect([n, 2, h, w])
}

/// `y = (x − mean) / √(variance + ε) · scale + shift`, over the channels of each pixel.
pub static CHANNEL_NORM: Op<Norm, Epsilon> = Op::new(|| {
    let rule = |call: &Call| {
        let all = Norm::shapes(call);
        expect(&all.x, &all.statistics, [&all.scale, &all.shift])?;
        all.y.expect_like(&all.x)
    };
    Codelet::new("channel_norm")
        .rule(rule)
        .cost(cost)
        .gradients(&["channel_norm_input_grad", "channel_norm_affine_grad"])
        .with(only(by_type!(forward)))
});

/// `dx = (g − mean(g) − x̂ · mean(g · x̂)) / √(variance + ε)`, `g = dy · scale`
pub static CHANNEL_NORM_INPUT_GRAD: Op<NormInputGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let all = NormInputGrad::shapes(call);
        expect(&all.x, &all.statistics, [&all.scale])?;
        all.dy.expect_like(&all.x)?;
        all.dx.expect_like(&all.x)
    };
    Codelet::new("channel_norm_input_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(input_grad)))
});

/// `dscale += Σ dy · x̂` and `dshift += Σ dy`, over samples and pixels.
pub static CHANNEL_NORM_AFFINE_GRAD: Op<NormAffineGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let all = NormAffineGrad::shapes(call);
        expect(&all.x, &all.statistics, [&all.dscale, &all.dshift])?;
        all.dy.expect_like(&all.x)
    };
    Codelet::new("channel_norm_affine_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(affine_grad)))
});

bodies!(kernel);

/// Normalises the channels of each pixel; returns the output and the statistics that gradients need. Forms:
/// [`channel_norm`], [`channel_norm_into`]; gradients: [`channel_norm_input_grad`],
/// [`channel_norm_affine_grad_reduce`].
#[track_caller]
pub fn channel_norm<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    scale: &Vector<'_, T>,
    shift: &Vector<'_, T>,
    epsilon: f64,
) -> (Tensor<'r, T>, Tensor<'r, T>) {
    let [n, _, h, w] = extents(x);
    let (mut y, mut statistics) = (like(recorder, x), recorder.temporary([n, 2, h, w]));
    channel_norm_into(
        recorder,
        x,
        [scale, shift],
        epsilon,
        &mut y,
        &mut statistics,
    );
    (y, statistics)
}

/// As [`channel_norm`], with scale and shift, written to `y` and `statistics` (samples × 2 × height × width).
#[track_caller]
pub fn channel_norm_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    [scale, shift]: [&Vector<'_, T>; 2],
    epsilon: f64,
    y: &mut Tensor<'_, T>,
    statistics: &mut Tensor<'_, T>,
) {
    operands::forward(
        (recorder, &CHANNEL_NORM, Epsilon { epsilon }),
        x,
        [scale, shift],
        y,
        statistics,
    );
}

/// The gradient of [`channel_norm`] by its input. Forms: [`channel_norm_input_grad`],
/// [`channel_norm_input_grad_into`].
#[track_caller]
pub fn channel_norm_input_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    dy: &Tensor<'_, T>,
    statistics: &Tensor<'_, T>,
    scale: &Vector<'_, T>,
) -> Tensor<'r, T> {
    let mut dx = like(recorder, x);
    channel_norm_input_grad_into(recorder, x, dy, statistics, scale, &mut dx);
    dx
}

/// The gradient of [`channel_norm`] by its input, written to `dx`.
#[track_caller]
pub fn channel_norm_input_grad_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    dy: &Tensor<'_, T>,
    statistics: &Tensor<'_, T>,
    scale: &Vector<'_, T>,
    dx: &mut Tensor<'_, T>,
) {
    let task = (recorder, &CHANNEL_NORM_INPUT_GRAD, ());
    operands::input_grad(task, [x, dy], statistics, scale, dx);
}

/// The gradients of [`channel_norm`] by scale and shift, added to `dscale` and `dshift`.
#[track_caller]
pub fn channel_norm_affine_grad_reduce<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    dy: &Tensor<'_, T>,
    statistics: &Tensor<'_, T>,
    [dscale, dshift]: [&mut Vector<'_, T>; 2],
) {
    let task = (recorder, &CHANNEL_NORM_AFFINE_GRAD, ());
    operands::affine_grad(task, [x, dy], statistics, dscale, dshift);
}
