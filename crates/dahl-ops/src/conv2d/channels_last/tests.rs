//! All of the folder against the reference, on random tiles.

use super::super::conv_pool_grad::expand;
use super::super::reference;
use super::super::testing::{Boxed, Case, Dims, Rng, assert_close, cases, pool_by_hand};
use super::*;
use crate::compare;
use crate::simd::{Lane, at_every_level};
use dahl_core::view::for_rows;

/// Any window, with outputs that fill vectors now and then, and often one that [`input`] supports.
fn draw(r: &mut Rng) -> Dims {
    let mut dims = r.any();
    dims.filters = r.in_range(1, 35);
    if r.in_range(0, 2) > 0 {
        dims.win.stride = [1, 1];
        dims.win.kernel[0] = [3, 5][r.in_range(0, 1)];
    }
    // Long rows now and then: several blocks, several lists.
    if r.in_range(0, 5) == 0 {
        dims.input[1] = r.in_range(20, 90);
        dims.output[1] = dims.input[1];
    }
    dims
}

/// Memory that spoils a result if it is read before it is written.
fn nans<T: Lane>(len: usize) -> Vec<T> {
    vec![T::from_f64(f64::NAN); len]
}

fn gradients<T: Lane>(case: &Case<T>, given: Gradient<'_, T>, full: &Boxed<T>) {
    let (x, w, win) = (case.x.view(), case.w.view(), &case.win);
    let (mut got, mut want) = (case.w.clone(), case.w.clone());
    let (mut gotb, mut wantb) = (case.bias.clone(), case.bias.clone());
    let mut scratch = nans(filter::scratch_len(x.dims(), given.dims(), win));
    let (dw, db) = (got.view_mut(), Some(gotb.view_mut()));
    filter::filter_grad(x, given, dw, db, win, &mut scratch);
    reference::filter_grad(x, full.view(), want.view_mut(), win);
    reference::bias_grad(full.view(), wantb.view_mut());
    assert_close(&got, &want, &format!("filter {case:?}"));
    assert_close(&gotb, &wantb, &format!("bias {case:?}"));
    if input::supports(win) {
        let (mut got, mut want) = (case.x.clone(), case.x.like());
        let mut scratch = nans(input::scratch_len(x.dims(), given.dims(), win));
        input::input_grad(given, w, got.view_mut(), win, &mut scratch);
        reference::input_grad(full.view(), w, want.view_mut(), win);
        assert_close(&got, &want, &format!("input {case:?}"));
    }
}

fn pooled<T: Lane>(case: &Case<T>, side: usize) {
    let (x, w, win, bias) = (case.x.view(), case.w.view(), &case.win, case.bias.view());
    let mut conv = case.output();
    reference::forward(x, w, Some(bias), true, conv.view_mut(), win);
    let [n, o, oh, ow] = conv.view().dims();
    let dims = [n, o, oh / side, ow / side];
    if dims.contains(&0) {
        return;
    }
    let dy = case.dy.view().part([0; 4], dims);
    let (want, full) = pool_by_hand(&conv, dy, side);
    let mut y = case.output();
    let coded = [n, o, dims[2], code_columns::<T>(dims[3])];
    let mut codes = vec![T::ZERO; coded.iter().product()];
    let mut scratch = nans(forward::scratch_len(x.dims(), dims, win, side));
    let (mut out, held) = (y.view_mut(), ViewMut::from_slice(&mut codes, coded));
    let out = out.part([0; 4], dims);
    forward::forward(x, w, Some(bias), out, held, win, side, &mut scratch);
    let mut got = Vec::new();
    for_rows(dims, |at| {
        got.extend_from_slice(y.view().part([0; 4], dims).row(at))
    });
    let rel = if size_of::<T>() == 4 { 1e-5 } else { 1e-12 };
    compare::assert_close(&format!("pooled {case:?}"), &got, &want, rel, 4);
    assert!(y.margin_untouched(), "{case:?}: wrote outside its view");
    let codes = View::from_slice(&codes, coded);
    let mut expanded = conv.like();
    expand(dy, codes, expanded.view_mut(), side);
    assert_close(&expanded, &full, &format!("codes {case:?}"));
    gradients(case, Gradient::Pooled { dy, codes, side }, &full);
}

fn agrees<T: Lane>() {
    for case in cases::<T>(60, 17, draw) {
        gradients(&case, Gradient::Plain(case.dy.view()), &case.dy);
        pooled(&case, 2);
        pooled(&case, 3);
    }
}

#[test]
fn random_tiles_agree_with_reference() {
    at_every_level(|_| {
        agrees::<f32>();
        agrees::<f64>();
    });
}

#[test]
fn lenet_s_second_layer_agrees_with_reference() {
    let dims = |_: &mut Rng| Dims {
        samples: 2,
        channels: 6,
        filters: 16,
        input: [14, 14],
        output: [10, 10],
        win: Window {
            kernel: [5, 5],
            stride: [1, 1],
            shift: [0, 0],
        },
    };
    at_every_level(|_| {
        for case in cases::<f32>(2, 18, dims) {
            gradients(&case, Gradient::Plain(case.dy.view()), &case.dy);
            pooled(&case, 2);
        }
    });
}
