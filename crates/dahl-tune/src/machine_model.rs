//! A machine and all that is known of it, resolved once: what predictions start from.
//!
//! A described machine has rated speeds. If it is this computer, there are durations measured here, what runs add
//! to them, and the kernels of its devices. No prediction asks for any of that again.

use std::path::{Path, PathBuf};

use dahl_core::file::read_text;
use dahl_core::{Graph, Machine, NodeId, UnitId};
use dahl_runtime::perf_store::{self, Warning};
use dahl_sched::model::PerfModel;
use dahl_sim::Times;

use crate::error::TuneError;
use crate::gpus;
use crate::overheads::{self, ExpectedOverheads, RunOverheads};
use crate::this_machine::ThisMachine;

/// The machine in a file: a `machine.toml` or a SimGrid platform.
pub fn load_machine(path: &Path) -> Result<Machine, TuneError> {
    let text = read_text(path).map_err(TuneError::reading(path))?;
    dahl_sim::simgrid::read_machine(&text, &path.display().to_string())
        .map_err(|e| TuneError::Machine(e.to_string()))
}

/// Where durations come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimesFrom {
    /// What was measured on this computer, if the machine is this one; else costs and rated speeds.
    #[default]
    Here,
    /// Costs and rated speeds alone.
    Rates,
    /// A performance model's file.
    File(PathBuf),
}

/// A machine, durations measured on it and what runs add to them.
#[derive(Clone)]
pub struct MachineModel {
    /// The machine as described.
    pub machine: Machine,
    times: Option<PerfModel>,
    /// Of runs on the machine itself; empty if durations are not its own.
    overheads: Vec<RunOverheads>,
    /// Whether units are assumed to have implementations that reach their rated speed.
    assume: bool,
}

/// What a graph's tasks take under a policy.
#[derive(Clone)]
pub(crate) struct Durations {
    /// The machine, with what a run adds.
    pub machine: Machine,
    /// Durations, with what a run adds.
    pub times: Times,
    /// What that is, if it was measured.
    pub adds: Option<ExpectedOverheads>,
}

impl Durations {
    /// Every unit in this frequency state, or the last it has, as if that were its usual one.
    pub(crate) fn in_state(&mut self, state: usize) {
        for u in 0..self.machine.units.len() {
            let state = state.min(self.machine.units[u].states.len());
            let unit = UnitId(u as u16);
            self.times.settle(&mut self.machine, unit, state);
        }
    }
}

impl From<Machine> for MachineModel {
    /// By its description alone.
    fn from(mut machine: Machine) -> MachineModel {
        gpus::equip(&mut machine, false);
        MachineModel {
            machine,
            times: None,
            overheads: Vec::new(),
            assume: true,
        }
    }
}

impl MachineModel {
    /// With what was measured. The warning says if a damaged performance model was put aside.
    pub fn new(
        machine: Machine,
        from: &TimesFrom,
        this: &ThisMachine,
    ) -> Result<(MachineModel, Option<Warning>), TuneError> {
        let here = this.is(&machine);
        MachineModel::resolve(machine, from, this, here)
    }

    /// Units of this computer, whatever their description is called.
    pub(crate) fn here(
        machine: Machine,
        this: &ThisMachine,
    ) -> Result<(MachineModel, Option<Warning>), TuneError> {
        MachineModel::resolve(machine, &TimesFrom::Here, this, true)
    }

    fn resolve(
        machine: Machine,
        from: &TimesFrom,
        this: &ThisMachine,
        here: bool,
    ) -> Result<(MachineModel, Option<Warning>), TuneError> {
        let mut warning = None;
        let mut model = MachineModel::from(machine);
        gpus::equip(&mut model.machine, here);
        let known = match from {
            TimesFrom::Rates => None,
            TimesFrom::File(path) if !path.exists() => {
                return Err(TuneError::Option(format!(
                    "--times {}: there is no such file",
                    path.display()
                )));
            }
            TimesFrom::File(path) => Some(perf_store::load(path)?),
            TimesFrom::Here if here => this.times()?,
            TimesFrom::Here => None,
        };
        if let Some((times, damaged)) = known {
            model.times = Some(times);
            warning = damaged;
        }
        if here && *from == TimesFrom::Here {
            model.overheads = this.profile()?.map_or(Vec::new(), |p| p.overheads);
        }
        Ok((model, warning))
    }

    /// Units get only what they have implementations for. Otherwise those without are assumed to have one that
    /// reaches their rated speed.
    pub fn strict(mut self) -> MachineModel {
        self.assume = false;
        self
    }

    /// A machine whose durations and overheads were just measured.
    pub(crate) fn measured(
        machine: Machine,
        times: PerfModel,
        overheads: Vec<RunOverheads>,
    ) -> MachineModel {
        MachineModel {
            machine,
            times: Some(times),
            overheads,
            assume: false,
        }
    }

    /// One of its nodes, with what is known of it.
    pub(crate) fn of_node(&self, node: NodeId) -> MachineModel {
        self.of(self.machine.of_node(node))
    }

    /// What is known, held to be true of another machine.
    pub(crate) fn of(&self, machine: Machine) -> MachineModel {
        MachineModel {
            machine,
            ..self.clone()
        }
    }

    /// What tasks of a graph take in a run under a policy.
    pub(crate) fn durations(&self, graph: &Graph, policy: &str) -> Result<Durations, TuneError> {
        let mut machine = self.machine.clone();
        let mut times = Times::estimate(graph, &machine, self.times.as_ref(), self.assume)?;
        let adds = overheads::apply(&mut machine, &mut times, &self.overheads, policy, graph);
        Ok(Durations {
            machine,
            times,
            adds,
        })
    }
}
