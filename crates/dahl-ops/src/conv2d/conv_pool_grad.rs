//! The backward pass of [`super::conv_pool`]: from the pooled gradient straight to the gradients of
//! filter and bias.
//!
//! The gradient of the convolution's output has one element per pooling window that is not zero. It
//! is never written: a register of pooled gradients becomes one register per position in the window,
//! zero in the lanes whose code names another position, and these meet the bank of inputs. For layers
//! whose input needs a gradient, [`expand`] writes it out for the ordinary kernels.

use dahl_core::{View, ViewMut};

use super::bank::Bank;
use super::conv_pool::{bank, code_columns};
use crate::simd::Lane;
use crate::simd::lanes::{CHUNK, Kernel, Lanes};
use crate::window::Window;

/// Elements of scratch memory that [`filter_grad`] needs: the bank, and a register per weight and
/// per bias.
pub(crate) fn filter_grad_scratch(
    x: [usize; 4],
    dy: [usize; 4],
    win: &Window,
    pool: usize,
) -> usize {
    let weights = dy[1] * x[1] * win.kernel[0] * win.kernel[1];
    bank(x[1], dy, win, pool).len() + (weights + dy[1]) * CHUNK
}

/// `dw +=`, `db +=` from the gradient `dy` of the pooled output (N×O×PH×PW) and the codes that the
/// forward pass left.
///
/// # Panics
/// If `pool` is neither 2 nor 3, the extents do not belong together or `scratch` is shorter than
/// [`filter_grad_scratch`].
#[allow(clippy::too_many_arguments)]
pub(crate) fn filter_grad<T: Lane>(
    x: View<'_, T>,
    dy: View<'_, T>,
    codes: View<'_, T>,
    dw: ViewMut<'_, T>,
    db: Option<ViewMut<'_, T>>,
    win: &Window,
    pool: usize,
    scratch: &mut [T],
) {
    let ([n, c, ..], [yn, o, ph, pw]) = (x.dims(), dy.dims());
    assert!(matches!(pool, 2 | 3), "fused pooling of {pool}");
    assert_eq!(
        dw.dims(),
        [o, c, win.kernel[0], win.kernel[1]],
        "fused conv2d: filter extents"
    );
    assert_eq!(
        codes.dims(),
        [n, o, ph, code_columns::<T>(pw)],
        "fused conv2d: code extents"
    );
    assert_eq!(n, yn, "fused conv2d: batch extents");
    assert!(
        db.as_ref().is_none_or(|b| b.dims() == [1, 1, 1, o]),
        "fused conv2d: bias extents"
    );
    let bank = bank(c, dy.dims(), win, pool);
    let (held, rest) = bank.carve(scratch);
    let weights = dw.len();
    assert!(
        rest.len() >= (weights + o) * CHUNK,
        "fused conv2d: scratch too short"
    );
    let (sums, rest) = rest.split_at_mut(weights * CHUNK);
    let kernel = Grad {
        x,
        dy,
        codes,
        dw,
        db,
        bank,
        held,
        sums,
        bias: &mut rest[..o * CHUNK],
    };
    match pool {
        2 => T::vectorised(Pooled::<_, 2>(kernel)),
        _ => T::vectorised(Pooled::<_, 3>(kernel)),
    }
}

struct Grad<'a, T> {
    x: View<'a, T>,
    dy: View<'a, T>,
    codes: View<'a, T>,
    dw: ViewMut<'a, T>,
    db: Option<ViewMut<'a, T>>,
    bank: Bank,
    held: &'a mut [T],
    /// A register per weight, summed at the end: one horizontal sum per task, not per sample.
    sums: &'a mut [T],
    /// A register per bias.
    bias: &'a mut [T],
}

struct Pooled<K, const P: usize>(K);

impl<T: Lane, const P: usize> Kernel<T> for Pooled<Grad<'_, T>, P> {
    type Output = ();

    #[inline(always)]
    fn run<S: Lanes<T>>(self, s: S) {
        let mut g = self.0;
        let [batch, outs, height, _] = g.dy.dims();
        let [kh, kw] = g.bank.win.kernel;
        let band = g.bank.out_rows / P;
        g.sums.fill(T::ZERO);
        g.bias.fill(T::ZERO);
        for n in 0..batch {
            for y0 in (0..height).step_by(band) {
                g.bank.fill(s, g.held, g.x, n, y0 * P);
                let rows = [y0, band.min(height - y0)];
                for o in 0..outs {
                    for c in 0..g.bank.channels {
                        let mut k = 0;
                        // With registers enough, five by five weights at once.
                        if S::ROWS > 6 && P == 2 && [kh, kw] == [5, 5] {
                            g.block::<S, P, 5, 5>(s, [n, o, c, 0, 0], rows);
                            k = kh;
                        }
                        while k < kh {
                            let tall = kh - k >= 3;
                            let mut l = 0;
                            while l < kw {
                                let at = [n, o, c, k, l];
                                l += match (tall, kw - l) {
                                    (true, 3..) => g.block::<S, P, 3, 3>(s, at, rows),
                                    (true, 2) => g.block::<S, P, 3, 2>(s, at, rows),
                                    (true, _) => g.block::<S, P, 3, 1>(s, at, rows),
                                    (false, 3..) => g.block::<S, P, 1, 3>(s, at, rows),
                                    (false, 2) => g.block::<S, P, 1, 2>(s, at, rows),
                                    (false, _) => g.block::<S, P, 1, 1>(s, at, rows),
                                };
                            }
                            k += if tall { 3 } else { 1 };
                        }
                    }
                }
            }
        }
        g.finish(s);
    }
}

