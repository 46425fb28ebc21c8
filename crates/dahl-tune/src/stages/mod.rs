//! Pipelines that train: a model cut into stages, a batch into micro-batches, and who computes what in which order.
//!
//! A [`Pipeline`] is what was asked for. [`Pipeline::adopt`] makes of a step what the pipeline computes: with micro-batches that no
//! task crosses, and for asynchronous ones with layers that read older weights. [`Staging`] then says of every graph of
//! that step where its tasks run and in which order. Synchronous schedules are orders of one graph: they change no bit.
//!
//! | file | what |
//! |---|---|
//! | `text` | pipelines as they are typed |
//! | `cut` | where the model is cut: where it is said, or by static cost |
//! | `planned` | where it is best cut for a machine |
//! | `order` | one order of all tasks, and ranks for groups of units |
//! | `bubble` | how long devices waited, by a trace |
//! | `nodes` | stages on the nodes of a cluster, with replicas |
//! | `memory` | what each device holds |
//!
//! If nobody says where, a model is cut by static costs, never by measured ones: where it is cut decides on what an
//! asynchronous pipeline computes, and all nodes must cut alike. What a partitioner finds for a machine is said in so
//! many layers.

mod bubble;
mod cut;
mod memory;
mod nodes;
mod order;
mod planned;
#[cfg(test)]
mod tests;
mod text;

use std::collections::HashMap;
use std::sync::Arc;

use dahl_core::{Graph, Machine};
use dahl_nn::Step;
use dahl_nn::stages::operations;
use dahl_plan::pipeline::{Operation, PipelineSchedule, PipelineWork, ScheduleKind, schedule};
use dahl_runtime::MakeOrder;
use dahl_sched::policy::{self, Order, Orders, Policy};

use crate::error::TuneError;

pub use memory::StageMemory;
pub use planned::training_options;
pub use text::{Pipeline, PipelineKind};

/// A pipeline of a step: its stages, and the order of its operations.
#[derive(Clone, Debug)]
pub struct Staging {
    pipeline: Pipeline,
    step: Step,
    /// The first layer of every stage.
    firsts: Vec<usize>,
    /// The device of every stage.
    device_of: Vec<usize>,
    /// What was decided, by static costs.
    schedule: PipelineSchedule,
    /// The place of every operation among all of them, by when they begin.
    places: HashMap<(Operation, usize, usize), u32>,
    /// Whether statistics over a whole batch make micro-batches wait for each other.
    serial: Option<String>,
}

fn followed(
    orders: Orders,
    graph: &Arc<Graph>,
    order: Option<Order>,
    machine: &Machine,
) -> Result<(Arc<Graph>, Box<dyn Policy>), TuneError> {
    let mut run = graph.clone();
    if let Some(order) = order {
        let sequenced = orders.sequenced(graph, &order, machine.units.len());
        run = sequenced.unwrap_or(run);
        orders.insert(run.id, order);
    }
    let policy = policy::ordered(orders, machine);
    Ok((run, policy.map_err(|e| TuneError::Option(e.to_string()))?))
}

impl Pipeline {
    /// What the pipeline computes in a step: `micro_batches` or a usual number of them, and for asynchronous pipelines weights of
    /// earlier versions.
    ///
    /// # Errors
    /// If the model has fewer places to cut than the pipeline has stages, or the micro-batches do not divide the batch.
    pub fn adopt(&self, step: Step, micro_batches: Option<usize>) -> Result<Step, TuneError> {
        let step = Step {
            delays: Vec::new(),
            micro_batches: 1,
            ..step
        };
        let firsts = cut::firsts(&step, self)?;
        let parts = micro_batches.unwrap_or_else(|| self.usual_micro_batches(&step));
        let delays = self.delays();
        let mut layers = Vec::new();
        for (stage, &delay) in delays.iter().enumerate() {
            let end = firsts.get(stage + 1).copied();
            layers.resize(end.unwrap_or(step.model.layers.len()), delay);
        }
        if delays.iter().all(|&d| d == 0) {
            layers.clear();
        }
        let step = Step {
            micro_batches: parts,
            delays: layers,
            ..step
        };
        step.check()?;
        Ok(step)
    }

