//! Plans of training steps: as files, and followed by runs of this computer.
//!
//! A [`StepPlan`] holds the plan and the step it was made for. A run takes grain and implementations from it; every
//! other setting must be the plan's own, and a difference is named. Nothing here decides: that is
//! [`plan`](crate::plan())'s.

mod outcome;
mod steps;

use std::path::{Path, PathBuf};

use dahl_core::Graph;
use dahl_core::file::read_text;
use dahl_nn::{Registry, Step};
use dahl_plan::PlanFile;
use dahl_runtime::Schedule;

use crate::error::TuneError;
use crate::this_machine::ThisMachine;
use crate::units::Units;

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
        let text = read_text(path).map_err(TuneError::reading(path))?;
        let wrong = |why: String| TuneError::PlanFile {
            path: path.into(),
            why,
        };
        let file = PlanFile::from_json(&text).map_err(|e| wrong(dahl_core::text::chain(&e)))?;
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

    fn other(&self, what: &str, planned: &str, given: &str) -> TuneError {
        let name = self.name();
        TuneError::Plan(format!(
            "{name} was made for {what} {planned}, this run has {given}: make a plan for it"
        ))
    }

    /// A step as it runs by the plan: with the plan's grain, micro-batches and implementations. Refuses one that differs
    /// otherwise from what was planned.
    pub fn adopt(&self, step: Step) -> Result<Step, TuneError> {
        if let Some((what, planned, given)) = difference(&self.step, &step) {
            return Err(self.other(what, &planned, &given));
        }
        // One is what a run has that says nothing of them.
        let parts = [self.step.micro_batches, step.micro_batches].map(|m| m.to_string());
        if step.micro_batches != 1 && parts[0] != parts[1] {
            return Err(self.other("micro-batches", &parts[0], &parts[1]));
        }
        Ok(Step {
            micro_batches: self.step.micro_batches,
            grain: self.step.grain.clone(),
            kernels: self.step.kernels.clone(),
            ..step
        })
    }

    /// Refuses a plan that is for another machine.
    pub fn check_machine(&self, name: &str) -> Result<(), TuneError> {
        match self.file.target.machine.as_str() {
            planned if planned == name => Ok(()),
            planned => Err(self.other("machine", planned, name)),
        }
    }

    /// Refuses a plan that this computer cannot follow: one for another machine, or with states that cannot be set.
    pub(crate) fn check_here(&self, this: &ThisMachine) -> Result<(), TuneError> {
        self.check_machine(this.name())?;
        self.check_states(this)
    }

    /// Its units.
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
