//! Losses beside plain cross-entropy: MSE, L1 and BCE with logits against arrays of targets ([`values`]), and
//! cross-entropy with label smoothing and class weights ([`smooth`]) or with shares of classes ([`soft`]).
//!
//! A task handles some samples. It writes a loss per sample, such that the mean over the batch is what
//! PyTorch's `reduction="mean"` gives, and in training the gradient of `scale · Σ loss`; for the mean,
//! `scale` is one over the *whole* batch, whatever the tile.

pub(crate) mod kernels;
pub mod smooth;
pub mod soft;
pub mod values;

use dahl_core::{Call, Cost};

/// Exponentials take about twenty operations.
fn cost(call: &Call) -> Cost {
    Cost {
        flops: 20.0 * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}