    /// Micro-batches if nobody says how many: for asynchronous pipelines one; else the step's own blocks if there are at
    /// least as many as devices, since then the graph is that of the step without a pipeline; else twice as many as devices,
    /// or fewer if the batch has not that many parts.
    fn usual_micro_batches(&self, step: &Step) -> usize {
        if !matches!(self.kind, PipelineKind::Flush(_)) {
            return 1;
        }
        let own = step.lower().map_or(1, |l| cut::own_blocks(step, &l.graph));
        let fits = |&n: &usize| step.batch.is_multiple_of(n) && n.is_multiple_of(self.devices);
        if own >= self.devices && fits(&own) {
            return own;
        }
        let most = (1..=2 * self.devices.min(step.batch)).rev().find(fits);
        let any = |n: &usize| step.batch.is_multiple_of(*n);
        most.or_else(|| (1..=2 * self.devices).rev().find(any))
            .unwrap_or(1)
    }
}

impl Staging {
    /// The stages of a step that [`Pipeline::adopt`] has made.
    pub fn new(pipeline: &Pipeline, step: &Step) -> Result<Staging, TuneError> {
        Staging::with_costs(pipeline, step, &cut::seconds)
    }

    /// The same, with operations in an order for tasks that take so many seconds.
    fn with_costs(
        pipeline: &Pipeline,
        step: &Step,
        seconds: &dyn Fn(&Graph, u32) -> f64,
    ) -> Result<Staging, TuneError> {
        let plain = Step {
            delays: Vec::new(),
            micro_batches: 1,
            ..step.clone()
        };
        let firsts = cut::firsts(&plain, pipeline)?;
        let graph = step.lower()?.graph;
        let operations = operations(step, &graph, &firsts);
        let mut stages = vec![[0.0; 3]; firsts.len()];
        for (task, operation) in (0..).zip(&operations) {
            let pass = order::operation(operation.pass) as usize;
            stages[usize::from(operation.stage)][pass] +=
                seconds(&graph, task) / step.micro_batches as f64;
        }
        let work = PipelineWork {
            stages,
            devices: pipeline.devices,
            micro_batches: step.micro_batches,
            in_flight: (!pipeline.kept.is_empty()).then(|| pipeline.kept.clone()),
        };
        let kind = match pipeline.kind {
            PipelineKind::Flush(kind) => kind,
            PipelineKind::PipeDream { .. } | PipelineKind::TwoBw => ScheduleKind::OneFOneB,
        };
        if !pipeline.kept.is_empty() && kind != ScheduleKind::Auto {
            return Err(TuneError::Option(format!(
                "a limit on the micro-batches that stages keep is for the schedule auto, as in {}:auto, and {pipeline} \
                 has an order of its own",
                pipeline.devices
            )));
        }
        let schedule = schedule(&work, kind).map_err(|e| TuneError::Option(e.to_string()))?;
        Ok(Staging {
            places: order::places(&schedule),
            serial: order::serial(&graph, &operations, step.micro_batches),
            device_of: pipeline.device_of(),
            pipeline: pipeline.clone(),
            step: step.clone(),
            firsts,
            schedule,
        })
    }

    /// What was asked for.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// The order of operations, by static costs.
    pub fn schedule(&self) -> &PipelineSchedule {
        &self.schedule
    }

    /// The pipeline in words: stages with their layers, the schedule and the micro-batches.
    pub fn summary(&self) -> String {
        let layers = self.step.model.layers.len();
        let ends = self.firsts.iter().skip(1).copied().chain([layers]);
        let stages = self.firsts.iter().zip(ends);
        let stages: Vec<String> = stages.map(|(a, b)| format!("{a}–{}", b - 1)).collect();
        let m = self.step.micro_batches;
        format!(
            "{}, {m} micro-batch{} of {}, layers {}",
            self.pipeline,
            if m == 1 { "" } else { "es" },
            self.step.batch / m,
            stages.join(", ")
        )
    }

