//! Activations, norms within a sample, grouped convolutions and losses against PyTorch's results.

use super::fixtures::{Array, Fixtures};
use crate::activation::kernels as activation;
use crate::compare::ulps;
use crate::conv2d::grouped::{Grouping, direct, grad, per_group};
use crate::loss::kernels::smooth::{self, Smooth};
use crate::loss::kernels::values::{self, Distance};
use crate::norm::kernels::{group, layer};
use crate::simd::Lane;
use crate::window::Window;
use dahl_core::{View, ViewMut};

fn both(test: fn(&Fixtures), other: fn(&Fixtures)) {
    let f = Fixtures::load();
    test(&f);
    other(&f);
}

macro_rules! activations {
    ($test:ident, $t:ty) => {
        fn $test(f: &Fixtures) {
            type Forward = fn(View<'_, $t>, ViewMut<'_, $t>);
            type Backward = fn(View<'_, $t>, View<'_, $t>, ViewMut<'_, $t>);
            let all: [(&str, Forward, Backward); 7] = [
                ("sigmoid", activation::sigmoid, activation::sigmoid_grad),
                ("tanh", activation::tanh, activation::tanh_grad),
                (
                    "leaky_relu",
                    |x, y| activation::leaky_relu(0.2, x, y),
                    |g, x, d| activation::leaky_relu_grad(0.2, g, x, d),
                ),
                (
                    "elu",
                    |x, y| activation::elu(0.7, x, y),
                    |g, x, d| activation::elu_grad(0.7, g, x, d),
                ),
                ("gelu", activation::gelu, activation::gelu_grad),
                (
                    "gelu_tanh",
                    activation::gelu_tanh,
                    activation::gelu_tanh_grad,
                ),
                ("silu", activation::silu, activation::silu_grad),
            ];
            for (name, forward, backward) in all {
                let get = |key: &str| f.get::<$t>(&format!("activation.{name}.{key}"));
                let (x, dy) = (get("x"), get("dy"));
                let (mut y, mut dx) = (x.like(), x.like());
                forward(x.view(), y.view_mut());
                f.check(&format!("activation.{name}.y"), &y.data);
                let from = if matches!(name, "sigmoid" | "tanh") {
                    &y
                } else {
                    &x
                };
                backward(dy.view(), from.view(), dx.view_mut());
                f.check(&format!("activation.{name}.dx"), &dx.data);
            }
        }
    };
}

activations!(activations_f32, f32);
activations!(activations_f64, f64);

#[test]
fn activations() {
    both(activations_f64, activations_f32);
}

/// Where nothing cancels, double precision is a few ULPs away, not only within the relative error.
#[test]
fn activations_to_the_last_places() {
    let f = Fixtures::load();
    type Forward = fn(View<'_, f64>, ViewMut<'_, f64>);
    let all: [(&str, Forward); 4] = [
        ("sigmoid", activation::sigmoid),
        ("tanh", activation::tanh),
        ("elu", |x, y| activation::elu(0.7, x, y)),
        ("silu", activation::silu),
    ];
    for (name, forward) in all {
        let x = f.get::<f64>(&format!("activation.{name}.x"));
        let want = f.get::<f64>(&format!("activation.{name}.y"));
        let mut y = x.like();
        forward(x.view(), y.view_mut());
        for (k, (&got, &want)) in y.data.iter().zip(&want.data).enumerate() {
            assert!(
                ulps(got, want) <= 4,
                "{name}({}): {got}, not {want}",
                x.data[k]
            );
        }
    }
}

fn norms<T: Lane>(f: &Fixtures) {
    let epsilon = T::from_f64(1e-5);
    for (name, groups) in [
        ("layer_norm.a", None),
        ("layer_norm.b", None),
        ("group_norm.a", Some(2)),
        ("group_norm.b", Some(6)),
    ] {
        let get = |key: &str| f.get::<T>(&format!("{name}.{key}"));
        let (x, dy, scale, shift) = (get("x"), get("dy"), get("scale"), get("shift"));
        let samples = if name == "layer_norm.b" {
            x.dims[2]
        } else {
            x.dims[0]
        };
        let mut stats = Array::zeros([1, 1, samples, 2 * groups.unwrap_or(1)]);
        let (mut y, mut dx) = (x.like(), x.like());
        let (mut dscale, mut dshift) = (scale.like(), shift.like());
        let (xv, gv, a, b) = (x.view(), dy.view(), scale.view(), shift.view());
        match groups {
            None => layer::forward(xv, a, b, epsilon, y.view_mut(), stats.view_mut()),
            Some(n) => group::forward(xv, a, b, n, epsilon, y.view_mut(), stats.view_mut()),
        }
        let (sv, da, db) = (stats.view(), dscale.view_mut(), dshift.view_mut());
        match groups {
            None => {
                layer::input_grad(xv, gv, sv, a, dx.view_mut());
                layer::affine_grad(xv, gv, sv, da, db);
            }
            Some(n) => {
                group::input_grad(xv, gv, sv, a, n, dx.view_mut());
                group::affine_grad(xv, gv, sv, n, da, db);
            }
        }
        for (key, got) in [("y", y), ("dx", dx), ("dscale", dscale), ("dshift", dshift)] {
            f.check(&format!("{name}.{key}"), &got.data);
        }
    }
}

#[test]
fn layer_and_group_norm() {
    both(norms::<f64>, norms::<f32>);
}

fn grouped_convolution<T: Lane>(f: &Fixtures) {
    for name in ["grouped.a", "grouped.b", "grouped.c", "grouped.d"] {
        let get = |key: &str| f.get::<T>(&format!("{name}.{key}"));
        let (x, w, b, dy) = (get("x"), get("w"), get("b"), get("dy"));
        let window = f.get::<f64>(&format!("{name}.window")).data;
        let [k, s, p, d, groups] = std::array::from_fn(|i| window[i] as usize);
        let g = Grouping {
            window: Window {
                kernel: [k; 2],
                stride: [s; 2],
                shift: [p as isize; 2],
            },
            dilation: [d; 2],
            groups,
        };
        let check = |how: &str, y: &Array<T>, dx: &Array<T>, dw: &Array<T>| {
            for (key, got) in [("y", y), ("dx", dx), ("dw", dw)] {
                println!("{how}");
                f.check(&format!("{name}.{key}"), &got.data);
            }
        };
        let (mut y, mut dx, mut dw) = (dy.like(), x.like(), w.like());
        let (xv, wv, bias) = (x.view(), w.view(), Some(b.view()));
        let mut scratch = vec![T::ZERO; direct::scratch_len(x.dims, dy.dims, &g)];
        direct::forward(xv, wv, bias, false, y.view_mut(), &g, &mut scratch);
        scratch.resize(direct::input_scratch_len(x.dims, dy.dims, &g), T::ZERO);
        direct::input_grad(dy.view(), wv, dx.view_mut(), &g, &mut scratch);
        scratch.resize(grad::scratch_len(x.dims, dy.dims, &g), T::ZERO);
        grad::filter_grad(xv, dy.view(), dw.view_mut(), &g, &mut scratch);
        check("direct", &y, &dx, &dw);
        if !per_group::supports(&g) {
            continue;
        }
        let mut scratch = vec![T::ZERO; per_group::scratch_len(x.dims, dy.dims, &g)];
        let (mut y, mut dx, mut dw) = (dy.like(), x.like(), w.like());
        per_group::forward(xv, wv, bias, false, y.view_mut(), &g, &mut scratch);
        per_group::input_grad(dy.view(), wv, dx.view_mut(), &g, &mut scratch);
        per_group::filter_grad(xv, dy.view(), dw.view_mut(), &g, &mut scratch);
        check("per group", &y, &dx, &dw);
    }
}

#[test]
fn convolution_in_groups() {
    both(grouped_convolution::<f64>, grouped_convolution::<f32>);
}

macro_rules! value_losses {
    ($test:ident, $t:ty) => {
        fn $test(f: &Fixtures) {
            for (name, distance) in [
                ("mse", Distance::Mse),
                ("l1", Distance::L1),
                ("bce", Distance::BceWithLogits),
            ] {
                for (form, samples) in [("image", 3), ("row", 4)] {
                    let get = |key: &str| f.get::<$t>(&format!("{name}.{form}.{key}"));
                    let (x, t) = (get("x"), get("targets"));
                    let (mut losses, mut dx) = (Array::zeros([1, 1, 1, samples]), x.like());
                    let gradient = Some((1.0 / samples as $t, dx.view_mut()));
                    let of = losses.view_mut();
                    values::losses(distance, x.view(), t.view(), of, gradient);
                    f.check(&format!("{name}.{form}.losses"), &losses.data);
                    f.check(&format!("{name}.{form}.dx"), &dx.data);
                }
            }
        }
    };
}

value_losses!(value_losses_f32, f32);
value_losses!(value_losses_f64, f64);

#[test]
fn losses_against_values() {
    both(value_losses_f64, value_losses_f32);
}

fn smooth_losses<T: Lane>(f: &Fixtures) {
    let get = |key: &str| f.get::<T>(&format!("smooth.{key}"));
    let (x, labels, weights) = (get("x"), get("labels"), get("weights"));
    let total = smooth::total(labels.view(), weights.view());
    f.check("smooth.total", &[total]);
    let (six, tenth) = (T::from_f64(6.0), T::from_f64(0.1));
    for (name, weighted, smoothing) in [
        ("plain", false, tenth),
        ("weighted", true, T::ZERO),
        ("both", true, tenth),
    ] {
        let of = Smooth {
            weights: weighted.then(|| weights.view()),
            share: if weighted { six / total } else { T::ONE },
            smoothing,
        };
        let (mut losses, mut dx, mut scratch) = (labels.like(), x.like(), vec![T::ZERO; 10]);
        let gradient = Some((T::ONE / six, dx.view_mut()));
        let to = losses.view_mut();
        smooth::losses(x.view(), labels.view(), of, to, gradient, &mut scratch);
        let mean = losses.data.iter().copied().sum::<T>() / six;
        f.check(&format!("smooth.{name}.mean"), &[mean]);
        f.check(&format!("smooth.{name}.dx"), &dx.data);
    }
}

#[test]
fn smooth_cross_entropy() {
    both(smooth_losses::<f64>, smooth_losses::<f32>);
}
