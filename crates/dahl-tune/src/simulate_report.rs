//! What simulations of one computer and of several say, as values and as text for people.

use std::collections::BTreeMap;

use dahl_core::graph::partition::Part;
use dahl_core::report::{Report, Table};
use dahl_core::{Bytes, DType, Joules, Machine, MemoryId, NodeId, Seconds, UnitKind, several};
use dahl_nn::Step;
use dahl_sim::TimeSource;
use serde::Serialize;

use crate::simulate::Prediction;
use crate::simulate_cluster::ClusterForecast;
use crate::stages::Staging;

/// What steps take on one computer.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationReport {
    model: String,
    machine: String,
    batch: usize,
    dtype: DType,
    grain: String,
    policy: String,
    steps: usize,
    tasks_per_step: usize,
    makespan_seconds: Seconds,
    step_seconds: Seconds,
    images_per_second: f64,
    energy: ModelledEnergy,
    /// Tasks by where their durations come from.
    durations: BTreeMap<&'static str, u64>,
    units: Vec<UnitRow>,
    links: Vec<LinkRow>,
    memories: Vec<MemoryRow>,
    /// Arrays whose parts were too many to follow one by one.
    coarse_arrays: usize,
    /// Whether the first step, in which weights are brought to where the plan has them, is part of the figures.
    brings_weights: bool,
    #[serde(flatten)]
    pipeline: PipelineFigures,
}

/// Of a pipeline with a flush.
#[derive(Clone, Debug, Serialize)]
struct PipelineFigures {
    /// How much longer devices are at a step than the busiest computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bubble: Option<f64>,
    #[serde(skip)]
    summary: String,
}

impl PipelineFigures {
    fn of(staging: Option<&Staging>, bubble: Option<f64>) -> PipelineFigures {
        let summary = staging.map_or(String::new(), Staging::summary);
        PipelineFigures { bubble, summary }
    }

    fn text(&self, out: &mut Report) {
        if let Some(bubble) = self.bubble {
            out.line(format!(
                "pipeline: {}; bubble {:.1} %",
                self.summary,
                100.0 * bubble
            ));
        }
    }
}

