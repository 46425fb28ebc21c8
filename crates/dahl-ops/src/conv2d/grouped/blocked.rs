//! Depthwise convolutions of narrow planes, and of all strides: sixteen channels at a time, one vector for each pixel.
//!
//! Rows of a few pixels leave most of a vector empty, so planes are turned: pixel by pixel, the channels of a block side by
//! side, zeros around the plane. Taps are then whole vectors wherever they lie. What is computed is turned back. The last
//! block begins where the last sixteen channels do, so it may compute some again: to the same bits.

use dahl_core::{View, ViewMut};

use super::planes::Planes;
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, COLUMNS, Kernel, LINE, Lanes};

/// Elements of a prepared strip: it shares the first-level cache with what is computed from it.
const STRIP: usize = 12_288;

/// Whether planes are better turned: all but wide ones of stride 1, along whose rows vectors are full.
pub(super) fn suits(p: &Planes, channels: usize, outputs: usize, groups: usize) -> bool {
    let depthwise = p.channels == 1 && outputs == groups && channels == groups;
    let widest = match p.kernel {
        [3, 3] => 24,
        [5, _] => 32,
        [7, _] => 48,
        _ => usize::MAX,
    };
    let slides = p.stride == [1, 1] && p.dilation[0] == 1;
    depthwise && channels >= CHUNK && (!slides || p.output[1] < widest)
}

/// Where things lie in scratch memory.
#[derive(Clone, Copy)]
pub(super) struct Turned {
    p: Planes,
    /// Height and width of the source.
    source: [usize; 2],
    /// Output rows of a strip.
    strip: usize,
}

impl Turned {
    pub(super) fn new(p: Planes, source: [usize; 2]) -> Self {
        let fixed = (p.kernel[0] - 1) * p.dilation[0] + 1;
        let (wide, step) = (Self::width(&p) * CHUNK, p.stride[0]);
        let rows = (STRIP / wide).saturating_sub(fixed) / step + 1;
        let strip = rows.max(4).min(p.output[0]);
        Turned { p, source, strip }
    }

    /// Pixels of a padded row.
    fn width(p: &Planes) -> usize {
        (p.output[1] - 1) * p.stride[1] + (p.kernel[1] - 1) * p.dilation[1] + 1
    }

    fn taps(&self) -> usize {
        self.p.kernel[0] * self.p.kernel[1]
    }

    /// Elements of the prepared strip, of what is turned before it is put there, of output rows, and of the filters.
    fn lens(&self) -> [usize; 4] {
        let p = &self.p;
        let stage = match self.at_once() {
            true => self.source[0] * self.source[1],
            false => self.source[1],
        };
        [
            p.rows(self.strip) * Self::width(p),
            stage,
            self.strip * p.output[1],
            self.taps(),
        ]
        .map(|pixels| pixels * CHUNK)
    }

    /// Whether narrow planes are turned in one go, where they lie in one piece.
    fn at_once(&self) -> bool {
        self.strip == self.p.output[0] && self.source[1] < LINE
    }

    /// Elements of scratch memory.
    pub(super) fn scratch_len(&self) -> usize {
        let [strip, stage, out, taps] = self.lens();
        strip + stage + out + taps
    }

    /// Prepares the rows that `count` outputs from `i` on read, of sixteen channels. `to` holds zeros wherever this writes
    /// nothing.
    ///
    /// # Safety
    /// `to` and `stage` are as long as `lens` says; the channels exist.
    #[inline(always)]
    unsafe fn fill<T: Lane, S: Lanes<T>>(
        &self,
        s: S,
        x: View<'_, T>,
        [sample, channel]: [usize; 2],
        [i, count]: [usize; 2],
        to: *mut T,
        stage: *mut T,
    ) {
        let (p, [height, width], wide) = (&self.p, self.source, Self::width(&self.p));
        let strides = x.strides();
        let once = self.at_once() && (strides[2] == width || height == 1);
        let from = x.row([sample, channel, 0]).as_ptr();
        // Columns `lo..hi` are read by some output, the first of them at `place`.
        let lo = (p.first[1].max(0) as usize).div_ceil(p.spread[1]);
        let end = (p.first[1] + wide.cast_signed()).max(0) as usize;
        let hi = end.div_ceil(p.spread[1]).min(width);
        if lo >= hi {
            return;
        }
        let place = ((lo * p.spread[1]).cast_signed() - p.first[1]) as usize;
        // SAFETY: all of the plane's pixels, and rows and columns inside the padded strip.
        unsafe {
            if once {
                turn_in(s, from, strides[1], height * width, stage);
            }
            for h in 0..height {
                let r =
                    (h * p.spread[0]).cast_signed() - p.first[0] - (i * p.stride[0]).cast_signed();
                if r < 0 || r as usize >= p.rows(count) {
                    continue;
                }
                let row = to.add((r as usize * wide + place) * CHUNK);
                let mut held = stage.add((h * width + lo) * CHUNK);
                if !once {
                    let at = from.add(h * strides[2] + lo);
                    held = if p.spread[1] == 1 { row } else { stage };
                    turn_in(s, at, strides[1], hi - lo, held);
                }
                if held != row {
                    for k in 0..hi - lo {
                        let (from, to) = (held.add(k * CHUNK), row.add(k * p.spread[1] * CHUNK));
                        for v in (0..CHUNK).step_by(S::LANES) {
                            s.store(to.add(v), s.load(from.add(v)));
                        }
                    }
                }
            }
        }
    }

