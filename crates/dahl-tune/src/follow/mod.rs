//! Plans of training steps: as files, and followed by runs of this computer.
//!
//! A [`StepPlan`] holds the plan and the step it was made for. A run takes grain and implementations from it, and units, order and
//! states, or units, states and the policy that decides the rest; every
//! other setting must be the plan's own, and a difference is named. Nothing here decides: that is
//! [`plan`](crate::plan())'s.

mod nodes;
mod outcome;
mod steps;

use std::fmt::Display;
use std::path::{Path, PathBuf};

use dahl_core::Graph;
use dahl_nn::{Registry, Step};
use dahl_plan::PlanFile;
use dahl_runtime::Schedule;
use dahl_sched::policy::Among;

use crate::error::TuneError;
use crate::this_machine::ThisMachine;
use crate::units::Units;

pub(crate) use nodes::VERSION as NODES_VERSION;
pub use nodes::{AnyPlan, NodesPlan};
pub use outcome::{Followed, MeasuredRun};

/// A plan, and the step that it is for.
#[derive(Clone, Debug)]
pub struct StepPlan {
    /// Where and when tasks run.
    pub file: PlanFile,
    /// What they compute.
    pub step: Step,
    /// Where it was read from, for messages.
    path: Option<PathBuf>,
}

impl StepPlan {
    pub(crate) fn new(file: PlanFile, step: Step) -> StepPlan {
        StepPlan {
            file,
            step,
            path: None,
        }
    }

    /// Reads a plan.
    pub fn load(path: &Path) -> Result<StepPlan, TuneError> {
        StepPlan::load_with(path, &Registry::default())
    }

    /// Reads a plan of a step that may have layers, a loss and an optimiser which a program has added to the registry.
    pub fn load_with(path: &Path, registry: &Registry) -> Result<StepPlan, TuneError> {
        match AnyPlan::load_with(path, registry)? {
            AnyPlan::One(plan) => Ok(*plan),
            AnyPlan::Nodes(_) => Err(TuneError::PlanFile {
                path: path.into(),
                why: "a plan for several nodes: `dahl train` and `dahl bench step` follow it under mpirun or srun, and \
                      `dahl simulate` takes what it says as --shares, --grain and --policy"
                    .into(),
            }),
        }
    }

    /// The plan of a file's text.
    fn read(path: &Path, text: &str, registry: &Registry) -> Result<StepPlan, TuneError> {
        let wrong = |why: String| TuneError::PlanFile {
            path: path.into(),
            why,
        };
        let file = PlanFile::from_json(text).map_err(|e| wrong(dahl_core::text::chain(&e)))?;
        let step = Step::from_json_with(&file.target.step.to_string(), registry);
        let step = step.map_err(|e| wrong(format!("the step that it is for: {e}")))?;
        Ok(StepPlan {
            file,
            step,
            path: Some(path.into()),
        })
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), TuneError> {
        let text = self.file.to_json();
        dahl_core::file::write_atomically(path, |out| out.write_all(text.as_bytes()))
            .map_err(TuneError::writing(path))
    }

    pub(crate) fn name(&self) -> String {
        let path = self.path.as_ref();
        path.map_or("the plan".into(), |p| p.display().to_string())
    }

    /// A step as it runs by the plan: with the plan's grain, micro-batches and implementations. Refuses one that differs
    /// otherwise from what was planned.
    pub fn adopt(&self, step: Step) -> Result<Step, TuneError> {
        adopted(&self.step, &self.name(), step)
    }

    /// Refuses a plan that is for another machine.
    pub fn check_machine(&self, name: &str) -> Result<(), TuneError> {
        match self.file.target.machine.as_str() {
            planned if planned == name => Ok(()),
            planned => Err(other(&self.name(), "machine", planned, name)),
        }
    }

    /// Refuses a plan that this computer cannot follow: one for another machine, or with states that cannot be set.
    pub(crate) fn check_here(&self, this: &ThisMachine) -> Result<(), TuneError> {
        self.check_machine(this.name())?;
        self.check_states(this)
    }

    pub(crate) fn units(&self) -> Result<Units, TuneError> {
        let names = self.file.units.iter().map(|u| u.name.as_str());
        Units::named(names)
            .map_err(|e| TuneError::Plan(format!("the plan cannot be followed here: {e}")))
    }

