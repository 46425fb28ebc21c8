//! The table of operations.
//!
//! [`TABLE`] lists every codelet of this crate; all that must know every operation (tests, `dahl ops`,
//! other devices) reads it there. What an operation is stands in its own file.

use std::ops::Deref;
use std::sync::Arc;

use dahl_core::Codelet;

use crate::conv2d::grouped::op as grouped;
use crate::conv2d::{fused, transformed};
use crate::{
    activation, batch_norm, channelwise, conv2d, cross_entropy, dropout, elementwise, linalg,
    linear, loss, norm, optim, pool, reduce, softmax, upsample,
};

/// An operation of the table: its codelet.
pub type Listed = dyn Deref<Target = Arc<Codelet>> + Sync;

/// Every codelet of this crate.
pub static TABLE: &[&Listed] = &[
    &elementwise::ADD,
    &elementwise::ADD_ASSIGN,
    &elementwise::SUB,
    &elementwise::MUL,
    &elementwise::DIV,
    &elementwise::SCALE,
    &elementwise::ADD_VALUE,
    &elementwise::SUB_VALUE,
    &elementwise::POWER,
    &elementwise::CLIP,
    &elementwise::ROUND,
    &elementwise::EXP,
    &elementwise::LOG,
    &elementwise::FILL,
    &elementwise::COPY,
    &elementwise::RELU,
    &elementwise::RELU_GRAD,
    &elementwise::RELU6,
    &elementwise::RELU6_GRAD,
    &activation::SIGMOID,
    &activation::SIGMOID_GRAD,
    &activation::TANH,
    &activation::TANH_GRAD,
    &activation::LEAKY_RELU,
    &activation::LEAKY_RELU_GRAD,
    &activation::ELU,
    &activation::ELU_GRAD,
    &activation::GELU,
    &activation::GELU_GRAD,
    &activation::GELU_TANH,
    &activation::GELU_TANH_GRAD,
    &activation::SILU,
    &activation::SILU_GRAD,
    &reduce::SUM,
    &reduce::MEAN,
    &reduce::MIN,
    &reduce::MAX,
    &linalg::DOT,
    &linalg::OUTER,
    &linalg::MATVEC,
    &linalg::VECMAT,
    &linalg::MATMUL,
    &linalg::TRANSPOSE,
    &linalg::DIAG,
    &linalg::DIAGONAL,
    &linalg::CORRELATE,
    &softmax::FORWARD,
    &softmax::GRAD,
    &softmax::JACOBIAN,
    &conv2d::FORWARD,
    &conv2d::INPUT_GRAD,
    &conv2d::FILTER_GRAD,
    &conv2d::BIAS_GRAD,
    &grouped::FORWARD,
    &grouped::INPUT_GRAD,
    &grouped::FILTER_GRAD,
    &transformed::FILTER,
    &transformed::FORWARD,
    &transformed::INPUT_GRAD,
    &transformed::FILTER_GRAD,
    &transformed::FILTER_FINISH,
    &fused::FORWARD,
    &fused::FILTER_GRAD,
    &fused::INPUT_GRAD,
    &fused::EXPAND,
    &pool::MAX,
    &pool::MAX_GRAD,
    &pool::AVERAGE,
    &pool::AVERAGE_GRAD,
    &pool::GLOBAL,
    &pool::GLOBAL_GRAD,
    &upsample::UPSAMPLE,
    &upsample::UPSAMPLE_GRAD,
    &linear::FORWARD,
    &linear::INPUT_GRAD,
    &linear::WEIGHT_GRAD,
    &linear::BIAS_GRAD,
    &batch_norm::MOMENTS,
    &batch_norm::FINISH,
    &batch_norm::RUNNING,
    &batch_norm::NORMALISE,
    &batch_norm::SUMS,
    &batch_norm::INPUT_GRAD,
    &norm::layer::LAYER_NORM,
    &norm::layer::LAYER_NORM_INPUT_GRAD,
    &norm::layer::LAYER_NORM_AFFINE_GRAD,
    &norm::group::GROUP_NORM,
    &norm::group::GROUP_NORM_INPUT_GRAD,
    &norm::group::GROUP_NORM_AFFINE_GRAD,
    &norm::channel::CHANNEL_NORM,
    &norm::channel::CHANNEL_NORM_INPUT_GRAD,
    &norm::channel::CHANNEL_NORM_AFFINE_GRAD,
    &channelwise::CHANNEL_SCALE,
    &channelwise::CHANNEL_SCALE_GRAD,
    &channelwise::CHANNEL_SHIFT,
    &dropout::DROPOUT,
    &cross_entropy::TRAIN,
    &cross_entropy::EVALUATE,
    &loss::values::MSE_LOSS,
    &loss::values::MSE_LOSS_EVALUATE,
    &loss::values::L1_LOSS,
    &loss::values::L1_LOSS_EVALUATE,
    &loss::values::BCE_WITH_LOGITS_LOSS,
    &loss::values::BCE_WITH_LOGITS_LOSS_EVALUATE,
    &loss::smooth::CROSS_ENTROPY_SMOOTH,
    &loss::smooth::CROSS_ENTROPY_SMOOTH_EVALUATE,
    &loss::smooth::CLASS_WEIGHTS_TOTAL,
    &loss::soft::SOFT_CROSS_ENTROPY,
    &loss::soft::SOFT_CROSS_ENTROPY_EVALUATE,
    &optim::SGD,
    &optim::SGD_MOMENTUM,
    &optim::ADAM,
    &optim::SQUARES,
    &optim::CLIP,
    &optim::average::AVERAGE,
];

/// What to say of a name that no codelet has.
pub fn unknown(name: &str) -> String {
    let known = TABLE.iter().map(|c| c.name.as_str());
    let near = dahl_core::text::nearest(name, known);
    let near = near.map_or(String::new(), |near| format!("did you mean {near:?}? "));
    format!("unknown operation {name:?}: {near}`dahl ops` lists them")
}

/// The codelet of this name.
pub fn by_name(name: &str) -> Option<&'static Arc<Codelet>> {
    TABLE.iter().map(|c| &***c).find(|c| c.name == name)
}
