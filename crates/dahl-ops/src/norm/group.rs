//! Group norm: groups of neighbouring channels of a sample together, as PyTorch's `GroupNorm`.
//!
//! Inputs are N×C×H×W; scale and shift have a value per channel.

use dahl_core::{Array, Call, Codelet, Operands, Recorder};

use super::cost;
use super::kernels::group as kernel;
use super::operands::{self, Norm, NormAffineGrad, NormInputGrad};
use crate::declare::{Shaped, params};
use crate::op::{Done, Op, by_type, like, only};
use crate::simd::Lane;

params! {
    /// Parameters of [`GROUP_NORM`].
    GroupNormParams {
        groups: usize, "how many groups the channels are cut into";
        epsilon: f64, "what is added to the variance";
    }
}

params! {
    /// The parameter of the gradients.
    Groups {
        groups: usize, "how many groups the channels are cut into";
    }
}

/// `y = (x − mean) / √(variance + ε) · scale + shift`
pub static GROUP_NORM: Op<Norm, GroupNormParams> = Op::new(|| {
    let rule = |call: &Call| {
        let all = Norm::shapes(call);
        let GroupNormParams { groups, .. } = GroupNormParams::of(&call.params);
        check(&all.x, &all.statistics, groups)?;
        all.scale.expect([1, 1, 1, all.x.dims()[1]])?;
        all.shift.expect_like(&all.scale)?;
        all.y.expect_like(&all.x)
    };
    Codelet::new("group_norm")
        .rule(rule)
        .cost(cost)
        .gradients(&["group_norm_input_grad", "group_norm_affine_grad"])
        .with(only(by_type!(forward)))
});

/// `dx = (g − mean(g) − x̂ · mean(g · x̂)) / √(variance + ε)`, `g = dy · scale`
pub static GROUP_NORM_INPUT_GRAD: Op<NormInputGrad, Groups> = Op::new(|| {
    let rule = |call: &Call| {
        let all = NormInputGrad::shapes(call);
        check(&all.x, &all.statistics, Groups::of(&call.params).groups)?;
        all.scale.expect([1, 1, 1, all.x.dims()[1]])?;
        all.dy.expect_like(&all.x)?;
        all.dx.expect_like(&all.x)
    };
    Codelet::new("group_norm_input_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(input_grad)))
});

/// `dscale += Σ dy · x̂` and `dshift += Σ dy`, over samples.
pub static GROUP_NORM_AFFINE_GRAD: Op<NormAffineGrad, Groups> = Op::new(|| {
    let rule = |call: &Call| {
        let all = NormAffineGrad::shapes(call);
        check(&all.x, &all.statistics, Groups::of(&call.params).groups)?;
        all.dscale.expect([1, 1, 1, all.x.dims()[1]])?;
        all.dy.expect_like(&all.x)?;
        all.dshift.expect_like(&all.dscale)
    };
    Codelet::new("group_norm_affine_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(affine_grad)))
});

/// Refuses channels that cannot be cut into groups, and statistics of other extents.
fn check(x: &Shaped, statistics: &Shaped, groups: usize) -> Result<(), String> {
    let [samples, channels, ..] = x.dims();
    if groups == 0 || !channels.is_multiple_of(groups) {
        return Err(format!(
            "{} has {channels} channels, which cannot be cut into {groups} groups",
            x.name
        ));
    }
    statistics.expect([1, 1, samples, 2 * groups])
}

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = Norm::at(ops.len());
    let GroupNormParams { groups, epsilon } = GroupNormParams::of(ops.params());
    let (x, scale, shift) = (ops.read::<T>(at.x), ops.read(at.scale), ops.read(at.shift));
    let (y, statistics) = (ops.write(at.y), ops.write(at.statistics));
    kernel::forward(x, scale, shift, groups, T::from_f64(epsilon), y, statistics);
    Ok(())
}

fn input_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = NormInputGrad::at(ops.len());
    let (x, dy) = (ops.read::<T>(at.x), ops.read(at.dy));
    let (statistics, scale) = (ops.read(at.statistics), ops.read(at.scale));
    let Groups { groups } = Groups::of(ops.params());
    kernel::input_grad(x, dy, statistics, scale, groups, ops.write(at.dx));
    Ok(())
}

