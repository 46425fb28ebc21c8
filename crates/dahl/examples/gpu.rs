//! Trains on all cores and GPUs of this computer, and says which unit ran how many tasks.
//!
//!     cargo run --release -p dahl --example gpu

use dahl::prelude::*;
use dahl::trace::Summary;
use dahl::tune::{ThisMachine, gpus};

fn main() -> Result<(), dahl::Error> {
    let found = gpus::all();
    for gpu in gpus::look(&found, false, &ThisMachine::look()) {
        println!("{}: {} ({})", gpu.unit, gpu.name, gpu.library);
    }
    let units: Units = match found.is_empty() {
        true => {
            println!("no GPU here ({}): cores alone", gpus::missing().join("; "));
            "cpu".parse()?
        }
        false => "cpu,gpu:0".parse()?,
    };

    let data = Data::open_first("fashion-mnist-small", [1, 28, 28], 1280, 100)?;
    let mut trainer = Trainer::new(models::lenet5())
        .units(units)
        .epochs(1)
        .record(1 << 16);
    let history = trainer.fit(&data)?;
    println!("loss {:.4}", history[0].train.mean_loss());

    let trace = trainer.take_trace()?.expect("recording was asked for");
    for unit in Summary::of(&trace).units {
        println!("{}: {} tasks", unit.unit, unit.tasks);
    }
    Ok(())
}
