//! Gradients by finite differences: for models that together use every kind of layer and every loss.

mod probe;

use dahl_nn::losses::Loss;
use dahl_nn::model::Model;
use dahl_nn::step::Step;
use probe::Probe;

const CHAIN: &str = r#"
name = "chain"
input = [2, 9, 8]
layers = [
    { type = "conv2d", out_channels = 3, kernel = 3, padding = 1 },
    { type = "relu" },
    { type = "max_pool2d", kernel = 2 },
    { type = "conv2d", out_channels = 5, kernel = [2, 3], stride = [1, 2], padding = [1, 0], bias = false },
    { type = "batch_norm2d" },
    { type = "relu" },
    { type = "avg_pool2d", kernel = 2, stride = 1, padding = 1 },
    { type = "dropout", p = 0.3 },
    { type = "flatten" },
    { type = "linear", out_features = 7 },
    { type = "relu" },
    { type = "linear", out_features = 4 },
]
"#;

const RESIDUAL: &str = r#"
name = "residual"
input = [3, 6, 6]
layers = [
    { type = "conv2d", name = "stem", out_channels = 4, kernel = 3, padding = 1 },
    { type = "batch_norm2d", name = "norm" },
    { type = "relu", name = "base" },
    { type = "conv2d", name = "a", out_channels = 4, kernel = 3, padding = 1 },
    { type = "batch_norm2d", name = "b" },
    { type = "add", name = "sum", from = ["b", "base"] },
    { type = "relu", name = "meet" },
    { type = "concat", from = ["base", "meet", "input"] },
    { type = "max_pool2d", kernel = 3, stride = 2, padding = 1 },
    { type = "adaptive_avg_pool2d" },
    { type = "flatten" },
    { type = "linear", out_features = 3 },
]
"#;

const ACTIVATIONS: &str = r#"
name = "activations"
input = [2, 6, 5]
layers = [
    { type = "conv2d", out_channels = 3, kernel = 2 },
    { type = "silu" },
    { type = "conv2d", out_channels = 3, kernel = 2 },
    { type = "leaky_relu", negative_slope = 0.2 },
    { type = "conv2d", out_channels = 4, kernel = 2 },
    { type = "elu", alpha = 0.6 },
    { type = "gelu" },
    { type = "flatten" },
    { type = "linear", out_features = 6 },
    { type = "tanh" },
    { type = "linear", out_features = 5 },
    { type = "gelu", approximate = "tanh" },
    { type = "linear", out_features = 6 },
    { type = "sigmoid" },
    { type = "linear", out_features = 4 },
]
"#;

const NORMS: &str = r#"
name = "norms"
input = [2, 7, 6]
layers = [
    { type = "conv2d", out_channels = 4, kernel = 2 },
    { type = "layer_norm" },
    { type = "relu" },
    { type = "conv2d", out_channels = 6, kernel = 2 },
    { type = "group_norm", num_groups = 3 },
    { type = "tanh" },
    { type = "layer_norm", normalized_shape = [5, 4], bias = false },
    { type = "group_norm", num_groups = 2, affine = false },
    { type = "flatten" },
    { type = "linear", out_features = 6 },
    { type = "group_norm", num_groups = 2 },
    { type = "linear", out_features = 6 },
    { type = "layer_norm", elementwise_affine = false },
    { type = "linear", out_features = 4 },
]
"#;

const GROUPED: &str = r#"
name = "grouped"
input = [4, 9, 9]
layers = [
    { type = "conv2d", out_channels = 8, kernel = 3, padding = 1, groups = 4 },
    { type = "relu" },
    { type = "max_pool2d", kernel = 2 },
    { type = "conv2d", out_channels = 4, kernel = [2, 1], padding = 1, dilation = [2, 1], groups = 2, bias = false },
    { type = "tanh" },
    { type = "conv2d", out_channels = 3, kernel = 2, stride = [1, 2], dilation = 2 },
    { type = "flatten" },
    { type = "linear", out_features = 4 },
]
"#;

const DENSE: &str = r#"
name = "dense"
input = [2, 5, 4]
layers = [
    { type = "conv2d", out_channels = 4, kernel = 2 },
    { type = "layer_norm2d", name = "norm" },
    { type = "linear2d", out_features = 6 },
    { type = "relu6" },
    { type = "linear2d", out_features = 4, bias = false },
    { type = "layer_scale", name = "scale", init = 0.7 },
    { type = "add", from = ["norm", "scale"] },
    { type = "conv_transpose2d", out_channels = 6, kernel = 3, stride = [2, 1], padding = 1, output_padding = [1, 0] },
    { type = "tanh" },
    { type = "conv_transpose2d", out_channels = 3, kernel = 2, dilation = [1, 2], groups = 3, bias = false },
    { type = "upsample", scale_factor = 2 },
    { type = "tanh" },
    { type = "upsample", size = [7, 9], mode = "bilinear" },
    { type = "upsample", size = [8, 11], mode = "bilinear", align_corners = true },
    { type = "adaptive_avg_pool2d", output_size = [3, 2] },
    { type = "flatten" },
    { type = "linear", out_features = 4 },
]
"#;

#[test]
fn gradients_are_slopes_of_the_loss() {
    for (name, toml) in [
        ("chain", CHAIN),
        ("residual", RESIDUAL),
        ("activations", ACTIVATIONS),
        ("norms", NORMS),
        ("grouped", GROUPED),
        (
            "norm group",
            &RESIDUAL.replace("batch_norm2d\"", "batch_norm2d\", norm_group = 2"),
        ),
        ("dense", DENSE),
    ] {
        for grain in ["auto", "sample=2,channel=2,height=2,width=1"] {
            let step = Step::new(Model::from_toml(toml, name).unwrap());
            let checked = Probe::new(step, grain).check(&format!("{name}, {grain}"));
            assert!(checked > 100, "{name}: only {checked} gradients");
        }
    }
}

#[test]
fn gradients_of_every_loss_are_its_slopes() {
    for loss in [
        "cross_entropy:label_smoothing=0.2",
        "cross_entropy:weight=[0.5,2,1,0.25]",
        "cross_entropy:weight=[0.5,2,0,0.25],label_smoothing=0.1",
        "soft_cross_entropy",
        "mse",
        "l1",
        "bce_with_logits",
    ] {
        let model = Model::from_toml(ACTIVATIONS, "activations").unwrap();
        let step = Step::new(model).loss(loss.parse::<Loss>().unwrap());
        let checked = Probe::new(step, "auto").check(loss);
        assert!(checked > 100, "{loss}: only {checked} gradients");
    }
}
