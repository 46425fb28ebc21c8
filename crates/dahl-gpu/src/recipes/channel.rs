//! A number for each channel, and the norm over the channels of each pixel.

use dahl_ops::channelwise::{ChannelScale, ChannelScaleGrad, ChannelShift};
use dahl_ops::norm::layer::Epsilon;
use dahl_ops::norm::operands::{Norm, NormAffineGrad, NormInputGrad};

use crate::launch::{Steps, Task};
use crate::tensor::Tensor;

/// Elements of a channel, and pixels: of all samples.
fn pixels(x: Tensor) -> usize {
    x.dims[0] * x.dims[2] * x.dims[3]
}

/// Each channel multiplied by its number.
pub(super) fn scale(t: &Task<'_>, s: &mut Steps) {
    let ChannelScale { x, scale, y } = ChannelScale::of(t.tensors);
    let args = [x.into(), scale.into(), y.into(), x.len().into()];
    s.items("channel_scale", args, x.len());
}

/// The gradient by these numbers.
pub(super) fn scale_grad(t: &Task<'_>, s: &mut Steps) {
    let ChannelScaleGrad { x, dy, dscale } = ChannelScaleGrad::of(t.tensors);
    let args = [x.into(), dy.into(), dscale.into()];
    s.groups("channel_scale_grad", args, x.dims[1], pixels(x));
}

/// To each channel its number added.
pub(super) fn shift(t: &Task<'_>, s: &mut Steps) {
    let ChannelShift { x, shift } = ChannelShift::of(t.tensors);
    s.items(
        "channel_shift",
        [x.into(), shift.into(), x.len().into()],
        x.len(),
    );
}

/// The channels of each pixel normalised.
pub(super) fn norm(t: &Task<'_>, s: &mut Steps) {
    let o = Norm::of(t.tensors);
    let args = [
        o.x.into(),
        o.scale.into(),
        o.shift.into(),
        o.y.into(),
        o.statistics.into(),
        Epsilon::of(t.params).epsilon.into(),
        pixels(o.x).into(),
    ];
    s.items("channel_norm", args, pixels(o.x));
}

/// The gradient by the input.
pub(super) fn norm_input_grad(t: &Task<'_>, s: &mut Steps) {
    let o = NormInputGrad::of(t.tensors);
    let args = [
        o.x.into(),
        o.dy.into(),
        o.statistics.into(),
        o.scale.into(),
        o.dx.into(),
        pixels(o.x).into(),
    ];
    s.items("channel_norm_input_grad", args, pixels(o.x));
}

/// The gradients by scale and shift.
pub(super) fn norm_affine_grad(t: &Task<'_>, s: &mut Steps) {
    let o = NormAffineGrad::of(t.tensors);
    let args = [
        o.x.into(),
        o.dy.into(),
        o.statistics.into(),
        o.dscale.into(),
        o.dshift.into(),
    ];
    s.groups("channel_norm_affine_grad", args, o.x.dims[1], pixels(o.x));
}
