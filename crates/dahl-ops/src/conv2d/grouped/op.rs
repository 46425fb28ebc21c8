//! The operations of grouped and dilated convolution: operands, and the gradient of the bias, are those of ordinary ones.

use dahl_core::{Array, Call, Codelet, Cost, Implementation, Operands, Recorder};

use super::{Grouping, direct, grad, per_group, planes, reference};
use crate::conv2d::plain::{FilterGrad, Forward, InputGrad};
use crate::declare::{Shaped, params};
use crate::op::{Done, Op, by_type, cpu, elements};
use crate::simd::Lane;
use crate::window::Window;

params! {
    /// Parameters of [`FORWARD`].
    GroupedParams {
        window: Window, "kernel, stride and shift (the padding, of whole arrays)";
        dilation: [usize; 2], "distance between kernel positions along height and width";
        groups: usize, "how many groups the channels are cut into";
        relu: bool, "whether the positive part is taken";
    }
}

params! {
    /// Parameters of the gradients.
    GroupedGradParams {
        window: Window, "kernel, stride and shift, as in the forward pass";
        dilation: [usize; 2], "distance between kernel positions, as in the forward pass";
        groups: usize, "how many groups, as in the forward pass";
    }
}

impl From<&GroupedParams> for Grouping {
    fn from(p: &GroupedParams) -> Self {
        Grouping {
            window: p.window,
            dilation: p.dilation,
            groups: p.groups,
        }
    }
}

impl From<&GroupedGradParams> for Grouping {
    fn from(p: &GroupedGradParams) -> Self {
        Grouping {
            window: p.window,
            dilation: p.dilation,
            groups: p.groups,
        }
    }
}

/// What input, filter and output have of each other.
fn rule(x: &Shaped, filter: &Shaped, y: &Shaped, g: &Grouping) -> Result<(), String> {
    let (from, to) = (x.dims(), y.dims());
    g.window.check()?;
    if from[0] != to[0] {
        return Err(format!(
            "{} has {} samples, {} has {}",
            x.name, from[0], y.name, to[0]
        ));
    }
    g.check(from[1], to[1], filter.dims())
}

/// What whole arrays must satisfy too: planes of the extents that the window makes.
fn whole(x: &Shaped, y: &Shaped, g: &Grouping) -> Result<(), String> {
    let ([_, _, h, w], [n, o, ..]) = (x.dims(), y.dims());
    match plane(g, [h, w]) {
        Some([h, w]) => y.expect([n, o, h, w]),
        None => Err(format!(
            "kernel {:?} with dilation {:?} does not fit {} of shape {} with padding {:?}",
            g.window.kernel, g.dilation, x.name, x.shape, g.window.shift
        )),
    }
}

/// The output's height and width for a whole input.
fn plane(g: &Grouping, input: [usize; 2]) -> Option<[usize; 2]> {
    let along = |a: usize| {
        let padded = input[a].checked_add_signed(2 * g.window.shift[a])?;
        let reach = g.dilation[a].checked_mul(g.window.kernel[a].checked_sub(1)?)?;
        let room = padded.checked_sub(reach.checked_add(1)?)?;
        room.checked_div(g.window.stride[a]).map(|steps| steps + 1)
    };
    Some([along(0)?, along(1)?])
}

fn cost_of(call: &Call, y: [usize; 4], filter: [usize; 4]) -> Cost {
    let taps: usize = filter[1..].iter().product();
    Cost {
        flops: 2.0 * (y.iter().product::<usize>() * taps) as f64,
        bytes: call.bytes(),
    }
}

/// Vectors along rows suit few channels to a group, matrix products many.
fn direct_weight(channels: usize) -> f64 {
    if channels < 8 { 1.0 } else { 4.0 }
}

fn product_weight(channels: usize) -> f64 {
    if channels < 8 { 8.0 } else { 1.0 }
}

/// The extents of a task, whichever of the three it computes from the other two.
struct Extents {
    x: Shaped,
    filter: Shaped,
    y: Shaped,
    grouping: Grouping,
}

impl Extents {
    fn scratch(&self) -> usize {
        per_group::scratch_len(self.x.dims(), self.y.dims(), &self.grouping)
    }

    fn channels(&self) -> usize {
        self.filter.dims()[1]
    }

    /// Whether planes with zeros around them are of a reasonable size; gaps may be as large as anybody likes.
    fn fits(&self) -> bool {
        planes::fit(self.x.dims(), self.y.dims(), &self.grouping)
    }
}

/// Operands of which [`Extents`] are known.
trait Convolution {
    fn extents(call: &Call) -> Extents;
    /// Elements of scratch memory of `direct`, by the extents of input and output.
    const SCRATCH: fn([usize; 4], [usize; 4], &Grouping) -> usize;
}

impl Convolution for Forward {
    const SCRATCH: fn([usize; 4], [usize; 4], &Grouping) -> usize = direct::scratch_len;

