//! Convolution by plain loops: the definition that other implementations are checked against.
//!
//! Nothing here is fast, and nothing should be made so. Sums run in the order of the loops, in the
//! element type.

use dahl_core::view::{View, ViewMut, for_rows};

use crate::float::Float;
use crate::window::Window;

/// Computes `y` from input, filter and bias; negative results become zero if `relu`.
pub(crate) fn forward<T: Float>(
    x: View<'_, T>,
    w: View<'_, T>,
    bias: Option<View<'_, T>>,
    relu: bool,
    mut y: ViewMut<'_, T>,
    win: &Window,
) {
    let [_, channels, height, width] = x.dims();
    for_rows(y.dims(), |[n, o, i]| {
        for (j, out) in y.row([n, o, i]).iter_mut().enumerate() {
            let mut sum = bias.map_or(T::ZERO, |b| b.at([0, 0, 0, o]));
            for c in 0..channels {
                for a in 0..win.kernel[0] {
                    let Some(h) = win.input(0, i, a, height) else {
                        continue;
                    };
                    for b in 0..win.kernel[1] {
                        let Some(v) = win.input(1, j, b, width) else {
                            continue;
                        };
                        sum += w.at([o, c, a, b]) * x.at([n, c, h, v]);
                    }
                }
            }
            *out = if relu && sum < T::ZERO { T::ZERO } else { sum };
        }
    });
}

/// Computes the gradient `dx` of the input from that of the output.
pub(crate) fn input_grad<T: Float>(
    dy: View<'_, T>,
    w: View<'_, T>,
    mut dx: ViewMut<'_, T>,
    win: &Window,
) {
    let [_, channels, height, width] = dx.dims();
    dx.fill(T::ZERO);
    for_rows(dy.dims(), |[n, o, i]| {
        for (j, &g) in dy.row([n, o, i]).iter().enumerate() {
            for c in 0..channels {
                for a in 0..win.kernel[0] {
                    let Some(h) = win.input(0, i, a, height) else {
                        continue;
                    };
                    for b in 0..win.kernel[1] {
                        let Some(v) = win.input(1, j, b, width) else {
                            continue;
                        };
                        dx.row([n, c, h])[v] += w.at([o, c, a, b]) * g;
                    }
                }
            }
        }
    });
}

/// Adds the gradient of the filter to `dw`.
pub(crate) fn filter_grad<T: Float>(
    x: View<'_, T>,
    dy: View<'_, T>,
    mut dw: ViewMut<'_, T>,
    win: &Window,
) {
    let [samples, _, height, width] = x.dims();
    let [_, _, out_height, _] = dy.dims();
    for_rows(dw.dims(), |[o, c, a]| {
        for (b, out) in dw.row([o, c, a]).iter_mut().enumerate() {
            let mut sum = T::ZERO;
            for n in 0..samples {
                for i in 0..out_height {
                    let Some(h) = win.input(0, i, a, height) else {
                        continue;
                    };
                    for (j, &g) in dy.row([n, o, i]).iter().enumerate() {
                        let Some(v) = win.input(1, j, b, width) else {
                            continue;
                        };
                        sum += g * x.at([n, c, h, v]);
                    }
                }
            }
            *out += sum;
        }
    });
}

/// Adds the gradient of the bias to `db`.
#[cfg(test)]
pub(crate) fn bias_grad<T: Float>(dy: View<'_, T>, mut db: ViewMut<'_, T>) {
    let [samples, _, height, _] = dy.dims();
    for (o, out) in db.row([0, 0, 0]).iter_mut().enumerate() {
        let mut sum = T::ZERO;
        for n in 0..samples {
            for i in 0..height {
                for &g in dy.row([n, o, i]) {
                    sum += g;
                }
            }
        }
        *out += sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv2d::testing::{Case, cases, dot};

    #[test]
    fn a_case_worked_by_hand() {
        let x: Vec<f64> = (1..=9).map(f64::from).collect();
        let w = [1.0, 2.0, 3.0, 4.0];
        let mut y = [0.0; 4];
        // Padding 1, stride 2: the four outputs see the corners.
        let win = Window {
            kernel: [2, 2],
            stride: [2, 2],
            shift: [1, 1],
        };
        forward(
            View::from_slice(&x, [1, 1, 3, 3]),
            View::from_slice(&w, [1, 1, 2, 2]),
            Some(View::from_slice(&[-20.0], [1, 1, 1, 1])),
            true,
            ViewMut::from_slice(&mut y, [1, 1, 2, 2]),
            &win,
        );
        // 4·1; 3·2 + 4·3; 2·4 + 4·7; 1·5 + 2·6 + 3·8 + 4·9; minus 20, clipped at zero.
        assert_eq!(y, [0.0, 0.0, 16.0, 57.0]);
    }

    /// Convolution is linear in each operand, so central differences are exact up to rounding.
    #[test]
    fn gradients_match_finite_differences() {
        for case in cases::<f64>(12, 1, |r| r.any()) {
            let Case { x, w, dy, win, .. } = &case;
            let loss = |x: View<'_, f64>, w: View<'_, f64>| {
                let mut y = case.output();
                forward(x, w, None, false, y.view_mut(), win);
                dot(y.view(), dy.view())
            };
            let mut dx = x.like();
            input_grad(dy.view(), w.view(), dx.view_mut(), win);
            let mut dw = w.like();
            filter_grad(x.view(), dy.view(), dw.view_mut(), win);
            let scale = dx.max_abs().max(dw.max_abs());
            for k in (0..x.len()).step_by(7) {
                let difference = loss(x.nudged(k, 1.0).view(), w.view())
                    - loss(x.nudged(k, -1.0).view(), w.view());
                assert!(
                    (difference / 2.0 - dx.get(k)).abs() <= 1e-10 * scale,
                    "{case:?} dx[{k}]"
                );
            }
            for k in (0..w.len()).step_by(5) {
                let difference = loss(x.view(), w.nudged(k, 1.0).view())
                    - loss(x.view(), w.nudged(k, -1.0).view());
                assert!(
                    (difference / 2.0 - dw.get(k)).abs() <= 1e-10 * scale,
                    "{case:?} dw[{k}]"
                );
            }
        }
    }

    #[test]
    fn bias_gradient_sums_and_accumulates() {
        let dy: Vec<f64> = (0..12).map(f64::from).collect();
        let mut db = [100.0, 200.0];
        bias_grad(
            View::from_slice(&dy, [2, 2, 1, 3]),
            ViewMut::from_slice(&mut db, [1, 1, 1, 2]),
        );
        assert_eq!(db, [100.0 + 24.0, 200.0 + 42.0]);
    }
}
