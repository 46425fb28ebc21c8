//! Measures the joules of any closure, and says where the figure comes from.
//!
//!     cargo run --release -p dahl --example energy

use dahl::energy::measure;
use dahl::prelude::*;

fn main() -> Result<(), dahl::Error> {
    let data = Data::open_first("fashion-mnist-small", [1, 28, 28], 2000, 100)?;
    for batch in [16, 128] {
        let (history, energy) = measure(|| {
            let mut trainer = Trainer::new(models::lenet5()).batch(batch).epochs(2);
            trainer.fit(&data)
        });
        let samples: u64 = history?.iter().map(|epoch| epoch.train.samples).sum();
        match energy.joules() {
            Some(joules) => println!(
                "batches of {batch}: {:.1} µJ per image, {}",
                1e6 * joules.0 / samples as f64,
                energy.source()
            ),
            None => println!("batches of {batch}: {}", energy.source()),
        }
    }
    Ok(())
}