    /// Elements from the first tap of a pixel to that in row `a`, column `b` of the kernel.
    #[inline(always)]
    fn tap(&self, a: usize, b: usize) -> usize {
        let p = &self.p;
        (a * p.dilation[0] * Self::width(p) + b * p.dilation[1]) * CHUNK
    }

    /// Elements from the strip's beginning to the first tap of an output.
    #[inline(always)]
    fn first(&self, i: usize, j: usize) -> usize {
        let p = &self.p;
        (i * p.stride[0] * Self::width(p) + j * p.stride[1]) * CHUNK
    }
}

/// Zeros.
///
/// # Safety
/// `n` elements, a multiple of [`CHUNK`], can be written.
#[inline(always)]
unsafe fn clear<T: Lane, S: Lanes<T>>(s: S, to: *mut T, n: usize) {
    for k in (0..n).step_by(S::LANES) {
        // SAFETY: the caller's promise.
        unsafe { s.store(to.add(k), s.splat(T::ZERO)) };
    }
}

/// Turns a run of `n` pixels: `to[k · CHUNK + r] = from[r · stride + k]`.
///
/// # Safety
/// The elements named can be read and written.
#[inline(always)]
unsafe fn turn_in<T: Lane, S: Lanes<T>>(s: S, from: *const T, stride: usize, n: usize, to: *mut T) {
    // SAFETY: the caller's promise; the last pixels are turned together with some before them, twice.
    unsafe {
        if n >= LINE {
            for k in (0..n).step_by(LINE) {
                let k = k.min(n - LINE);
                s.lines_in(from.add(k), stride, to.add(k * CHUNK));
            }
        } else if n >= COLUMNS {
            for k in (0..n).step_by(COLUMNS) {
                let k = k.min(n - COLUMNS);
                s.columns_in(from.add(k), stride, to.add(k * CHUNK));
            }
        } else {
            for (k, r) in (0..n).flat_map(|k| (0..CHUNK).map(move |r| (k, r))) {
                *to.add(k * CHUNK + r) = *from.add(r * stride + k);
            }
        }
    }
}

/// The way back: `to[r · stride + k] = from[k · CHUNK + r]`.
///
/// # Safety
/// The elements named can be read and written.
#[inline(always)]
unsafe fn turn_out<T: Lane, S: Lanes<T>>(
    s: S,
    from: *const T,
    to: *mut T,
    stride: usize,
    n: usize,
) {
    // SAFETY: as `turn_in`.
    unsafe {
        if n >= LINE {
            for k in (0..n).step_by(LINE) {
                let k = k.min(n - LINE);
                s.lines_out(from.add(k * CHUNK), to.add(k), stride);
            }
        } else if n >= COLUMNS {
            for k in (0..n).step_by(COLUMNS) {
                let k = k.min(n - COLUMNS);
                s.columns_out(from.add(k * CHUNK), to.add(k), stride);
            }
        } else {
            for (k, r) in (0..n).flat_map(|k| (0..CHUNK).map(move |r| (k, r))) {
                *to.add(r * stride + k) = *from.add(k * CHUNK + r);
            }
        }
    }
}

