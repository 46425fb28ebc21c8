//! Grouped and dilated convolution from planes with zeros around them: sums of output rows stay in registers.
//!
//! Depthwise convolutions of narrow planes, and those of other strides, are `blocked`'s. Wide ones of stride 1 slide down the plane: each row of the input is read once for each column of
//! the kernel and added to all output rows that it belongs to, of which there are as many as the kernel has rows.
//! All others compute a few output rows at a time. The input's gradient is the same with the kernel turned
//! round, and zeros between the output's gradients where the stride left some out.

use dahl_core::{View, ViewMut};

use super::Grouping;
use super::blocked::{self, Depthwise, Turned};
use super::planes::Planes;
use super::rows::{Block, Outputs, Sliding};
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};

/// Elements of scratch memory that [`forward`] needs, from the extents of `x` and `y`.
pub(crate) fn scratch_len(x: [usize; 4], y: [usize; 4], g: &Grouping) -> usize {
    len(Planes::forward(x, y, g), x, y, g)
}

/// Elements of scratch memory that [`input_grad`] needs, from the extents of `dx` and `dy`.
pub(crate) fn input_scratch_len(dx: [usize; 4], dy: [usize; 4], g: &Grouping) -> usize {
    len(Planes::backward(dx, dy, g), dy, dx, g)
}

fn len(p: Planes, from: [usize; 4], to: [usize; 4], g: &Grouping) -> usize {
    match blocked::suits(&p, from[1], to[1], g.groups) {
        true => Turned::new(p, [from[2], from[3]]).scratch_len(),
        false => p.scratch_len(),
    }
}

/// `y = x ∗ w (+ bias) (then the positive part)`.
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`scratch_len`].
pub(crate) fn forward<T: Lane>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    relu: bool,
    y: ViewMut<'_, T>,
    g: &Grouping,
    scratch: &mut [T],
) {
    g.assert(x.dims(), y.dims(), w.dims());
    let bias = bias.map(|b| {
        assert_eq!(
            b.dims(),
            [1, 1, 1, y.dims()[1]],
            "grouped conv2d: bias extents"
        );
        b.row([0, 0, 0])
    });
    let planes = Planes::forward(x.dims(), y.dims(), g);
    if blocked::suits(&planes, x.dims()[1], y.dims()[1], g.groups) {
        let [.., height, width] = x.dims();
        return T::vectorised(Depthwise {
            turned: Turned::new(planes, [height, width]),
            x,
            w,
            flipped: false,
            bias,
            relu,
            y,
            scratch,
        });
    }
    let [so, sc, sy, sx] = w.strides().map(usize::cast_signed);
    T::vectorised(Correlate {
        planes,
        x,
        w,
        first: 0,
        steps: [so, sc, sy, sx],
        bias,
        relu,
        y,
        groups: g.groups,
        scratch,
    });
}

/// `dx`, overwritten, from `dy` and `w`.
///
/// # Panics
/// If the extents do not belong together or `scratch` is shorter than [`input_scratch_len`].
pub(crate) fn input_grad<T: Lane>(
    dy: View<'_, T>,
    w: View<'_, T>,
    dx: ViewMut<'_, T>,
    g: &Grouping,
    scratch: &mut [T],
) {
    g.assert(dx.dims(), dy.dims(), w.dims());
    let planes = Planes::backward(dx.dims(), dy.dims(), g);
    if blocked::suits(&planes, dy.dims()[1], dx.dims()[1], g.groups) {
        let [.., height, width] = dy.dims();
        return T::vectorised(Depthwise {
            turned: Turned::new(planes, [height, width]),
            x: dy,
            w,
            flipped: true,
            bias: None,
            relu: false,
            y: dx,
            scratch,
        });
    }
    let ([so, sc, sy, sx], [.., kh, kw]) = (w.strides(), w.dims());
    let signed = usize::cast_signed;
    T::vectorised(Correlate {
        planes,
        x: dy,
        w,
        first: (kh - 1) * sy + (kw - 1) * sx,
        steps: [signed(sc), signed(so), -signed(sy), -signed(sx)],
        bias: None,
        relu: false,
        y: dx,
        groups: g.groups,
        scratch,
    });
}

/// `y[o, i, j] = Σ w[o, c, a, b] · x[c, i·stride + a·dilation, …]` within each group.
struct Correlate<'a, T> {
    planes: Planes,
    x: View<'a, T>,
    w: View<'a, T>,
    /// The first weight of a filter, and the distances to those of the next output channel, input channel, row and
    /// column.
    first: usize,
    steps: [isize; 4],
    bias: Option<&'a [T]>,
    relu: bool,
    y: ViewMut<'a, T>,
    groups: usize,
    scratch: &'a mut [T],
}

impl<T: Lane> Kernel<T> for Correlate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let ([samples, outs, rows, _], p) = (self.y.dims(), self.planes);
        let (each, filters) = (outs / self.groups, self.w.dims()[0] / self.groups);
        for n in 0..samples {
            for group in 0..self.groups {
                for i in (0..rows).step_by(p.strip) {
                    let count = p.strip.min(rows - i);
                    let from = [n, group * p.channels];
                    p.fill(s, self.x, from, [i, count], self.scratch);
                    for o in 0..each {
                        let w = (group * filters * self.w.strides()[0] + self.first).cast_signed()
                            + o.cast_signed() * self.steps[0];
                        let o = group * each + o;
                        self.strip(s, [n, o], [i, count], w);
                    }
                }
            }
        }
    }
}

impl<T: Lane> Correlate<'_, T> {
    /// `count` output rows from `i` on of a plane, whose first weight is at `w`.
    #[inline(always)]
    fn strip<S: Lanes<T>>(&mut self, s: S, [n, o]: [usize; 2], [i, count]: [usize; 2], w: isize) {
        let (p, [_, channel, down, right]) = (self.planes, self.steps);
        let from = self.scratch.as_ptr();
        // SAFETY: a weight of the filter.
        let w = unsafe { self.w.as_ptr().offset(w) };
        let start = s.splat(self.bias.map_or(T::ZERO, |b| b[o]));
        let columns = p.output[1];
        let mut out = Outputs {
            y: self.y.part([n, o, i, 0], [1, 1, count, columns]),
            relu: self.relu,
        };
        let slides = p.channels == 1 && p.stride == [1, 1] && p.dilation[0] == 1;
        let sliding = Sliding {
            from,
            pitch: p.pitch(),
            step: p.dilation[1],
            columns: p.kernel[1],
            inside: p.inside(i, count, self.x.dims()[2]),
            count,
            w,
            down,
            right,
            start,
        };
        let block = Block {
            planes: p,
            from,
            count,
            w,
            steps: [channel, down, right],
            start,
        };
        let mut j = 0;
        while j < columns {
            let wide = columns - j > S::LANES;
            // SAFETY: rows and columns lie in the scratch memory, as `fill` has checked, and weights in the filter.
            let vectors = unsafe {
                match p.kernel {
                    [3, 3] if slides => sliding.three(s, j, &mut out),
                    [5, _] if slides && wide => sliding.rows::<5, 2, S>(s, j, &mut out),
                    [5, _] if slides => sliding.rows::<5, 1, S>(s, j, &mut out),
                    [7, _] if slides && wide => sliding.rows::<7, 2, S>(s, j, &mut out),
                    [7, _] if slides => sliding.rows::<7, 1, S>(s, j, &mut out),
                    _ => block.rows(s, j, &mut out),
                }
            };
            j += vectors * S::LANES;
        }
    }
}
