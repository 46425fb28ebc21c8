//! Stages cut by the planner's partitioner: by what layers take on the devices that run them, and what crosses between.

use dahl_nn::Step;
use dahl_nn::stages::places_to_cut;
use dahl_plan::pipeline::{
    PipelineOptions, PipelinePlan, PipelineUnit, Platform, Profile, ScheduleKind, partition,
};

use super::{Pipeline, PipelineKind};
use crate::error::TuneError;
use crate::machine_model::MachineModel;
use crate::pipeline::profile_layers;

impl Pipeline {
    /// This pipeline with stages for the devices of a machine: its nodes in their order, or groups of units of one computer.
    /// Layers take what simulations on it say, measured where it was calibrated.
    ///
    /// # Errors
    /// If fewer stages are faster, or stages would not be ranges of layers.
    pub fn cut_for(
        &self,
        step: &Step,
        machine: &MachineModel,
        micro_batches: Option<usize>,
    ) -> Result<Pipeline, TuneError> {
        let plain = Step {
            delays: Vec::new(),
            micro_batches: 1,
            ..step.clone()
        };
        let (profile, platform) = profile_layers(&plain, machine, None)?;
        let flush = matches!(self.kind, PipelineKind::Flush(_));
        let parts = micro_batches.unwrap_or_else(|| self.usual_micro_batches(&plain));
        let options = PipelineOptions {
            micro_batches: flush.then_some(parts),
            most_replicas: Some(1),
            in_order: true,
        };
        let found = partition(&profile, &self.platform(&platform), &options)?;
        if found.stages.len() < self.stages() {
            return Err(TuneError::Option(format!(
                "{} stages of {} are slower than {} on {}: use fewer, or leave out `planned`",
                self.stages(),
                step.model.name,
                found.stages.len(),
                machine.machine.name
            )));
        }
        let cut = cut_of(step, &profile, &found).ok_or_else(|| {
            TuneError::Option(format!(
                "the best stages of {} take layers of branches apart, and a stage here is a range of layers: leave out \
                 `planned`, or name the layers",
                step.model.name
            ))
        })?;
        Ok(Pipeline {
            cut,
            ..self.clone()
        })
    }

    /// The pipeline with so many micro-batches that the partitioner finds best for all nodes of a machine in their order, with
    /// nodes that share a stage; none if it has one stage, leaves nodes out or takes branches apart.
    pub(crate) fn planned(
        step: &Step,
        machine: &MachineModel,
        micro_batches: usize,
    ) -> Result<Option<Pipeline>, TuneError> {
        let (profile, all) = profile_layers(step, machine, None)?;
        let nodes = machine.machine.nodes.len();
        let one = PipelineKind::Flush(ScheduleKind::OneFOneB);
        let platform = Pipeline::new(nodes, one).platform(&all);
        // One stage on all nodes is what shares are: where that is best, stages without replicas are what is left to try.
        for most_replicas in [None, Some(1)] {
            let options = PipelineOptions {
                micro_batches: Some(micro_batches),
                most_replicas,
                in_order: true,
            };
            let found = partition(&profile, &platform, &options)?;
            let replicas: Vec<usize> = found.stages.iter().map(|s| s.replicas).collect();
            if replicas.len() < 2 || replicas.iter().sum::<usize>() != nodes {
                continue;
            }
            let several = replicas.iter().any(|&r| r > 1);
            if let Some(cut) = cut_of(step, &profile, &found) {
                return Ok(Some(Pipeline {
                    cut,
                    replicas: if several { replicas } else { Vec::new() },
                    ..Pipeline::new(found.stages.len(), one)
                }));
            }
        }
        Ok(None)
    }

    /// A unit for every stage, in their order. Nodes of a device work together, devices of a node and stages of a device
    /// share it.
    fn platform(&self, all: &Platform) -> Platform {
        let mut nodes: Vec<usize> = all.units.iter().map(|u| u.node).collect();
        nodes.dedup();
        let per = (self.stages() / self.devices.max(1)).max(1) as f64;
        let unit = |(stage, device): (usize, usize)| {
            let (mut speed, mut memory) = (0.0, Some(0.0));
            for (n, &node) in nodes.iter().enumerate() {
                let own = |d: &usize| self.nodes_of(*d, nodes.len()).contains(&n);
                let sharing = (0..self.devices).filter(own).count() as f64 * per;
                if !self.nodes_of(device, nodes.len()).contains(&n) {
                    continue;
                }
                for unit in all.units.iter().filter(|u| u.node == node) {
                    speed += unit.speed / sharing;
                    memory = memory.zip(unit.memory).map(|(a, b)| a + b / sharing);
                }
            }
            PipelineUnit {
                name: format!("stage {stage}"),
                node: stage,
                speed,
                memory,
            }
        };
        let bandwidth = match nodes.len() {
            1 => f64::INFINITY,
            _ => all.between,
        };
        Platform {
            units: self.device_of().into_iter().enumerate().map(unit).collect(),
            inside: bandwidth,
            between: bandwidth,
        }
    }
}

/// The first layers of all stages but the first, if the stages of a plan for a step's profile are ranges of its layers.
pub(crate) fn cut_of(step: &Step, profile: &Profile, plan: &PipelinePlan) -> Option<Vec<usize>> {
    let mut cut = Vec::new();
    let mut before = 0;
    for stage in &plan.stages {
        if profile.layers.get(before)?.name != stage.first {
            return None;
        }
        cut.push(layer(step, profile, before)?);
        before += stage.layers;
    }
    Some(cut.into_iter().skip(1).collect())
}

/// The first of the layers that a layer of a profile stands for.
fn layer(step: &Step, profile: &Profile, number: usize) -> Option<usize> {
    let name = &profile.layers[number].name;
    let is = |&layer: &usize| {
        let label = step.model.label(layer);
        *name == label || name.starts_with(&format!("{label}.."))
    };
    places_to_cut(step).into_iter().find(is)
}
/// The options that train in the stages of a plan, and its units in their order; where every stage is a range of layers.
pub fn training_options(
    step: &Step,
    profile: &Profile,
    plan: &PipelinePlan,
    options: &PipelineOptions,
) -> Option<(String, String)> {
    let cut = cut_of(step, profile, plan).filter(|c| !c.is_empty())?;
    let text = |numbers: Vec<usize>, between: &str| -> String {
        let all: Vec<String> = numbers.iter().map(usize::to_string).collect();
        all.join(between)
    };
    let stages = plan.stages.len();
    let replicas: Vec<usize> = plan.stages.iter().map(|s| s.replicas).collect();
    let replicas = match replicas.iter().all(|&r| r == 1) {
        true => String::new(),
        false => format!(" --replicas {}", text(replicas, ":")),
    };
    let kind = match options.micro_batches {
        Some(m) => format!("{stages}:1f1b --micro-batches {m}"),
        None => format!("{stages}:pipedream"),
    };
    let units: Vec<&str> = (plan.stages.iter())
        .flat_map(|s| s.units.iter().map(String::as_str))
        .collect();
    let options = format!("--pipeline {kind} --cut {}{replicas}", text(cut, ","));
    Some((options, units.join(", ")))
}
