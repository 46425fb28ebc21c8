//! Bubbles of simulated pipelines, driven by the runtime's own policy: those of the literature, with operations of equal
//! length.

use std::sync::Arc;

use dahl_core::{Graph, Machine, Seconds};
use dahl_nn::optim::Sgd;
use dahl_nn::stages::operations;
use dahl_nn::{Model, Step};
use dahl_sim::{Options, Times};

use super::{Pipeline, Staging};

/// Eight large products, small layers before and behind: the first stage, too, has gradients to give.
fn eight_products(batch: usize, width: usize) -> Step {
    let mut model = Model::builder("products", [1, 4, 4])
        .flatten()
        .linear(width);
    for _ in 0..8 {
        model = model.linear(width);
    }
    let model = model.linear(8).build().unwrap();
    Step::new(model).batch(batch).optimizer(Sgd::default())
}

/// Every product takes a second a micro-batch in each of its three operations, and all else takes nothing.
fn set_costs(step: &Step, graph: &Graph) -> Vec<f64> {
    let layers: Vec<usize> = (0..step.model.layers.len()).collect();
    // By class, tasks of each operation of one layer.
    let mut tasks = vec![0; graph.classes.len()];
    // The largest classes of each codelet are those of the products.
    let codelet = |class: u32| graph.classes[class as usize].codelet;
    let flops = |class: u32| graph.classes[class as usize].cost.flops;
    let products = |class: u32| {
        let name = &graph.codelets[codelet(class) as usize].name;
        let rivals = (0..graph.classes.len() as u32).filter(|&c| codelet(c) == codelet(class));
        let most = rivals.map(flops).fold(0.0, f64::max);
        name.starts_with("linear") && name != "linear_bias_grad" && flops(class) == most
    };
    let mut seen = std::collections::HashMap::new();
    for (task, operation) in graph.tasks.iter().zip(operations(step, graph, &layers)) {
        if products(task.class) {
            let count = seen.entry(operation).or_insert(0);
            *count += 1;
            tasks[task.class as usize] = *count;
        }
    }
    assert_eq!(seen.len(), 8 * 8 * 3, "products, micro-batches, operations");
    let cost = |&own: &i32| if own > 0 { 1.0 / f64::from(own) } else { 0.0 };
    tasks.iter().map(cost).collect()
}

/// The bubble of a step of eight micro-batches on four units, by trace and by schedule, and what devices keep at a time.
fn simulated(text: &str, kept: &[usize]) -> (f64, f64) {
    let mut pipeline: Pipeline = text.parse().unwrap();
    pipeline.kept = kept.to_vec();
    let step = pipeline.adopt(eight_products(64, 256), Some(8)).unwrap();
    let (graph, machine) = (step.lower().unwrap().graph, Machine::cpus(4));
    let costs = set_costs(&step, &graph);
    let of = |graph: &Graph, task: u32| costs[graph.tasks[task as usize].class as usize];
    let staging = Arc::new(Staging::with_costs(&pipeline, &step, &of).unwrap());
    let time = |class: u32, _: &_| Some(Seconds(costs[class as usize]));
    let times = Times::from_fn(&graph, &machine, time).unwrap();
    let (graph, policy) = staging.follow(&graph, 1, &machine).unwrap();
    let options = Options {
        record: true,
        steps: 3,
        ..Options::default()
    };
    let outcome = dahl_sim::simulate(&graph, &machine, &times, &*policy, &options).unwrap();
    let trace = outcome.to_trace(&graph, &machine);
    let kept = staging.schedule().in_flight.iter().copied();
    (staging.bubble(&trace).unwrap(), kept.fold(0.0, f64::max))
}

/// Where the two gradients are one operation, the literature's figures are those of the schedules: 37.5 %, and 18.75 %
/// interleaved. Here a stage hands the gradient of its input on before it has all those of its weights, in the graph of any
/// schedule, and waits less.
#[test]
fn bubbles_are_those_of_the_literature() {
    for (text, kept, bubble, keeps) in [
        ("4:1f1b", &[][..], 0.2578125, 4.0),
        ("4:gpipe", &[], 0.2578125, 8.0),
        ("4:interleaved", &[], 0.10677083, 5.5),
        ("4:zb-h1", &[], 0.125, 4.0),
        ("4:zb-h2", &[], 0.0, 7.0),
        ("4:zb-v", &[], 0.0625, 4.0),
        ("4:auto", &[], 0.125, 4.0),
        ("4:auto", &[7], 0.0, 7.0),
    ] {
        let (found, most) = simulated(text, kept);
        assert!((found - bubble).abs() < 1e-6, "{text} {kept:?}: {found}");
        assert!(most <= keeps, "{text} {kept:?} keeps {most}");
    }
}

/// What a device keeps for micro-batches in flight: temporaries, by device.
fn temporaries(text: &str) -> Vec<u64> {
    let pipeline: Pipeline = text.parse().unwrap();
    let step = pipeline.adopt(eight_products(1024, 64), Some(8)).unwrap();
    let staging = Arc::new(Staging::new(&pipeline, &step).unwrap());
    let memory = staging.memory().unwrap();
    memory.iter().map(|m| m.temporaries.0).collect()
}

#[test]
fn memory_follows_what_the_schedule_keeps() {
    let (all, one) = (temporaries("4:gpipe"), temporaries("4:1f1b"));
    // The first keeps four of eight micro-batches, the last one.
    assert!(one[0] * 10 < all[0] * 8, "{one:?} {all:?}");
    assert!(one[3] * 2 < all[3], "{one:?} {all:?}");
    assert!(one.windows(2).all(|w| w[1] < w[0]), "{one:?}");
    let (h1, h2) = (temporaries("4:zb-h1"), temporaries("4:zb-h2"));
    assert!(h1.iter().max() < h2.iter().max(), "{h1:?} {h2:?}");
    assert!(h1[0] <= all[0], "{h1:?} {all:?}");
}

#[test]
fn the_partitioner_cuts_for_the_nodes_of_a_machine() {
    let text = include_str!("../../../../machines/four-nodes.toml");
    let slow = Machine::from_toml(text, "four-nodes.toml").unwrap();
    let text = text.replace("bandwidth = 1.18e8", "bandwidth = 1e12");
    let fast = Machine::from_toml(&text, "fast.toml").unwrap();
    let step = Step::new(dahl_nn::models::vgg_small()).batch(32);
    let found = Pipeline::planned(&step, &fast.clone().into(), 8).unwrap();
    let found = found.expect("stages over fast links");
    assert_eq!((found.devices, found.cut.len()), (4, 3), "{found:?}");
    let asked: Pipeline = "4:1f1b".parse().unwrap();
    let cut = asked.cut_for(&step, &fast.into(), Some(8)).unwrap();
    assert_eq!(cut.cut, found.cut);
    cut.adopt(step.clone(), Some(8)).unwrap();
    // Over gigabit one node is faster than any stages.
    let error = asked.cut_for(&step, &slow.into(), Some(8)).unwrap_err();
    assert!(error.to_string().contains("use fewer"), "{error}");
}
