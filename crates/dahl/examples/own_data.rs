//! Trains on arrays of the program's own: floats with classes, as a whole and batch by batch.
//!
//!     cargo run --release -p dahl --example own_data

use dahl::core::random::Random;
use dahl::data::{Batch, Generated, InMemory, Source};
use dahl::prelude::*;

/// Points of the plane; the class says whether they are inside a ring.
fn points(count: usize, seed: u64) -> (Vec<f32>, Vec<usize>) {
    let random = Random::new(seed, 0);
    let mut inputs = Vec::new();
    let mut labels = Vec::new();
    for i in 0..count as u64 {
        let [x, y] = [2 * i, 2 * i + 1].map(|at| 2.0 * random.uniform(at) - 1.0);
        let radius = x.hypot(y);
        inputs.extend([x as f32, y as f32]);
        labels.push(usize::from((0.4..0.8).contains(&radius)));
    }
    (inputs, labels)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shape = [2, 1, 1];
    let net = || {
        let hidden = Model::builder("ring", shape).flatten().linear(32).relu();
        hidden.linear(32).relu().linear(2).build()
    };

    // As a whole.
    let (inputs, labels) = points(4000, 1);
    let train = InMemory::new(shape, inputs, labels)?;
    let (inputs, labels) = points(500, 2);
    let test = InMemory::new(shape, inputs, labels)?;
    let mut trainer = Trainer::new(net()?).epochs(10).learning_rate(0.01);
    let history = trainer.fit(&Data::from((train, test.clone())))?;
    let last = history.last().expect("ten epochs");
    let accuracy = last.validation.and_then(|v| v.accuracy());
    let accuracy = accuracy.expect("a validation set with classes");
    println!("whole: {:.1} % right", 100.0 * accuracy);
    assert!(accuracy > 0.9);

    // Batch by batch: made when they are needed, never all at once.
    let batches = Generated::new(shape, 100, |epoch, batch| {
        let (inputs, labels) = points(40, 1000 * (epoch + 1) + batch as u64);
        Ok(Batch::new(inputs, labels))
    });
    let mut trainer = Trainer::new(net()?).epochs(10).learning_rate(0.01);
    trainer.fit(&Data::from(Source::from(batches)))?;
    let accuracy = trainer.evaluate(test)?.accuracy().expect("classes");
    println!("batches: {:.1} % right", 100.0 * accuracy);
    Ok(())
}
