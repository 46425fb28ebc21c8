//! Random convolutions for tests: shapes, strides, paddings and tiles of larger arrays.
//!
//! Every array lies inside a larger one filled with NaN, so that reading between the rows of a tile
//! spoils the result and writing there is noticed by [`Boxed::margin_untouched`].

use std::fmt;

use dahl_core::dtype::DType;
use dahl_core::view::{View, ViewMut, for_rows};

use super::reference;
use crate::float::Float;
use crate::window::Window;

/// A small generator; the tests need variety, not quality.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `lo..=hi`.
    pub fn in_range(&mut self, lo: usize, hi: usize) -> usize {
        lo + (self.next() % (hi - lo + 1) as u64) as usize
    }

    /// A real number in -1..1.
    pub fn real(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// Any window over small arrays.
    pub fn any(&mut self) -> Dims {
        let kernel = [self.in_range(1, 5), self.in_range(1, 5)];
        let stride = [self.in_range(1, 3), self.in_range(1, 3)];
        let input = [self.in_range(1, 13), self.in_range(1, 13)];
        self.dims(kernel, stride, input, [3, 7])
    }

    /// A 3×3 window of stride 1, with enough channels to fill vectors now and then.
    pub fn three(&mut self) -> Dims {
        let input = [self.in_range(1, 21), self.in_range(1, 21)];
        self.dims([3, 3], [1, 1], input, [3, 40])
    }

    fn dims(
        &mut self,
        kernel: [usize; 2],
        stride: [usize; 2],
        input: [usize; 2],
        most: [usize; 2],
    ) -> Dims {
        let mut shift = [0; 2];
        let mut output = [0; 2];
        for a in 0..2 {
            // Beyond the kernel, and negative (a tile that begins before its own input view's needs).
            shift[a] = self.in_range(0, kernel[a] + 3) as isize - 2;
            output[a] = self.in_range(1, (input[a] + 2) / stride[a] + 1);
        }
        Dims {
            samples: self.in_range(1, most[0]),
            channels: self.in_range(1, most[1]),
            filters: self.in_range(1, most[1]),
            input,
            output,
            win: Window {
                kernel,
                stride,
                shift,
            },
        }
    }
}

/// The extents of one convolution.
#[derive(Clone, Debug)]
pub struct Dims {
    pub samples: usize,
    pub channels: usize,
    pub filters: usize,
    pub input: [usize; 2],
    pub output: [usize; 2],
    pub win: Window,
}

/// A box inside a larger array of NaN.
#[derive(Clone)]
pub struct Boxed<T> {
    data: Vec<T>,
    outer: [usize; 4],
    start: [usize; 4],
    dims: [usize; 4],
}

impl<T: Float> Boxed<T> {
    pub fn random(dims: [usize; 4], r: &mut Rng) -> Self {
        let start: [usize; 4] = std::array::from_fn(|_| r.in_range(0, 2));
        let outer = std::array::from_fn(|a| dims[a] + start[a] + r.in_range(0, 2));
        let nan = T::from_f64(f64::NAN);
        let mut b = Boxed {
            data: vec![nan; outer.iter().product()],
            outer,
            start,
            dims,
        };
        for_rows(dims, |at| {
            for v in b.view_mut().row(at) {
                *v = T::from_f64(r.real());
            }
        });
        b
    }

    /// The same extents and place, zeros.
    pub fn like(&self) -> Self {
        let mut b = self.clone();
        b.view_mut().fill(T::ZERO);
        b
    }

    pub fn view(&self) -> View<'_, T> {
        View::from_slice(&self.data, self.outer).part(self.start, self.dims)
    }

    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        let dims = self.outer;
        let strides = [dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1];
        let offset: usize = (0..4).map(|a| self.start[a] * strides[a]).sum();
        // SAFETY: the box lies inside `data`, which is exclusively borrowed.
        unsafe { ViewMut::from_raw(self.data.as_mut_ptr().add(offset), self.dims, strides) }
    }

    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    fn index(&self, k: usize) -> [usize; 4] {
        let d = self.dims;
        [
            k / (d[1] * d[2] * d[3]),
            k / (d[2] * d[3]) % d[1],
            k / d[3] % d[2],
            k % d[3],
        ]
    }

    pub fn get(&self, k: usize) -> T {
        self.view().at(self.index(k))
    }

    /// A copy with element `k` changed by `by`.
    pub fn nudged(&self, k: usize, by: f64) -> Self {
        let (mut b, [n, c, h, w]) = (self.clone(), self.index(k));
        b.view_mut().row([n, c, h])[w] += T::from_f64(by);
        b
    }

    pub fn max_abs(&self) -> f64 {
        (0..self.len())
            .map(|k| self.get(k).to_f64().abs())
            .fold(0.0, f64::max)
    }

    /// Whether every element outside the box is still NaN.
    pub fn margin_untouched(&self) -> bool {
        self.data.iter().filter(|v| !v.is_nan()).count() == self.len()
    }
}

/// One convolution with random operands.
pub struct Case<T> {
    pub dims: Dims,
    pub win: Window,
    pub x: Boxed<T>,
    pub w: Boxed<T>,
    pub bias: Boxed<T>,
    pub dy: Boxed<T>,
}

