//! Layer norm: the last extents of a sample together, as PyTorch's `LayerNorm`.
//!
//! What is normalised has the extents of the scale, and everything before them counts samples: a scale of
//! C×H×W normalises images, one of F rows of features.

use dahl_core::{Array, Call, Codelet, Operands, Recorder};

use super::cost;
use super::kernels::layer as kernel;
use crate::declare::{Shaped, operands, params};
use crate::op::{Done, Op, by_type, like, only};
use crate::simd::Lane;

operands! {
    /// Operands of [`LAYER_NORM`].
    LayerNorm {
        x: one [Read] any "the input",
        scale: one [Read] any "what each element is multiplied by; its extents are the input's last",
        shift: one [Read] any "what is added to each element then, as large as the scale",
        y: one [Write] any "the output, as large as the input",
        statistics: one [Write] 2 "samples × 2: mean, and one over the standard deviation",
    }
}

params! {
    /// The parameter of [`LAYER_NORM`].
    Epsilon {
        epsilon: f64, "what is added to the variance";
    }
}

/// `y = (x − mean) / √(variance + ε) · scale + shift`
pub static LAYER_NORM: Op<LayerNorm, Epsilon> = Op::new(|| {
    let rule = |call: &Call| {
        let all = LayerNorm::shapes(call);
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

operands! {
    /// Operands of [`LAYER_NORM_INPUT_GRAD`].
    LayerNormInputGrad {
        x: one [Read] any "the input",
        dy: one [Read] any "the gradient by the output, as large",
        statistics: one [Read] 2 "what the forward pass wrote",
        scale: one [Read] any "the scale",
        dx: one [Write] any "the gradient by the input, as large",
    }
}

/// `dx = (g − mean(g) − x̂ · mean(g · x̂)) / √(variance + ε)`, `g = dy · scale`
pub static LAYER_NORM_INPUT_GRAD: Op<LayerNormInputGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let all = LayerNormInputGrad::shapes(call);
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

operands! {
    /// Operands of [`LAYER_NORM_AFFINE_GRAD`].
    LayerNormAffineGrad {
        x: one [Read] any "the input",
        dy: one [Read] any "the gradient by the output, as large",
        statistics: one [Read] 2 "what the forward pass wrote",
        dscale: one [Reduce|ReadWrite] any "the gradient by the scale, added to",
        dshift: one [Reduce|ReadWrite] any "the gradient by the shift, added to",
    }
}

/// `dscale += Σ dy · x̂` and `dshift += Σ dy`, over samples.
pub static LAYER_NORM_AFFINE_GRAD: Op<LayerNormAffineGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let all = LayerNormAffineGrad::shapes(call);
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

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = LayerNorm::at(ops.len());
    let Epsilon { epsilon } = Epsilon::of(ops.params());
    let (x, scale, shift) = (ops.read::<T>(at.x), ops.read(at.scale), ops.read(at.shift));
    let (y, statistics) = (ops.write(at.y), ops.write(at.statistics));
    kernel::forward(x, scale, shift, T::from_f64(epsilon), y, statistics);
    Ok(())
}

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = LayerNormInputGrad::at(ops.len());
    let (x, dy) = (ops.read::<T>(at.x), ops.read(at.dy));
    let (statistics, scale) = (ops.read(at.statistics), ops.read(at.scale));
    kernel::input_grad(x, dy, statistics, scale, ops.write(at.dx));
    Ok(())
}

fn affine_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = LayerNormAffineGrad::at(ops.len());
    let (x, dy, statistics) = (
        ops.read::<T>(at.x),
        ops.read(at.dy),
        ops.read(at.statistics),
    );
    kernel::affine_grad(
        x,
        dy,
        statistics,
        ops.write(at.dscale),
        ops.write(at.dshift),
    );
    Ok(())
}

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
    let operands = LayerNorm {
        x: x.read(),
        scale: scale.read(),
        shift: shift.read(),
        y: y.write(),
        statistics: statistics.write(),
    };
    LAYER_NORM.submit(recorder, operands, Epsilon { epsilon });
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
    let operands = LayerNormInputGrad {
        x: x.read(),
        dy: dy.read(),
        statistics: statistics.read(),
        scale: scale.read(),
        dx: dx.write(),
    };
    LAYER_NORM_INPUT_GRAD.submit(recorder, operands, ());
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
    let operands = LayerNormAffineGrad {
        x: x.read(),
        dy: dy.read(),
        statistics: statistics.read(),
        dscale: dscale.reduce(),
        dshift: dshift.reduce(),
    };
    LAYER_NORM_AFFINE_GRAD.submit(recorder, operands, ());
}
