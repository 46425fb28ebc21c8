//! Normalisation within one sample: layer norm, group norm, and layer norm over the channels of each pixel.
//!
//! Files: [`layer`], [`group`] and [`channel`] declare the operations on one set of [`operands`], `kernels` has their
//! loops and the equations. All write the statistics that their gradients read; the gradients of scale and shift are
//! added to what is there, so that tasks on different samples can accumulate.

pub mod channel;
pub mod group;
pub(crate) mod kernels;
pub mod layer;
pub mod operands;

use dahl_core::{Call, Cost};

/// Several passes over the first operand, which is in the cache.
fn cost(call: &Call) -> Cost {
    Cost {
        flops: 8.0 * call.shape(0).len() as f64,
        bytes: call.bytes(),
    }
}
