//! One number for each channel of images: multiplied by it, or added.
//!
//! A scale per channel is what ConvNeXt calls layer scale; its gradient by the input is the same operation.
//! A shift per channel is the bias of a transposed convolution; its gradient is that of any convolution's bias.

use dahl_core::{Call, Codelet, Cost, Operands, Recorder, Tensor, Vector, View, ViewMut};

use crate::declare::{Shaped, operands};
use crate::elementwise::walk::{map, update};
use crate::norm::kernels::group::plane_sums;
use crate::op::{Done, Op, by_type, like, only};
use crate::simd::Lane;

operands! {
    /// Operands of [`CHANNEL_SCALE`].
    ChannelScale {
        x: one [Read] 4 "the input: samples × channels × height × width",
        scale: one [Read] 1 "a number per channel",
        y: one [Write] 4 "the output, as large as the input",
    }
}

operands! {
    /// Operands of [`CHANNEL_SCALE_GRAD`].
    ChannelScaleGrad {
        x: one [Read] 4 "the input",
        dy: one [Read] 4 "the gradient by the output, as large",
        dscale: one [Reduce|ReadWrite] 1 "the gradient by the scale, added to",
    }
}

operands! {
    /// Operands of [`CHANNEL_SHIFT`].
    ChannelShift {
        x: one [ReadWrite] 4 "what is changed: samples × channels × height × width",
        shift: one [Read] 1 "a number per channel",
    }
}

fn cost(call: &Call) -> Cost {
    Cost {
        flops: call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}

/// A number per channel of `x`.
fn expect_row(x: &Shaped, row: &Shaped) -> Result<(), String> {
    row.expect([1, 1, 1, x.dims()[1]])
}

/// `y = x · scale[channel]`
pub static CHANNEL_SCALE: Op<ChannelScale> = Op::new(|| {
    let rule = |call: &Call| {
        let ChannelScale { x, scale, y } = ChannelScale::shapes(call);
        expect_row(&x, &scale)?;
        y.expect_like(&x)
    };
    Codelet::new("channel_scale")
        .rule(rule)
        .cost(cost)
        .gradients(&["channel_scale", "channel_scale_grad"])
        .with(only(by_type!(scaled)))
});

/// `dscale[channel] += Σ x · dy` over samples and pixels.
pub static CHANNEL_SCALE_GRAD: Op<ChannelScaleGrad> = Op::new(|| {
    let rule = |call: &Call| {
        let ChannelScaleGrad { x, dy, dscale } = ChannelScaleGrad::shapes(call);
        dy.expect_like(&x)?;
        expect_row(&x, &dscale)
    };
    Codelet::new("channel_scale_grad")
        .rule(rule)
        .cost(cost)
        .with(only(by_type!(scale_grad)))
});

/// `x += shift[channel]`
pub static CHANNEL_SHIFT: Op<ChannelShift> = Op::new(|| {
    let rule = |call: &Call| {
        let ChannelShift { x, shift } = ChannelShift::shapes(call);
        expect_row(&x, &shift)
    };
    Codelet::new("channel_shift")
        .rule(rule)
        .cost(cost)
        .gradients(&["conv2d_bias_grad"])
        .with(only(by_type!(shifted)))
});

fn scaled<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = ChannelScale::at(ops.len());
    scale(ops.read::<T>(at.x), ops.read(at.scale), ops.write(at.y));
    Ok(())
}

fn scale_grad<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = ChannelScaleGrad::at(ops.len());
    let (x, dy) = (ops.read::<T>(at.x), ops.read(at.dy));
    add_scale_grad(x, dy, ops.write(at.dscale));
    Ok(())
}

fn shifted<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = ChannelShift::at(ops.len());
    shift(ops.write::<T>(at.x), ops.read(at.shift));
    Ok(())
}

/// Calls `f` with the beginning and the extents of each plane and its channel.
fn for_planes([samples, channels, h, w]: [usize; 4], mut f: impl FnMut([usize; 4], [usize; 4])) {
    for n in 0..samples {
        (0..channels).for_each(|c| f([n, c, 0, 0], [1, 1, h, w]));
    }
}

