//! Sums over some axes: those along which the destination has extent 1.

use dahl_core::view::for_rows;
use dahl_core::{View, ViewMut};

use super::rows::row_sum;
use crate::simd::{Body, Lane, dispatch};

/// `out += ` the sum of `x` over every axis along which `out` has extent 1. For a mean, scale the
/// result.
///
/// # Panics
/// If along some axis `out` has neither extent 1 nor that of `x`.
pub(crate) fn sum<T: Lane>(x: View<'_, T>, mut out: ViewMut<'_, T>) {
    let (from, to) = (x.dims(), out.dims());
    assert!(
        (0..4).all(|a| to[a] == 1 || to[a] == from[a]),
        "sum of {from:?} into {to:?}"
    );
    let place = |at: [usize; 3]| -> [usize; 3] {
        std::array::from_fn(|a| if to[a] == 1 { 0 } else { at[a] })
    };
    if to[3] == 1 {
        for_rows(from, |at| out.row(place(at))[0] += row_sum(x.row(at)));
    } else {
        for_rows(from, |at| dispatch(AddRow(x.row(at), out.row(place(at)))));
    }
}

struct AddRow<'a, T>(&'a [T], &'a mut [T]);

impl<T: Lane> Body for AddRow<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        for (o, x) in self.1.iter_mut().zip(self.0) {
            *o += *x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_of_axes() {
        let dims = [2, 3, 4, 5];
        let x: Vec<f64> = (0..120).map(|i| f64::from(i * i % 31)).collect();
        let view = View::from_slice(&x, dims);
        for mask in 0..16usize {
            let to: [usize; 4] =
                std::array::from_fn(|a| if mask >> a & 1 == 1 { 1 } else { dims[a] });
            let mut want = vec![1.0; to.iter().product()];
            let mut got = want.clone();
            let mut wanted = ViewMut::from_slice(&mut want, to);
            for_rows(dims, |at| {
                for (l, v) in view.row(at).iter().enumerate() {
                    let place = std::array::from_fn(|a| if to[a] == 1 { 0 } else { at[a] });
                    wanted.row(place)[if to[3] == 1 { 0 } else { l }] += v;
                }
            });
            sum(view, ViewMut::from_slice(&mut got, to));
            assert_eq!(got, want, "mask {mask:04b}");
        }
    }
}
