//! Classifies images: class scores, the most likely class and its probability.
//!
//!     cargo run --release -p dahl --example predict

use dahl::data::FASHION_CLASSES;
use dahl::prelude::*;

fn main() -> Result<(), dahl::Error> {
    let data = Data::fashion_mnist_small()?;
    let mut trainer = Trainer::new(models::first()).epochs(2);
    trainer.fit(&data)?;

    // Weights go to a file and come back, here into another trainer.
    let file = std::env::temp_dir().join("dahl-predict.safetensors");
    trainer.save(&file)?;
    let mut model = Trainer::new(models::first());
    model.load(&file)?;

    // An image is bytes or floats, as many as the model's input has; here the first eight of a set.
    let test = Data::open_first("fashion-mnist-small", [1, 28, 28], 1, 8)?;
    let images = test.validation.expect("the data have a validation set");
    let scores = model.predict_all(images)?;
    for (i, class) in scores.classes().into_iter().enumerate() {
        let probability = scores.probabilities(i)[class];
        let name = FASHION_CLASSES[class];
        println!("image {i}: {name} ({:.0} %)", 100.0 * probability);
    }

    let grey = vec![0.5f32; 28 * 28];
    println!(
        "scores of a grey square: {:.2?}",
        model.predict(&grey)?.row(0)
    );
    Ok(())
}
