//! The operands that all norms within a sample share, and how tasks on typed arrays are recorded with them.
//!
//! Ranks are open here: which extents scale and statistics must have is each operation's rule.

use dahl_core::{Array, Recorder};

use crate::declare::{ParamSet, operands};
use crate::op::Op;
use crate::simd::Lane;

operands! {
    /// Operands of a norm: [`LAYER_NORM`](super::layer::LAYER_NORM), [`GROUP_NORM`](super::group::GROUP_NORM),
    /// [`CHANNEL_NORM`](super::channel::CHANNEL_NORM).
    Norm {
        x: one [Read] any "the input",
        scale: one [Read] any "what is multiplied by: an element or a channel each",
        shift: one [Read] any "what is added then, as large as the scale",
        y: one [Write] any "the output, as large as the input",
        statistics: one [Write] any "means, and ones over the standard deviations, of what is normalised together",
    }
}

operands! {
    /// Operands of the gradient by the input.
    NormInputGrad {
        x: one [Read] any "the input",
        dy: one [Read] any "the gradient by the output, as large",
        statistics: one [Read] any "what the forward pass wrote",
        scale: one [Read] any "the scale",
        dx: one [Write] any "the gradient by the input, as large",
    }
}

operands! {
    /// Operands of the gradients by scale and shift.
    NormAffineGrad {
        x: one [Read] any "the input",
        dy: one [Read] any "the gradient by the output, as large",
        statistics: one [Read] any "what the forward pass wrote",
        dscale: one [Reduce|ReadWrite] any "the gradient by the scale, added to",
        dshift: one [Reduce|ReadWrite] any "the gradient by the shift, added to",
    }
}

/// Records a norm of typed arrays.
#[track_caller]
pub(super) fn forward<T: Lane, P: ParamSet, const R: usize, const Q: usize, const S: usize>(
    (recorder, op, params): (&Recorder, &Op<Norm, P>, P),
    x: &Array<'_, T, R>,
    [scale, shift]: [&Array<'_, T, Q>; 2],
    y: &mut Array<'_, T, R>,
    statistics: &mut Array<'_, T, S>,
) {
    let operands = Norm {
        x: x.read(),
        scale: scale.read(),
        shift: shift.read(),
        y: y.write(),
        statistics: statistics.write(),
    };
    op.submit(recorder, operands, params);
}

/// Records its gradient by the input.
#[track_caller]
pub(super) fn input_grad<T: Lane, P: ParamSet, const R: usize, const Q: usize, const S: usize>(
    (recorder, op, params): (&Recorder, &Op<NormInputGrad, P>, P),
    [x, dy]: [&Array<'_, T, R>; 2],
    statistics: &Array<'_, T, S>,
    scale: &Array<'_, T, Q>,
    dx: &mut Array<'_, T, R>,
) {
    let operands = NormInputGrad {
        x: x.read(),
        dy: dy.read(),
        statistics: statistics.read(),
        scale: scale.read(),
        dx: dx.write(),
    };
    op.submit(recorder, operands, params);
}

/// Records its gradients by scale and shift.
#[track_caller]
pub(super) fn affine_grad<T: Lane, P: ParamSet, const R: usize, const Q: usize, const S: usize>(
    (recorder, op, params): (&Recorder, &Op<NormAffineGrad, P>, P),
    [x, dy]: [&Array<'_, T, R>; 2],
    statistics: &Array<'_, T, S>,
    dscale: &mut Array<'_, T, Q>,
    dshift: &mut Array<'_, T, Q>,
) {
    let operands = NormAffineGrad {
        x: x.read(),
        dy: dy.read(),
        statistics: statistics.read(),
        dscale: dscale.reduce(),
        dshift: dshift.reduce(),
    };
    op.submit(recorder, operands, params);
}
