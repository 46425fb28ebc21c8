//! Every kernel against PyTorch's results.

use super::fixtures::{Array, Fixtures};
use crate::batch_norm::{Rectified, Rectifier, backward, moments, normalise};
use crate::conv2d::{
    channels_last as last, conv_pool, conv_pool_grad, direct, direct_filter, reference,
};
use crate::cross_entropy::kernel as cross_entropy;
use crate::elementwise::kernels::{relu, unary};
use crate::linear::kernel as linear;
use crate::optim::{adam, clip, sgd};
use crate::pool::{average, max};
use crate::simd::Lane;
use crate::softmax::kernel as softmax;
use crate::window::Window;
use dahl_core::{View, ViewMut};

fn window(f: &Fixtures, name: &str) -> (Window, usize) {
    let v = f.get::<f64>(&format!("{name}.window")).data;
    let (k, s, p) = (v[0] as usize, v[1] as usize, v[2] as isize);
    (
        Window {
            kernel: [k; 2],
            stride: [s; 2],
            shift: [p; 2],
        },
        v[3] as usize,
    )
}

fn both(test: fn(&Fixtures), other: fn(&Fixtures)) {
    let f = Fixtures::load();
    test(&f);
    other(&f);
}

fn direct_convolution<T: Lane>(f: &Fixtures) {
    for name in ["conv.a", "conv.b", "conv.c"] {
        let get = |key: &str| f.get::<T>(&format!("{name}.{key}"));
        let (x, w, b, dy) = (get("x"), get("w"), get("b"), get("dy"));
        let (win, _) = window(f, name);
        let (mut y, mut dx, mut dw) = (dy.like(), x.like(), w.like());
        let mut scratch = vec![T::ZERO; direct::forward_scratch(x.dims, y.dims, &win)];
        direct::forward(
            x.view(),
            w.view(),
            Some(b.view()),
            false,
            y.view_mut(),
            &win,
            &mut scratch,
        );
        f.check(&format!("{name}.y"), &y.data);
        let mut scratch = vec![T::ZERO; direct::input_grad_scratch(dy.dims, x.dims, &win)];
        direct::input_grad(dy.view(), w.view(), dx.view_mut(), &win, &mut scratch);
        f.check(&format!("{name}.dx"), &dx.data);
        let mut scratch = vec![T::ZERO; direct_filter::filter_grad_scratch(x.dims, dy.dims, &win)];
        direct_filter::filter_grad(x.view(), dy.view(), dw.view_mut(), &win, &mut scratch);
        f.check(&format!("{name}.dw"), &dw.data);
        let mut db = b.like();
        reference::bias_grad(dy.view(), db.view_mut());
        f.check(&format!("{name}.db"), &db.data);
    }
}

#[test]
fn convolution() {
    both(direct_convolution::<f64>, direct_convolution::<f32>);
}

fn fused_convolution<T: Lane>(f: &Fixtures) {
    for name in ["pooled.a", "pooled.b", "pooled.c"] {
        let get = |key: &str| f.get::<T>(&format!("{name}.{key}"));
        let (x, w, b, dy) = (get("x"), get("w"), get("b"), get("dy"));
        let (win, pool) = window(f, name);
        let (mut y, mut dx, mut dw, mut db) = (dy.like(), x.like(), w.like(), b.like());
        let [n, o, ph, pw] = dy.dims;
        let mut codes = Array::<T>::zeros([n, o, ph, conv_pool::code_columns::<T>(pw)]);
        let mut scratch = vec![T::ZERO; conv_pool::forward_scratch(x.dims, y.dims, &win, pool)];
        let (yv, cv) = (y.view_mut(), codes.view_mut());
        conv_pool::forward(
            x.view(),
            w.view(),
            Some(b.view()),
            yv,
            cv,
            &win,
            pool,
            &mut scratch,
        );
        f.check(&format!("{name}.y"), &y.data);
        let len = conv_pool_grad::filter_grad_scratch(x.dims, dy.dims, &win, pool);
        let (mut scratch, cv) = (vec![T::ZERO; len], codes.view());
        let (dwv, dbv) = (dw.view_mut(), Some(db.view_mut()));
        conv_pool_grad::filter_grad(x.view(), dy.view(), cv, dwv, dbv, &win, pool, &mut scratch);
        f.check(&format!("{name}.dw"), &dw.data);
        f.check(&format!("{name}.db"), &db.data);
        let out = |a: usize| x.dims[2 + a] + 2 * win.shift[a] as usize - win.kernel[a] + 1;
        let mut full = Array::<T>::zeros([n, o, out(0), out(1)]);
        conv_pool_grad::expand(dy.view(), codes.view(), full.view_mut(), pool);
        let mut scratch = vec![T::ZERO; direct::input_grad_scratch(full.dims, x.dims, &win)];
        direct::input_grad(full.view(), w.view(), dx.view_mut(), &win, &mut scratch);
        f.check(&format!("{name}.dx"), &dx.data);
    }
}

