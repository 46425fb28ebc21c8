//! Gradients by finite differences: for models that together use every kind of layer and every loss.

#[path = "support/probe.rs"]
mod probe;

use dahl_nn::model::Model;
use dahl_nn::step::Step;
use probe::Probe;

const CHAIN: &str = r#"
name = "chain"
input = [2, 9, 8]
[[layers]]
type = "conv2d"
out_channels = 3
kernel = 3
padding = 1
[[layers]]
type = "relu"
[[layers]]
type = "max_pool2d"
kernel = 2
[[layers]]
type = "conv2d"
out_channels = 5
kernel = [2, 3]
stride = [1, 2]
padding = [1, 0]
bias = false
[[layers]]
type = "batch_norm2d"
[[layers]]
type = "relu"
[[layers]]
type = "avg_pool2d"
kernel = 2
stride = 1
padding = 1
[[layers]]
type = "dropout"
p = 0.3
[[layers]]
type = "flatten"
[[layers]]
type = "linear"
out_features = 7
[[layers]]
type = "relu"
[[layers]]
type = "linear"
out_features = 4
"#;

const RESIDUAL: &str = r#"
name = "residual"
input = [3, 6, 6]
[[layers]]
type = "conv2d"
name = "stem"
out_channels = 4
kernel = 3
padding = 1
[[layers]]
type = "batch_norm2d"
name = "norm"
[[layers]]
type = "relu"
name = "base"
[[layers]]
type = "conv2d"
name = "a"
out_channels = 4
kernel = 3
padding = 1
[[layers]]
type = "batch_norm2d"
name = "b"
[[layers]]
type = "add"
name = "sum"
from = ["b", "base"]
[[layers]]
type = "relu"
[[layers]]
type = "max_pool2d"
kernel = 3
stride = 2
padding = 1
[[layers]]
type = "adaptive_avg_pool2d"
[[layers]]
type = "flatten"
[[layers]]
type = "linear"
out_features = 3
"#;

const ACTIVATIONS: &str = r#"
name = "activations"
input = [2, 6, 5]
[[layers]]
type = "conv2d"
out_channels = 3
kernel = 2
[[layers]]
type = "silu"
[[layers]]
type = "conv2d"
out_channels = 3
kernel = 2
[[layers]]
type = "leaky_relu"
negative_slope = 0.2
[[layers]]
type = "conv2d"
out_channels = 4
kernel = 2
[[layers]]
type = "elu"
alpha = 0.6
[[layers]]
type = "gelu"
[[layers]]
type = "flatten"
[[layers]]
type = "linear"
out_features = 6
[[layers]]
type = "tanh"
[[layers]]
type = "linear"
out_features = 5
[[layers]]
type = "gelu"
approximate = "tanh"
[[layers]]
type = "linear"
out_features = 6
[[layers]]
type = "sigmoid"
[[layers]]
type = "linear"
out_features = 4
"#;

#[test]
fn gradients_are_slopes_of_the_loss() {
    for (name, toml) in [
        ("chain", CHAIN),
        ("residual", RESIDUAL),
        ("activations", ACTIVATIONS),
    ] {
        for grain in ["auto", "sample=2,channel=2,height=2,width=1"] {
            let step = Step::new(Model::from_toml(toml, name).unwrap());
            let checked = Probe::new(step, grain).check(&format!("{name}, {grain}"));
            assert!(checked > 100, "{name}: only {checked} gradients");
        }
    }
}
