//! Grouped convolutions against the reference, and the reference against finite differences.

use super::{Grouping, direct, grad, per_group, reference};
use crate::conv2d::testing::{Boxed, Rng, assert_close, dot};
use crate::simd::{Lane, at_every_level};
use crate::window::Window;

struct Case<T> {
    g: Grouping,
    x: Boxed<T>,
    w: Boxed<T>,
    bias: Boxed<T>,
    dy: Boxed<T>,
}

/// A random one: several groups, depthwise now and then, strides, gaps and shifts of all kinds.
fn case<T: Lane>(r: &mut Rng, wide: bool) -> Case<T> {
    let two = |r: &mut Rng, most: usize| [r.in_range(1, most), r.in_range(1, most)];
    let (mut kernel, mut stride, mut dilation) = (two(r, 4), two(r, 3), two(r, 3));
    if r.in_range(0, 2) == 0 {
        // What slides has kernels and loops of its own.
        let odd = [[3, 3], [5, 5], [7, 7], [3, 5], [5, 2], [7, 3], [3, 1]];
        (kernel, stride[0], dilation[0]) = (odd[r.in_range(0, odd.len() - 1)], 1, 1);
        stride[1] = if r.in_range(0, 3) > 0 { 1 } else { stride[1] };
    }
    // Wide ones are tall enough for several strips.
    let most = if wide { [30, 45] } else { [11, 11] };
    let [height, width] = most.map(|most| r.in_range(1, most));
    // A third are depthwise, with channels for whole blocks and some more.
    let (groups, ins, outs) = match r.in_range(0, 2) {
        0 => (r.in_range(16, 40), 1, 1),
        _ => (r.in_range(1, 4), r.in_range(1, 3), r.in_range(1, 3)),
    };
    let mut shift = [0; 2];
    let mut output = [0; 2];
    for (a, len) in [height, width].into_iter().enumerate() {
        shift[a] = r.in_range(0, kernel[a] * dilation[a] + 3) as isize - 2;
        output[a] = r.in_range(1, (len + 2) / stride[a] + 1);
    }
    let window = Window {
        kernel,
        stride,
        shift,
    };
    let samples = r.in_range(1, 2);
    let outs = outs * groups;
    Case {
        g: Grouping {
            window,
            dilation,
            groups,
        },
        x: Boxed::random([samples, ins * groups, height, width], r),
        w: Boxed::random([outs, ins, kernel[0], kernel[1]], r),
        bias: Boxed::random([1, 1, 1, outs], r),
        dy: Boxed::random([samples, outs, output[0], output[1]], r),
    }
}

/// Convolution is linear in each operand, so central differences are exact up to rounding.
#[test]
fn gradients_match_finite_differences() {
    let r = &mut Rng::new(11);
    for _ in 0..15 {
        let Case { g, x, w, dy, .. } = &case::<f64>(r, false);
        let loss = |x: &Boxed<f64>, w: &Boxed<f64>| {
            let mut y = dy.like();
            reference::forward(x.view(), w.view(), None, false, y.view_mut(), g);
            dot(y.view(), dy.view())
        };
        let (mut dx, mut dw) = (x.like(), w.like());
        reference::input_grad(dy.view(), w.view(), dx.view_mut(), g);
        reference::filter_grad(x.view(), dy.view(), dw.view_mut(), g);
        for k in (0..x.len()).step_by(5) {
            let slope = (loss(&x.nudged(k, 1.0), w) - loss(&x.nudged(k, -1.0), w)) / 2.0;
            assert!((slope - dx.get(k)).abs() < 1e-10, "{g:?} dx[{k}]");
        }
        for k in 0..w.len() {
            let slope = (loss(x, &w.nudged(k, 1.0)) - loss(x, &w.nudged(k, -1.0))) / 2.0;
            assert!((slope - dw.get(k)).abs() < 1e-10, "{g:?} dw[{k}]");
        }
    }
}

fn agree<T: Lane>(seed: u64) {
    let r = &mut Rng::new(seed);
    for i in 0..120 {
        let Case { g, x, w, bias, dy } = &mut case::<T>(r, i % 2 == 0);
        if i % 3 == 0 {
            g.dilation = [1, 1];
        }
        let what = format!("{g:?} {:?}", x.view().dims());
        let (bias, relu) = ((i % 4 > 0).then(|| bias.view()), i % 2 == 1);
        let (mut want, mut got) = (dy.like(), dy.like());
        reference::forward(x.view(), w.view(), bias, relu, want.view_mut(), g);
        let (from, to) = (x.view().dims(), dy.view().dims());
        // Nothing of what lies in scratch memory may reach a result.
        let mut scratch = vec![T::from_f64(f64::NAN); direct::scratch_len(from, to, g)];
        direct::forward(
            x.view(),
            w.view(),
            bias,
            relu,
            got.view_mut(),
            g,
            &mut scratch,
        );
        assert_close(&got, &want, &format!("{what}: y"));
        let (mut want_dx, mut dx) = (x.like(), x.like());
        reference::input_grad(dy.view(), w.view(), want_dx.view_mut(), g);
        let mut scratch = vec![T::from_f64(f64::NAN); direct::input_scratch_len(from, to, g)];
        direct::input_grad(dy.view(), w.view(), dx.view_mut(), g, &mut scratch);
        assert_close(&dx, &want_dx, &format!("{what}: dx"));
        let (mut want_dw, mut dw) = (w.clone(), w.clone());
        reference::filter_grad(x.view(), dy.view(), want_dw.view_mut(), g);
        let mut scratch = vec![T::from_f64(f64::NAN); grad::scratch_len(from, to, g)];
        grad::filter_grad(x.view(), dy.view(), dw.view_mut(), g, &mut scratch);
        assert_close(&dw, &want_dw, &format!("{what}: dw"));
        if !per_group::supports(g) {
            continue;
        }
        let len = per_group::scratch_len(x.view().dims(), dy.view().dims(), g);
        let mut scratch = vec![T::ZERO; len];
        per_group::forward(
            x.view(),
            w.view(),
            bias,
            relu,
            got.view_mut(),
            g,
            &mut scratch,
        );
        assert_close(&got, &want, &format!("{what}: y per group"));
        per_group::input_grad(dy.view(), w.view(), dx.view_mut(), g, &mut scratch);
        assert_close(&dx, &want_dx, &format!("{what}: dx per group"));
        let mut dw = w.clone();
        per_group::filter_grad(x.view(), dy.view(), dw.view_mut(), g, &mut scratch);
        assert_close(&dw, &want_dw, &format!("{what}: dw per group"));
    }
}

#[test]
fn every_implementation_agrees_with_the_reference() {
    at_every_level(|_| {
        agree::<f64>(21);
        agree::<f32>(22);
    });
}