fn affine_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = NormAffineGrad::at(ops.len());
    let (x, dy, statistics) = (
        ops.read::<T>(at.x),
        ops.read(at.dy),
        ops.read(at.statistics),
    );
    let (dscale, dshift) = (ops.write(at.dscale), ops.write(at.dshift));
    let Groups { groups } = Groups::of(ops.params());
    kernel::affine_grad(x, dy, statistics, groups, dscale, dshift);
    Ok(())
}

/// Normalises groups of channels; returns the output and the statistics that gradients need. Forms:
/// [`group_norm`], [`group_norm_into`]; gradients: [`group_norm_input_grad`],
/// [`group_norm_affine_grad_reduce`].
#[track_caller]
pub fn group_norm<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Array<'_, T, 4>,
    scale: &Array<'_, T, 1>,
    shift: &Array<'_, T, 1>,
    params: GroupNormParams,
) -> (Array<'r, T, 4>, Array<'r, T, 2>) {
    let mut y = like(recorder, x);
    let mut statistics = recorder.temporary([x.shape().dims4()[0], 2 * params.groups.max(1)]);
    group_norm_into(recorder, x, scale, shift, params, &mut y, &mut statistics);
    (y, statistics)
}

/// As [`group_norm`], written to `y` and `statistics` (samples × 2·groups).
#[track_caller]
pub fn group_norm_into<T: Lane>(
    recorder: &Recorder,
    x: &Array<'_, T, 4>,
    scale: &Array<'_, T, 1>,
    shift: &Array<'_, T, 1>,
    params: GroupNormParams,
    y: &mut Array<'_, T, 4>,
    statistics: &mut Array<'_, T, 2>,
) {
    operands::forward(
        (recorder, &GROUP_NORM, params),
        x,
        [scale, shift],
        y,
        statistics,
    );
}

/// The gradient of [`group_norm`] by its input. Forms: [`group_norm_input_grad`],
/// [`group_norm_input_grad_into`].
#[track_caller]
pub fn group_norm_input_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Array<'_, T, 4>,
    dy: &Array<'_, T, 4>,
    statistics: &Array<'_, T, 2>,
    scale: &Array<'_, T, 1>,
    groups: usize,
) -> Array<'r, T, 4> {
    let mut dx = like(recorder, x);
    group_norm_input_grad_into(recorder, x, dy, statistics, scale, groups, &mut dx);
    dx
}

/// The gradient of [`group_norm`] by its input, written to `dx`.
#[track_caller]
pub fn group_norm_input_grad_into<T: Lane>(
    recorder: &Recorder,
    x: &Array<'_, T, 4>,
    dy: &Array<'_, T, 4>,
    statistics: &Array<'_, T, 2>,
    scale: &Array<'_, T, 1>,
    groups: usize,
    dx: &mut Array<'_, T, 4>,
) {
    let task = (recorder, &GROUP_NORM_INPUT_GRAD, Groups { groups });
    operands::input_grad(task, [x, dy], statistics, scale, dx);
}

/// The gradients of [`group_norm`] by scale and shift, added to `dscale` and `dshift`.
#[track_caller]
pub fn group_norm_affine_grad_reduce<T: Lane>(
    recorder: &Recorder,
    x: &Array<'_, T, 4>,
    dy: &Array<'_, T, 4>,
    statistics: &Array<'_, T, 2>,
    groups: usize,
    dscale: &mut Array<'_, T, 1>,
    dshift: &mut Array<'_, T, 1>,
) {
    let task = (recorder, &GROUP_NORM_AFFINE_GRAD, Groups { groups });
    operands::affine_grad(task, [x, dy], statistics, dscale, dshift);
}
