//! Two-dimensional convolution and its gradients.
//!
//! [`plain`] declares convolution, [`fused`] the one with pooling behind it, [`transformed`] Winograd's, each with
//! its gradients; the other files have the kernels, pure functions over views.
//!
//! ```text
//!     y[n,o,i,j] = bias[o] + Σ_{c,a,b} w[o,c,a,b] · x[n, c, i·stride + a − shift, j·stride + b − shift]
//! ```
//!
//! Layout is batch × channel × height × width. Positions outside the input view count as zero, see
//! [`crate::window`]. Every implementation works on views that may be tiles of larger arrays, for any
//! number of samples, in scratch memory that the caller provides, and on one thread: parallelism
//! comes from running many tasks.
//!
//! | module | what it is | when |
//! |---|---|---|
//! | `reference` | plain loops; what the others are checked against | tests |
//! | `direct`, `direct_filter` | registers along output rows | few channels: first layers |
//! | `conv_pool`, `conv_pool_grad` | with bias, positive part and max-pooling, fused | the same, pooled 2×2 or 3×3 |
//! | `channels_last` | vectors of output channels, or of kernel columns by input channels | few channels, narrow images: inner layers |
//! | `gemm` | small blocks of unfolded input times the filter | few channels; 1×1 of stride 1 |
//! | `packed` | the same with channels in vectors and nothing packed twice | any other window, about 16 channels or more |
//! | `winograd` | fewer multiplications in a transformed domain | 3×3, stride 1, 16 channels or more |
//!
//! Gradients with respect to filter and bias are *added* to what the destination holds, so that tasks
//! on different samples can accumulate; everything else is overwritten. Which implementation a task
//! uses is not decided here.

mod bank;
pub(crate) mod bias;
pub(crate) mod channels_last;
pub(crate) mod conv_pool;
pub(crate) mod conv_pool_grad;
pub(crate) mod direct;
pub(crate) mod direct_filter;
pub mod fused;
pub(crate) mod gemm;
pub mod grouped;
pub(crate) mod packed;
mod pixels;
pub mod plain;
mod product;
pub(crate) mod reference;
#[cfg(test)]
pub(crate) mod testing;
pub mod transformed;
mod typed;
pub(crate) mod winograd;

pub use plain::{BIAS_GRAD, FILTER_GRAD, FORWARD, INPUT_GRAD};
pub use typed::*;
