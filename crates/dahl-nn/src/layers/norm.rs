//! What layer norm and group norm share: a scale and a shift that keys may leave out, and how samples and their
//! statistics are cut into tasks.

use dahl_core::Handle;
use dahl_core::Mode::Write;
use dahl_ops::elementwise::unary::{FILL, Filled, Value};

use super::{Fill, ParamSpec, Tape};
use crate::lower::tiles;

/// PyTorch's default for what is added to the variance.
pub(super) const EPSILON: f64 = 1e-5;

/// The scale and the shift, their names in PyTorch and how they start.
const AFFINE: [(&str, f64); 2] = [("weight", 1.0), ("bias", 0.0)];

/// The parameters that are there, of this shape.
pub(super) fn params(shape: &[usize], there: [bool; 2]) -> Vec<ParamSpec> {
    let all = AFFINE.iter().zip(there).filter(|(_, there)| *there);
    all.map(|(&(name, first), _)| ParamSpec::trained(name, shape, Fill::Constant(first)))
        .collect()
}

/// Scale and shift: the parameters, or else arrays of ones and of zeros.
pub(super) fn affine(tape: &Tape<'_>, shape: &[usize], there: [bool; 2]) -> [Handle; 2] {
    [0, 1].map(|i| {
        let (name, value) = AFFINE[i];
        if there[i] {
            return tape.param(name);
        }
        let fixed = tape.temporary(&format!("fixed {name}"), shape);
        let x = fixed.with(Write);
        FILL.submit(tape.recorder(), Filled { x }, Value { value });
        fixed
    })
}

/// For each task its samples of `arrays` and of the statistics, which have several rows for a sample.
pub(super) fn pieces<const N: usize>(
    tape: &Tape<'_>,
    arrays: [&Handle; N],
    statistics: &Handle,
) -> Vec<([Handle; N], Handle)> {
    let rows = statistics.shape[0] / tape.batch();
    let all = tape.samples(arrays[0].shape.len()).into_iter();
    all.map(|n| {
        let statistics = tiles::samples(statistics, (n.0 * rows, n.1 * rows));
        (arrays.map(|h| tiles::samples(h, n)), statistics)
    })
    .collect()
}

/// Gives those parameters that are there their gradients.
pub(super) fn give(tape: &mut Tape<'_>, gradients: [Handle; 2], there: [bool; 2]) {
    for ((name, _), (gradient, there)) in AFFINE.into_iter().zip(gradients.into_iter().zip(there)) {
        if there {
            tape.give_param_gradient(name, gradient);
        }
    }
}

/// What is added to a variance is a number, and none below zero.
pub(super) fn check_epsilon(eps: f64) -> Result<(), String> {
    match eps.is_finite() && eps >= 0.0 {
        true => Ok(()),
        false => Err(format!(
            "eps is {eps}; it must be a finite number, 0 or more"
        )),
    }
}
