//! What clusters take, predicted and run: `bench/cluster/predict` and `bench/cluster/overlap`.
//!
//! Nodes are runtimes of this process, joined by `local` links of a set bandwidth and latency. Messages, ports, policies
//! and waiting are real; computing is not: a task sleeps for as long as its static cost takes on a core of the speed below
//! (`Builder::paced`). So there can be more nodes than cores, and what is compared is what the prediction is about.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_core::machine::Port;
use dahl_core::{Executor, Link, Machine, MemoryId, Node, NodeId, Rated, Seconds, Unit, UnitKind};
use dahl_nn::{Step, models};
use dahl_runtime::Runtime;
use dahl_runtime::network::{LinkSpeed, Member, local_cluster};
use dahl_tune::{SimulateOptions, simulate, simulate_cluster};

/// A core: slow enough that tasks take longer than a sleep is off.
const CORE: Rated = Rated {
    flops: 8e9,
    flops_f64: 4e9,
    bandwidth: 4e9,
};

/// Seconds that a message takes besides its bytes.
const LATENCY: f64 = 50e-6;

/// Steps that are run, and after how many they are counted.
const STEPS: (usize, usize) = (12, 4);

/// What is trained: model and batch.
const CASES: [(&str, usize); 4] = [
    ("lenet5", 256),
    ("vgg-small", 32),
    ("small-cnn", 2048),
    ("vgg-small", 128),
];

/// Links in bytes per second: 100 Mbit/s to 10 Gbit/s.
const LINKS: [f64; 5] = [12.5e6, 37.5e6, 125e6, 375e6, 1.25e9];

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn seconds_of(cost: &dahl_core::Cost) -> f64 {
    (cost.flops / CORE.flops).max(cost.bytes / CORE.bandwidth)
}

/// So many nodes of one core, each with a port as fast as this.
fn machine(nodes: usize, bandwidth: f64) -> Machine {
    let mut all = Machine::cpus(0);
    (all.nodes, all.memories) = (Vec::new(), Vec::new());
    for n in 0..nodes {
        let name = format!("n{n}");
        all.nodes.push(Node {
            port: Some(Port {
                bandwidth,
                latency: Seconds(0.0),
                joules_per_byte: None,
            }),
            ..Node::new(name.clone())
        });
        let mut memory = dahl_core::Memory::new(format!("m{n}"), None);
        memory.node = NodeId(n as u16);
        all.memories.push(memory);
        let mut unit = Unit::new(format!("u{n}"), UnitKind::CPU, MemoryId(n as u16));
        (unit.rated, unit.overhead) = (Some(CORE), Seconds(0.0));
        all.units.push(unit);
    }
    for from in 0..nodes as u16 {
        for to in (0..nodes as u16).filter(|&to| to != from) {
            let ends = [from, to].map(MemoryId);
            let link = Link::new(ends[0], ends[1], bandwidth, Seconds(LATENCY));
            all.links.push(link);
        }
    }
    all
}

/// Seconds of a step on so many nodes with even shares.
fn run(step: &Step, nodes: u16, bandwidth: f64) -> Result<f64> {
    let speed = LinkSpeed {
        bandwidth,
        latency: Duration::from_secs_f64(LATENCY),
    };
    let one = |transport| -> Result<f64> {
        let builder = Runtime::builder()
            .workers(1)
            .pin(false)
            .paced(|class| Duration::from_secs_f64(seconds_of(&class.cost)));
        let lowered = step.lower()?;
        let builder = builder.in_flight(lowered.in_flight());
        let runtime = builder
            .network(Box::new(transport), Duration::from_secs(60))
            .build()?;
        let mut member = Member::with_shares(
            runtime,
            Some(vec![1.0; usize::from(nodes)]),
            Box::new(|_| ()),
        )?;
        let mut counted = Instant::now();
        for n in 0..STEPS.0 {
            if n == STEPS.1 {
                member.wait()?;
                counted = Instant::now();
            }
            for array in [&lowered.io.inputs, &lowered.io.targets] {
                member.write(array, &mut |_| ())?;
            }
            member.launch(&lowered.graph)?;
        }
        member.wait()?;
        let seconds = counted.elapsed().as_secs_f64() / (STEPS.0 - STEPS.1) as f64;
        member.finish()?;
        Ok(seconds)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = local_cluster(nodes, speed)
            .into_iter()
            .map(|t| scope.spawn(move || one(t)))
            .collect();
        let mut longest = 0.0f64;
        for thread in threads {
            let seconds = thread.join().map_err(|_| "a node panicked")??;
            longest = longest.max(seconds);
        }
        Ok(longest)
    })
}

