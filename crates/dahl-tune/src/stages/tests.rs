//! Bubbles of simulated pipelines, driven by the runtime's own policy: those of the literature, with operations of equal
//! length.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use dahl_core::graph::Class;
use dahl_core::trace::Trace;
use dahl_core::{Graph, Machine, Seconds};
use dahl_nn::optim::Sgd;
use dahl_nn::stages::operations;
use dahl_nn::{Model, Step};
use dahl_plan::pipeline::{Operation, Slot};
use dahl_runtime::Runtime;
use dahl_sim::{Options, Times};

use super::{Pipeline, Staging, order};

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

/// Every product takes so long a micro-batch in each of its three operations, and all else takes nothing.
fn set_costs(step: &Step, graph: &Graph, lengths: [f64; 3]) -> Vec<f64> {
    let layers: Vec<usize> = (0..step.model.layers.len()).collect();
    // By class, what its tasks take: an operation of one layer is that long altogether.
    let mut costs = vec![0.0; graph.classes.len()];
    // The largest classes of each codelet are those of the products.
    let codelet = |class: u32| graph.classes[class as usize].codelet;
    let flops = |class: u32| graph.classes[class as usize].cost.flops;
    let products = |class: u32| {
        let name = &graph.codelets[codelet(class) as usize].name;
        let rivals = (0..graph.classes.len() as u32).filter(|&c| codelet(c) == codelet(class));
        let most = rivals.map(flops).fold(0.0, f64::max);
        name.starts_with("linear") && name != "linear_bias_grad" && flops(class) == most
    };
    let mut seen = HashMap::new();
    for (task, operation) in graph.tasks.iter().zip(operations(step, graph, &layers)) {
        if products(task.class) {
            let count = seen.entry(operation).or_insert(0);
            *count += 1;
            let length = lengths[order::operation(operation.pass) as usize];
            costs[task.class as usize] = length / f64::from(*count);
        }
    }
    assert_eq!(seen.len(), 8 * 8 * 3, "products, micro-batches, operations");
    costs
}

/// Eight products in four stages and eight micro-batches, and what tasks of each class take.
fn staged(text: &str, kept: &[usize], lengths: [f64; 3]) -> (Arc<Staging>, Arc<Graph>, Vec<f64>) {
    let mut pipeline: Pipeline = text.parse().unwrap();
    pipeline.kept = kept.to_vec();
    let step = pipeline.adopt(eight_products(64, 256), Some(8)).unwrap();
    let graph = step.lower().unwrap().graph;
    let costs = set_costs(&step, &graph, lengths);
    let of = |graph: &Graph, task: u32| costs[graph.tasks[task as usize].class as usize];
    let staging = Arc::new(Staging::with_costs(&pipeline, &step, &of).unwrap());
    (staging, graph, costs)
}

/// The bubble of a step on four units in the trace of a simulation, and what devices keep at a time.
fn simulated(text: &str, kept: &[usize], lengths: [f64; 3]) -> (f64, f64) {
    let (staging, graph, costs) = staged(text, kept, lengths);
    let machine = Machine::cpus(4);
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
    (staging.bubble(trace).unwrap(), kept.fold(0.0, f64::max))
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
        ("4:zb-v", &[], 0.0, 4.0),
        ("4:auto", &[], 0.125, 4.0),
        ("4:auto", &[7], 0.0, 7.0),
    ] {
        let (found, most) = simulated(text, kept, [1.0; 3]);
        assert!((found - bubble).abs() < 1e-6, "{text} {kept:?}: {found}");
        assert!(most <= keeps, "{text} {kept:?} keeps {most}");
    }
    // Where the gradients of weights take nothing, there is nothing to run ahead of: the trace shows the schedule.
    for (text, bubble) in [
        ("4:1f1b", 0.375),
        ("4:gpipe", 0.375),
        ("4:interleaved", 0.1875),
    ] {
        let (found, _) = simulated(text, &[], [1.0, 2.0, 0.0]);
        assert!((found - bubble).abs() < 1e-6, "{text}: {found}");
    }
}

/// What a device did, in the order of its trace: each operation that takes time, once.
fn did(staging: &Staging, graph: &Graph, costs: &[f64], trace: &Trace) -> Vec<Vec<Slot>> {
    let operations = operations(&staging.step, graph, &staging.firsts);
    let joint = !staging
        .schedule()
        .orders
        .iter()
        .flatten()
        .any(|s| s.operation == Operation::WeightGradient);
    let last = trace.launches.len() as u32 - 1;
    let mut devices = vec![Vec::new(); 4];
    // Runs stand by their begin.
    for run in trace.tasks.iter().filter(|run| run.id.launch == last) {
        let own = operations[run.id.task as usize];
        let class = graph.tasks[run.id.task as usize].class;
        let Some(micro_batch) = own.micro_batch.filter(|_| costs[class as usize] > 0.0) else {
            continue;
        };
        let operation = match order::operation(own.pass) {
            Operation::WeightGradient if joint => Operation::InputGradient,
            other => other,
        };
        let slot = Slot {
            operation,
            stage: own.stage.into(),
            micro_batch: micro_batch as usize,
        };
        let device: &mut Vec<Slot> = &mut devices[usize::from(run.unit)];
        if device.last() != Some(&slot) {
            device.push(slot);
        }
    }
    devices
}

