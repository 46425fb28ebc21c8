//! Trains a small CNN on images of clothes, tells how each epoch went, and keeps the weights.
//!
//!     cargo run --release -p dahl --example train

use dahl::prelude::*;

fn main() -> Result<(), dahl::Error> {
    let data = Data::fashion_mnist_small()?;
    let model = Model::builder("clothes", [1, 28, 28])
        .conv2d(8, 3)
        .relu()
        .max_pool2d(2)
        .flatten()
        .linear(10)
        .build()?;

    let mut trainer = Trainer::new(model).batch(64).epochs(3).seed(1);
    for epoch in trainer.fit(&data)? {
        let validation = epoch.validation.expect("the data have a validation set");
        println!(
            "epoch {}: loss {:.4}, validation accuracy {:.1} %, {:.2} s, {}",
            epoch.epoch,
            epoch.train.mean_loss(),
            100.0 * validation.accuracy().unwrap_or_default(),
            epoch.seconds,
            epoch.energy,
        );
    }
    let file = std::env::temp_dir().join("clothes.safetensors");
    trainer.save(&file)?;
    println!("weights: {}", file.display());
    Ok(())
}
