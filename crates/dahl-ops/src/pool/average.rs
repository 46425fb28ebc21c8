//! Average-pooling, and the mean over whole planes.

use dahl_core::view::for_rows;
use dahl_core::{View, ViewMut};

use crate::float::Float;
use crate::reduce::rows::row_sum;
use crate::simd::Lane;
use crate::window::Window;

/// What a window's sum is divided by: the kernel's size, padding included (PyTorch's default).
fn divisor<T: Float>(win: &Window) -> T {
    T::from_f64((win.kernel[0] * win.kernel[1]).max(1) as f64)
}

/// Writes the mean of each window of `x` to `y`.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn forward<T: Float>(x: View<'_, T>, mut y: ViewMut<'_, T>, win: &Window) {
    let [n, c, height, width] = x.dims();
    assert_eq!([n, c], y.dims()[..2], "average-pool: samples and channels");
    for_rows(y.dims(), |[n, c, i]| {
        for (j, out) in y.row([n, c, i]).iter_mut().enumerate() {
            let mut sum = T::ZERO;
            for a in win.taps(0, i, height) {
                let Some(h) = win.input(0, i, a, height) else {
                    continue;
                };
                let taps = win.taps(1, j, width);
                let Some(w) = win.input(1, j, taps.start, width) else {
                    continue;
                };
                for &v in &x.row([n, c, h])[w..w + taps.len()] {
                    sum += v;
                }
            }
            *out = sum / divisor(win);
        }
    });
}

/// `dx`, overwritten: each gradient spread evenly over its window.
///
/// # Panics
/// If the extents do not belong together.
pub(crate) fn backward<T: Float>(dy: View<'_, T>, mut dx: ViewMut<'_, T>, win: &Window) {
    let [n, c, height, width] = dx.dims();
    assert_eq!([n, c], dy.dims()[..2], "average-pool: samples and channels");
    dx.fill(T::ZERO);
    for_rows(dy.dims(), |[n, c, i]| {
        for (j, &g) in dy.row([n, c, i]).iter().enumerate() {
            let share = g / divisor(win);
            for a in win.taps(0, i, height) {
                let Some(h) = win.input(0, i, a, height) else {
                    continue;
                };
                let taps = win.taps(1, j, width);
                let Some(w) = win.input(1, j, taps.start, width) else {
                    continue;
                };
                for v in &mut dx.row([n, c, h])[w..w + taps.len()] {
                    *v += share;
                }
            }
        }
    });
}

/// The inputs that output `i` of `outputs` is the mean of: as PyTorch cuts them, all of about the same size.
fn piece(i: usize, inputs: usize, outputs: usize) -> std::ops::Range<usize> {
    i * inputs / outputs..((i + 1) * inputs).div_ceil(outputs)
}

/// The mean of each piece of a plane: adaptive average-pooling.
///
/// # Panics
/// If samples and channels differ.
pub(crate) fn adaptive<T: Lane>(x: View<'_, T>, mut y: ViewMut<'_, T>) {
    let ([.., height, width], [.., rows, columns]) = (x.dims(), y.dims());
    assert_eq!(x.dims()[..2], y.dims()[..2], "adaptive average: extents");
    if [rows, columns] == [1, 1] {
        return global(x, y);
    }
    for_rows(y.dims(), |[n, c, i]| {
        let lines = piece(i, height, rows);
        for (j, out) in y.row([n, c, i]).iter_mut().enumerate() {
            let across = piece(j, width, columns);
            let sums = lines
                .clone()
                .map(|h| row_sum(&x.row([n, c, h])[across.clone()]));
            *out = sums.sum::<T>() / T::from_f64((lines.len() * across.len()) as f64);
        }
    });
}

