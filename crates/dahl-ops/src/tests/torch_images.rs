//! Bounded activations, norms over channels, images of another size and adaptive pooling against PyTorch's results.

use super::fixtures::{Array, Fixtures};
use crate::elementwise::kernels::relu;
use crate::norm::kernels::channel;
use crate::pool::average;
use crate::simd::Lane;
use crate::upsample;

fn all<T: Lane>(f: &Fixtures) {
    let get = |key: &str| f.get::<T>(key);
    let (x, dy) = (get("relu6.x"), get("relu6.dy"));
    let (mut y, mut dx) = (x.like(), x.like());
    relu::relu6(x.view(), y.view_mut());
    relu::relu6_grad(dy.view(), y.view(), dx.view_mut());
    f.check("relu6.y", &y.data);
    f.check("relu6.dx", &dx.data);

    let [x, dy, scale, shift] =
        ["x", "dy", "scale", "shift"].map(|k| get(&format!("channel_norm.{k}")));
    let mut stats = Array::zeros([x.dims[0], 2, x.dims[2], x.dims[3]]);
    let (mut y, mut dx) = (x.like(), x.like());
    let (mut dscale, mut dshift) = (scale.like(), shift.like());
    let (xv, gv, epsilon) = (x.view(), dy.view(), T::from_f64(1e-6));
    channel::forward(
        xv,
        scale.view(),
        shift.view(),
        epsilon,
        y.view_mut(),
        stats.view_mut(),
    );
    channel::input_grad(xv, gv, stats.view(), scale.view(), dx.view_mut());
    channel::affine_grad(xv, gv, stats.view(), dscale.view_mut(), dshift.view_mut());
    for (key, got) in [("y", y), ("dx", dx), ("dscale", dscale), ("dshift", dshift)] {
        f.check(&format!("channel_norm.{key}"), &got.data);
    }

    for name in ["a", "b", "c", "d", "e", "f", "g"].map(|n| format!("upsample.{n}")) {
        let how = get(&format!("{name}.how")).data;
        let how = [0, 1].map(|i| how[i] == T::ONE);
        pair::<T>(f, &name, |[x, dy], [y, dx]| {
            upsample::tests::both(how, x.view(), dy.view(), y.view_mut(), dx.view_mut());
        });
    }
    for name in ["a", "b", "c", "d"].map(|n| format!("adaptive.{n}")) {
        pair::<T>(f, &name, |[x, dy], [y, dx]| {
            average::adaptive(x.view(), y.view_mut());
            average::adaptive_backward(dy.view(), dx.view_mut());
        });
    }
}

/// Compares an output and the gradient by the input, from the input and the gradient by the output.
fn pair<T: Lane>(f: &Fixtures, name: &str, run: impl Fn([&Array<T>; 2], [&mut Array<T>; 2])) {
    let [x, dy] = ["x", "dy"].map(|k| f.get::<T>(&format!("{name}.{k}")));
    let (mut y, mut dx) = (dy.like(), x.like());
    run([&x, &dy], [&mut y, &mut dx]);
    f.check(&format!("{name}.y"), &y.data);
    f.check(&format!("{name}.dx"), &dx.data);
}

#[test]
fn images_and_channels() {
    let f = Fixtures::load();
    all::<f64>(&f);
    all::<f32>(&f);
}
