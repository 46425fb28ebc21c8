//! A loss of the program's own, and with it a regression: the Huber loss with targets that are numbers.
//!
//!     cargo run --release -p dahl --example custom_loss

use std::sync::{Arc, LazyLock};

use dahl::core::Mode::{Read, Write};
use dahl::core::random::Random;
use dahl::data::InMemory;
use dahl::nn::keys::Named;
use dahl::nn::losses::{Criterion, Targets};
use dahl::nn::lower::LossTape;
use dahl::prelude::*;
use serde::{Deserialize, Serialize};

/// Quadratic up to an error of 1, linear beyond: output, targets, losses, correct, (gradient); the gradient's factor.
static HUBER: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    Arc::new(
        Codelet::new("huber").implement("reference", UnitKind::CPU, |ops| {
            let (output, targets) = (ops.read::<f32>(0), ops.read::<f32>(1));
            let (mut losses, mut correct) = (ops.write::<f32>(2), ops.write::<f32>(3));
            let mut gradient = (ops.len() == 5).then(|| ops.write::<f32>(4));
            let scale = ops.float(0) as f32;
            for sample in 0..losses.dims()[3] {
                let error = output.row([0, 0, sample])[0] - targets.row([0, 0, sample])[0];
                let near = error.abs() <= 1.0;
                let loss = if near {
                    0.5 * error * error
                } else {
                    error.abs() - 0.5
                };
                losses.row([0; 3])[sample] = loss;
                if let Some(gradient) = &mut gradient {
                    gradient.row([0, 0, sample])[0] = scale * error.clamp(-1.0, 1.0);
                }
            }
            correct.row([0; 3])[0] = 0.0; // nothing is right or wrong here
            Ok(())
        }),
    )
});

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Huber;

impl Named for Huber {
    const NAME: &'static str = "huber";
}

impl Criterion for Huber {
    fn targets(&self) -> Targets {
        Targets::Values
    }

    fn lower(&self, tape: &mut LossTape<'_>) {
        let scale = [Param::Float(1.0 / tape.batch() as f64)];
        for part in tape.parts() {
            let mut operands = vec![
                part.output.with(Read),
                part.targets.with(Read),
                part.losses.with(Write),
                part.correct.with(Write),
            ];
            operands.extend(part.gradient.as_ref().map(|g| g.with(Write)));
            tape.submit(&HUBER, &operands, &scale);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // y = sin(3 x), with a few wild values that a squared error would follow.
    let random = Random::new(7, 0);
    let x: Vec<f32> = (0..2000)
        .map(|i| 2.0 * random.uniform(i) as f32 - 1.0)
        .collect();
    let wild = |i: usize| if i.is_multiple_of(50) { 20.0 } else { 0.0 };
    let y: Vec<f32> = x
        .iter()
        .enumerate()
        .map(|(i, x)| (3.0 * x).sin() + wild(i))
        .collect();
    let data = Data::from(InMemory::new([1, 1, 1], x, y)?);

    let start = Model::builder("sine", [1, 1, 1])
        .flatten()
        .linear(32)
        .relu();
    let model = start.linear(32).relu().linear(1).build()?;
    let mut trainer = Trainer::new(model)
        .loss(Huber)
        .epochs(30)
        .learning_rate(0.005);
    trainer.fit(&data)?;
    for x in [-0.8f32, 0.0, 0.5] {
        let predicted = trainer.predict(&[x][..])?.row(0)[0];
        println!(
            "sin(3 × {x}) = {:.3}, predicted {predicted:.3}",
            (3.0 * x).sin()
        );
        assert!((predicted - f64::from((3.0 * x).sin())).abs() < 0.25);
    }
    Ok(())
}
