//! What clusters take, predicted and run: `bench/cluster/predict`, `… pipelines` and `… overlap [run]`.
//!
//! Nodes are runtimes of this process, joined by `local` links of a set bandwidth and latency. Messages, ports, policies
//! and waiting are real; computing is not: a task sleeps for as long as its static cost takes on a core of the speed below
//! (`Builder::timed`). So there can be more nodes than cores, and what is compared is what the prediction is about.

mod bound;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_core::machine::Port;
use dahl_core::{
    Executor, Graph, Link, Machine, MemoryId, Node, NodeId, Rated, Seconds, Unit, UnitKind,
};
use dahl_nn::{Step, models};
use dahl_runtime::Runtime;
use dahl_runtime::network::{LinkSpeed, LocalNode, Member, local_cluster};
use dahl_tune::{Pipeline, SimulateOptions, Staging, simulate, simulate_cluster};

/// A core: slow enough that tasks take longer than a sleep is off.
const CORE: Rated = Rated {
    flops: 8e9,
    flops_f64: 4e9,
    bandwidth: 4e9,
};

/// Seconds that a message takes besides its bytes.
const LATENCY: f64 = 50e-6;

/// Steps that are run, and after how many they are counted.
const STEPS: (usize, usize) = (20, 4);

/// What is trained: model and batch.
const CASES: [(&str, usize); 4] = [
    ("lenet5", 256),
    ("vgg-small", 32),
    ("small-cnn", 2048),
    ("vgg-small", 128),
];

/// Links in bytes per second: 100 Mbit/s to 10 Gbit/s.
const LINKS: [f64; 5] = [12.5e6, 37.5e6, 125e6, 375e6, 1.25e9];

/// Pipelines that are run on as many nodes as they have stages, with links in bytes per second.
const SCHEDULES: [&str; 4] = ["gpipe", "1f1b", "zb-h1", "zb-h2"];
const PIPELINE_LINKS: [f64; 3] = [12.5e6, 125e6, 1.25e9];

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

/// What is trained on nodes: with even shares, or in the stages of a pipeline.
struct Case {
    step: Step,
    staging: Option<Arc<Staging>>,
}

impl Case {
    fn shared(name: &str, batch: usize) -> Result<Case> {
        let model = models::by_name(name).ok_or("a shipped model")?;
        Ok(Case {
            step: Step::new(model).batch(batch),
            staging: None,
        })
    }

    fn staged(name: &str, batch: usize, pipeline: &str, micro_batches: usize) -> Result<Case> {
        let pipeline: Pipeline = pipeline.parse()?;
        let step = pipeline.adopt(Case::shared(name, batch)?.step, Some(micro_batches))?;
        let staging = Some(Arc::new(Staging::new(&pipeline, &step)?));
        Ok(Case { step, staging })
    }

    /// Seconds of a step on so many nodes.
    fn run(&self, nodes: u16, bandwidth: f64) -> Result<f64> {
        let speed = LinkSpeed {
            bandwidth,
            latency: Duration::from_secs_f64(LATENCY),
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = local_cluster(nodes, speed)
                .into_iter()
                .map(|transport| scope.spawn(|| self.run_node(nodes, transport)))
                .collect();
            let mut longest = 0.0f64;
            for thread in threads {
                let seconds = thread.join().map_err(|_| "a node panicked")??;
                longest = longest.max(seconds);
            }
            Ok(longest)
        })
    }

    fn run_node(&self, nodes: u16, transport: LocalNode) -> Result<f64> {
        let lowered = self.step.lower()?;
        let mut builder = Runtime::builder()
            .workers(1)
            .pin(false)
            .in_flight(lowered.in_flight())
            .timed(|class| Duration::from_secs_f64(seconds_of(&class.cost)))
            .network(Box::new(transport), Duration::from_secs(60));
        if let Some(staging) = &self.staging {
            let (orders, make) = staging.orders(true);
            builder = builder.orders(orders, make);
        }
        let (runtime, nodes) = (builder.build()?, usize::from(nodes));
        let mut member = match &self.staging {
            None => Member::with_shares(runtime, Some(vec![1.0; nodes]), Box::new(|_| ()))?,
            Some(staging) => {
                let (staging, shares) = (staging.clone(), staging.shares(nodes, None)?);
                let stager = move |graph: &Graph| staging.stage(graph, &shares);
                Member::with_stages(runtime, Box::new(stager))?
            }
        };
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
    }

    /// The same by the simulator: as many steps as are counted of a run, from an idle cluster to an idle one.
    fn predicted(&self, nodes: usize, bandwidth: f64) -> Result<f64> {
        Ok(self.simulated(nodes, bandwidth)?[0])
    }

    /// Seconds of a step of such a run, and of one in the middle of it.
    fn simulated(&self, nodes: usize, bandwidth: f64) -> Result<[f64; 2]> {
        let counted = STEPS.0 - STEPS.1;
        let options = SimulateOptions {
            policy: "ws".into(),
            steps: counted,
            pipeline: self.staging.as_ref(),
            ..SimulateOptions::default()
        };
        let machine = machine(nodes, bandwidth).into();
        let (makespan, steady) = match nodes {
            1 => {
                let alone = simulate(&self.step, &machine, &options)?;
                (alone.outcome.makespan, alone.step_seconds())
            }
            _ => {
                let shares = vec![1.0; nodes];
                let all = simulate_cluster(&self.step, &machine, Some(&shares), &options)?;
                (all.outcome.makespan, all.step_seconds())
            }
        };
        Ok([makespan.0 / counted as f64, steady.0])
    }
}

