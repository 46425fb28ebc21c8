//! The gradient of a convolution's bias: the sum of the output gradient over samples and positions.
//!
//! Sums run in [`CHUNK`] lanes whatever the machine, so the result is the same on all of them.

// As in the other kernels: loops over small arrays become registers.
#![allow(clippy::needless_range_loop)]

use dahl_core::view::{View, ViewMut};

use crate::float::Float;
use crate::simd::lanes::CHUNK;
use crate::simd::{Body, dispatch};

/// Adds the gradient of the bias to `db` (`[1, 1, 1, O]`), from that of the output.
///
/// # Panics
/// If `db` has not one element per channel of `dy`.
pub(crate) fn bias_grad<T: Float>(dy: View<'_, T>, db: ViewMut<'_, T>) {
    assert_eq!(
        db.dims(),
        [1, 1, 1, dy.dims()[1]],
        "bias gradient for {:?}",
        dy.dims()
    );
    dispatch(Sum { dy, db });
}

struct Sum<'a, T> {
    dy: View<'a, T>,
    db: ViewMut<'a, T>,
}

impl<T: Float> Body for Sum<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(mut self) {
        let [samples, _, height, _] = self.dy.dims();
        for (o, out) in self.db.row([0, 0, 0]).iter_mut().enumerate() {
            let mut lanes = [T::ZERO; CHUNK];
            for n in 0..samples {
                for i in 0..height {
                    let (whole, rest) = self.dy.row([n, o, i]).as_chunks::<CHUNK>();
                    for chunk in whole {
                        for l in 0..CHUNK {
                            lanes[l] += chunk[l];
                        }
                    }
                    for l in 0..rest.len() {
                        lanes[l] += rest[l];
                    }
                }
            }
            for lane in lanes {
                *out += lane;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conv2d::reference;
    use crate::conv2d::testing::{Rng, assert_close, cases};
    use crate::simd::at_every_level;

    #[test]
    fn agrees_with_the_reference() {
        at_every_level(|_| {
            for case in cases::<f32>(20, 41, Rng::three) {
                let (mut got, mut want) = (case.bias.clone(), case.bias.clone());
                bias_grad(case.dy.view(), got.view_mut());
                reference::bias_grad(case.dy.view(), want.view_mut());
                assert_close(&got, &want, &format!("{case:?}"));
            }
        });
    }

    #[test]
    #[should_panic(expected = "bias gradient")]
    fn other_extents_are_refused() {
        let mut db = [0.0; 3];
        let db = ViewMut::from_slice(&mut db, [1, 1, 1, 3]);
        bias_grad(View::from_slice(&[0.0; 4], [1, 2, 1, 2]), db);
    }
}
