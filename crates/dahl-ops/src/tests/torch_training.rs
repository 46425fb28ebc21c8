//! Thirty training steps of a small network by the fused kernels, against PyTorch's.

use super::fixtures::{Array, Fixtures};
use crate::conv2d::{conv_pool, conv_pool_grad};
use crate::cross_entropy::kernel as cross_entropy;
use crate::linear::kernel as linear;
use crate::optim::sgd::{self, Sgd};
use crate::simd::Lane;
use crate::window::Window;

const KEYS: [&str; 4] = ["0.weight", "0.bias", "4.weight", "4.bias"];

fn train<T: Lane>(steps: usize) -> (Fixtures, Vec<T>, [Array<T>; 4]) {
    let f = Fixtures::load();
    let mut params: [Array<T>; 4] = KEYS.map(|k| f.get(&format!("train.start.{k}")));
    let (x, labels) = (f.get::<T>("train.x"), f.get::<T>("train.labels"));
    let win = Window {
        kernel: [3, 3],
        stride: [1, 1],
        shift: [0, 0],
    };
    let mut y = Array::<T>::zeros([8, 4, 4, 4]);
    let mut codes = Array::<T>::zeros([8, 4, 4, conv_pool::code_columns::<T>(4)]);
    let mut logits = Array::<T>::zeros([1, 1, 8, 10]);
    let (mut dlogits, mut losses) = (logits.like(), labels.like());
    let len = conv_pool_grad::filter_grad_scratch(x.dims, y.dims, &win, 2);
    let mut scratch = vec![T::ZERO; len];
    let sgd = Sgd {
        rate: T::from_f64(0.05),
        decay: T::ZERO,
        momentum: T::ZERO,
        nesterov: false,
    };
    let eighth = T::from_f64(0.125);
    let mut history = Vec::new();
    for _ in 0..steps {
        let [w, b, v, c] = &params;
        let mut grads = [w.like(), b.like(), v.like(), c.like()];
        let (yv, cv) = (y.view_mut(), codes.view_mut());
        conv_pool::forward(
            x.view(),
            w.view(),
            Some(b.view()),
            yv,
            cv,
            &win,
            2,
            &mut scratch,
        );
        let flat = Array {
            dims: [1, 1, 8, 64],
            data: y.data.clone(),
        };
        linear::forward(flat.view(), v.view(), Some(c.view()), logits.view_mut());
        let of = labels.view();
        let (lv, gv) = (losses.view_mut(), dlogits.view_mut());
        let totals = cross_entropy::forward_backward(logits.view(), of, eighth, lv, gv);
        history.push(totals.loss * eighth);
        let mut dy = flat.like();
        linear::input_grad(dlogits.view(), v.view(), dy.view_mut());
        dy.dims = y.dims;
        let [dw, db, dv, dc] = &mut grads;
        linear::weight_grad(dlogits.view(), flat.view(), dv.view_mut());
        linear::bias_grad(dlogits.view(), dc.view_mut());
        let (dwv, dbv, cv) = (dw.view_mut(), Some(db.view_mut()), codes.view());
        conv_pool_grad::filter_grad(x.view(), dy.view(), cv, dwv, dbv, &win, 2, &mut scratch);
        for (p, g) in params.iter_mut().zip(&grads) {
            sgd::step(&sgd, g.view(), p.view_mut());
        }
    }
    (f, history, params)
}

#[test]
fn thirty_steps_in_double_precision() {
    let (f, losses, params) = train::<f64>(30);
    f.check("train.losses", &losses);
    for (key, p) in KEYS.iter().zip(&params) {
        f.check(&format!("train.end.{key}"), &p.data);
    }
}

#[test]
fn thirty_steps_in_single_precision() {
    let (f, losses, params) = train::<f32>(30);
    f.check("train.losses", &losses);
    for (key, p) in KEYS.iter().zip(&params) {
        f.check(&format!("train.end.{key}"), &p.data);
    }
}