    /// What keeps micro-batches from following each other, if anything does.
    pub fn warning(&self) -> Option<String> {
        let what = self.serial.as_ref()?;
        Some(format!(
            "{what} waits for the whole batch, so micro-batches wait for each other there: with norm_group = {} in the \
             model file, or fewer samples, it would not",
            self.step.batch / self.step.micro_batches
        ))
    }

    /// Whether tasks of an operation wait until all of those before have begun; else older batches go first.
    pub(crate) fn is_strict(&self) -> bool {
        matches!(self.pipeline.kind, PipelineKind::Flush(_))
    }

    /// The device of each of so many units of one computer; none if replicas want another number of them.
    fn groups(&self, units: usize) -> Option<Vec<u16>> {
        self.grouping().group_of(units).ok()
    }

    /// Groups of units on one computer, without an order yet.
    fn grouping(&self) -> Orders {
        let (strict, replicas) = (self.is_strict(), &self.pipeline.replicas);
        match replicas.is_empty() {
            true => Orders::new(self.pipeline.devices, strict),
            false => Orders::sized(replicas.clone(), strict),
        }
    }

    /// What a runtime follows: on one computer the orders of graphs for its units; on a node those that come with
    /// the placement.
    pub fn orders(self: &Arc<Self>, is_node: bool) -> (Orders, MakeOrder) {
        if is_node {
            return (Orders::new(1, self.is_strict()), Box::new(|_, _| None));
        }
        let staging = self.clone();
        (
            self.grouping(),
            Box::new(move |graph, groups| staging.order(graph, groups)),
        )
    }

    /// What runs of a graph of so many steps on a machine, as the runtime would make it, and the policy that follows the
    /// pipeline: for simulations.
    pub(crate) fn follow(
        self: &Arc<Self>,
        graph: &Arc<Graph>,
        steps: usize,
        machine: &Machine,
    ) -> Result<(Arc<Graph>, Box<dyn Policy>), TuneError> {
        let orders = self.grouping();
        let order = self.order_row(graph, steps, orders.groups(machine.units.len()));
        followed(orders, graph, order, machine)
    }

    /// The policy that follows the pipeline on a machine with the tasks of a step as they are.
    pub(crate) fn policy(
        &self,
        graph: &Graph,
        machine: &Machine,
    ) -> Result<Box<dyn Policy>, TuneError> {
        let orders = self.grouping();
        if let Some(order) = self.order(graph, orders.groups(machine.units.len())) {
            orders.insert(graph.id, order);
        }
        policy::ordered(orders, machine).map_err(|e| TuneError::Option(e.to_string()))
    }

    /// As [`Staging::follow`], of a part on a node.
    pub(crate) fn follow_part(
        &self,
        part: &Arc<Graph>,
        order: Option<Order>,
        machine: &Machine,
    ) -> Result<(Arc<Graph>, Box<dyn Policy>), TuneError> {
        followed(Orders::new(1, self.is_strict()), part, order, machine)
    }

    /// The order of a graph of the step for so many groups of units; none of graphs that train nothing, or fewer samples.
    pub(crate) fn order(&self, graph: &Graph, groups: usize) -> Option<Order> {
        self.order_row(graph, 1, groups)
    }

    /// The same of a graph of so many steps, one after another.
    fn order_row(&self, graph: &Graph, steps: usize, groups: usize) -> Option<Order> {
        let whole = order::samples(graph) == Some(self.step.batch);
        let trains = graph.sections.iter().any(|s| s == "loss") && order::goes_back(graph);
        if !whole || !trains {
            return None;
        }
        let operations = operations(&self.step, graph, &self.firsts);
        let device = |stage: u16| self.device_of[usize::from(stage)];
        let devices = self.pipeline.devices;
        let group = |stage: u16| match groups < devices {
            true => (device(stage) * groups / devices) as u16,
            false => device(stage) as u16,
        };
        Some(order::order(
            graph,
            (&operations, steps),
            (&self.places, self.step.micro_batches),
            group,
        ))
    }
}