/// `y[c, i, j] = Σ w[c, a, b] · x[c, i·stride + a·dilation, …]`.
pub(super) struct Depthwise<'a, T> {
    pub(super) turned: Turned,
    pub(super) x: View<'a, T>,
    pub(super) w: View<'a, T>,
    /// Whether the kernel is turned round.
    pub(super) flipped: bool,
    pub(super) bias: Option<&'a [T]>,
    pub(super) relu: bool,
    pub(super) y: ViewMut<'a, T>,
    pub(super) scratch: &'a mut [T],
}

impl<T: Lane> Kernel<T> for Depthwise<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let (t, [samples, channels, rows, columns]) = (self.turned, self.y.dims());
        assert!(
            self.scratch.len() >= t.scratch_len(),
            "grouped conv2d: scratch"
        );
        let [strip, stage, out, _] = t.lens();
        let buffer = self.scratch.as_mut_ptr();
        // SAFETY: the parts lie one behind the other in the scratch memory.
        let (stage, out, w) = unsafe {
            let out_at = strip + stage;
            (
                buffer.add(strip),
                buffer.add(out_at),
                buffer.add(out_at + out),
            )
        };
        for block in (0..channels).step_by(CHUNK) {
            let c = block.min(channels - CHUNK);
            for a in 0..t.p.kernel[0] {
                let row = self.w.row([c, 0, a]).as_ptr();
                // SAFETY: a row of the kernel of sixteen channels.
                unsafe {
                    let to = w.add(a * t.p.kernel[1] * CHUNK);
                    turn_in(s, row, self.w.strides()[0], t.p.kernel[1], to);
                }
            }
            for n in 0..samples {
                for i in (0..rows).step_by(t.strip) {
                    let count = t.strip.min(rows - i);
                    // SAFETY: sixteen channels from `c` on exist; the parts are as long as `lens` says.
                    unsafe {
                        // A strip that is the whole plane has its zeros in the same places every time.
                        if t.strip < rows || (block, n) == (0, 0) {
                            clear(s, buffer, strip);
                        }
                        t.fill(s, self.x, [n, c], [i, count], buffer, stage);
                        for v in (0..CHUNK).step_by(S::LANES) {
                            let start = match self.bias {
                                Some(bias) => s.load(bias[c + v..].as_ptr()),
                                None => s.splat(T::ZERO),
                            };
                            self.outputs(
                                s,
                                [i, count],
                                start,
                                [buffer.add(v), w.add(v)],
                                out.add(v),
                            );
                        }
                        let strides = self.y.strides();
                        let to = self.y.row([n, c, i]).as_mut_ptr();
                        if strides[2] == columns {
                            turn_out(s, out, to, strides[1], count * columns);
                        } else {
                            for r in 0..count {
                                let from = out.add(r * columns * CHUNK);
                                turn_out(s, from, to.add(r * strides[2]), strides[1], columns);
                            }
                        }
                    }
                }
            }
        }
    }
}

