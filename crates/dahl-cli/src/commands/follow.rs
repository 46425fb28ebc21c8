//! `--plan F`: following a plan.

mod outcome;
mod steps;

use std::path::Path;

use anyhow::{Context, bail};
use dahl_core::{DType, Graph};
use dahl_nn::lower::grain::Grain;
use dahl_nn::model::Model;
use dahl_plan::PlanFile;
use dahl_runtime::Schedule;
use serde::{Deserialize, Serialize};

use super::machine;
use super::units::Units;

pub use outcome::{Measured, Outcome};

/// The step that a plan is for, as plan files keep it.
#[derive(Serialize, Deserialize)]
pub struct PlannedStep {
    /// The model's name.
    pub model: String,
    /// Samples of a step.
    pub batch: usize,
    /// Element type.
    pub dtype: String,
    /// How layers are cut, as `--grain` takes it.
    pub grain: String,
    /// How weights are updated, as `--optimizer` takes it.
    pub optimizer: String,
}

/// The step of a plan.
pub fn step(plan: &PlanFile) -> anyhow::Result<PlannedStep> {
    let step = PlannedStep::deserialize(&plan.target.step);
    step.context("the plan does not say which step it is for: plan again")
}

/// Reads a plan to be run here; see [`read`]. Frequency states are refused: nothing here sets them.
pub fn load(path: &Path, model: &Model, batch: usize, dtype: DType) -> anyhow::Result<PlanFile> {
    let plan = read(path, model, batch, dtype, &machine::name_of_this())?;
    if let Some(task) = plan.tasks.iter().position(|t| t.state != 0) {
        bail!(
            "{} runs task {task} in frequency state {}, which DAHL cannot set: describe the machine \
             without states and plan again",
            path.display(),
            plan.tasks[task].state
        );
    }
    Ok(plan)
}

/// Reads a plan and refuses one that is not for this model, batch, element type and machine; the
/// difference is named.
pub fn read(
    path: &Path,
    model: &Model,
    batch: usize,
    dtype: DType,
    machine: &str,
) -> anyhow::Result<PlanFile> {
    let name = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let plan = PlanFile::from_json(&text).with_context(|| name.to_string())?;
    let made = step(&plan).with_context(|| name.to_string())?;
    for (what, planned, given) in [
        ("machine", plan.target.machine.as_str(), machine),
        ("model", &made.model, &model.name),
        ("batch", &made.batch.to_string(), &batch.to_string()),
        ("dtype", &made.dtype, &dtype.to_string()),
    ] {
        if planned != given {
            bail!("{name} was made for {what} {planned}, this run has {given}: make a plan for it");
        }
    }
    Ok(plan)
}

/// The units of a plan.
pub fn units(plan: &PlanFile) -> anyhow::Result<Units> {
    let names = plan.units.iter().map(|u| u.name.as_str());
    Units::named(names).map_err(|e| anyhow::anyhow!("the plan cannot be followed here: {e}"))
}

/// How the plan cuts layers.
pub fn grain(plan: &PlanFile) -> anyhow::Result<Grain> {
    Ok(step(plan)?.grain.parse::<Grain>()?)
}

/// How weights are updated, as the command line says it.
pub fn optimizer(name: &str, momentum: Option<f64>) -> String {
    match momentum {
        Some(momentum) if momentum != 0.0 => format!("{name} --momentum {momentum}"),
        _ => name.to_string(),
    }
}

/// Refuses a plan that is for another graph than the one that will run, or for another optimiser.
pub fn check(plan: &PlanFile, graph: &Graph, optimizer: &str) -> anyhow::Result<()> {
    let planned = &step(plan)?.optimizer;
    if planned != optimizer {
        bail!(
            "the plan was made for --optimizer {planned}, this run has --optimizer {optimizer}: plan with \
             --optimizer {optimizer}, or run with that of the plan where the command takes one"
        );
    }
    let here = units(plan)?.machine();
    match plan.refusal(graph, &here) {
        Some(difference) => bail!(
            "the plan does not fit: {difference}. Seed and profile are part of a graph too: plan with those \
             of the run"
        ),
        None => Ok(()),
    }
}

/// What the runtime takes.
pub fn schedule(plan: &PlanFile) -> anyhow::Result<Schedule> {
    let graph = u64::from_str_radix(&plan.target.graph_fingerprint, 16)
        .context("the plan's graph fingerprint is not a hexadecimal number")?;
    Ok(Schedule {
        graph,
        order: plan.orders(),
        transfers: plan.planned_transfers()?,
    })
}
