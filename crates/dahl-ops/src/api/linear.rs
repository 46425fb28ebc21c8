//! Fully connected layers, as PyTorch's `linear`: the weight is outputs × inputs.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//! use dahl_ops::api::linear_into;
//!
//! let arena = Arena::new();
//! let x = arena.from_slice([1, 2], &[1.0f32, 2.0])?;
//! let w = arena.from_slice([2, 2], &[1.0f32, 1.0, 0.0, 1.0])?;
//! let b = arena.full([2], 0.5f32)?;
//! let mut y = arena.zeros::<f32, 2>([1, 2])?;
//! let recorder = Recorder::new();
//! linear_into(&recorder, &x, &w, Some(&b), &mut y);
//! let graph = recorder.finish()?;
//!
//! let mut runtime = dahl_runtime::Runtime::builder().workers(1).build()?;
//! runtime.launch(&graph)?;
//! assert_eq!(*runtime.read(&y)?, [3.5, 2.5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use dahl_core::{Codelet, Matrix, Recorder, Vector};

use super::{extents, submit_checked};
use crate::codelets::{self, Lazy, expect_dims};
use crate::simd::Lane;

static CHECK: Lazy = Lazy::new(|| {
    Arc::new(Codelet::new("linear").rule(|call| {
        (codelets::linear::FORWARD.rule)(call)?;
        if call.operands.len() < 4 {
            return Ok(());
        }
        expect_dims(call, 2, "bias", [1, 1, 1, call.shape(1).dims4()[2]])
    }))
});

/// `x · wᵀ + bias`, for `x` of samples × inputs and `w` of outputs × inputs. Forms: [`linear`],
/// [`linear_into`].
#[track_caller]
pub fn linear<'r, T: Lane>(
    recorder: &'r Recorder,
    x: &Matrix<'_, T>,
    w: &Matrix<'_, T>,
    bias: Option<&Vector<'_, T>>,
) -> Matrix<'r, T> {
    let mut out = recorder.temporary([extents(x)[0], extents(w)[0]]);
    linear_into(recorder, x, w, bias, &mut out);
    out
}

/// `x · wᵀ + bias`, written to `out`.
#[track_caller]
pub fn linear_into<T: Lane>(
    recorder: &Recorder,
    x: &Matrix<'_, T>,
    w: &Matrix<'_, T>,
    bias: Option<&Vector<'_, T>>,
    out: &mut Matrix<'_, T>,
) {
    let mut operands = vec![x.read(), w.read()];
    operands.extend(bias.map(|b| b.read()));
    operands.push(out.write());
    submit_checked(recorder, &codelets::linear::FORWARD, &CHECK, &operands, &[]);
}
