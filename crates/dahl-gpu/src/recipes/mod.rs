//! Recipes: for every codelet, which kernels compute it, with which arguments and on how many items.
//!
//! A recipe is a pure function: it looks at operands' places and extents, modes and parameters, never
//! at values or at a device. [`TABLE`] has one line per codelet of `dahl-ops`, and the graph's own that
//! merge accumulators; a test keeps it whole.

mod channel;
mod conv;
mod elementwise;
mod grouped;
mod linalg;
mod loss;
mod losses;
mod norm;
mod optim;
mod pool;
mod reduce;
mod resample;
mod sample_norm;
mod winograd;

use dahl_ops::loss::values::Distance;

use crate::launch::{Steps, Task};

/// How a codelet is computed.
pub type Recipe = fn(&Task<'_>, &mut Steps);

/// Every codelet's recipe, by the codelet's name.
pub static TABLE: &[(&str, Recipe)] = &[
    ("add", |t, s| elementwise::binary("add", t, s)),
    ("add_assign", elementwise::add_assign),
    ("sub", |t, s| elementwise::binary("sub", t, s)),
    ("mul", |t, s| elementwise::binary("mul", t, s)),
    ("div", |t, s| elementwise::binary("divide", t, s)),
    ("scale", |t, s| elementwise::unary("scale", t, s)),
    ("add_value", |t, s| elementwise::unary("add_value", t, s)),
    ("sub_value", |t, s| elementwise::unary("sub_value", t, s)),
    ("power", |t, s| elementwise::unary("power", t, s)),
    ("clip_values", |t, s| {
        elementwise::unary("clip_values", t, s)
    }),
    ("round", |t, s| elementwise::unary("round_even", t, s)),
    ("exp", |t, s| elementwise::unary("exponential", t, s)),
    ("log", |t, s| elementwise::unary("logarithm", t, s)),
    ("fill", elementwise::filled),
    ("copy", |t, s| elementwise::unary("copy", t, s)),
    ("relu", |t, s| elementwise::unary("relu", t, s)),
    ("relu_grad", |t, s| elementwise::binary("relu_grad", t, s)),
    ("relu6", |t, s| elementwise::unary("relu6", t, s)),
    ("relu6_grad", |t, s| elementwise::binary("relu6_grad", t, s)),
    ("sigmoid", |t, s| elementwise::unary("sigmoid", t, s)),
    ("sigmoid_grad", |t, s| {
        elementwise::binary("sigmoid_grad", t, s)
    }),
    ("tanh", |t, s| {
        elementwise::unary("hyperbolic_tangent", t, s)
    }),
    ("tanh_grad", |t, s| elementwise::binary("tanh_grad", t, s)),
    ("leaky_relu", |t, s| elementwise::unary("leaky_relu", t, s)),
    ("leaky_relu_grad", |t, s| {
        elementwise::binary_with("leaky_relu_grad", t, s)
    }),
    ("elu", |t, s| elementwise::unary("elu", t, s)),
    ("elu_grad", |t, s| {
        elementwise::binary_with("elu_grad", t, s)
    }),
    ("gelu", |t, s| elementwise::unary("gelu", t, s)),
    ("gelu_grad", |t, s| elementwise::binary("gelu_grad", t, s)),
    ("gelu_tanh", |t, s| elementwise::unary("gelu_tanh", t, s)),
    ("gelu_tanh_grad", |t, s| {
        elementwise::binary("gelu_tanh_grad", t, s)
    }),
    ("silu", |t, s| elementwise::unary("silu", t, s)),
    ("silu_grad", |t, s| elementwise::binary("silu_grad", t, s)),
    ("sum", reduce::sum),
    ("mean", reduce::mean),
    ("min", reduce::min),
    ("max", reduce::max),
    ("dot", reduce::dot),
    ("outer", linalg::outer),
    ("matvec", linalg::matvec),
    ("vecmat", linalg::vecmat),
    ("matmul", linalg::matmul),
    ("transpose", linalg::transpose),
    ("diag", linalg::diag),
    ("diagonal", linalg::diagonal),
    ("correlate", conv::correlate),
    ("softmax", loss::softmax),
    ("softmax_grad", loss::softmax_grad),
    ("softmax_jacobian", loss::softmax_jacobian),
    ("conv2d", conv::forward),
    ("conv2d_input_grad", conv::input_grad),
    ("conv2d_filter_grad", conv::filter_grad),
    ("conv2d_bias_grad", reduce::channel_sums),
    ("conv2d_grouped", grouped::forward),
    ("conv2d_grouped_input_grad", grouped::input_grad),
    ("conv2d_grouped_filter_grad", grouped::filter_grad),
    ("winograd_filter", winograd::filter),
    ("conv2d_winograd", winograd::forward),
    ("conv2d_winograd_input_grad", winograd::input_grad),
    ("conv2d_winograd_filter_grad", winograd::filter_grad),
    ("winograd_filter_finish", winograd::finish),
    ("conv2d_relu_max_pool2d", conv::pooled),
    (
        "conv2d_relu_max_pool2d_filter_grad",
        conv::pooled_filter_grad,
    ),
    ("conv2d_relu_max_pool2d_input_grad", conv::pooled_input_grad),
    ("max_pool2d_expand", pool::expand),
    ("max_pool2d", pool::max),
    ("max_pool2d_grad", pool::max_grad),
    ("avg_pool2d", pool::average),
    ("avg_pool2d_grad", pool::average_grad),
    ("adaptive_avg_pool2d", pool::planes),
    ("adaptive_avg_pool2d_grad", pool::planes_grad),
    ("linear", linalg::linear),
    ("linear_input_grad", linalg::linear_input_grad),
    ("linear_weight_grad", linalg::linear_weight_grad),
    ("linear_bias_grad", reduce::column_sums),
    ("batch_norm_moments", norm::moments),
    ("batch_norm_finish", norm::finish),
    ("batch_norm_running", norm::running),
    ("batch_norm", norm::normalise),
    ("batch_norm_sums", norm::sums),
    ("batch_norm_input_grad", norm::input_grad),
    ("upsample", resample::forward),
    ("upsample_grad", resample::backward),
    ("channel_norm", channel::norm),
    ("channel_norm_input_grad", channel::norm_input_grad),
    ("channel_norm_affine_grad", channel::norm_affine_grad),
    ("channel_scale", channel::scale),
    ("channel_scale_grad", channel::scale_grad),
    ("channel_shift", channel::shift),
    ("layer_norm", sample_norm::layer),
    ("layer_norm_input_grad", sample_norm::layer_input_grad),
    ("layer_norm_affine_grad", sample_norm::layer_affine_grad),
    ("group_norm", sample_norm::group),
    ("group_norm_input_grad", sample_norm::group_input_grad),
    ("group_norm_affine_grad", sample_norm::group_affine_grad),
    ("dropout", elementwise::dropout),
    ("cross_entropy", loss::train),
    ("cross_entropy_evaluate", loss::evaluate),
    ("mse_loss", |t, s| losses::train(Distance::Mse, t, s)),
    ("mse_loss_evaluate", |t, s| {
        losses::evaluate(Distance::Mse, t, s)
    }),
    ("l1_loss", |t, s| losses::train(Distance::L1, t, s)),
    ("l1_loss_evaluate", |t, s| {
        losses::evaluate(Distance::L1, t, s)
    }),
    ("bce_with_logits_loss", |t, s| {
        losses::train(Distance::BceWithLogits, t, s)
    }),
    ("bce_with_logits_loss_evaluate", |t, s| {
        losses::evaluate(Distance::BceWithLogits, t, s)
    }),
    ("cross_entropy_smooth", losses::smooth_train),
    ("cross_entropy_smooth_evaluate", losses::smooth_evaluate),
    ("class_weights_total", losses::weights_total),
    ("soft_cross_entropy", losses::soft_train),
    ("soft_cross_entropy_evaluate", losses::soft_evaluate),
    ("average", optim::average),
    ("sgd", optim::sgd),
    ("sgd_momentum", optim::sgd_momentum),
    ("adam", optim::adam),
    ("clip_squares", reduce::squares),
    ("clip", optim::clip),
    ("merge", |t, s| elementwise::merge("add", t, s)),
    ("merge_min", |t, s| elementwise::merge("smaller", t, s)),
    ("merge_max", |t, s| elementwise::merge("larger", t, s)),
];

/// Codelets that are products of matrices, which a device's library may compute.
pub(crate) static PRODUCTS: &[&str] = &[
    "matmul",
    "linear",
    "linear_input_grad",
    "linear_weight_grad",
];

/// The recipe of a codelet.
pub fn by_name(codelet: &str) -> Option<Recipe> {
    TABLE
        .iter()
        .find(|(name, _)| *name == codelet)
        .map(|(_, r)| *r)
}

/// Sets every element: also what accumulators need before their first use.
pub fn fill(to: crate::tensor::Tensor, value: f64, s: &mut Steps) {
    s.items("fill", [to.into(), to.len().into(), value.into()], to.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codelet_has_a_recipe_and_no_recipe_is_stray() {
        // Those that merge accumulators are the graph's own.
        let codelets: Vec<&str> = dahl_ops::codelets::TABLE
            .iter()
            .map(|c| c.name.as_str())
            .chain(["merge", "merge_min", "merge_max"])
            .collect();
        for c in &codelets {
            assert!(by_name(c).is_some(), "no recipe for {c}");
        }
        for (i, (name, _)) in TABLE.iter().enumerate() {
            assert!(codelets.contains(name), "{name} is no codelet");
            assert!(TABLE[..i].iter().all(|(n, _)| n != name), "{name} twice");
        }
    }
}