impl<T: Float> Case<T> {
    pub fn new(dims: Dims, r: &mut Rng) -> Self {
        let d = &dims;
        let [kh, kw] = d.win.kernel;
        Case {
            x: Boxed::random([d.samples, d.channels, d.input[0], d.input[1]], r),
            w: Boxed::random([d.filters, d.channels, kh, kw], r),
            bias: Boxed::random([1, 1, 1, d.filters], r),
            dy: Boxed::random([d.samples, d.filters, d.output[0], d.output[1]], r),
            win: d.win,
            dims,
        }
    }

    /// Zeros in the shape of the output.
    pub fn output(&self) -> Boxed<T> {
        self.dy.like()
    }
}

/// Comparisons of a pass with the reference. A pass gets as much scratch memory as it asked for, full of NaN.
impl<T: Float> Case<T> {
    /// The `k`-th case has a bias or none, and ends with the positive parts or not.
    pub fn check_forward(
        &self,
        k: usize,
        scratch: usize,
        forward: impl FnOnce(Option<View<'_, T>>, bool, ViewMut<'_, T>, &mut [T]),
    ) {
        let bias = (!k.is_multiple_of(3)).then_some(self.bias.view());
        let relu = k.is_multiple_of(2);
        let (mut got, mut want) = (self.output(), self.output());
        forward(bias, relu, got.view_mut(), &mut nans(scratch));
        let (x, w) = (self.x.view(), self.w.view());
        reference::forward(x, w, bias, relu, want.view_mut(), &self.win);
        assert_close(&got, &want, &format!("forward {self:?}"));
    }

    pub fn check_input_grad(
        &self,
        scratch: usize,
        input_grad: impl FnOnce(ViewMut<'_, T>, &mut [T]),
    ) {
        let (mut got, mut want) = (self.x.clone(), self.x.like());
        input_grad(got.view_mut(), &mut nans(scratch));
        let (dy, w) = (self.dy.view(), self.w.view());
        reference::input_grad(dy, w, want.view_mut(), &self.win);
        assert_close(&got, &want, &format!("input_grad {self:?}"));
    }

    /// Both begin with the filter's own values: gradients are added.
    pub fn check_filter_grad(
        &self,
        scratch: usize,
        filter_grad: impl FnOnce(ViewMut<'_, T>, &mut [T]),
    ) {
        let (mut got, mut want) = (self.w.clone(), self.w.clone());
        filter_grad(got.view_mut(), &mut nans(scratch));
        let (x, dy) = (self.x.view(), self.dy.view());
        reference::filter_grad(x, dy, want.view_mut(), &self.win);
        assert_close(&got, &want, &format!("filter_grad {self:?}"));
    }
}

fn nans<T: Float>(len: usize) -> Vec<T> {
    vec![T::from_f64(f64::NAN); len]
}

impl<T> fmt::Debug for Case<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dims.fmt(f)
    }
}

/// `count` random cases from a seed.
pub fn cases<T: Float>(
    count: usize,
    seed: u64,
    mut draw: impl FnMut(&mut Rng) -> Dims,
) -> Vec<Case<T>> {
    let mut r = Rng(seed);
    (0..count)
        .map(|_| {
            let dims = draw(&mut r);
            Case::new(dims, &mut r)
        })
        .collect()
}

/// Pools by the definition: the output, and the gradient of what was pooled.
pub fn pool_by_hand<T: Float>(conv: &Boxed<T>, dy: View<'_, T>, p: usize) -> (Vec<T>, Boxed<T>) {
    let (mut y, mut out) = (Vec::new(), conv.like());
    for_rows(dy.dims(), |[n, o, i]| {
        for (j, &g) in dy.row([n, o, i]).iter().enumerate() {
            let mut best = (T::NEG_INFINITY, [0, 0]);
            for at in 0..p * p {
                let [h, w] = [i * p + at / p, j * p + at % p];
                let v = conv.view().at([n, o, h, w]);
                if v > best.0 {
                    best = (v, [h, w]);
                }
            }
            y.push(best.0);
            if best.0 > T::ZERO {
                out.view_mut().row([n, o, best.1[0]])[best.1[1]] = g;
            }
        }
    });
    (y, out)
}

/// Sum of products of all elements.
pub fn dot(a: View<'_, f64>, b: View<'_, f64>) -> f64 {
    let mut sum = 0.0;
    for_rows(a.dims(), |at| {
        sum += a
            .row(at)
            .iter()
            .zip(b.row(at))
            .map(|(a, b)| a * b)
            .sum::<f64>()
    });
    sum
}

/// Fails unless `got` is within the type's tolerance of `want`, relative to the largest of `want` or
/// to the size of the operands (1) where padding leaves nothing, and nothing was written around it.
pub fn assert_close<T: Float>(got: &Boxed<T>, want: &Boxed<T>, what: &str) {
    let tolerance = match T::DTYPE {
        DType::F32 => 1e-5,
        DType::F64 => 1e-12,
    } * want.max_abs().max(1.0);
    assert!(got.margin_untouched(), "{what}: wrote outside its view");
    for k in 0..want.len() {
        let (g, w) = (got.get(k).to_f64(), want.get(k).to_f64());
        assert!(
            (g - w).abs() <= tolerance,
            "{what}: {:?} is {g}, not {w}",
            got.index(k)
        );
    }
}
