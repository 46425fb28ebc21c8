//! Predicts a training step on a machine that is not here, under several policies.
//!
//!     cargo run --release -p dahl --example simulate

use dahl::prelude::*;
use dahl::tune::{MachineModel, SimulateOptions};

/// Four fast cores and four thrifty ones.
const MACHINE: &str = r#"
version = 1
name = "big-little"

[[node]]
name = "board"
base_watts = 2.0

[[memory]]
name = "host"
capacity = "8 GiB"

[[unit]]
name = "big"
kind = "cpu"
count = 4
memory = "host"
idle_watts = 0.3
busy_watts = 4.0
flops = 4e10
bandwidth = 8e9

[[unit]]
name = "little"
kind = "cpu"
count = 4
memory = "host"
idle_watts = 0.1
busy_watts = 0.8
flops = 1e10
bandwidth = 4e9
"#;

fn main() -> Result<(), dahl::Error> {
    let machine = MachineModel::from(Machine::from_toml(MACHINE, "big-little.toml")?);
    let step = Step::new(models::lenet5()).batch(64);
    for policy in ["eager", "ws", "dmda"] {
        let options = SimulateOptions {
            policy: policy.into(),
            steps: 10,
            ..SimulateOptions::default()
        };
        let prediction = dahl::simulate(&step, &machine, &options)?;
        println!("{policy:>5}: {} per step", prediction.step_seconds());
    }
    Ok(())
}
