//! Gradients by finite differences: for models that together use every kind of layer, the gradient of
//! every parameter, as training computes it (fused kernels, splits and all), against central differences
//! of the loss in double precision.

use dahl_core::random::Random;
use dahl_core::{DType, Executor, Handle};
use dahl_nn::model::Model;
use dahl_nn::optim::{Given, Optimizer};
use dahl_nn::step::{Lowered, Step};
use dahl_runtime::Runtime;

const BATCH: usize = 3;

/// Everything that a loss is computed from.
struct Probe {
    runtime: Runtime,
    lowered: Lowered,
    first: Vec<Vec<f64>>,
}

fn read(runtime: &mut Runtime, array: &Handle) -> Vec<f64> {
    let mut values = Vec::new();
    let mut see = |v: dahl_core::Values<'_>| values.extend((0..v.len()).map(|i| v.get(i)));
    Executor::read(runtime, array, &mut see).unwrap();
    values
}

fn write(runtime: &mut Runtime, array: &Handle, values: &[f64]) {
    let mut change = |mut v: dahl_core::ValuesMut<'_>| {
        values.iter().enumerate().for_each(|(i, &x)| v.set(i, x));
    };
    Executor::write(runtime, array, &mut change).unwrap();
}

impl Probe {
    fn new(toml: &str, grain: &str) -> Probe {
        let step = Step::new(Model::from_toml(toml, "test").unwrap())
            .batch(BATCH)
            .dtype(DType::F64)
            .grain(grain.parse().unwrap())
            .optimizer(Optimizer::parse("sgd", &Given::default()).unwrap())
            .seed(5);
        let lowered = step.lower().unwrap();
        let (model, io) = (&step.model, &lowered.io);
        let mut runtime = Runtime::builder().workers(2).build().unwrap();
        let random = Random::new(3, 9);
        let mut at = 0;
        let mut draw = |n: usize, scale: f64| -> Vec<f64> {
            at += n as u64;
            let place = at;
            let value = |i: usize| (random.uniform(place * 1000 + i as u64) - 0.5) * scale;
            (0..n).map(value).collect()
        };
        let mut first = Vec::new();
        for (param, array) in model.params().iter().zip(&lowered.state.params) {
            let Some(array) = array else {
                first.push(Vec::new());
                continue;
            };
            let mut values = draw(array.shape.len(), 0.8);
            if param.key.ends_with("running_var") {
                values.iter_mut().for_each(|v| *v = 1.0 + v.abs());
            }
            first.push(values);
        }
        let pixels = draw(io.inputs.shape.len(), 2.0);
        write(&mut runtime, &io.inputs, &pixels);
        let labels: Vec<f64> = (0..BATCH).map(|i| (i % model.classes()) as f64).collect();
        write(&mut runtime, &io.targets, &labels);
        write(&mut runtime, &io.step, &[1.0]);
        Probe {
            runtime,
            lowered,
            first,
        }
    }

    /// One step from the first parameters with one of them changed; the mean loss before the update.
    fn loss(&mut self, rate: f64, change: Option<(usize, usize, f64)>) -> f64 {
        let optimizer = Optimizer::parse("sgd", &Given::default()).unwrap();
        for (place, values) in self.first.clone().iter_mut().enumerate() {
            let Some(array) = self.lowered.state.params[place].clone() else {
                continue;
            };
            if let Some((p, i, by)) = change
                && p == place
            {
                values[i] += by;
            }
            write(&mut self.runtime, &array, values);
        }
        let values = optimizer.values(rate, 1);
        write(&mut self.runtime, &self.lowered.io.values, &values);
        self.runtime.launch(&self.lowered.graph).unwrap();
        self.runtime.wait().unwrap();
        let losses = read(&mut self.runtime, &self.lowered.io.losses);
        losses.iter().sum::<f64>() / BATCH as f64
    }

    /// Compares all gradients; returns how many.
    fn check(&mut self, model: &Model, what: &str) -> usize {
        // With a rate of one and no momentum, the update is the gradient.
        self.loss(1.0, None);
        let mut gradients = Vec::new();
        for (place, first) in self.first.iter().enumerate() {
            gradients.push(self.lowered.state.params[place].as_ref().map(|array| {
                let after = read(&mut self.runtime, array);
                let pairs = first.iter().zip(&after);
                pairs.map(|(a, b)| a - b).collect::<Vec<f64>>()
            }));
        }
        let mut checked = 0;
        for (place, param) in model.params().iter().enumerate() {
            let Some(gradient) = gradients[place].clone().filter(|_| param.role.is_trained())
            else {
                continue;
            };
            // A step small enough not to cross a kink of relu or pooling, large enough to see.
            let h = 1e-6;
            for i in (0..gradient.len()).step_by(1 + gradient.len() / 40) {
                let up = self.loss(0.0, Some((place, i, h)));
                let down = self.loss(0.0, Some((place, i, -h)));
                let slope = (up - down) / (2.0 * h);
                let error = (slope - gradient[i]).abs();
                assert!(
                    error < 2e-7 + 2e-6 * slope.abs(),
                    "{what}: {}[{i}] has gradient {}, differences say {slope}",
                    param.key,
                    gradient[i]
                );
                checked += 1;
            }
        }
        checked
    }
}

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

#[test]
fn gradients_are_slopes_of_the_loss() {
    for (name, toml) in [("chain", CHAIN), ("residual", RESIDUAL)] {
        let model = Model::from_toml(toml, name).unwrap();
        for grain in ["auto", "sample=2,channel=2,height=2,width=1"] {
            let checked = Probe::new(toml, grain).check(&model, &format!("{name}, {grain}"));
            assert!(checked > 100, "{name}: only {checked} gradients");
        }
    }
}