    fn extents(call: &Call) -> Extents {
        let Forward { x, w, y, .. } = Forward::shapes(call);
        let grouping = Grouping::from(&GroupedParams::of(&call.params));
        Extents {
            x,
            filter: w,
            y,
            grouping,
        }
    }
}

impl Convolution for InputGrad {
    const SCRATCH: fn([usize; 4], [usize; 4], &Grouping) -> usize = direct::input_scratch_len;

    fn extents(call: &Call) -> Extents {
        let all = InputGrad::shapes(call);
        Extents {
            x: all.dx,
            filter: all.w,
            y: all.dy,
            grouping: Grouping::from(&GroupedGradParams::of(&call.params)),
        }
    }
}

impl Convolution for FilterGrad {
    const SCRATCH: fn([usize; 4], [usize; 4], &Grouping) -> usize = grad::scratch_len;

    fn extents(call: &Call) -> Extents {
        let all = FilterGrad::shapes(call);
        Extents {
            x: all.x,
            filter: all.dw,
            y: all.dy,
            grouping: Grouping::from(&GroupedGradParams::of(&call.params)),
        }
    }
}

type Run = fn(&Operands<'_>) -> Done;

/// A codelet with the three implementations.
fn codelet<C: Convolution>(name: &str, reference: Run, direct: Run, product: Run) -> Codelet {
    Codelet::new(name)
        .rule(|call| {
            let all = C::extents(call);
            rule(&all.x, &all.filter, &all.y, &all.grouping)
        })
        .whole(|call| {
            let all = C::extents(call);
            whole(&all.x, &all.y, &all.grouping)
        })
        .cost(|call| {
            let all = C::extents(call);
            cost_of(call, all.y.dims(), all.filter.dims())
        })
        .with(cpu("reference", |_| 100.0, |_| 0, reference))
        .with(Implementation {
            supports: |call| C::extents(call).fits(),
            ..cpu(
                "direct",
                |call| direct_weight(C::extents(call).channels()),
                |call| {
                    let all = C::extents(call);
                    let len = match all.fits() {
                        true => C::SCRATCH(all.x.dims(), all.y.dims(), &all.grouping),
                        false => 0,
                    };
                    elements(call, len)
                },
                direct,
            )
        })
        .with(Implementation {
            supports: |call| per_group::supports(&C::extents(call).grouping),
            ..cpu(
                "per_group",
                |call| product_weight(C::extents(call).channels()),
                |call| elements(call, C::extents(call).scratch()),
                product,
            )
        })
}

/// `y = x ∗ filter (+ bias) (then the positive part)`, within groups of channels.
pub static FORWARD: Op<Forward, GroupedParams> = Op::new(|| {
    let rule = |call: &Call| {
        let all = <Forward>::extents(call);
        if let Some(bias) = &Forward::shapes(call).bias {
            bias.expect([1, 1, 1, all.y.dims()[1]])?;
        }
        rule(&all.x, &all.filter, &all.y, &all.grouping)
    };
    codelet::<Forward>(
        "conv2d_grouped",
        by_type!(forward_reference),
        by_type!(forward_direct),
        by_type!(forward_per_group),
    )
    .rule(rule)
    .gradients(&[
        "conv2d_grouped_input_grad",
        "conv2d_grouped_filter_grad",
        "conv2d_bias_grad",
    ])
});

/// `dx`, overwritten.
pub static INPUT_GRAD: Op<InputGrad, GroupedGradParams> = Op::new(|| {
    codelet::<InputGrad>(
        "conv2d_grouped_input_grad",
        by_type!(input_grad_reference),
        by_type!(input_grad_direct),
        by_type!(input_grad_per_group),
    )
});

/// `dfilter += `, over samples and pixels.
pub static FILTER_GRAD: Op<FilterGrad, GroupedGradParams> = Op::new(|| {
    codelet::<FilterGrad>(
        "conv2d_grouped_filter_grad",
        by_type!(filter_grad_reference),
        by_type!(filter_grad_direct),
        by_type!(filter_grad_per_group),
    )
});

fn forward<T: Lane>(ops: &Operands<'_>, how: How) -> Done {
    let at = Forward::at(ops.len());
    let params = GroupedParams::of(ops.params());
    let (x, w) = (ops.read::<T>(at.x), ops.read::<T>(at.w));
    let (bias, y) = (at.bias.map(|b| ops.read::<T>(b)), ops.write::<T>(at.y));
    let (g, relu) = (Grouping::from(&params), params.relu);
    match how {
        How::Reference => reference::forward(x, w, bias, relu, y, &g),
        How::Direct => {
            let scratch = ops.scratch(direct::scratch_len(x.dims(), y.dims(), &g));
            direct::forward(x, w, bias, relu, y, &g, scratch);
        }
        How::PerGroup => {
            let scratch = ops.scratch(per_group::scratch_len(x.dims(), y.dims(), &g));
            per_group::forward(x, w, bias, relu, y, &g, scratch);
        }
    }
    Ok(())
}

fn input_grad<T: Lane>(ops: &Operands<'_>, how: How) -> Done {
    let at = InputGrad::at(ops.len());
    let g = Grouping::from(&GroupedGradParams::of(ops.params()));
    let (dy, w) = (ops.read::<T>(at.dy), ops.read::<T>(at.w));
    let dx = ops.write::<T>(at.dx);
    match how {
        How::Reference => reference::input_grad(dy, w, dx, &g),
        How::Direct => {
            let scratch = ops.scratch(direct::input_scratch_len(dx.dims(), dy.dims(), &g));
            direct::input_grad(dy, w, dx, &g, scratch);
        }
        How::PerGroup => {
            let scratch = ops.scratch(per_group::scratch_len(dx.dims(), dy.dims(), &g));
            per_group::input_grad(dy, w, dx, &g, scratch);
        }
    }
    Ok(())
}

fn filter_grad<T: Lane>(ops: &Operands<'_>, how: How) -> Done {
    let at = FilterGrad::at(ops.len());
    let g = Grouping::from(&GroupedGradParams::of(ops.params()));
    let (x, dy) = (ops.read::<T>(at.x), ops.read::<T>(at.dy));
    let dw = ops.write::<T>(at.dw);
    match how {
        How::Reference => reference::filter_grad(x, dy, dw, &g),
        How::Direct => {
            let scratch = ops.scratch(grad::scratch_len(x.dims(), dy.dims(), &g));
            grad::filter_grad(x, dy, dw, &g, scratch);
        }
        How::PerGroup => {
            let scratch = ops.scratch(per_group::scratch_len(x.dims(), dy.dims(), &g));
            per_group::filter_grad(x, dy, dw, &g, scratch);
        }
    }
    Ok(())
}

/// Which implementation.
#[derive(Clone, Copy)]
enum How {
    Reference,
    Direct,
    PerGroup,
}

macro_rules! bodies {
    ($($body:ident: $of:ident, $how:ident;)+) => {
        $(fn $body<T: Lane>(ops: &Operands<'_>) -> Done {
            $of::<T>(ops, How::$how)
        })+
    };
}

bodies! {
    forward_reference: forward, Reference;
    forward_direct: forward, Direct;
    forward_per_group: forward, PerGroup;
    input_grad_reference: input_grad, Reference;
    input_grad_direct: input_grad, Direct;
    input_grad_per_group: input_grad, PerGroup;
    filter_grad_reference: filter_grad, Reference;
    filter_grad_direct: filter_grad, Direct;
    filter_grad_per_group: filter_grad, PerGroup;
}

/// Convolves within groups of channels. Forms: [`conv2d_grouped`], [`conv2d_grouped_into`]; gradients:
/// [`conv2d_grouped_input_grad_into`], [`conv2d_grouped_filter_grad_reduce`].
#[track_caller]
pub fn conv2d_grouped<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Array<'_, T, 4>,
    filter: &Array<'_, T, 4>,
    bias: Option<&Array<'_, T, 1>>,
    params: GroupedParams,
) -> Array<'r, T, 4> {
    let ([n, _, h, w], [o, ..]) = (x.shape().dims4(), filter.shape().dims4());
    let [h, w] = plane(&Grouping::from(&params), [h, w]).unwrap_or([1, 1]);
    let mut y = recorder.temporary([n, o, h, w]);
    conv2d_grouped_into(recorder, x, filter, bias, params, &mut y);
    y
}

