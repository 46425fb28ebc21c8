//! What pipelines take in the simulator, with the runtime's own policy.

use std::sync::Arc;

use dahl_core::Machine;
use dahl_core::machine::Rated;
use dahl_nn::optim::Sgd;
use dahl_nn::{Model, Step};

use super::{Pipeline, Staging, bubble};
use crate::machine_model::MachineModel;
use crate::simulate::{SimulateOptions, simulate};

/// Four stages of about the same cost: large products, small first and last layers. Their three kinds of operations are as long as
/// each other.
fn four_stages(batch: usize) -> Step {
    let mut model = Model::builder("stages", [1, 4, 4]).flatten().linear(512);
    for _ in 0..4 {
        model = model.linear(512);
    }
    let model = model.linear(8).build().unwrap();
    Step::new(model).batch(batch).optimizer(Sgd::default())
}

fn cores(n: usize) -> MachineModel {
    let mut machine = Machine::cpus(n);
    for unit in &mut machine.units {
        // So fast a memory that products alone count.
        unit.rated = Some(Rated {
            flops: 1e10,
            flops_f64: 5e9,
            bandwidth: 1e13,
        });
    }
    MachineModel::from(machine)
}

/// The bubble of a step, and what its devices keep at a time.
fn simulated(text: &str) -> (f64, f64) {
    let pipeline: Pipeline = text.parse().unwrap();
    let step = pipeline.adopt(four_stages(256), Some(8)).unwrap();
    let staging = Arc::new(Staging::new(&pipeline, &step).unwrap());
    let options = SimulateOptions {
        pipeline: Some(&staging),
        record: true,
        ..SimulateOptions::default()
    };
    let prediction = simulate(&step, &cores(4), &options).unwrap();
    let kept = &staging.schedule().in_flight;
    let kept = kept.iter().copied().fold(0.0, f64::max);
    (bubble(&prediction.trace()).unwrap(), kept)
}

#[test]
fn bubbles_are_those_of_the_literature() {
    let (one, kept) = simulated("4:1f1b");
    assert!((one - 0.375).abs() < 0.03, "1f1b waits {one}");
    assert_eq!(kept, 4.0);
    let (gpipe, kept) = simulated("4:gpipe");
    assert!((gpipe - 0.375).abs() < 0.03, "gpipe waits {gpipe}");
    assert_eq!(kept, 8.0);
    let (h1, kept) = simulated("4:zb-h1");
    assert!(h1 < 0.125 + 0.02, "zb-h1 waits {h1}");
    assert_eq!(kept, 4.0, "as much as 1f1b");
    let (h2, kept) = simulated("4:zb-h2");
    assert!(h2 < 0.02, "zb-h2 waits {h2}");
    assert!(kept <= 8.0, "{kept}: more than twice as much");
}
