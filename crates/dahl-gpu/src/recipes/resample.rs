//! Images of another height and width.

use dahl_ops::upsample::Resampling;
use dahl_ops::window::{Planes, PlanesGrad};

use crate::launch::{Steps, Task};
use crate::tensor::Tensor;

fn resample(kernel: &'static str, from: Tensor, to: Tensor, t: &Task<'_>, s: &mut Steps) {
    let how = Resampling::of(t.params);
    let args = [
        from.into(),
        to.into(),
        how.bilinear.into(),
        how.align_corners.into(),
        to.len().into(),
    ];
    s.items(kernel, args, to.len());
}

/// Each output pixel from the input.
pub(super) fn forward(t: &Task<'_>, s: &mut Steps) {
    let Planes { x, y } = Planes::of(t.tensors);
    resample("resample", x, y, t, s);
}

/// Each output's gradient goes where its value came from.
pub(super) fn backward(t: &Task<'_>, s: &mut Steps) {
    let PlanesGrad { dy, dx } = PlanesGrad::of(t.tensors);
    resample("resample_grad", dy, dx, t, s);
}