fn scale<T: Lane>(x: View<'_, T>, scale: View<'_, T>, mut y: ViewMut<'_, T>) {
    let row = scale.row([0, 0, 0]);
    for_planes(x.dims(), |from, size| {
        let factor = row[from[1]];
        map(y.part(from, size), [x.part(from, size)], |[x]| x * factor);
    });
}

fn shift<T: Lane>(mut x: ViewMut<'_, T>, shift: View<'_, T>) {
    let row = shift.row([0, 0, 0]);
    for_planes(x.dims(), |from, size| {
        let add = row[from[1]];
        update([x.part(from, size)], [], |[x], []| [x + add]);
    });
}

fn add_scale_grad<T: Lane>(x: View<'_, T>, dy: View<'_, T>, mut dscale: ViewMut<'_, T>) {
    for (c, total) in dscale.row([0, 0, 0]).iter_mut().enumerate() {
        let planes = (0..x.dims()[0]).map(|n| plane_sums(x, dy, [n, c], T::ZERO)[1]);
        *total += planes.sum();
    }
}

/// Multiplies each channel by a number. Forms: [`channel_scale`], [`channel_scale_into`]; gradients: by the input
/// the same with the gradient by the output, by the scale [`channel_scale_grad_reduce`].
#[track_caller]
pub fn channel_scale<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    scale: &Vector<'_, T>,
) -> Tensor<'r, T> {
    let mut y = like(recorder, x);
    channel_scale_into(recorder, x, scale, &mut y);
    y
}

/// As [`channel_scale`], written to `y`.
#[track_caller]
pub fn channel_scale_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    scale: &Vector<'_, T>,
    y: &mut Tensor<'_, T>,
) {
    let (x, scale, y) = (x.read(), scale.read(), y.write());
    CHANNEL_SCALE.submit(recorder, ChannelScale { x, scale, y }, ());
}

/// The gradient of [`channel_scale`] by the scale, added to `dscale`.
#[track_caller]
pub fn channel_scale_grad_reduce<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    dy: &Tensor<'_, T>,
    dscale: &mut Vector<'_, T>,
) {
    let (x, dy, dscale) = (x.read(), dy.read(), dscale.reduce());
    CHANNEL_SCALE_GRAD.submit(recorder, ChannelScaleGrad { x, dy, dscale }, ());
}

/// Adds a number to each channel of `x`.
#[track_caller]
pub fn channel_shift_assign<T: Lane>(
    recorder: &Recorder,
    x: &mut Tensor<'_, T>,
    shift: &Vector<'_, T>,
) {
    let (x, shift) = (x.read_write(), shift.read());
    CHANNEL_SHIFT.submit(recorder, ChannelShift { x, shift }, ());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv2d::testing::{Boxed, Rng};
    use crate::norm::kernels::testing::{check_gradients, differences};
    use crate::simd::at_every_level;

    const DIMS: [usize; 4] = [2, 3, 4, 19];

    /// Also that nothing between the rows of tiles is read or written.
    #[test]
    fn values_and_gradients_follow_the_definition() {
        at_every_level(|_| {
            let r = &mut Rng::new(9);
            let (x, dy) = (Boxed::<f64>::random(DIMS, r), Boxed::random(DIMS, r));
            let row = Boxed::<f64>::random([1, 1, 1, 3], r);
            let run = |x: &Boxed<f64>, row: &Boxed<f64>| {
                let mut y = x.like();
                scale(x.view(), row.view(), y.view_mut());
                y
            };
            let y = run(&x, &row);
            assert!(y.margin_untouched());
            let channel = |k: usize| k / (4 * 19) % 3;
            for k in 0..y.len() {
                assert_eq!(y.get(k), x.get(k) * row.get(channel(k)));
            }
            let mut moved = x.clone();
            shift(moved.view_mut(), row.view());
            for k in 0..y.len() {
                assert_eq!(moved.get(k), x.get(k) + row.get(channel(k)));
            }
            let mut drow = row.like();
            add_scale_grad(x.view(), dy.view(), drow.view_mut());
            check_gradients("dscale", &drow, &differences(&row, |s| run(&x, s), &dy));
            check_gradients(
                "dx",
                &run(&dy, &row),
                &differences(&x, |x| run(x, &row), &dy),
            );
        });
    }
}