/// The gradient of [`adaptive`]: `dx` overwritten.
///
/// # Panics
/// If samples and channels differ.
pub(crate) fn adaptive_backward<T: Float>(dy: View<'_, T>, mut dx: ViewMut<'_, T>) {
    let ([.., height, width], [.., rows, columns]) = (dx.dims(), dy.dims());
    assert_eq!(dx.dims()[..2], dy.dims()[..2], "adaptive average: extents");
    if [rows, columns] == [1, 1] {
        return global_backward(dy, dx);
    }
    dx.fill(T::ZERO);
    for_rows(dy.dims(), |[n, c, i]| {
        let lines = piece(i, height, rows);
        for (j, &g) in dy.row([n, c, i]).iter().enumerate() {
            let across = piece(j, width, columns);
            let share = g / T::from_f64((lines.len() * across.len()) as f64);
            for h in lines.clone() {
                for v in &mut dx.row([n, c, h])[across.clone()] {
                    *v += share;
                }
            }
        }
    });
}

/// The mean of each plane.
fn global<T: Lane>(x: View<'_, T>, mut y: ViewMut<'_, T>) {
    let x = x.planes_as_rows().unwrap_or(x);
    let [samples, channels, height, width] = x.dims();
    let count = T::from_f64((height * width) as f64);
    for_rows([samples, channels, 1, 1], |[n, c, _]| {
        let sum: T = (0..height).map(|h| row_sum(x.row([n, c, h]))).sum();
        y.row([n, c, 0])[0] = sum / count;
    });
}

/// The gradient of [`global`]: `dx` overwritten.
fn global_backward<T: Float>(dy: View<'_, T>, mut dx: ViewMut<'_, T>) {
    let [.., height, width] = dx.dims();
    let count = T::from_f64((height * width) as f64);
    for_rows(dx.dims(), |[n, c, h]| {
        dx.row([n, c, h]).fill(dy.row([n, c, 0])[0] / count)
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cases, numbers};
    use super::*;
    use crate::compare::assert_close;

    #[test]
    fn windows_agree_with_the_definition_and_gradients_with_their_transpose() {
        for (xd, yd, win) in cases() {
            let x = numbers(xd.iter().product());
            let dy = numbers(yd.iter().product::<usize>() + 3)[3..].to_vec();
            let (mut y, mut dx) = (vec![0.0; dy.len()], vec![9.0; x.len()]);
            let xv = View::from_slice(&x, xd);
            forward(xv, ViewMut::from_slice(&mut y, yd), &win);
            let mut want = Vec::new();
            for_rows(yd, |[n, c, i]| {
                for j in 0..yd[3] {
                    let taps: Vec<f64> = (0..win.kernel[0] * win.kernel[1])
                        .filter_map(|t| {
                            let h = win.input(0, i, t / win.kernel[1], xd[2])?;
                            Some(xv.at([n, c, h, win.input(1, j, t % win.kernel[1], xd[3])?]))
                        })
                        .collect();
                    let count = win.kernel[0] * win.kernel[1];
                    want.push(taps.iter().sum::<f64>() / count as f64);
                }
            });
            assert_close("average", &y, &want, 1e-14, 4);
            backward(
                View::from_slice(&dy, yd),
                ViewMut::from_slice(&mut dx, xd),
                &win,
            );
            // The map is linear, so ⟨dy, A x⟩ = ⟨Aᵀ dy, x⟩.
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            assert_close("transpose", &[dot(&dx, &x)], &[dot(&dy, &y)], 1e-12, 0);
        }
    }

    #[test]
    fn means_of_planes() {
        let x: Vec<f64> = (0..24).map(f64::from).collect();
        let (mut y, mut dx) = ([0.0; 4], [9.0; 24]);
        adaptive(
            View::from_slice(&x, [2, 2, 2, 3]),
            ViewMut::from_slice(&mut y, [2, 2, 1, 1]),
        );
        assert_eq!(y, [2.5, 8.5, 14.5, 20.5]);
        let tile = View::from_slice(&x, [2, 2, 2, 3]).part([0, 0, 0, 1], [2, 2, 2, 1]);
        adaptive(tile, ViewMut::from_slice(&mut y, [2, 2, 1, 1]));
        assert_eq!(y, [2.5, 8.5, 14.5, 20.5]);
        let dyv = View::from_slice(&[6.0, 12.0, 18.0, 24.0], [2, 2, 1, 1]);
        adaptive_backward(dyv, ViewMut::from_slice(&mut dx, [2, 2, 2, 3]));
        assert!(dx.iter().enumerate().all(|(i, &d)| d == (i / 6 + 1) as f64));
    }
}
