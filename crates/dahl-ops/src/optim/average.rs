//! A running average of weights: PyTorch's `AveragedModel` with `get_ema_multi_avg_fn`.
//!
//! ```text
//!     average ← average + weight · (param − average)
//! ```
//!
//! The weight, one less the decay, is read from an array, so that a recorded graph serves every step: the first one
//! takes the parameters as they are, with a weight of 1.

use dahl_core::{Array, Codelet, Operands, Recorder, Vector, View, ViewMut};

use super::{cost, rule};
use crate::declare::operands;
use crate::elementwise::walk::update;
use crate::op::{Done, Op, by_type, only};
use crate::simd::Lane;

operands! {
    /// Operands of [`AVERAGE`].
    Average {
        weight: one [Read] 1 "the weight of the parameter in the average",
        param: one [Read] any "the parameter",
        average: one [ReadWrite] any "the average, as large",
    }
}

/// The average goes towards the parameter.
pub static AVERAGE: Op<Average> = Op::new(|| {
    Codelet::new("average")
        .rule(rule::<Average, 1>)
        .cost(cost)
        .elementwise()
        .with(only(by_type!(averaged)))
});

fn averaged<T: Lane>(ops: &Operands<'_>) -> Done {
    let at = Average::at(ops.len());
    let weight = ops.read::<T>(at.weight).at([0, 0, 0, 0]);
    towards(weight, ops.read(at.param), ops.write(at.average));
    Ok(())
}

/// As PyTorch's `lerp`: exact at both ends.
fn towards<T: Lane>(weight: T, param: View<'_, T>, average: ViewMut<'_, T>) {
    let rest = T::ONE - weight;
    match weight < T::from_f64(0.5) {
        true => update([average], [param], |[a], [p]| [a + weight * (p - a)]),
        false => update([average], [param], |[a], [p]| [p - (p - a) * rest]),
    }
}

/// Moves an average towards a parameter, by the weight in an array of one number. Form: in place.
#[track_caller]
pub fn average_assign<T: Lane, const R: usize>(
    recorder: &Recorder,
    average: &mut Array<'_, T, R>,
    param: &Array<'_, T, R>,
    weight: &Vector<'_, T>,
) {
    let operands = Average {
        weight: weight.read(),
        param: param.read(),
        average: average.read_write(),
    };
    AVERAGE.submit(recorder, operands, ());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_average_goes_from_one_end_to_the_other() {
        let (dims, param) = ([1, 1, 1, 3], [3.0f64, -1.0, 0.1]);
        let run = |weight| {
            let mut average = [1.0f64, 1.0, 0.7];
            towards(
                weight,
                View::from_slice(&param, dims),
                ViewMut::from_slice(&mut average, dims),
            );
            average
        };
        assert_eq!(run(0.0), [1.0, 1.0, 0.7]);
        assert_eq!(run(1.0), param);
        assert_eq!(run(0.25), [1.5, 0.5, 0.7 + 0.25 * (0.1 - 0.7)]);
    }
}
