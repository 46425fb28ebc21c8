//! Gradients by finite differences: the gradient of every parameter, as training computes it (fused kernels,
//! splits and all), against central differences of the loss in double precision.

use dahl_core::DType;
use dahl_core::random::Random;
use dahl_nn::losses::Targets;
use dahl_nn::model::Model;
use dahl_nn::optim::Sgd;
use dahl_nn::step::{Lowered, Step};
use dahl_runtime::Runtime;
use dahl_test_support::arrays::{read, write};

pub const BATCH: usize = 3;

/// Everything that a loss is computed from.
pub struct Probe {
    model: Model,
    runtime: Runtime,
    lowered: Lowered,
    first: Vec<Vec<f64>>,
}

impl Probe {
    /// Of a step whose batch, precision and optimiser are set here.
    pub fn new(step: Step, grain: &str) -> Probe {
        let step = step
            .batch(BATCH)
            .dtype(DType::F64)
            .grain(grain.parse().unwrap())
            .optimizer(Sgd::default())
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
            let Some(array) = array.first() else {
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
        let targets: Vec<f64> = match step.loss.targets() {
            Targets::Classes => (0..BATCH).map(|i| (i % model.classes()) as f64).collect(),
            Targets::Values | Targets::Shares => draw(io.targets.shape.len(), 1.0)
                .iter()
                .map(|x| x + 0.5)
                .collect(),
        };
        write(&mut runtime, &io.targets, &targets);
        write(&mut runtime, &io.step, &[1.0]);
        Probe {
            model: step.model.clone(),
            runtime,
            lowered,
            first,
        }
    }

    /// One step from the first parameters with one of them changed; the mean loss before the update.
    fn loss(&mut self, rate: f64, change: Option<(usize, usize, f64)>) -> f64 {
        for (place, values) in self.first.clone().iter_mut().enumerate() {
            let Some(array) = self.lowered.state.params[place].first().cloned() else {
                continue;
            };
            if let Some((p, i, by)) = change
                && p == place
            {
                values[i] += by;
            }
            write(&mut self.runtime, &array, values);
        }
        let values = dahl_nn::optim::Optimizer::from(Sgd::default()).values(rate, 1);
        write(&mut self.runtime, &self.lowered.io.values, &values);
        self.runtime.launch(&self.lowered.graph).unwrap();
        self.runtime.wait().unwrap();
        let losses = read(&mut self.runtime, &self.lowered.io.losses);
        losses.iter().sum::<f64>() / BATCH as f64
    }

    /// Compares all gradients; returns how many.
    pub fn check(&mut self, what: &str) -> usize {
        // With a rate of one and no momentum, the update is the gradient.
        self.loss(1.0, None);
        let mut gradients = Vec::new();
        for (place, first) in self.first.iter().enumerate() {
            gradients.push(self.lowered.state.params[place].first().map(|array| {
                let after = read(&mut self.runtime, array);
                let pairs = first.iter().zip(&after);
                pairs.map(|(a, b)| a - b).collect::<Vec<f64>>()
            }));
        }
        let mut checked = 0;
        for (place, param) in self.model.clone().params().iter().enumerate() {
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