#[derive(Clone, Debug, Serialize)]
struct ModelledEnergy {
    source: &'static str,
    joules: Joules,
    joules_per_image: f64,
    base_joules: Joules,
    unit_joules: Joules,
    transfer_joules: Joules,
    mean_watts: f64,
    /// What the machine file has no figure for, and the sums leave out.
    without_figures: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct UnitRow {
    unit: String,
    kind: UnitKind,
    tasks: u64,
    busy_seconds: Seconds,
    waited_seconds: Seconds,
    joules: Joules,
}

#[derive(Clone, Debug, Serialize)]
struct LinkRow {
    from: String,
    to: String,
    transfers: u64,
    bytes: Bytes,
    busy_seconds: Seconds,
    joules: Joules,
}

#[derive(Clone, Debug, Serialize)]
struct MemoryRow {
    memory: String,
    capacity_bytes: Option<Bytes>,
    peak_bytes: Bytes,
    evictions: u64,
}

impl Prediction {
    /// The figures of the steps that were simulated; those of a pipeline need a recorded simulation.
    pub fn report(&self, step: &Step, staging: Option<&Staging>) -> SimulationReport {
        let (machine, out) = (&self.machine, &self.outcome);
        let (batch, steps, makespan) = (step.batch, self.steps, out.makespan.0);
        let images = (batch * steps) as f64;
        let memory = |m: MemoryId| machine.memories[usize::from(m.0)].name.clone();
        let joules = out.joules();
        SimulationReport {
            model: step.model.name.clone(),
            machine: machine.name.clone(),
            batch,
            dtype: step.dtype,
            grain: step.grain.to_string(),
            policy: self.policy.clone(),
            steps,
            tasks_per_step: self.tasks_per_step,
            makespan_seconds: out.makespan,
            step_seconds: self.step_seconds(),
            images_per_second: per(images, makespan),
            energy: ModelledEnergy {
                source: "modelled (machine file)",
                joules,
                joules_per_image: joules.0 / images,
                base_joules: out.base,
                unit_joules: out.units.iter().map(|u| u.joules).sum(),
                transfer_joules: out.links.iter().map(|l| l.joules).sum(),
                mean_watts: per(joules.0, makespan),
                without_figures: machine.without_power(),
            },
            durations: TimeSource::ALL
                .iter()
                .map(|&k| (k.name(), out.known[k as usize]))
                .collect(),
            units: machine
                .units
                .iter()
                .zip(&out.units)
                .map(|(unit, used)| UnitRow {
                    unit: unit.name.clone(),
                    kind: unit.kind,
                    tasks: used.tasks,
                    busy_seconds: used.busy,
                    waited_seconds: used.waited,
                    joules: used.joules,
                })
                .collect(),
            links: machine
                .links
                .iter()
                .zip(&out.links)
                .map(|(link, used)| LinkRow {
                    from: memory(link.from),
                    to: memory(link.to),
                    transfers: used.transfers,
                    bytes: used.bytes,
                    busy_seconds: used.busy,
                    joules: used.joules,
                })
                .collect(),
            memories: machine
                .memories
                .iter()
                .zip(&out.memories)
                .map(|(memory, used)| MemoryRow {
                    memory: memory.name.clone(),
                    capacity_bytes: memory.capacity,
                    peak_bytes: used.peak,
                    evictions: used.evictions,
                })
                .collect(),
            coarse_arrays: out.coarse,
            brings_weights: self.policy == "plan" && out.links.iter().any(|l| l.transfers > 0),
            pipeline: PipelineFigures::of(staging, staging.and_then(|s| s.bubble(self.trace()))),
        }
    }
}

impl SimulationReport {
    /// For people.
    pub fn text(&self) -> Report {
        let mut out = Report::default();
        out.line(format!(
            "{} on {}, batch {}, {}, {}: {} per step of {}, {:.0} images/s\n",
            self.model,
            self.machine,
            self.batch,
            self.dtype,
            self.policy,
            self.step_seconds,
            several(self.tasks_per_step, "task"),
            self.images_per_second
        ));
        let share = |part: Seconds| match self.makespan_seconds.0 > 0.0 {
            true => format!("{:.1} %", 100.0 * part.0 / self.makespan_seconds.0),
            false => "0.0 %".into(),
        };
        let mut units = Table::new("unit|>tasks|>busy|>waited for data|>energy");
        for u in &self.units {
            units.row([
                u.unit.clone(),
                u.tasks.to_string(),
                share(u.busy_seconds),
                share(u.waited_seconds),
                u.joules.to_string(),
            ]);
        }
        out.paragraph(units);
        if !self.links.is_empty() {
            let mut links = Table::new("link|>transfers|>bytes|>busy|>energy");
            for l in &self.links {
                links.row([
                    format!("{} to {}", l.from, l.to),
                    l.transfers.to_string(),
                    l.bytes.to_string(),
                    share(l.busy_seconds),
                    l.joules.to_string(),
                ]);
            }
            out.paragraph(links);
        }
        let mut memories = Table::new("memory|>peak|>capacity|>evictions");
        for m in &self.memories {
            let capacity = m
                .capacity_bytes
                .map_or("unlimited".into(), |c| c.to_string());
            memories.row([
                m.memory.clone(),
                m.peak_bytes.to_string(),
                capacity,
                m.evictions.to_string(),
            ]);
        }
        out.paragraph(memories);
        let e = &self.energy;
        out.line(format!(
            "{} in {}: {} ({:.1} W), of which base {}, units {}, transfers {}; {}",
            several(self.steps, "step"),
            self.makespan_seconds,
            e.joules,
            e.mean_watts,
            e.base_joules,
            e.unit_joules,
            e.transfer_joules,
            e.source
        ));
        without_figures(&e.without_figures, &mut out);
        let durations: Vec<String> = TimeSource::ALL
            .iter()
            .map(|k| {
                format!(
                    "{} {}",
                    self.durations.get(k.name()).unwrap_or(&0),
                    k.name()
                )
            })
            .collect();
        out.line(format!("durations of tasks: {}", durations.join(", ")));
        if self.brings_weights {
            out.line(
                "the first step brings the weights to where the plan has them, which a plan's own figures leave out: \
                 more --steps count it less",
            );
        }
        if self.coarse_arrays > 0 {
            out.line(format!(
                "{} arrays have too many parts to follow one by one; their transfers are rough",
                self.coarse_arrays
            ));
        }
        self.pipeline.text(&mut out);
        out
    }
}

fn per(amount: f64, of: f64) -> f64 {
    if of > 0.0 { amount / of } else { 0.0 }
}

fn without_figures(names: &[String], out: &mut Report) {
    if let Some(first) = names.first() {
        let more = names.len() - 1;
        out.line(format!(
            "without figures, and left out of the energy: {first} and {more} more"
        ));
    }
}

/// What steps take on several computers.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastReport {
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
    links: Vec<NodeLinkRow>,
    #[serde(flatten)]
    pipeline: PipelineFigures,
}

