//! Layer norm: the last extents of a sample together, as PyTorch's `LayerNorm`.
//!
//! What is normalised has the extents of the scale, and everything before them counts samples: a scale of
//! C×H×W normalises images, one of F rows of features.

use dahl_core::{Array, Call, Codelet, Recorder};

use super::kernels::layer as kernel;
use super::operands::{self, Norm, NormAffineGrad, NormInputGrad};
use super::{bodies, cost};
use crate::declare::{Shaped, params};
use crate::op::{Done, Op, by_type, like, only};
use crate::simd::Lane;

params! {
    /// The parameter of [`LAYER_NORM`].
    Epsilon {
        epsilon: f64, "what is added to the variance";
    }
}

/// `y = (x − mean) / √(variance + ε) · scale + shift`
pub static LAYER_NORM: Op<Norm, Epsilon> = Op::new(|| {
    let rule = |call: &Call| {
        let all = Norm::shapes(call);
        let samples = samples(&all.x, &all.scale)?;
        all.shift.expect_like(&all.scale)?;
        all.y.expect_like(&all.x)?;
        all.statistics.expect([1, 1, samples, 2])
    };
    Codelet::new("layer_norm")
        .rule(rule)
        .cost(cost)
        .gradients(&["layer_norm_input_grad", "layer_norm_affine_grad"])
        .with(only(by_type!(forward)))
});

/// `dx = (g − mean(g) − x̂ · mean(g · x̂)) / √(variance + ε)`, `g = dy · scale`
pub static LAYER_NORM_INPUT_GRAD: Op<NormInputGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let all = NormInputGrad::shapes(call);
        let samples = samples(&all.x, &all.scale)?;
        all.dy.expect_like(&all.x)?;
        all.statistics.expect([1, 1, samples, 2])?;
        all.dx.expect_like(&all.x)
    };
    Codelet::new("layer_norm_input_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(input_grad)))
});

/// `dscale += Σ dy · x̂` and `dshift += Σ dy`, over samples.
pub static LAYER_NORM_AFFINE_GRAD: Op<NormAffineGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let all = NormAffineGrad::shapes(call);
        let samples = samples(&all.x, &all.dscale)?;
        all.dy.expect_like(&all.x)?;
        all.statistics.expect([1, 1, samples, 2])?;
        all.dshift.expect_like(&all.dscale)
    };
    Codelet::new("layer_norm_affine_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(affine_grad)))
});

/// How many samples there are, if the scale has the last extents of the input.
fn samples(x: &Shaped, scale: &Shaped) -> Result<usize, String> {
    match kernel::leading(x.dims(), scale.dims()) {
        Some(axes) => Ok(x.dims()[..axes].iter().product()),
        None => Err(format!(
            "{} has shape {}, expected the last extents of {}, which has {}",
            scale.name, scale.shape, x.name, x.shape
        )),
    }
}

bodies!(kernel);

/// Normalises the last `Q` extents of `x`; returns the output and the statistics that gradients need. Forms:
/// [`layer_norm`], [`layer_norm_into`]; gradients: [`layer_norm_input_grad`],
/// [`layer_norm_affine_grad_reduce`].
#[track_caller]
pub fn layer_norm<'r, T: Lane, const R: usize, const Q: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
    scale: &Array<'_, T, Q>,
    shift: &Array<'_, T, Q>,
    epsilon: f64,
) -> (Array<'r, T, R>, Array<'r, T, 2>) {
    let dims = x.shape().dims4();
    let axes = kernel::leading(dims, scale.shape().dims4()).unwrap_or(0);
    let mut y = like(recorder, x);
    let mut statistics = recorder.temporary([dims[..axes].iter().product(), 2]);
    layer_norm_into(recorder, x, scale, shift, epsilon, &mut y, &mut statistics);
    (y, statistics)
}

/// As [`layer_norm`], written to `y` and `statistics` (samples × 2).
#[track_caller]
pub fn layer_norm_into<T: Lane, const R: usize, const Q: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    scale: &Array<'_, T, Q>,
    shift: &Array<'_, T, Q>,
    epsilon: f64,
    y: &mut Array<'_, T, R>,
    statistics: &mut Array<'_, T, 2>,
) {
    operands::forward(
        (recorder, &LAYER_NORM, Epsilon { epsilon }),
        x,
        [scale, shift],
        y,
        statistics,
    );
}

/// The gradient of [`layer_norm`] by its input. Forms: [`layer_norm_input_grad`],
/// [`layer_norm_input_grad_into`].
#[track_caller]
pub fn layer_norm_input_grad<'r, T: Lane, const R: usize, const Q: usize>(
    recorder: &'r Recorder,
    x: &Array<'_, T, R>,
    dy: &Array<'_, T, R>,
    statistics: &Array<'_, T, 2>,
    scale: &Array<'_, T, Q>,
) -> Array<'r, T, R> {
    let mut dx = like(recorder, x);
    layer_norm_input_grad_into(recorder, x, dy, statistics, scale, &mut dx);
    dx
}

/// The gradient of [`layer_norm`] by its input, written to `dx`.
#[track_caller]
pub fn layer_norm_input_grad_into<T: Lane, const R: usize, const Q: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    dy: &Array<'_, T, R>,
    statistics: &Array<'_, T, 2>,
    scale: &Array<'_, T, Q>,
    dx: &mut Array<'_, T, R>,
) {
    let task = (recorder, &LAYER_NORM_INPUT_GRAD, ());
    operands::input_grad(task, [x, dy], statistics, scale, dx);
}

/// The gradients of [`layer_norm`] by scale and shift, added to `dscale` and `dshift`.
#[track_caller]
pub fn layer_norm_affine_grad_reduce<T: Lane, const R: usize, const Q: usize>(
    recorder: &Recorder,
    x: &Array<'_, T, R>,
    dy: &Array<'_, T, R>,
    statistics: &Array<'_, T, 2>,
    dscale: &mut Array<'_, T, Q>,
    dshift: &mut Array<'_, T, Q>,
) {
    let task = (recorder, &LAYER_NORM_AFFINE_GRAD, ());
    operands::affine_grad(task, [x, dy], statistics, dscale, dshift);
}