impl<T: Lane> Depthwise<'_, T> {
    /// `count` rows of outputs from `first` on, for as many channels as a vector has.
    ///
    /// # Safety
    /// The strip is prepared; filters are turned; `out` holds the strip's outputs.
    #[inline(always)]
    unsafe fn outputs<S: Lanes<T>>(
        &self,
        s: S,
        [first, count]: [usize; 2],
        start: S::V,
        [from, w]: [*mut T; 2],
        out: *mut T,
    ) {
        let (t, columns) = (&self.turned, self.turned.p.output[1]);
        // SAFETY: the caller's promise.
        unsafe {
            if t.p.kernel == [3, 3] {
                return self.three(s, count, start, [from, w], out);
            }
            for i in 0..count {
                // Kernel rows that meet nothing but padding are left out: a good part of a large kernel on a small plane.
                let (lo, hi) = t.p.inside(first + i, 1, t.source[0]);
                let rows = [lo, hi].map(|r| r.div_ceil(t.p.dilation[0]));
                let mut j = 0;
                while j < columns {
                    let (at, to) = (from.add(t.first(i, j)), out.add((i * columns + j) * CHUNK));
                    // Enough sums at a time that none waits for another.
                    j += match columns - j {
                        7.. if columns % 7 == 0 => self.some::<7, S>(s, start, rows, [at, w], to),
                        8.. => self.some::<8, S>(s, start, rows, [at, w], to),
                        4.. => self.some::<4, S>(s, start, rows, [at, w], to),
                        2.. => self.some::<2, S>(s, start, rows, [at, w], to),
                        _ => self.some::<1, S>(s, start, rows, [at, w], to),
                    };
                }
            }
        }
    }

    /// The place of a tap's weights.
    #[inline(always)]
    fn weight(&self, a: usize, b: usize) -> usize {
        let [kh, kw] = self.turned.p.kernel;
        let [a, b] = match self.flipped {
            true => [kh - 1 - a, kw - 1 - b],
            false => [a, b],
        };
        (a * kw + b) * CHUNK
    }

    /// A 3×3 kernel: all weights in registers, a sum for each of its columns.
    ///
    /// # Safety
    /// As `outputs`.
    #[inline(always)]
    unsafe fn three<S: Lanes<T>>(
        &self,
        s: S,
        count: usize,
        start: S::V,
        [from, w]: [*mut T; 2],
        out: *mut T,
    ) {
        let (t, columns, zero) = (&self.turned, self.turned.p.output[1], s.splat(T::ZERO));
        // SAFETY: the caller's promise.
        unsafe {
            let mut weights = [[zero; 3]; 3];
            for (a, row) in weights.iter_mut().enumerate() {
                for (b, weight) in row.iter_mut().enumerate() {
                    *weight = s.load(w.add(self.weight(a, b)));
                }
            }
            let (down, right, step) = (t.tap(1, 0), t.tap(0, 1), t.p.stride[1] * CHUNK);
            for i in 0..count {
                let mut at = from.add(t.first(i, 0));
                for j in 0..columns {
                    let mut sums = [start, zero, zero];
                    for (a, row) in weights.iter().enumerate() {
                        for (b, &weight) in row.iter().enumerate() {
                            let x = s.load(at.add(a * down + b * right));
                            sums[b] = s.madd(weight, x, sums[b]);
                        }
                    }
                    let sum = s.add(s.add(sums[0], sums[1]), sums[2]);
                    let sum = if self.relu { s.relu(sum) } else { sum };
                    s.store(out.add((i * columns + j) * CHUNK), sum);
                    at = at.add(step);
                }
            }
        }
    }

    /// `N` outputs of a row with the kernel's rows `lo..hi`. Returns `N`.
    ///
    /// # Safety
    /// As `outputs`, from the first tap of the first output on.
    #[inline(always)]
    unsafe fn some<const N: usize, S: Lanes<T>>(
        &self,
        s: S,
        start: S::V,
        [lo, hi]: [usize; 2],
        [from, w]: [*mut T; 2],
        out: *mut T,
    ) -> usize {
        let (t, [_, kw]) = (&self.turned, self.turned.p.kernel);
        let step = t.p.stride[1] * CHUNK;
        let mut sums = [start; N];
        // SAFETY: the caller's promise.
        unsafe {
            for a in lo..hi {
                for b in 0..kw {
                    let weight = s.load(w.add(self.weight(a, b)));
                    let at = from.add(t.tap(a, b));
                    for (k, sum) in sums.iter_mut().enumerate() {
                        *sum = s.madd(weight, s.load(at.add(k * step)), *sum);
                    }
                }
            }
            for (k, &sum) in sums.iter().enumerate() {
                let sum = if self.relu { s.relu(sum) } else { sum };
                s.store(out.add(k * CHUNK), sum);
            }
        }
        N
    }
}

/// `dw[c, a, b] += Σ dy[c, i, j] · x[c, i·stride + a·dilation, …]`.
pub(super) struct DepthwiseFilter<'a, T> {
    pub(super) turned: Turned,
    pub(super) x: View<'a, T>,
    pub(super) dy: View<'a, T>,
    pub(super) dw: ViewMut<'a, T>,
    pub(super) scratch: &'a mut [T],
}

