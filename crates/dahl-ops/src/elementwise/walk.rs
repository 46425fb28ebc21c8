//! Walking several views of the same extents together, element by element.
//!
//! The one loop behind every elementwise operation and optimiser: views that lie in one piece are
//! walked as one long row, others row by row, and the function given is compiled for the machine's
//! vectors. Operands may not overlap except by being the very same view for reading.

use dahl_core::{View, ViewMut};

use crate::float::Float;
use crate::simd::{Body, dispatch};

/// Replaces each element of `outs` by what `f` makes of the elements at the same place: the old ones
/// of `outs` and those of `ins`.
///
/// # Panics
/// If the extents differ.
#[inline]
pub(crate) fn update<T: Float, const W: usize, const R: usize>(
    outs: [ViewMut<'_, T>; W],
    ins: [View<'_, T>; R],
    f: impl Fn([T; W], [T; R]) -> [T; W],
) {
    let dims = outs[0].dims();
    for (i, d) in outs
        .iter()
        .map(|v| v.dims())
        .chain(ins.iter().map(|v| v.dims()))
        .enumerate()
    {
        assert_eq!(d, dims, "elementwise: extents of operand {i}");
    }
    dispatch(Walk { outs, ins, f });
}

/// Sets each element of `out` to what `f` makes of the elements of `ins` at the same place.
///
/// # Panics
/// If the extents differ.
#[inline]
pub(crate) fn map<T: Float, const R: usize>(
    out: ViewMut<'_, T>,
    ins: [View<'_, T>; R],
    f: impl Fn([T; R]) -> T,
) {
    update([out], ins, |_, x| [f(x)]);
}

struct Walk<'a, T, F, const W: usize, const R: usize> {
    outs: [ViewMut<'a, T>; W],
    ins: [View<'a, T>; R],
    f: F,
}

impl<T, F, const W: usize, const R: usize> Body for Walk<'_, T, F, W, R>
where
    T: Float,
    F: Fn([T; W], [T; R]) -> [T; W],
{
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(mut self) {
        let dims = self.outs[0].dims();
        let whole = self.outs.iter().all(|v| v.is_contiguous())
            && self.ins.iter().all(|v| v.is_contiguous());
        let outer = if whole {
            [1; 4]
        } else {
            [dims[0], dims[1], dims[2], 1]
        };
        let len = if whole {
            dims.iter().product()
        } else {
            dims[3]
        };
        // Plain loops and one call site of `row`: all must end up in code compiled for this machine.
        for a in 0..outer[0] {
            for b in 0..outer[1] {
                for c in 0..outer[2] {
                    let at = |s: [usize; 4]| a * s[0] + b * s[1] + c * s[2];
                    // SAFETY: the offsets lead to rows that exist.
                    let outs: [*mut T; W] = std::array::from_fn(|i| unsafe {
                        let offset = at(self.outs[i].strides());
                        self.outs[i].as_mut_ptr().add(offset)
                    });
                    // SAFETY: as above.
                    let ins: [*const T; R] = std::array::from_fn(|i| unsafe {
                        self.ins[i].as_ptr().add(at(self.ins[i].strides()))
                    });
                    // SAFETY: rows are `len` long, or the whole views are when in one piece.
                    unsafe { row(outs, ins, len, &self.f) };
                }
            }
        }
    }
}

/// Walks one row.
///
/// # Safety
/// All pointers reach `len` elements.
#[inline(always)]
unsafe fn row<T: Float, const W: usize, const R: usize>(
    outs: [*mut T; W],
    ins: [*const T; R],
    len: usize,
    f: &impl Fn([T; W], [T; R]) -> [T; W],
) {
    for i in 0..len {
        // SAFETY: `i < len`.
        unsafe {
            let old = std::array::from_fn(|k| *outs[k].add(i));
            let new = f(old, std::array::from_fn(|k| *ins[k].add(i)));
            for (k, v) in new.into_iter().enumerate() {
                *outs[k].add(i) = v;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;

    #[test]
    fn tiles_and_whole_arrays_are_walked_alike() {
        at_every_level(|_| {
            let a: Vec<f32> = (0..120).map(|x| x as f32).collect();
            let mut out = vec![-1.0f32; 120];
            let view = View::from_slice(&a, [2, 3, 4, 5]);
            map(
                ViewMut::from_slice(&mut out, [2, 3, 4, 5]),
                [view],
                |[x]| 2.0 * x,
            );
            assert!(out.iter().zip(&a).all(|(o, a)| *o == 2.0 * a));
            out.fill(-1.0);
            let mut whole = ViewMut::from_slice(&mut out, [2, 3, 4, 5]);
            let (start, dims) = ([1, 0, 1, 2], [1, 2, 3, 3]);
            update(
                [whole.part(start, dims)],
                [view.part(start, dims)],
                |[o], [x]| [x + o],
            );
            assert_eq!(out.iter().filter(|&&x| x != -1.0).count(), 18);
            assert_eq!(out[60 + 20 + 5 + 2], 87.0 - 1.0);
        });
    }

    #[test]
    #[should_panic(expected = "operand 1")]
    fn different_extents_are_refused() {
        let a = [0f32; 4];
        let mut out = [0f32; 4];
        map(
            ViewMut::from_slice(&mut out, [1, 1, 2, 2]),
            [View::from_slice(&a, [1, 1, 1, 4])],
            |[x]| x,
        );
    }
}