impl<T: Lane> Grad<'_, T> {
    /// Adds a band's part of the gradient of `A`×`B` weights, and with the first ones the bias's.
    /// Returns `B`.
    #[inline(always)]
    fn block<S: Lanes<T>, const P: usize, const A: usize, const B: usize>(
        &mut self,
        s: S,
        [n, o, c, k, l]: [usize; 5],
        [y0, rows]: [usize; 2],
    ) -> usize {
        let bank = &self.bank;
        let ([kh, kw], [sh, sw]) = (bank.win.kernel, bank.win.stride);
        let ([sn, so, sy, _], [cn, co, cy, _]) = (self.dy.strides(), self.codes.strides());
        let width = self.dy.dims()[3];
        let first = [c, k, l] == [0, 0, 0];
        let zero = s.splat(T::ZERO);
        let marks: [[S::V; P]; P] = std::array::from_fn(|r| {
            std::array::from_fn(|q| s.splat(T::from_f64((1 + r * P + q) as f64)))
        });
        // SAFETY: one register per weight and bias; the bank was filled for these rows and columns;
        // loads reach `count` elements and bytes of rows that exist.
        unsafe {
            let sum = self
                .sums
                .as_mut_ptr()
                .add((((o * bank.channels + c) * kh + k) * kw + l) * CHUNK);
            let bias = self.bias.as_mut_ptr().add(o * CHUNK);
            let mut acc: [[S::V; B]; A] = std::array::from_fn(|a| {
                std::array::from_fn(|b| s.load(sum.add((a * kw + b) * CHUNK)))
            });
            let mut total = s.load(bias);
            for y in 0..rows {
                let x = self.held.as_ptr();
                let x = x.add(c * bank.channel() + (y * P * sh + k) * bank.row());
                let dy = self.dy.as_ptr().add(n * sn + o * so + (y0 + y) * sy);
                let codes = self
                    .codes
                    .as_ptr()
                    .add(n * cn + o * co + (y0 + y) * cy)
                    .cast::<u8>();
                for j in (0..width).step_by(S::LANES) {
                    let count = S::LANES.min(width - j);
                    let g = s.load_n(dy.add(j), count);
                    let code = s.load_bytes(codes.add(j), count);
                    let mut parts = [[zero; P]; P];
                    for r in 0..P {
                        for q in 0..P {
                            parts[r][q] = s.select(s.equal(code, marks[r][q]), g, zero);
                        }
                    }
                    if first {
                        total = s.add(total, s.select(s.equal(code, zero), zero, g));
                    }
                    if [sh, sw] == [1, 1] {
                        // Each input register is loaded once for all pairs of weight and position
                        // that read it. Loops of constant length, so that all stays in registers.
                        for i in 0..A + P - 1 {
                            let x = x.add(i * bank.row() + j);
                            for t in 0..B + P - 1 {
                                let x = s.load(x.add(bank.offset(l + t)));
                                for r in 0..P {
                                    for q in 0..P {
                                        if (r..r + A).contains(&i) && (q..q + B).contains(&t) {
                                            let acc = &mut acc[i - r][t - q];
                                            *acc = s.madd(parts[r][q], x, *acc);
                                        }
                                    }
                                }
                            }
                        }
                    } else {
                        for (r, parts) in parts.iter().enumerate() {
                            for (q, &g) in parts.iter().enumerate() {
                                for (a, acc) in acc.iter_mut().enumerate() {
                                    let x = x.add((r * sh + a) * bank.row() + j);
                                    for (b, acc) in acc.iter_mut().enumerate() {
                                        let x = s.load(x.add(bank.offset(sw * q + l + b)));
                                        *acc = s.madd(g, x, *acc);
                                    }
                                }
                            }
                        }
                    }
                }
            }
            for (a, acc) in acc.iter().enumerate() {
                for (b, &acc) in acc.iter().enumerate() {
                    s.store(sum.add((a * kw + b) * CHUNK), acc);
                }
            }
            if first {
                s.store(bias, total);
            }
        }
        B
    }

    #[inline(always)]
    fn finish<S: Lanes<T>>(&mut self, s: S) {
        let [outs, channels, kh, kw] = self.dw.dims();
        let registers = self.sums.chunks_exact(CHUNK);
        // SAFETY: each chunk holds a register.
        let mut sums = registers.map(|r| unsafe { s.sum(s.load(r.as_ptr())) });
        for at in 0..outs * channels * kh {
            let row = self
                .dw
                .row([at / (channels * kh), at / kh % channels, at % kh]);
            for (w, sum) in row[..kw].iter_mut().zip(&mut sums) {
                *w += sum;
            }
        }
        if let Some(db) = &mut self.db {
            for (b, r) in db
                .row([0, 0, 0])
                .iter_mut()
                .zip(self.bias.chunks_exact(CHUNK))
            {
                // SAFETY: each chunk holds a register.
                *b += unsafe { s.sum(s.load(r.as_ptr())) };
            }
        }
    }
}