impl<T: Lane> Kernel<T> for DepthwiseFilter<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(mut self, s: S) {
        let (t, [samples, channels, rows, columns]) = (self.turned, self.dy.dims());
        assert!(
            self.scratch.len() >= t.scratch_len(),
            "grouped conv2d: scratch"
        );
        let ([strip, stage, grads, taps], [kh, kw]) = (t.lens(), t.p.kernel);
        let (parts, totals) = self.scratch.split_at_mut(strip + stage + grads);
        let totals = &mut totals[..taps];
        let buffer = parts.as_mut_ptr();
        // SAFETY: the parts lie one behind the other in the scratch memory.
        let (stage, turned) = unsafe { (buffer.add(strip), buffer.add(strip + stage)) };
        for block in (0..channels).step_by(CHUNK) {
            let c = block.min(channels - CHUNK);
            totals.fill(T::ZERO);
            for n in 0..samples {
                for i in (0..rows).step_by(t.strip) {
                    let count = t.strip.min(rows - i);
                    // SAFETY: sixteen channels from `c` on exist; the parts are as long as `lens` says.
                    unsafe {
                        // A strip that is the whole plane has its zeros in the same places every time.
                        if t.strip < rows || (block, n) == (0, 0) {
                            clear(s, buffer, strip);
                        }
                        t.fill(s, self.x, [n, c], [i, count], buffer, stage);
                        let strides = self.dy.strides();
                        let from = self.dy.row([n, c, i]).as_ptr();
                        if strides[2] == columns {
                            turn_in(s, from, strides[1], count * columns, turned);
                        } else {
                            for r in 0..count {
                                let to = turned.add(r * columns * CHUNK);
                                turn_in(s, from.add(r * strides[2]), strides[1], columns, to);
                            }
                        }
                        for v in (0..CHUNK).step_by(S::LANES) {
                            let of = totals.as_mut_ptr().add(v);
                            t.add_gradients(s, count, [buffer.add(v), turned.add(v)], of);
                        }
                    }
                }
            }
            for (a, b) in (0..kh).flat_map(|a| (0..kw).map(move |b| (a, b))) {
                let sums = &totals[(a * kw + b) * CHUNK..][..CHUNK];
                // Channels of the block before this one have had theirs.
                for (r, &sum) in sums.iter().enumerate().skip(block - c) {
                    self.dw.row([c + r, 0, a])[b] += sum;
                }
            }
        }
    }
}

impl Turned {
    /// Adds the gradients of all weights from a strip, for as many channels as a vector has.
    ///
    /// # Safety
    /// The strip and the gradients are prepared; `to` holds a chunk for each weight.
    #[inline(always)]
    unsafe fn add_gradients<T: Lane, S: Lanes<T>>(
        &self,
        s: S,
        count: usize,
        parts: [*mut T; 2],
        to: *mut T,
    ) {
        let [kh, kw] = self.p.kernel;
        // SAFETY: the caller's promise.
        unsafe {
            if self.p.kernel == [3, 3] {
                return self.weights::<3, 3, T, S>(s, count, parts, [0, 0], to);
            }
            for a in 0..kh {
                let mut b = 0;
                while b < kw {
                    match kw - b {
                        4.. => self.weights::<1, 4, T, S>(s, count, parts, [a, b], to),
                        2.. => self.weights::<1, 2, T, S>(s, count, parts, [a, b], to),
                        _ => self.weights::<1, 1, T, S>(s, count, parts, [a, b], to),
                    }
                    b += match kw - b {
                        4.. => 4,
                        2.. => 2,
                        _ => 1,
                    };
                }
            }
        }
    }

    /// `A` by `B` weights from `[a, b]` on.
    ///
    /// # Safety
    /// As `add_gradients`.
    #[inline(always)]
    unsafe fn weights<const A: usize, const B: usize, T: Lane, S: Lanes<T>>(
        &self,
        s: S,
        count: usize,
        [from, gradients]: [*mut T; 2],
        [a, b]: [usize; 2],
        to: *mut T,
    ) {
        let (columns, kw) = (self.p.output[1], self.p.kernel[1]);
        let (down, right, step) = (self.tap(1, 0), self.tap(0, 1), self.p.stride[1] * CHUNK);
        let mut sums = [[s.splat(T::ZERO); B]; A];
        // SAFETY: the caller's promise.
        unsafe {
            for i in 0..count {
                let mut at = from.add(self.first(i, 0) + self.tap(a, b));
                for j in 0..columns {
                    let g = s.load(gradients.add((i * columns + j) * CHUNK));
                    for (k, sums) in sums.iter_mut().enumerate() {
                        for (l, sum) in sums.iter_mut().enumerate() {
                            *sum = s.madd(g, s.load(at.add(k * down + l * right)), *sum);
                        }
                    }
                    at = at.add(step);
                }
            }
            for (k, sums) in sums.iter().enumerate() {
                for (l, &sum) in sums.iter().enumerate() {
                    let to = to.add(((a + k) * kw + b + l) * CHUNK);
                    s.store(to, s.add(s.load(to), sum));
                }
            }
        }
    }
}
