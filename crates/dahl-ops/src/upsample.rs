//! Images made larger, or smaller, to any height and width: the nearest pixel, or a mean of the four around.
//!
//! As PyTorch's `interpolate` with the modes `nearest` and `bilinear`. Where output `i` of `m` lies among `n` inputs:
//!
//! ```text
//!     nearest                       i · n / m               rounded down
//!     bilinear                      (i + ½) · n / m − ½      at least 0
//!     bilinear, align_corners       i · (n − 1) / (m − 1)
//! ```
//!
//! Positions are computed with whole numbers, so they are exact where PyTorch rounds. Samples and channels of a
//! split array can be treated by themselves; planes cannot be cut.

use dahl_core::view::for_rows;
use dahl_core::{Call, Codelet, Cost, Operands, Recorder, Tensor, View, ViewMut};

use crate::declare::params;
use crate::op::{Done, Op, by_type, cpu, elements, extents};
use crate::simd::Lane;
use crate::window::{Planes, PlanesGrad, expect_channels};

params! {
    /// How pixels are made.
    Resampling {
        bilinear: bool, "a mean of the four pixels around, else the nearest one";
        align_corners: bool, "whether first and last pixels of input and output coincide; bilinear only";
    }
}

impl Resampling {
    /// Where output `i` of `outputs` lies among so many inputs: the pixel before or at it, and how far towards the
    /// next one, as a fraction.
    fn position(&self, i: usize, inputs: usize, outputs: usize) -> (usize, [usize; 2]) {
        let [above, below] = match (self.bilinear, self.align_corners) {
            (false, _) => return (i * inputs / outputs, [0, 1]),
            (true, false) => [((2 * i + 1) * inputs).saturating_sub(outputs), 2 * outputs],
            (true, true) => [i * (inputs - 1), (outputs - 1).max(1)],
        };
        (above / below, [above % below, below])
    }

    /// The pixel before or at output `i`, the next one, and the next one's share.
    fn tap<T: Lane>(&self, i: usize, inputs: usize, outputs: usize) -> (usize, usize, T) {
        let (before, [above, below]) = self.position(i, inputs, outputs);
        let share = T::from_f64(above as f64 / below as f64);
        (before, (before + 1).min(inputs - 1), share)
    }
}

fn cost(call: &Call) -> Cost {
    let largest = call.operands.iter().map(|(s, _)| s.len()).max();
    let each = if Resampling::of(&call.params).bilinear {
        8.0
    } else {
        1.0
    };
    Cost {
        flops: each * largest.unwrap_or(0) as f64,
        bytes: call.bytes(),
    }
}

/// Each output pixel from the input.
pub static UPSAMPLE: Op<Planes, Resampling> = Op::new(|| {
    let rule = |call: &Call| {
        let Planes { x, y } = Planes::shapes(call);
        expect_channels(&x, &y)
    };
    let scratch = |call: &Call| elements(call, 2 * Planes::shapes(call).y.dims()[3]);
    Codelet::new("upsample")
        .rule(rule)
        .cost(cost)
        .gradients(&["upsample_grad"])
        .with(cpu("vector", |_| 1.0, scratch, by_type!(forward)))
});

/// Each output's gradient goes where its value came from.
pub static UPSAMPLE_GRAD: Op<PlanesGrad, Resampling> = Op::new(|| {
    let rule = |call: &Call| {
        let PlanesGrad { dy, dx } = PlanesGrad::shapes(call);
        expect_channels(&dx, &dy)
    };
    let scratch = |call: &Call| elements(call, 2 * PlanesGrad::shapes(call).dy.dims()[3]);
    Codelet::new("upsample_grad")
        .rule(rule)
        .cost(cost)
        .with(cpu("vector", |_| 1.0, scratch, by_type!(backward)))
});

fn forward<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, how) = (Planes::at(ops.len()), Resampling::of(ops.params()));
    let (x, y) = (ops.read::<T>(at.x), ops.write::<T>(at.y));
    let columns = ops.scratch(2 * y.dims()[3]);
    resample(x, y, &how, columns);
    Ok(())
}

fn backward<T: Lane>(ops: &Operands<'_>) -> Done {
    let (at, how) = (PlanesGrad::at(ops.len()), Resampling::of(ops.params()));
    let (dy, dx) = (ops.read::<T>(at.dy), ops.write::<T>(at.dx));
    let columns = ops.scratch(2 * dy.dims()[3]);
    spread(dy, dx, &how, columns);
    Ok(())
}

/// For each output column the input column before it and the share of the next, in the memory given.
fn columns<'a, T: Lane>(
    held: &'a mut [T],
    inputs: usize,
    outputs: usize,
    how: &Resampling,
) -> (&'a [T], &'a [T]) {
    let (before, share) = held.split_at_mut(outputs);
    for j in 0..outputs {
        let (first, _, part) = how.tap(j, inputs, outputs);
        (before[j], share[j]) = (T::from_f64(first as f64), part);
    }
    (before, share)
}

