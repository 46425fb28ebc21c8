//! Batch normalisation of typed arrays: what users call. Whole batches; graphs of tiles submit the
//! operations of the module above themselves.

use dahl_core::{By, Matrix, Recorder, Split, Tensor, Vector};

use super::{
    Capped, Epsilon, FINISH, Finish, INPUT_GRAD, InputGrad, Kept, MOMENTS, Moments, NORMALISE,
    Normalise, Normalised, PerChannel, RUNNING, Running, SUMS, Sums,
};
use crate::elementwise::unary::{COPY, Copied};
use crate::op::{extents, like};
use crate::simd::Lane;

/// How batch normalisation is done; PyTorch's numbers unless set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchNorm {
    /// Added to the variance.
    pub epsilon: f64,
    /// How much of the running statistics a step replaces.
    pub momentum: f64,
    /// Take the positive part of the result in the same task.
    pub relu: bool,
}

impl Default for BatchNorm {
    fn default() -> Self {
        BatchNorm {
            epsilon: 1e-5,
            momentum: 0.1,
            relu: false,
        }
    }
}

/// What a layer keeps per channel.
#[derive(Clone, Copy, Debug)]
pub struct Affine<'p, 'a, T: Lane> {
    /// What normalised values are multiplied by.
    pub scale: &'p Vector<'a, T>,
    /// What is added then.
    pub shift: &'p Vector<'a, T>,
}

/// Normalises `x` by the mean and variance of the batch and updates the running ones. Returns the result
/// and the statistics (mean, one over the standard deviation) that [`batch_norm_grad`] needs.
#[track_caller]
pub fn batch_norm_train<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    affine: Affine<'_, '_, T>,
    [running_mean, running_var]: [&mut Vector<'_, T>; 2],
    options: BatchNorm,
) -> (Tensor<'r, T>, Matrix<'r, T>) {
    let channels = extents(x)[1];
    let mut moments = recorder.temporary::<T, 3>([1, 3, channels]);
    let mut total = recorder.temporary::<T, 2>([3, channels]);
    let mut statistics = recorder.temporary([2, channels]);
    let operands = Moments {
        x: x.read(),
        moments: moments.write(),
    };
    MOMENTS.submit(recorder, operands, ());
    let operands = Finish {
        moments: moments.read(),
        total: total.write(),
        statistics: statistics.write(),
        running_mean: running_mean.read_write(),
        running_var: running_var.read_write(),
    };
    let kept = Kept {
        epsilon: options.epsilon,
        momentum: options.momentum,
    };
    FINISH.submit(recorder, operands, kept);
    let y = normalised(recorder, x, &statistics, affine, options);
    (y, statistics)
}

/// Normalises `x` by running mean and variance, for evaluation.
#[track_caller]
pub fn batch_norm<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    affine: Affine<'_, '_, T>,
    [running_mean, running_var]: [&Vector<'_, T>; 2],
    options: BatchNorm,
) -> Tensor<'r, T> {
    let mut statistics = recorder.temporary([2, extents(x)[1]]);
    let operands = Running {
        running_mean: running_mean.read(),
        running_var: running_var.read(),
        statistics: statistics.write(),
    };
    let epsilon = options.epsilon;
    RUNNING.submit(recorder, operands, Epsilon { epsilon });
    normalised(recorder, x, &statistics, affine, options)
}

#[track_caller]
fn normalised<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    statistics: &Matrix<'_, T>,
    affine: Affine<'_, '_, T>,
    options: BatchNorm,
) -> Tensor<'r, T> {
    let mut y = like(recorder, x);
    let operands = Normalise {
        x: x.read(),
        statistics: statistics.read(),
        scale: affine.scale.read(),
        shift: affine.shift.read(),
        y: y.write(),
    };
    let relu = options.relu;
    NORMALISE.submit(recorder, operands, Normalised { relu, cap: None });
    y
}

/// What [`batch_norm_grad`] returns.
#[derive(Debug)]
pub struct BatchNormGrad<'r, T: Lane> {
    /// The gradient by the input.
    pub input: Tensor<'r, T>,
    /// The gradient by the scale.
    pub scale: Vector<'r, T>,
    /// The gradient by the shift.
    pub shift: Vector<'r, T>,
}

/// The gradients of [`batch_norm_train`], with its output if it took the positive part.
#[track_caller]
pub fn batch_norm_grad<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Tensor<'_, T>,
    dy: &Tensor<'_, T>,
    statistics: &Matrix<'_, T>,
    scale: &Vector<'_, T>,
    positive: Option<&Tensor<'_, T>>,
) -> BatchNormGrad<'r, T> {
    let [samples, channels, height, width] = extents(x);
    let mut sums = recorder.temporary::<T, 2>([2, channels]);
    let operands = Sums {
        x: x.read(),
        dy: dy.read(),
        statistics: statistics.read(),
        sums: sums.reduce(),
        y: positive.map(|y| y.read()),
    };
    SUMS.submit(recorder, operands, Capped { cap: None });
    let mut input = like(recorder, x);
    let operands = InputGrad {
        x: x.read(),
        dy: dy.read(),
        statistics: statistics.read(),
        sums: sums.read(),
        scale: scale.read(),
        dx: input.write(),
        y: positive.map(|y| y.read()),
    };
    let count = samples * height * width;
    INPUT_GRAD.submit(recorder, operands, PerChannel { count, cap: None });
    let mut rows = [(); 2].map(|_| recorder.temporary::<T, 1>([channels]));
    let by_row = Split::new().axis(0, By::Size(1));
    let parts = sums.split(&by_row).expect("two rows can be split");
    for (from, to) in parts.iter().zip(&mut rows) {
        let (x, y) = (from.read(), to.write());
        COPY.submit(recorder, Copied { x, y }, ());
    }
    let [shift, scale] = rows;
    BatchNormGrad {
        input,
        scale,
        shift,
    }
}