#[derive(Clone, Debug, Serialize)]
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

#[derive(Clone, Debug, Serialize)]
struct NodeLinkRow {
    from: String,
    to: String,
    messages_per_step: f64,
    bytes_per_step: Bytes,
    /// Of the time.
    busy: f64,
    joules: Joules,
}

impl ClusterForecast {
    /// The figures of the steps that were simulated; those of a pipeline need a recorded simulation.
    pub fn report(&self, step: &Step, staging: Option<&Staging>) -> ForecastReport {
        let (machine, out) = (&self.machine, &self.outcome);
        let (steps, makespan) = (self.steps.max(1) as f64, out.makespan.0);
        let node = |(n, (part, _)): (usize, &(Part, Machine))| {
            let units = &out.nodes[n].units;
            let busy: f64 = units.iter().map(|u| u.busy.0).sum();
            let busy = per(busy, makespan * units.len() as f64);
            NodeRow {
                node: machine.nodes[n].name.clone(),
                share: self.shares[n],
                tasks_per_step: part.graph.len() - part.graph.messages.len(),
                messages_per_step: part.graph.messages.len(),
                busy,
                waiting: 1.0 - busy,
                joules: self.joules(n),
            }
        };
        let name = |m: MemoryId| {
            let NodeId(node) = machine.memories[usize::from(m.0)].node;
            machine.nodes[usize::from(node)].name.clone()
        };
        let used = machine.links.iter().zip(&out.links);
        let links = used.filter(|(_, used)| used.transfers > 0);
        let links = links.map(|(link, used)| NodeLinkRow {
            from: name(link.from),
            to: name(link.to),
            messages_per_step: used.transfers as f64 / steps,
            bytes_per_step: Bytes((used.bytes.0 as f64 / steps) as u64),
            busy: per(used.busy.0, makespan),
            joules: used.joules,
        });
        let nodes = (0..machine.nodes.len()).map(|n| self.joules(n));
        let moved = out.links.iter().map(|l| l.joules);
        let seconds = self.step_seconds();
        ForecastReport {
            model: step.model.name.clone(),
            machine: machine.name.clone(),
            batch: step.batch,
            dtype: step.dtype,
            policy: self.policy.clone(),
            steps: self.steps,
            makespan_seconds: out.makespan,
            step_seconds: seconds,
            images_per_second: per(step.batch as f64, seconds.0),
            joules: nodes.chain(moved).sum(),
            without_figures: machine.without_power(),
            nodes: self.parts.iter().enumerate().map(node).collect(),
            links: links.collect(),
            pipeline: PipelineFigures::of(staging, staging.and_then(|s| s.bubble(self.trace()))),
        }
    }
}

impl ForecastReport {
    /// For people.
    pub fn text(&self) -> Report {
        let mut out = Report::default();
        out.line(format!(
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
        ));
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let mut nodes = Table::new("node|>share|>tasks|>messages|>busy|>waiting|>energy");
        for n in &self.nodes {
            nodes.row([
                n.node.clone(),
                percent(n.share),
                n.tasks_per_step.to_string(),
                n.messages_per_step.to_string(),
                percent(n.busy),
                percent(n.waiting),
                n.joules.to_string(),
            ]);
        }
        out.paragraph(nodes);
        let mut links = Table::new("link|>messages a step|>bytes a step|>busy|>energy");
        for l in &self.links {
            links.row([
                format!("{} to {}", l.from, l.to),
                format!("{:.0}", l.messages_per_step),
                l.bytes_per_step.to_string(),
                percent(l.busy),
                l.joules.to_string(),
            ]);
        }
        out.paragraph(links);
        out.line(format!(
            "{} steps in {}: {}, modelled (machine file)",
            self.steps, self.makespan_seconds, self.joules
        ));
        without_figures(&self.without_figures, &mut out);
        self.pipeline.text(&mut out);
        out
    }
}