#[test]
fn convolution_with_pooling() {
    both(fused_convolution::<f64>, fused_convolution::<f32>);
}

fn channels_last_convolution<T: Lane>(f: &Fixtures) {
    for name in ["pooled.a", "pooled.b", "pooled.c"] {
        let get = |key: &str| f.get::<T>(&format!("{name}.{key}"));
        let (x, w, b, dy) = (get("x"), get("w"), get("b"), get("dy"));
        let (win, side) = window(f, name);
        let (mut y, mut dx, mut dw, mut db) = (dy.like(), x.like(), w.like(), b.like());
        let [n, o, ph, pw] = dy.dims;
        let mut codes = Array::<T>::zeros([n, o, ph, conv_pool::code_columns::<T>(pw)]);
        let len = last::forward::scratch_len(x.dims, y.dims, &win, side);
        let (mut scratch, bias) = (vec![T::ZERO; len], Some(b.view()));
        let (yv, cv) = (y.view_mut(), codes.view_mut());
        last::forward::forward(x.view(), w.view(), bias, yv, cv, &win, side, &mut scratch);
        f.check(&format!("{name}.y"), &y.data);
        let given = last::Gradient::Pooled {
            dy: dy.view(),
            codes: codes.view(),
            side,
        };
        let len = last::filter::scratch_len(x.dims, given.dims(), &win);
        let (mut scratch, dwv, dbv) = (vec![T::ZERO; len], dw.view_mut(), db.view_mut());
        last::filter::filter_grad(x.view(), given, dwv, Some(dbv), &win, &mut scratch);
        f.check(&format!("{name}.dw"), &dw.data);
        f.check(&format!("{name}.db"), &db.data);
        let len = last::input::scratch_len(x.dims, given.dims(), &win);
        let mut scratch = vec![T::ZERO; len];
        last::input::input_grad(given, w.view(), dx.view_mut(), &win, &mut scratch);
        f.check(&format!("{name}.dx"), &dx.data);
    }
}

#[test]
fn convolution_with_channels_last() {
    both(
        channels_last_convolution::<f64>,
        channels_last_convolution::<f32>,
    );
}

fn linear_layer<T: Lane>(f: &Fixtures) {
    let get = |key: &str| f.get::<T>(&format!("linear.{key}"));
    let (x, w, b, dy) = (get("x"), get("w"), get("b"), get("dy"));
    let (mut y, mut dx, mut dw, mut db) = (dy.like(), x.like(), w.like(), b.like());
    linear::forward(x.view(), w.view(), Some(b.view()), y.view_mut());
    f.check("linear.y", &y.data);
    linear::input_grad(dy.view(), w.view(), dx.view_mut());
    f.check("linear.dx", &dx.data);
    linear::weight_grad(dy.view(), x.view(), dw.view_mut());
    f.check("linear.dw", &dw.data);
    linear::bias_grad(dy.view(), db.view_mut());
    f.check("linear.db", &db.data);
}

