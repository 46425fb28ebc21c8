//! The filter's gradient of a grouped or dilated convolution: a sum over all pixels for each weight.

use dahl_core::{View, ViewMut};

use super::Grouping;
use super::direct::{inside, pick};
use crate::simd::Lane;
use crate::simd::lanes::{Kernel, Lanes};

/// `dw += ` the gradient of the filter, from `x` (N×C×H×W) and `dy` (N×O×OH×OW).
///
/// # Panics
/// If the extents do not belong together.
pub fn filter_grad<T: Lane>(x: View<'_, T>, dy: View<'_, T>, dw: ViewMut<'_, T>, g: &Grouping) {
    g.assert(x.dims(), dy.dims(), dw.dims());
    T::vectorised(FilterGrad { x, dy, dw, g: *g });
}

struct FilterGrad<'a, T> {
    x: View<'a, T>,
    dy: View<'a, T>,
    dw: ViewMut<'a, T>,
    g: Grouping,
}

impl<T: Lane> Kernel<T> for FilterGrad<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let [outs, each, kh, kw] = self.dw.dims();
        for o in 0..outs {
            let first = o / (outs / self.g.groups) * each;
            for c in 0..each {
                for a in 0..kh {
                    for b in 0..kw {
                        let sum = self.weight(s, [o, first + c], [a, b]);
                        self.dw.row([o, c, a])[b] += sum;
                    }
                }
            }
        }
    }
}

impl<T: Lane> FilterGrad<'_, T> {
    /// The gradient of the weight at `[a, b]` between output channel `o` and input channel `c`.
    #[inline(always)]
    fn weight<S: Lanes<T>>(&self, s: S, [o, c]: [usize; 2], [a, b]: [usize; 2]) -> T {
        let ([samples, _, rows, columns], [_, _, height, width]) = (self.dy.dims(), self.x.dims());
        let stride = self.g.window.stride[1];
        let offset = (b * self.g.dilation[1]) as isize - self.g.window.shift[1];
        let (lo, hi) = inside(offset, stride, width, columns);
        let mut total = T::ZERO;
        for n in 0..samples {
            let mut sum = s.splat(T::ZERO);
            for i in 0..rows {
                let Some(h) = self.g.input(0, i, a, height) else {
                    continue;
                };
                let (dy, x) = (self.dy.row([n, o, i]), self.x.row([n, c, h]));
                let mut j = lo;
                while j < hi {
                    let count = S::LANES.min(hi - j);
                    let column = (j * stride) as isize + offset;
                    // SAFETY: `count` outputs from `j` on and the inputs of this tap lie in their rows;
                    // lanes beyond hold a zero gradient.
                    unsafe {
                        let g = s.load_n(dy.as_ptr().add(j), count);
                        let x = pick(s, x.as_ptr().offset(column), stride, count);
                        sum = s.madd(g, x, sum);
                    }
                    j += count;
                }
            }
            total += s.sum(sum);
        }
        total
    }
}
