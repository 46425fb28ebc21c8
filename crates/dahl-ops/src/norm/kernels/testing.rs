//! Finite differences for the tests of this module.

use crate::compare::assert_close;
use crate::conv2d::testing::{Boxed, dot};

/// The gradient of `Σ f(x) · dy` by every element of `x`, by central differences.
pub fn differences(
    x: &Boxed<f64>,
    f: impl Fn(&Boxed<f64>) -> Boxed<f64>,
    dy: &Boxed<f64>,
) -> Vec<f64> {
    let h = 1e-5;
    let value = |k: usize, by: f64| dot(f(&x.nudged(k, by)).view(), dy.view());
    (0..x.len())
        .map(|k| (value(k, h) - value(k, -h)) / (2.0 * h))
        .collect()
}

/// Fails unless a gradient agrees with the differences and nothing around it was touched.
pub fn check_gradients(name: &str, got: &Boxed<f64>, want: &[f64]) {
    assert!(got.margin_untouched(), "{name}: margin");
    let got: Vec<f64> = (0..got.len()).map(|k| got.get(k)).collect();
    assert_close(name, &got, want, 1e-8, 0);
}