#[test]
fn linear_and_gradients() {
    both(linear_layer::<f64>, linear_layer::<f32>);
}

fn losses<T: Lane>(f: &Fixtures) {
    let (x, dy) = (f.get::<T>("softmax.x"), f.get::<T>("softmax.dy"));
    let (mut y, mut dx) = (x.like(), x.like());
    softmax::forward(x.view(), y.view_mut());
    f.check("softmax.y", &y.data);
    softmax::backward(y.view(), dy.view(), dx.view_mut());
    f.check("softmax.dx", &dx.data);

    let (x, labels) = (f.get::<T>("entropy.x"), f.get("entropy.labels"));
    let (mut losses, mut dx) = (labels.like(), x.like());
    let sixth = T::ONE / T::from_f64(6.0);
    let (of, lv) = (labels.view(), losses.view_mut());
    let totals = cross_entropy::forward_backward(x.view(), of, sixth, lv, dx.view_mut());
    f.check("entropy.losses", &losses.data);
    f.check("entropy.dx", &dx.data);
    assert_eq!(
        totals.correct as f64,
        f.get::<f64>("entropy.correct").data[0]
    );
}

#[test]
fn softmax_and_cross_entropy() {
    both(losses::<f64>, losses::<f32>);
}

fn pooling<T: Lane>(f: &Fixtures) {
    for name in ["max.a", "max.b", "average.a", "global.a"] {
        let (x, dy) = (
            f.get::<T>(&format!("{name}.x")),
            f.get::<T>(&format!("{name}.dy")),
        );
        let (win, _) = window(f, name);
        let (mut y, mut dx) = (dy.like(), x.like());
        match name.split_once('.').map_or("", |n| n.0) {
            "max" => {
                let mut places = dy.like();
                max::forward(x.view(), y.view_mut(), Some(places.view_mut()), &win);
                max::backward(dy.view(), places.view(), dx.view_mut(), &win);
            }
            "global" => {
                average::adaptive(x.view(), y.view_mut());
                average::adaptive_backward(dy.view(), dx.view_mut());
            }
            _ => {
                average::forward(x.view(), y.view_mut(), &win);
                average::backward(dy.view(), dx.view_mut(), &win);
            }
        }
        f.check(&format!("{name}.y"), &y.data);
        f.check(&format!("{name}.dx"), &dx.data);
    }
}

#[test]
fn pooling_and_gradients() {
    both(pooling::<f64>, pooling::<f32>);
}

fn normalisation<T: Lane>(f: &Fixtures) {
    let get = |key: &str| f.get::<T>(&format!("norm.{key}"));
    let (x, dy, scale, shift) = (get("x"), get("dy"), get("scale"), get("shift"));
    let affine = Some((scale.view(), shift.view()));
    let epsilon = T::from_f64(1e-5);
    // Two tiles of samples, merged, as tasks would.
    let (mut all, mut part) = (
        Array::<T>::zeros([1, 1, 3, 3]),
        Array::<T>::zeros([1, 1, 3, 3]),
    );
    for from in [0, 1] {
        let tile = x.view().part([3 * from, 0, 0, 0], [3 - 2 * from, 3, 5, 6]);
        moments::moments(tile, part.view_mut());
        moments::merge(part.view(), all.view_mut());
    }
    let mut stats = Array::<T>::zeros([1, 1, 2, 3]);
    let (mut mean, mut var) = (scale.like(), scale.like());
    var.data.fill(T::ONE);
    let running = Some((mean.view_mut(), var.view_mut(), T::from_f64(0.1)));
    moments::finish(all.view(), epsilon, stats.view_mut(), running);
    f.check("norm.running_mean", &mean.data);
    f.check("norm.running_var", &var.data);
    let (mut y, mut dx) = (x.like(), x.like());
    let relu = Some(Rectifier::new(None));
    normalise::normalise(x.view(), stats.view(), affine, relu, y.view_mut());
    f.check("norm.y", &y.data);
    let mut sums = stats.like();
    backward::sums(
        x.view(),
        dy.view(),
        Some(Rectified::new(y.view(), None)),
        stats.view(),
        sums.view_mut(),
    );
    f.check("norm.dshift", &sums.data[..3]);
    f.check("norm.dscale", &sums.data[3..]);
    let (yv, scale) = (Rectified::new(y.view(), None), Some(scale.view()));
    let (stats_, sums_) = (stats.view(), sums.view());
    backward::input_grad(
        x.view(),
        dy.view(),
        Some(yv),
        stats_,
        sums_,
        scale,
        120,
        dx.view_mut(),
    );
    f.check("norm.dx", &dx.data);
    moments::from_running(mean.view(), var.view(), epsilon, stats.view_mut());
    normalise::normalise(x.view(), stats.view(), affine, None, y.view_mut());
    f.check("norm.eval", &y.data);
}