fn resample<T: Lane>(x: View<'_, T>, mut y: ViewMut<'_, T>, how: &Resampling, held: &mut [T]) {
    let ([.., h, w], [.., rows, outputs]) = (x.dims(), y.dims());
    let (before, share) = columns(held, w, outputs, how);
    for_rows(y.dims(), |[n, c, i]| {
        let (top, next, down) = how.tap::<T>(i, h, rows);
        let (top, bottom) = (x.row([n, c, top]), x.row([n, c, next]));
        let places = before.iter().zip(share);
        for (out, (&first, &right)) in y.row([n, c, i]).iter_mut().zip(places) {
            let a = first.to_f64() as usize;
            if !how.bilinear {
                *out = top[a];
                continue;
            }
            let b = (a + 1).min(w - 1);
            let (left, up) = (T::ONE - right, T::ONE - down);
            *out = up * (left * top[a] + right * top[b])
                + down * (left * bottom[a] + right * bottom[b]);
        }
    });
}

fn spread<T: Lane>(dy: View<'_, T>, mut dx: ViewMut<'_, T>, how: &Resampling, held: &mut [T]) {
    let ([.., rows, outputs], [.., h, w]) = (dy.dims(), dx.dims());
    let (before, share) = columns(held, w, outputs, how);
    dx.fill(T::ZERO);
    for_rows(dy.dims(), |[n, c, i]| {
        let (top, next, down) = how.tap::<T>(i, h, rows);
        let shares = [(top, T::ONE - down), (next, down)];
        let lines = if how.bilinear { 2 } else { 1 };
        for &(to, part) in &shares[..lines] {
            let line = dx.row([n, c, to]);
            let places = before.iter().zip(share);
            for (&g, (&first, &right)) in dy.row([n, c, i]).iter().zip(places) {
                let a = first.to_f64() as usize;
                if !how.bilinear {
                    line[a] += g;
                    continue;
                }
                let g = part * g;
                line[a] += (T::ONE - right) * g;
                line[(a + 1).min(w - 1)] += right * g;
            }
        }
    });
}

/// Images of another height and width. Forms: [`upsample`], [`upsample_into`]; gradients: [`upsample_grad`],
/// [`upsample_grad_into`].
#[track_caller]
pub fn upsample<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    size: [usize; 2],
    how: Resampling,
) -> Tensor<'r, T> {
    let [n, c, ..] = extents(x);
    let mut y = recorder.temporary([n, c, size[0], size[1]]);
    upsample_into(recorder, x, how, &mut y);
    y
}

/// As [`upsample`], written to `y`, whose height and width count.
#[track_caller]
pub fn upsample_into<T: Lane>(
    recorder: &Recorder,
    x: &Tensor<'_, T>,
    how: Resampling,
    y: &mut Tensor<'_, T>,
) {
    let (x, y) = (x.read(), y.write());
    UPSAMPLE.submit(recorder, Planes { x, y }, how);
}

/// The gradient of [`upsample`] by its input, which has this height and width.
#[track_caller]
pub fn upsample_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    dy: &Tensor<'_, T>,
    input: [usize; 2],
    how: Resampling,
) -> Tensor<'r, T> {
    let [n, c, ..] = extents(dy);
    let mut dx = recorder.temporary([n, c, input[0], input[1]]);
    upsample_grad_into(recorder, dy, how, &mut dx);
    dx
}

/// The gradient of [`upsample`] by its input, written to `dx`.
#[track_caller]
pub fn upsample_grad_into<T: Lane>(
    recorder: &Recorder,
    dy: &Tensor<'_, T>,
    how: Resampling,
    dx: &mut Tensor<'_, T>,
) {
    let (dy, dx) = (dy.read(), dx.write());
    UPSAMPLE_GRAD.submit(recorder, PlanesGrad { dy, dx }, how);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::conv2d::testing::{Boxed, Rng, dot};

    /// The kernels, for the tests against PyTorch.
    pub(crate) fn both<T: Lane>(
        [bilinear, align_corners]: [bool; 2],
        x: View<'_, T>,
        dy: View<'_, T>,
        y: ViewMut<'_, T>,
        dx: ViewMut<'_, T>,
    ) {
        let how = Resampling {
            bilinear,
            align_corners,
        };
        let mut held = vec![T::ZERO; 2 * dy.dims()[3]];
        resample(x, y, &how, &mut held);
        spread(dy, dx, &how, &mut held);
    }

    /// Values are PyTorch's by the fixtures; here that gradients are the transpose, and tiles are kept to.
    #[test]
    fn gradients_are_the_transpose_also_of_tiles() {
        let r = &mut Rng::new(3);
        for (x, to) in [
            ([2, 3, 4, 5], [8, 10]),
            ([1, 2, 5, 3], [7, 11]),
            ([1, 1, 1, 6], [4, 3]),
        ] {
            for how in [[false, false], [true, false], [true, true]] {
                let input = Boxed::<f64>::random(x, r);
                let dy = Boxed::<f64>::random([x[0], x[1], to[0], to[1]], r);
                let (mut y, mut dx) = (dy.like(), input.like());
                both(how, input.view(), dy.view(), y.view_mut(), dx.view_mut());
                assert!(y.margin_untouched() && dx.margin_untouched());
                let [a, b] = [dot(y.view(), dy.view()), dot(input.view(), dx.view())];
                assert!(
                    (a - b).abs() < 1e-12 * a.abs().max(1.0),
                    "{how:?} {x:?}: {a} {b}"
                );
            }
        }
    }
}