/// The same by the simulator.
fn predicted(step: &Step, nodes: usize, bandwidth: f64) -> Result<f64> {
    let options = SimulateOptions {
        policy: "ws".into(),
        steps: STEPS.0,
        ..SimulateOptions::default()
    };
    if nodes == 1 {
        let alone = simulate(step, &machine(1, bandwidth).into(), &options)?;
        return Ok(alone.step_seconds().0);
    }
    let shares = vec![1.0; nodes];
    let all = simulate_cluster(
        step,
        &machine(nodes, bandwidth).into(),
        Some(&shares),
        &options,
    )?;
    Ok(all.step_seconds().0)
}

fn predict() -> Result<()> {
    println!(
        "| model, batch | nodes | Mbit/s | predicted, ms | seen, ms | error | pays, predicted | seen |"
    );
    println!("|---|--:|--:|--:|--:|--:|---|---|");
    let (mut errors, mut right) = (Vec::new(), 0);
    for (name, batch) in CASES {
        let step = Step::new(models::by_name(name).ok_or("a shipped model")?).batch(batch);
        let (alone, alone_seen) = (predicted(&step, 1, 1e9)?, run(&step, 1, 1e9)?);
        println!(
            "| {name} {batch} | 1 |  | {:.2} | {:.2} | {:+.1} % |  |  |",
            1e3 * alone,
            1e3 * alone_seen,
            100.0 * (alone / alone_seen - 1.0)
        );
        for nodes in [2, 3] {
            for bandwidth in LINKS {
                let (told, seen) = (
                    predicted(&step, nodes, bandwidth)?,
                    run(&step, nodes as u16, bandwidth)?,
                );
                let error = told / seen - 1.0;
                errors.push(error.abs());
                let pays = [told < alone, seen < alone_seen];
                right += usize::from(pays[0] == pays[1]);
                let [a, b] = pays.map(|p| if p { "yes" } else { "no" });
                println!(
                    "| {name} {batch} | {nodes} | {:.0} | {:.2} | {:.2} | {:+.1} % | {a} | {b} |",
                    bandwidth * 8e-6,
                    1e3 * told,
                    1e3 * seen,
                    100.0 * error
                );
            }
        }
    }
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    println!(
        "\nmean error {:.2} %, \"pays\" right in {right} of {}",
        100.0 * mean,
        errors.len()
    );
    Ok(())
}

/// How much of the time of transfers is hidden where they take half as long as computing.
fn overlap() -> Result<()> {
    println!("| model, batch | computing, ms | transfers, ms | step, ms | hidden |");
    println!("|---|--:|--:|--:|--:|");
    for (name, batch) in CASES {
        let step = Step::new(models::by_name(name).ok_or("a shipped model")?).batch(batch);
        let graph: Arc<_> = step.lower()?.graph;
        let loads = dahl_core::graph::partition::steady_loads(&graph, &[1.0, 1.0])?;
        let bytes = loads.iter().map(|l| l.sent).max().unwrap_or(0) as f64;
        // By a link that is as good as none.
        let computing = run(&step, 2, 1e15)?;
        let transfers = computing / 2.0;
        let seen = run(&step, 2, bytes / transfers)?;
        println!(
            "| {name} {batch} | {:.2} | {:.2} | {:.2} | {:.1} % |",
            1e3 * computing,
            1e3 * transfers,
            1e3 * seen,
            100.0 * (1.0 - (seen - computing) / transfers)
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("overlap") => overlap(),
        None | Some("predict") => predict(),
        Some(other) => Err(format!("`{other}`: use predict or overlap").into()),
    }
}