#[test]
fn batch_normalisation() {
    both(normalisation::<f64>, normalisation::<f32>);
}

fn optimisers<T: Lane>(f: &Fixtures) {
    let (start, grads) = (f.get::<T>("steps.start"), f.get::<T>("steps.grads"));
    let t = T::from_f64;
    for name in ["sgd.plain", "sgd.momentum", "sgd.nesterov", "adam", "adamw"] {
        let (mut p, mut m, mut v) = (start.clone(), start.like(), start.like());
        for step in 0..4 {
            let g = grads.view().part([0, 0, step, 0], start.dims);
            let nesterov = name == "sgd.nesterov";
            let sgd = sgd::Sgd {
                rate: t(0.1),
                decay: t(0.01),
                momentum: t(0.9),
                nesterov,
            };
            let adam = adam::Adam {
                rate: 0.01,
                betas: [0.9, 0.999],
                epsilon: 1e-8,
                decay: 0.1,
                decoupled: name == "adamw",
                step: (step + 1) as f64,
            };
            match name {
                "sgd.plain" => sgd::step(&sgd, g, p.view_mut()),
                "adam" | "adamw" => adam::step(&adam, g, p.view_mut(), m.view_mut(), v.view_mut()),
                _ => sgd::step_momentum(&sgd, g, p.view_mut(), m.view_mut()),
            }
        }
        f.check(&format!("steps.{name}"), &p.data);
    }
    let mut g: Vec<T> = grads.data[..21].iter().map(|&g| g * t(3.0)).collect();
    let factor = clip::factor(clip::squares(View::from_slice(&g, start.dims)), t(1.5));
    clip::apply(factor, ViewMut::from_slice(&mut g, start.dims));
    f.check("clip.grad", &g);
}

#[test]
fn optimiser_steps() {
    both(optimisers::<f64>, optimisers::<f32>);
}

fn each_element<T: Lane>(f: &Fixtures) {
    let x = f.get::<T>("each.x");
    let t = T::from_f64;
    let mut size = x.clone();
    size.data.iter_mut().for_each(|v| *v = v.abs());
    let check = |name: &str, op: &dyn Fn(ViewMut<'_, T>)| {
        let mut y = x.like();
        op(y.view_mut());
        f.check(name, &y.data);
    };
    check("each.round", &|y| unary::round(x.view(), y));
    check("each.clip", &|y| unary::clip(t(-1.0), t(1.5), x.view(), y));
    check("each.exp", &|y| unary::exp(x.view(), y));
    check("each.power", &|y| unary::power(t(1.7), size.view(), y));
    check("each.relu", &|y| relu::relu(x.view(), y));
    size.data.iter_mut().for_each(|v| *v += t(0.1));
    check("each.log", &|y| unary::log(size.view(), y));
}

#[test]
fn elementwise() {
    both(each_element::<f64>, each_element::<f32>);
}