    /// Refuses to be followed with another graph than the planned one.
    pub fn check(&self, graph: &Graph) -> Result<(), TuneError> {
        match self.file.refusal(graph, &self.units()?.machine()) {
            Some(difference) => Err(TuneError::Plan(format!(
                "the plan does not fit: {difference}. Make the plan again"
            ))),
            None => Ok(()),
        }
    }

    /// The policy that decides at run time, on its units; none if the plan has an order.
    pub(crate) fn policy(&self) -> Result<Option<Among>, TuneError> {
        let Some(policy) = &self.file.policy else {
            return Ok(None);
        };
        let on = policy.on(&self.units()?.machine());
        on.map(Some).map_err(|e| TuneError::Plan(e.to_string()))
    }

    /// Refuses to be followed to the letter where there is none.
    pub(crate) fn check_exact(&self) -> Result<(), TuneError> {
        match &self.file.policy {
            None => Ok(()),
            Some(policy) => Err(TuneError::Option(format!(
                "--exact: {} leaves order and unit to {} at run time, so there is no order to keep to: leave out --exact, or \
                 plan with --fixed",
                self.name(),
                policy.name
            ))),
        }
    }

    /// The class of every unit, where any stand in for each other.
    pub(crate) fn stand_ins(&self) -> Vec<u16> {
        let classes = self.file.classes();
        let alone = (0..).zip(&classes).all(|(u, class)| u == *class);
        if alone { Vec::new() } else { classes }
    }

    /// What the runtime follows.
    pub(crate) fn schedule(&self) -> Result<Schedule, TuneError> {
        let graph = u64::from_str_radix(&self.file.target.graph_fingerprint, 16);
        let graph = graph.map_err(|_| {
            let text = "the plan's graph fingerprint is not a hexadecimal number";
            TuneError::Plan(text.into())
        })?;
        let transfers = self.file.planned_transfers();
        Ok(Schedule {
            graph,
            order: self.file.orders(),
            transfers: transfers.map_err(|e| TuneError::Plan(e.to_string()))?,
        })
    }
}

fn other(plan: &dyn Display, what: &str, planned: &str, given: &str) -> TuneError {
    TuneError::Plan(format!(
        "{plan} was made for {what} {planned}, this run has {given}: make a plan for it"
    ))
}

/// A step with the grain, the micro-batches and the implementations of a planned one, which must be alike otherwise.
fn adopted(planned: &Step, plan: &dyn Display, step: Step) -> Result<Step, TuneError> {
    if let Some((what, planned, given)) = difference(planned, &step) {
        return Err(other(plan, what, &planned, &given));
    }
    // One is what a run has that says nothing of them.
    let parts = [planned.micro_batches, step.micro_batches].map(|m| m.to_string());
    if step.micro_batches != 1 && parts[0] != parts[1] {
        return Err(other(plan, "micro-batches", &parts[0], &parts[1]));
    }
    Ok(Step {
        micro_batches: planned.micro_batches,
        grain: planned.grain.clone(),
        kernels: planned.kernels.clone(),
        ..step
    })
}

/// The first setting, beside grain and implementations, in which two steps differ, and both values.
fn difference(planned: &Step, given: &Step) -> Option<(&'static str, String, String)> {
    let json = |value: serde_json::Result<String>| value.unwrap_or_default();
    let of = |step: &Step| {
        [
            ("model", step.model.name.clone()),
            ("layers", format!("{:016x}", step.model.fingerprint())),
            ("batch", step.batch.to_string()),
            ("dtype", step.dtype.to_string()),
            ("loss", json(serde_json::to_string(&step.loss))),
            ("optimizer", json(serde_json::to_string(&step.optimizer))),
            (
                "clip-norm",
                step.clip_norm.map_or("none".into(), |n| n.to_string()),
            ),
            ("accumulate", step.accumulate.to_string()),
            ("ema", step.ema.map_or("none".into(), |n| n.to_string())),
            ("seed", step.seed.to_string()),
            ("delays", format!("{:?}", step.delays)),
        ]
    };
    let pairs = of(planned).into_iter().zip(of(given));
    let mut pairs = pairs.map(|((what, planned), (_, given))| (what, planned, given));
    pairs.find(|(_, planned, given)| planned != given)
}
