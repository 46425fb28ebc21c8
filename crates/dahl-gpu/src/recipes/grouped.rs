//! Convolution in groups of channels and with gaps between kernel positions.

use dahl_ops::conv2d::grouped::Grouping;
use dahl_ops::conv2d::grouped::op::{GroupedGradParams, GroupedParams};
use dahl_ops::conv2d::plain::{FilterGrad, Forward, InputGrad};

use crate::launch::{Arg, Steps, Task};

/// Window, dilation and groups as kernels take them.
fn args(g: &Grouping) -> [Arg; 4] {
    [
        g.window.into(),
        g.dilation[0].into(),
        g.dilation[1].into(),
        g.groups.into(),
    ]
}

/// Within groups of channels.
pub(super) fn forward(t: &Task<'_>, s: &mut Steps) {
    let o = Forward::of(t.tensors);
    let params = GroupedParams::of(t.params);
    let [window, dh, dw, groups] = args(&Grouping::from(&params));
    let args = [
        o.x.into(),
        o.w.into(),
        o.bias.unwrap_or(o.w).into(),
        o.bias.is_some().into(),
        params.relu.into(),
        o.y.into(),
        window,
        dh,
        dw,
        groups,
        o.y.len().into(),
    ];
    s.items("grouped_forward", args, o.y.len());
}

/// The gradient by the input.
pub(super) fn input_grad(t: &Task<'_>, s: &mut Steps) {
    let o = InputGrad::of(t.tensors);
    let [window, dh, dw, groups] = args(&Grouping::from(&GroupedGradParams::of(t.params)));
    let args = [
        o.dy.into(),
        o.w.into(),
        o.dx.into(),
        window,
        dh,
        dw,
        groups,
        o.dx.len().into(),
    ];
    s.items("grouped_input_grad", args, o.dx.len());
}

/// The gradient by the filters.
pub(super) fn filter_grad(t: &Task<'_>, s: &mut Steps) {
    let o = FilterGrad::of(t.tensors);
    let [window, dh, dw, groups] = args(&Grouping::from(&GroupedGradParams::of(t.params)));
    let args = [o.x.into(), o.dy.into(), o.dw.into(), window, dh, dw, groups];
    let [n, _, h, w] = o.dy.dims;
    s.groups("grouped_filter_grad", args, o.dw.len(), n * h * w);
}
