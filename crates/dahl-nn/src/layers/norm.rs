//! What norms within a sample share: a scale and a shift that keys may leave out, how samples and their statistics are
//! cut into tasks, and the tasks of both passes.

use dahl_core::Handle;
use dahl_core::Mode::{Read, Reduce, Write};
use dahl_ops::declare::ParamSet;
use dahl_ops::elementwise::unary::{FILL, Filled, Value};
use dahl_ops::norm::operands::{Norm, NormAffineGrad, NormInputGrad};
use dahl_ops::op::Op;

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

/// Records the tasks of the forward pass; keeps what [`backward`] needs.
pub(super) fn forward<P: ParamSet + Clone>(
    tape: &mut Tape<'_>,
    (op, params): (&Op<Norm, P>, P),
    [x, y]: [&Handle; 2],
    statistics: Handle,
    [scale, shift]: [Handle; 2],
) {
    for ([x, y], statistics) in pieces(tape, [x, y], &statistics) {
        let operands = Norm {
            x: x.with(Read),
            scale: scale.with(Read),
            shift: shift.with(Read),
            y: y.with(Write),
            statistics: statistics.with(Write),
        };
        op.submit(tape.recorder(), operands, params.clone());
    }
    tape.keep(statistics);
    tape.keep(scale);
}

/// Records the tasks of the backward pass and gives all gradients: by the input, and by those of scale and shift that
/// are `there`. `view` is how the operation sees inputs and outputs.
pub(super) fn backward<P: ParamSet + Clone>(
    tape: &mut Tape<'_>,
    (input_grad, affine_grad, params): (&Op<NormInputGrad, P>, &Op<NormAffineGrad, P>, P),
    dy: &Handle,
    view: fn(&Handle) -> Handle,
    there: [bool; 2],
) {
    let (x, dy) = (view(&tape.input(0)), view(dy));
    let (statistics, scale) = (tape.kept(0), tape.kept(1));
    if tape.wants_gradient(0) {
        let dx = view(&tape.new_gradient(0));
        for ([x, dy, dx], statistics) in pieces(tape, [&x, &dy, &dx], &statistics) {
            let operands = NormInputGrad {
                x: x.with(Read),
                dy: dy.with(Read),
                statistics: statistics.with(Read),
                scale: scale.with(Read),
                dx: dx.with(Write),
            };
            input_grad.submit(tape.recorder(), operands, params.clone());
        }
        tape.give_gradient(0, dx);
    }
    if there == [false; 2] {
        return;
    }
    let gradients = ["scale gradient", "shift gradient"]
        .map(|name| tape.temporary(name, scale.shape.extents()));
    for ([x, dy], statistics) in pieces(tape, [&x, &dy], &statistics) {
        let [dscale, dshift] = &gradients;
        let operands = NormAffineGrad {
            x: x.with(Read),
            dy: dy.with(Read),
            statistics: statistics.with(Read),
            dscale: dscale.with(Reduce),
            dshift: dshift.with(Reduce),
        };
        affine_grad.submit(tape.recorder(), operands, params.clone());
    }
    give(tape, gradients, there);
}

/// For each task its samples of `arrays` and of the statistics, which have several rows for a sample.
fn pieces<const N: usize>(
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
fn give(tape: &mut Tape<'_>, gradients: [Handle; 2], there: [bool; 2]) {
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