/// Steps by shares, of all models or of those that are named.
fn predict(named: &[String]) -> Result<()> {
    println!(
        "| model, batch | nodes | Mbit/s | predicted, ms | seen, ms | error | pays, predicted | seen |"
    );
    println!("|---|--:|--:|--:|--:|--:|---|---|");
    let (mut errors, mut right) = (Vec::new(), 0);
    for (name, batch) in CASES {
        let what = format!("{name} {batch}");
        if !named.is_empty() && !named.contains(&what) {
            continue;
        }
        let case = Case::shared(name, batch)?;
        let (alone, alone_seen) = (case.predicted(1, 1e9)?, case.run(1, 1e9)?);
        println!(
            "| {what} | 1 |  | {:.2} | {:.2} | {:+.1} % |  |  |",
            1e3 * alone,
            1e3 * alone_seen,
            100.0 * (alone / alone_seen - 1.0)
        );
        for nodes in [2, 3] {
            for bandwidth in LINKS {
                let told = case.predicted(nodes, bandwidth)?;
                let seen = case.run(nodes as u16, bandwidth)?;
                let error = told / seen - 1.0;
                errors.push(error);
                let pays = [told < alone, seen < alone_seen];
                right += usize::from(pays[0] == pays[1]);
                let [a, b] = pays.map(|p| if p { "yes" } else { "no" });
                println!(
                    "| {what} | {nodes} | {:.0} | {:.2} | {:.2} | {:+.1} % | {a} | {b} |",
                    bandwidth * 8e-6,
                    1e3 * told,
                    1e3 * seen,
                    100.0 * error
                );
            }
        }
    }
    conclude(&errors);
    println!("\"pays\" right in {right} of {}", errors.len());
    Ok(())
}

/// Pipelines of a model, one stage on each node; all, or those that are named.
fn pipelines(named: &[String]) -> Result<()> {
    println!("| pipeline | Mbit/s | predicted, ms | seen, ms | error |");
    println!("|---|--:|--:|--:|--:|");
    let mut errors = Vec::new();
    for nodes in [2, 3, 4] {
        for schedule in SCHEDULES {
            let text = format!("{nodes}:{schedule}");
            if !named.is_empty() && !named.contains(&text) {
                continue;
            }
            let case = Case::staged("vgg-small", 64, &text, 8)?;
            for bandwidth in PIPELINE_LINKS {
                let told = case.predicted(nodes, bandwidth)?;
                let seen = case.run(nodes as u16, bandwidth)?;
                let error = told / seen - 1.0;
                errors.push(error);
                println!(
                    "| {text} | {:.0} | {:.2} | {:.2} | {:+.1} % |",
                    bandwidth * 8e-6,
                    1e3 * told,
                    1e3 * seen,
                    100.0 * error
                );
            }
        }
    }
    conclude(&errors);
    Ok(())
}

fn conclude(errors: &[f64]) {
    let sizes = || errors.iter().map(|e| 100.0 * e.abs());
    let mean = sizes().sum::<f64>() / errors.len() as f64;
    let worst = sizes().fold(0.0, f64::max);
    println!("\nerror: mean {mean:.2} %, worst {worst:.2} %");
}

/// How much of the time of transfers is hidden where they take half as long as computing, and how much could be at best: in
/// virtual time, which needs no quiet machine, and with `run` on this one.
fn overlap(run_it: bool) -> Result<()> {
    let heads = [
        "model, batch",
        "computing, ms",
        "transfers, ms",
        "step, ms",
        "hidden",
        "at best",
    ];
    println!("| {} |", heads.join(" | "));
    println!("|---|--:|--:|--:|--:|--:|");
    for (name, batch) in CASES {
        let case = Case::shared(name, batch)?;
        let step_of = |bandwidth| match run_it {
            true => case.run(2, bandwidth),
            false => Ok(case.simulated(2, bandwidth)?[1]),
        };
        let (graph, even) = (case.step.lower()?.graph, [1.0, 1.0]);
        let loads = dahl_core::graph::partition::steady_loads(&graph, &even)?;
        let bytes = loads.iter().map(|l| l.sent).max().unwrap_or(0) as f64;
        // By a link that is as good as none.
        let computing = step_of(1e15)?;
        let transfers = computing / 2.0;
        let bandwidth = bytes / transfers;
        let step = step_of(bandwidth)?;
        let seconds = |graph: &Graph, task| seconds_of(&graph.class_of(task).cost);
        let message = |bytes| LATENCY + bytes as f64 / bandwidth;
        let round = bound::longest_round(&graph, &even, seconds, message)?;
        let hidden = |step: f64| 100.0 * (1.0 - (step - computing) / transfers);
        println!(
            "| {name} {batch} | {:.2} | {:.2} | {:.2} | {:.1} % | {:.1} % |",
            1e3 * computing,
            1e3 * transfers,
            1e3 * step,
            hidden(step),
            hidden(round.max(computing))
        );
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first() {
        None => predict(&[]),
        Some((what, named)) if what == "predict" => predict(named),
        Some((what, named)) if what == "pipelines" => pipelines(named),
        Some((what, rest)) if what == "overlap" => overlap(rest.iter().any(|a| a == "run")),
        Some((other, _)) => Err(format!("`{other}`: use predict, pipelines or overlap").into()),
    }
}
