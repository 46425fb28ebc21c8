//! What `dahl simulate` says of a machine with several nodes: each with its share of the batch, as `mpirun dahl train`
//! would run it.

use dahl::core::{Bytes, DType, Joules, NodeId, Seconds};
use dahl::nn::Step;
use dahl::tune::{ClusterForecast, Staging};

use super::simulate::{Args, show_pipeline};
use crate::print;

/// Prints a forecast, and writes its trace if one was asked for.
pub fn report(
    args: &Args,
    step: &Step,
    forecast: &ClusterForecast,
    pipeline: Option<&Staging>,
) -> anyhow::Result<()> {
    let named = (&*forecast.machine.name, &*forecast.policy);
    args.save(step, named, forecast.trace())?;
    let mut report = Report::new(step, forecast);
    report.bubble = pipeline.and_then(|p| p.bubble(&forecast.trace()));
    if args.json() {
        return print::json(&report);
    }
    report.show();
    if let (Some(staging), Some(bubble)) = (pipeline, report.bubble) {
        show_pipeline(staging, bubble);
    }
    Ok(())
}

#[derive(serde::Serialize)]
struct Report {
    model: String,
    machine: String,
    batch: usize,
    dtype: DType,
    policy: String,
    steps: usize,
    makespan_seconds: Seconds,
    step_seconds: Seconds,
    images_per_second: f64,
    joules: Joules,
    /// What the machine file has no figure for, and the sums leave out.
    without_figures: Vec<String>,
    nodes: Vec<NodeRow>,
    links: Vec<LinkRow>,
    /// Of a pipeline with a flush: how much longer devices are at a step than the busiest computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bubble: Option<f64>,
}

#[derive(serde::Serialize)]
struct NodeRow {
    node: String,
    share: f64,
    tasks_per_step: usize,
    messages_per_step: usize,
    /// Of the time of all its units.
    busy: f64,
    /// The rest: without a ready task, mostly waiting for messages.
    waiting: f64,
    joules: Joules,
}

#[derive(serde::Serialize)]
struct LinkRow {
    from: String,
    to: String,
    messages_per_step: f64,
    bytes_per_step: Bytes,
    /// Of the time.
    busy: f64,
    joules: Joules,
}

impl Report {
    fn new(step: &Step, forecast: &ClusterForecast) -> Report {
        let (machine, out) = (&forecast.machine, &forecast.outcome);
        let (steps, makespan) = (forecast.steps.max(1) as f64, out.makespan.0);
        let of = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let node = |(n, (part, _)): (usize, &(_, _))| {
            let part: &dahl::core::graph::partition::Part = part;
            let units = &out.nodes[n].units;
            let busy: f64 = units.iter().map(|u| u.busy.0).sum();
            let busy = of(busy, makespan * units.len() as f64);
            NodeRow {
                node: machine.nodes[n].name.clone(),
                share: forecast.shares[n],
                tasks_per_step: part.graph.len() - part.graph.messages.len(),
                messages_per_step: part.graph.messages.len(),
                busy,
                waiting: 1.0 - busy,
                joules: forecast.joules(n),
            }
        };
        let name = |m: dahl::core::MemoryId| {
            let NodeId(node) = machine.memories[usize::from(m.0)].node;
            machine.nodes[usize::from(node)].name.clone()
        };
        let used = machine.links.iter().zip(&out.links);
        let links = used.filter(|(_, used)| used.transfers > 0);
        let links = links.map(|(link, used)| LinkRow {
            from: name(link.from),
            to: name(link.to),
            messages_per_step: used.transfers as f64 / steps,
            bytes_per_step: Bytes((used.bytes.0 as f64 / steps) as u64),
            busy: of(used.busy.0, makespan),
            joules: used.joules,
        });
        let nodes = (0..machine.nodes.len()).map(|n| forecast.joules(n));
        let moved = out.links.iter().map(|l| l.joules);
        let seconds = forecast.step_seconds();
        Report {
            model: step.model.name.clone(),
            machine: machine.name.clone(),
            batch: step.batch,
            dtype: step.dtype,
            policy: forecast.policy.clone(),
            steps: forecast.steps,
            makespan_seconds: out.makespan,
            step_seconds: seconds,
            images_per_second: of(step.batch as f64, seconds.0),
            joules: nodes.chain(moved).sum(),
            without_figures: machine.without_power(),
            nodes: forecast.parts.iter().enumerate().map(node).collect(),
            links: links.collect(),
            bubble: None,
        }
    }

    fn show(&self) {
        println!(
            "{} on {} nodes of {}, batch {}, {}, {}: {} per step of {} tasks, {:.0} images/s\n",
            self.model,
            self.nodes.len(),
            self.machine,
            self.batch,
            self.dtype,
            self.policy,
            self.step_seconds,
            self.nodes.iter().map(|n| n.tasks_per_step).sum::<usize>(),
            self.images_per_second
        );
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let mut nodes = print::table(&[
            "node", "share", "tasks", "messages", "busy", "waiting", "energy",
        ]);
        for n in &self.nodes {
            nodes.add_row([
                n.node.clone(),
                percent(n.share),
                n.tasks_per_step.to_string(),
                n.messages_per_step.to_string(),
                percent(n.busy),
                percent(n.waiting),
                n.joules.to_string(),
            ]);
        }
        print::align_right(&mut nodes, 1..=6);
        println!("{nodes}\n");
        let mut links =
            print::table(&["link", "messages a step", "bytes a step", "busy", "energy"]);
        for l in &self.links {
            links.add_row([
                format!("{} to {}", l.from, l.to),
                format!("{:.0}", l.messages_per_step),
                l.bytes_per_step.to_string(),
                percent(l.busy),
                l.joules.to_string(),
            ]);
        }
        print::align_right(&mut links, 1..=4);
        println!("{links}\n");
        println!(
            "{} steps in {}: {}, modelled (machine file)",
            self.steps, self.makespan_seconds, self.joules
        );
        if let Some(first) = self.without_figures.first() {
            let more = self.without_figures.len() - 1;
            println!("without figures, and left out of the energy: {first} and {more} more");
        }
    }
}