/// Writes the gradient of the convolution's output (`out`, N×O×OH×OW, overwritten): each pooled
/// gradient at the position its code names, zero elsewhere.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn expand<T: Lane>(
    dy: View<'_, T>,
    codes: View<'_, T>,
    mut out: ViewMut<'_, T>,
    pool: usize,
) {
    let ([n, o, ph, pw], [on, oo, oh, ow]) = (dy.dims(), out.dims());
    assert_eq!([n, o], [on, oo], "fused conv2d: gradient extents");
    assert_eq!(
        codes.dims(),
        [n, o, ph, code_columns::<T>(pw)],
        "fused conv2d: code extents"
    );
    assert!(
        ph * pool <= oh && pw * pool <= ow,
        "fused conv2d: {pool}-pooled extents"
    );
    out.fill(T::ZERO);
    for n in 0..n {
        for o in 0..o {
            for y in 0..ph {
                let (dy, codes) = (dy.row([n, o, y]), codes.row([n, o, y]));
                // SAFETY: any element is as many initialised bytes, and `pw` fit in the row.
                let codes = unsafe { std::slice::from_raw_parts(codes.as_ptr().cast::<u8>(), pw) };
                for (j, (&g, &code)) in dy.iter().zip(codes).enumerate() {
                    if (1..=pool * pool).contains(&usize::from(code)) {
                        let at = usize::from(code) - 1;
                        out.row([n, o, y * pool + at / pool])[j * pool + at % pool] = g;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::conv_pool::{forward, forward_scratch};
    use super::super::reference;
    use super::super::testing::{Case, Rng, assert_close, cases, pool_by_hand};
    use super::*;
    use crate::compare;
    use crate::simd::at_every_level;
    use dahl_core::view::for_rows;

    fn check<T: Lane>(case: &Case<T>, p: usize) {
        let (x, w, win, bias) = (case.x.view(), case.w.view(), &case.win, case.bias.view());
        let mut conv = case.output();
        reference::forward(x, w, Some(bias), true, conv.view_mut(), win);
        let [n, o, oh, ow] = conv.view().dims();
        let dims = [n, o, oh / p, ow / p];
        if dims.contains(&0) {
            return;
        }
        let dy = case.dy.view().part([0; 4], dims);
        let (want, dconv) = pool_by_hand(&conv, dy, p);
        let mut y = case.output();
        let coded = [n, o, dims[2], code_columns::<T>(dims[3])];
        let mut codes = vec![T::ZERO; coded.iter().product()];
        let mut scratch = vec![T::from_f64(f64::NAN); forward_scratch(x.dims(), dims, win, p)];
        let (mut out, held) = (y.view_mut(), ViewMut::from_slice(&mut codes, coded));
        forward(
            x,
            w,
            Some(bias),
            out.part([0; 4], dims),
            held,
            win,
            p,
            &mut scratch,
        );
        let mut got = Vec::new();
        for_rows(dims, |at| {
            got.extend_from_slice(y.view().part([0; 4], dims).row(at))
        });
        let rel = if size_of::<T>() == 4 { 1e-5 } else { 1e-12 };
        compare::assert_close(&format!("pooled {case:?}"), &got, &want, rel, 4);
        assert!(y.margin_untouched() && codes.iter().all(|c| !c.is_nan()));

        let codes = View::from_slice(&codes, coded);
        let mut expanded = conv.like();
        expand(dy, codes, expanded.view_mut(), p);
        assert_close(&expanded, &dconv, &format!("expanded {case:?}"));

        let (mut got, mut want) = (case.w.clone(), case.w.clone());
        let (mut gotb, mut wantb) = (case.bias.clone(), case.bias.clone());
        let mut scratch = vec![T::from_f64(f64::NAN); filter_grad_scratch(x.dims(), dims, win, p)];
        let db = Some(gotb.view_mut());
        filter_grad(x, dy, codes, got.view_mut(), db, win, p, &mut scratch);
        reference::filter_grad(x, dconv.view(), want.view_mut(), win);
        reference::bias_grad(dconv.view(), wantb.view_mut());
        assert_close(&got, &want, &format!("filter {case:?}"));
        assert_close(&gotb, &wantb, &format!("bias {case:?}"));
    }

    fn agrees<T: Lane>() {
        for case in cases::<T>(50, 13, Rng::any) {
            check(&case, 2);
            check(&case, 3);
        }
    }

    #[test]
    fn fused_equals_one_after_the_other() {
        at_every_level(|_| {
            agrees::<f32>();
            agrees::<f64>();
        });
    }
}
