//! Operations on typed arrays: what users call.
//!
//! Each function records one task, or a few, with the recorder given to it first. The forms are named
//! alike everywhere, and each operation says which of them it has:
//!
//! | form | result |
//! |---|---|
//! | `op(&r, &a)` | a temporary of the recorder, returned |
//! | `op_into(&r, &a, &mut out)` | written where told |
//! | `op_assign(&r, &mut a)` | updated in place |
//! | `op_reduce(&r, &a, &mut total)` | added, by several tasks at the same time where there are several |
//!
//! Arrays may be parts of others (see [`dahl_core::Split`]). Rank and element type are checked by the
//! compiler. Other mistakes do not return a `Result` here: the recorder keeps the first, with
//! operation, operand, shapes and the line that asked, and `finish` returns it. A result that could
//! not be made has some shape, so that what follows can be recorded.
//!
//! ```
//! use dahl_core::{Arena, Recorder};
//!
//! let arena = Arena::new();
//! let a = arena.zeros::<f32, 1>([3]).unwrap();
//! let b = arena.zeros::<f32, 1>([4]).unwrap();
//! let recorder = Recorder::new();
//! dahl_ops::api::add(&recorder, &a, &b);
//! let mistake = recorder.finish().unwrap_err().to_string();
//! assert!(mistake.starts_with("add: b has shape 4, a has 3"));
//! ```

pub use crate::activation::{
    elu, elu_assign, elu_grad, elu_grad_assign, elu_grad_into, elu_into, gelu, gelu_assign,
    gelu_grad, gelu_grad_assign, gelu_grad_into, gelu_into, gelu_tanh, gelu_tanh_assign,
    gelu_tanh_grad, gelu_tanh_grad_assign, gelu_tanh_grad_into, gelu_tanh_into, leaky_relu,
    leaky_relu_assign, leaky_relu_grad, leaky_relu_grad_assign, leaky_relu_grad_into,
    leaky_relu_into, sigmoid, sigmoid_assign, sigmoid_grad, sigmoid_grad_assign, sigmoid_grad_into,
    sigmoid_into, silu, silu_assign, silu_grad, silu_grad_assign, silu_grad_into, silu_into, tanh,
    tanh_assign, tanh_grad, tanh_grad_assign, tanh_grad_into, tanh_into,
};
pub use crate::batch_norm::{
    Affine, BatchNorm, BatchNormGrad, batch_norm, batch_norm_grad, batch_norm_train,
};
pub use crate::channelwise::{
    channel_scale, channel_scale_grad_reduce, channel_scale_into, channel_shift_assign,
};
pub use crate::conv2d::fused::{
    conv2d_relu_max_pool2d, conv2d_relu_max_pool2d_filter_grad_reduce,
    conv2d_relu_max_pool2d_input_grad_into, max_pool2d_expand_into,
};
pub use crate::conv2d::grouped::op::{
    GroupedGradParams, GroupedParams, conv2d_grouped, conv2d_grouped_filter_grad_reduce,
    conv2d_grouped_input_grad_into, conv2d_grouped_into,
};
pub use crate::conv2d::transformed::{
    conv2d_winograd_filter_grad_reduce, conv2d_winograd_input_grad_into, conv2d_winograd_into,
    winograd_filter,
};
pub use crate::conv2d::winograd::Tile;
pub use crate::conv2d::{
    Conv2d, conv2d, conv2d_bias_grad, conv2d_bias_grad_reduce, conv2d_filter_grad,
    conv2d_filter_grad_reduce, conv2d_input_grad, conv2d_input_grad_into, conv2d_into,
};
pub use crate::cross_entropy::{
    CrossEntropy, cross_entropy, cross_entropy_evaluate_into, cross_entropy_into,
};
pub use crate::dropout::{Dropout, dropout, dropout_into};
pub use crate::elementwise::binary::{
    add, add_assign, add_into, add_reduce, div, div_assign, div_into, mul, mul_assign, mul_into,
    sub, sub_assign, sub_into,
};
pub use crate::elementwise::relu::{
    relu, relu_assign, relu_grad, relu_grad_assign, relu_grad_into, relu_into,
};
pub use crate::elementwise::relu6::{
    relu6, relu6_assign, relu6_grad, relu6_grad_assign, relu6_grad_into, relu6_into,
};
pub use crate::elementwise::unary::{
    add_value, add_value_assign, add_value_into, clip, clip_assign, clip_into, copy, copy_into,
    exp, exp_assign, exp_into, fill, fill_assign, log, log_assign, log_into, power, power_assign,
    power_into, round, round_assign, round_into, scale, scale_assign, scale_into, sub_value,
    sub_value_assign, sub_value_into,
};
pub use crate::linalg::products::{
    Transposed, dot, dot_into, dot_reduce, matmul, matmul_into, matmul_reduce, matvec, matvec_into,
    outer, outer_into, outer_reduce, vecmat, vecmat_into,
};
pub use crate::linalg::rearranged::{
    correlate, correlate_into, diag, diag_into, diagonal, diagonal_into, transpose, transpose_into,
};
pub use crate::linear::{
    linear, linear_bias_grad, linear_bias_grad_reduce, linear_input_grad, linear_input_grad_into,
    linear_into, linear_weight_grad, linear_weight_grad_reduce,
};
pub use crate::loss::smooth::{
    ClassWeights, SmoothParams, SmoothTrainParams, class_weights_total_reduce,
    cross_entropy_smooth_evaluate_into, cross_entropy_smooth_into,
};
pub use crate::loss::soft::{soft_cross_entropy_evaluate_into, soft_cross_entropy_into};
pub use crate::loss::values::{
    bce_with_logits_loss_evaluate_into, bce_with_logits_loss_into, l1_loss_evaluate_into,
    l1_loss_into, mse_loss_evaluate_into, mse_loss_into,
};
pub use crate::norm::channel::{
    channel_norm, channel_norm_affine_grad_reduce, channel_norm_input_grad,
    channel_norm_input_grad_into, channel_norm_into,
};
pub use crate::norm::group::{
    GroupNormParams, group_norm, group_norm_affine_grad_reduce, group_norm_input_grad,
    group_norm_input_grad_into, group_norm_into,
};
pub use crate::norm::layer::{
    layer_norm, layer_norm_affine_grad_reduce, layer_norm_input_grad, layer_norm_input_grad_into,
    layer_norm_into,
};
pub use crate::optim::average::average_assign;
pub use crate::optim::{
    Decay, Momentum, adam_assign, clip_norm_assign, clip_squares_reduce, sgd_assign,
    sgd_momentum_assign,
};
pub use crate::pool::{
    Pool2d, adaptive_avg_pool2d, adaptive_avg_pool2d_grad_into, adaptive_avg_pool2d_into,
    avg_pool2d, avg_pool2d_grad, avg_pool2d_grad_into, avg_pool2d_into, max_pool2d,
    max_pool2d_grad, max_pool2d_grad_into, max_pool2d_into, max_pool2d_places,
    max_pool2d_places_into,
};
pub use crate::reduce::{
    max, max_assign, max_into, max_reduce, mean, mean_into, mean_reduce, min, min_assign, min_into,
    min_reduce, sum, sum_assign, sum_axes, sum_axes_into, sum_axes_reduce, sum_into, sum_reduce,
};
pub use crate::softmax::{
    softmax, softmax_grad, softmax_grad_into, softmax_into, softmax_jacobian, softmax_jacobian_into,
};
pub use crate::upsample::{Resampling, upsample, upsample_grad, upsample_grad_into, upsample_into};