/// As [`conv2d_grouped`], written to `y`.
#[track_caller]
pub fn conv2d_grouped_into<T: Lane>(
    recorder: &Recorder,
    x: &Array<'_, T, 4>,
    filter: &Array<'_, T, 4>,
    bias: Option<&Array<'_, T, 1>>,
    params: GroupedParams,
    y: &mut Array<'_, T, 4>,
) {
    let operands = Forward {
        x: x.read(),
        w: filter.read(),
        bias: bias.map(|b| b.read()),
        y: y.write(),
    };
    FORWARD.submit_whole(recorder, operands, params);
}

/// The gradient of [`conv2d_grouped`] by its input, written to `dx`.
#[track_caller]
pub fn conv2d_grouped_input_grad_into<T: Lane>(
    recorder: &Recorder,
    dy: &Array<'_, T, 4>,
    filter: &Array<'_, T, 4>,
    params: GroupedGradParams,
    dx: &mut Array<'_, T, 4>,
) {
    let operands = InputGrad {
        dy: dy.read(),
        w: filter.read(),
        dx: dx.write(),
    };
    INPUT_GRAD.submit_whole(recorder, operands, params);
}

/// The gradient of [`conv2d_grouped`] by its filter, added to `dfilter`.
#[track_caller]
pub fn conv2d_grouped_filter_grad_reduce<T: Lane>(
    recorder: &Recorder,
    x: &Array<'_, T, 4>,
    dy: &Array<'_, T, 4>,
    params: GroupedGradParams,
    dfilter: &mut Array<'_, T, 4>,
) {
    let operands = FilterGrad {
        x: x.read(),
        dy: dy.read(),
        dw: dfilter.reduce(),
    };
    FILTER_GRAD.submit_whole(recorder, operands, params);
}
