//! Measures this computer for a moment, plans a training step with the fewest joules, and trains by the plan.
//!
//!     cargo run --release -p dahl --example plan_and_follow

use std::time::Duration;

use dahl::prelude::*;
use dahl::tune::{CalibrateOptions, MachineModel, PlanOptions, ThisMachine, TimesFrom};

fn main() -> Result<(), dahl::Error> {
    // What is measured here stays in a folder of its own; `dahl calibrate` keeps it in the user's.
    let folder = std::env::temp_dir().join(format!("dahl-plan-{}", std::process::id()));
    let this = ThisMachine::look().keeping_in(&folder);
    let step = Step::new(models::small_cnn()).batch(64).clip_norm(5.0);
    let calibrate = CalibrateOptions {
        steps: vec![step.clone()],
        seconds: 0.05,
        ..CalibrateOptions::default()
    };
    dahl::calibrate(&calibrate, &this, &mut |_| {})?;

    let machine = this.describe(Some(&"cpu:2".parse()?))?.machine;
    let (machine, _) = MachineModel::new(machine, &TimesFrom::Here, &this)?;
    let options = PlanOptions {
        time_limit: Duration::from_secs(2),
        ..PlanOptions::default()
    };
    let planned = dahl::plan(&step, &machine, &options)?;
    let file = &planned.plan.file;
    println!(
        "planned: {} and {}, proven within {:.2} %",
        file.seconds,
        file.joules.total,
        100.0 * file.gap
    );
    let path = folder.join("plan.json");
    planned.plan.save(&path)?;

    let data = Data::open("synthetic:1x28x28:2000", [1, 28, 28])?;
    let mut trainer = Trainer::new(step).epochs(1).follow(StepPlan::load(&path)?);
    let history = trainer.fit(&data)?;
    println!("followed: loss {:.4}", history[0].train.mean_loss());
    std::fs::remove_dir_all(&folder).ok();
    Ok(())
}