/// A run whose tasks take time and compute nothing: units do what the schedule says, in its order. What they waited is printed
/// (`bench/pipelines/bubbles`, with operations long enough that sleeping is exact), for it depends on the machine.
#[test]
fn a_real_run_follows_the_schedule_and_has_a_bubble() {
    let unit: f64 = match std::env::var("DAHL_OPERATION_MS") {
        Ok(text) => text.parse::<f64>().unwrap() * 1e-3,
        Err(_) => 20e-6,
    };
    for text in [
        "4:1f1b",
        "4:gpipe",
        "4:interleaved",
        "4:zb-h1",
        "4:zb-h2",
        "4:zb-v",
    ] {
        let (staging, graph, costs) = staged(text, &[], [1.0; 3]);
        let key = |class: &Class| {
            let cost = class.cost;
            (class.codelet, cost.flops.to_bits(), cost.bytes.to_bits())
        };
        let length: HashMap<_, f64> = graph.classes.iter().map(key).zip(costs.clone()).collect();
        let (orders, make) = staging.orders(false);
        let mut runtime = Runtime::builder()
            .workers(4)
            .pin(false)
            .main_works(false)
            .orders(orders, make)
            .timed(move |class| Duration::from_secs_f64(unit * length[&key(class)]))
            .trace(1 << 16)
            .build()
            .unwrap();
        for _ in 0..3 {
            runtime.launch(&graph).unwrap();
            runtime.wait().unwrap();
        }
        let trace = runtime.take_trace().unwrap();
        let orders = &staging.schedule().orders;
        assert_eq!(did(&staging, &graph, &costs, &trace), *orders, "{text}");
        let mut saved = trace.clone();
        staging.mark(&mut saved);
        dahl_trace::check(&saved).unwrap_or_else(|e| panic!("{text}: {e}"));
        let summary = dahl_trace::Summary::of(&saved);
        let bubble = staging.bubble(trace).expect("a bubble");
        assert_eq!(summary.bubble, Some(bubble), "{text}");
        assert!(bubble.is_finite() && bubble >= 0.0, "{text}: {bubble}");
        println!(
            "{text}: {:.2} % in the trace of a run, {:.2} % by the schedule",
            100.0 * bubble,
            100.0 * staging.schedule().bubble
        );
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

/// Without a flush batches follow each other: a step takes far less than its way through all stages, which is what it takes with a
/// flush and one micro-batch, and no less than the busiest node computes. With weight stashing each of four stages may have a
/// batch; 2BW reads weights one update old, so two batches are on their way at most, and a step takes half of the way at least.
#[test]
fn batches_of_an_asynchronous_pipeline_follow_each_other_on_a_simulated_cluster() {
    let text = include_str!("../../../../machines/four-nodes.toml");
    let free = text.replace("bandwidth = 1.18e8", "bandwidth = 1e15");
    let free = free
        .replace("latency = 25e-6", "latency = 0.0")
        .replace("latency = 12e-6", "latency = 0.0");
    // One core a node, so that a stage's tasks are a row.
    let free = free.replace("count = 6", "count = 1");
    let machine: crate::MachineModel = Machine::from_toml(&free, "free.toml").unwrap().into();
    let took = |text: &str| {
        let pipeline: Pipeline = text.parse().unwrap();
        let step = pipeline.adopt(eight_products(256, 256), Some(1)).unwrap();
        let staging = Arc::new(Staging::new(&pipeline, &step).unwrap());
        let options = crate::SimulateOptions {
            pipeline: Some(&staging),
            steps: 40,
            record: true,
            ..crate::SimulateOptions::default()
        };
        let forecast = crate::simulate_cluster(&step, &machine, None, &options).unwrap();
        let bubble = staging.bubble(forecast.trace());
        assert_eq!(bubble.is_some(), text.ends_with("1f1b"), "{text}");
        // What the busiest node computes in a step.
        let units = forecast.outcome.nodes.iter().flat_map(|n| &n.units);
        let busy = units.map(|u| u.busy.0).fold(0.0, f64::max) / forecast.steps as f64;
        (forecast.step_seconds().0, busy)
    };
    let (flush, _) = took("4:1f1b");
    for (text, at_least, at_most) in [("pipedream:4", 0.25, 0.5), ("2bw:4", 0.5, 0.75)] {
        let (seconds, busy) = took(text);
        assert!(seconds >= busy * 0.999, "{text}: {seconds} {busy}");
        let part = seconds / flush;
        assert!(at_least * 0.999 <= part && part < at_most, "{text}: {part}");
    }
}
