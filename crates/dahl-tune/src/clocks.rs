//! Clocks for plans: which states of a plan or a machine can be set on this computer, and setting them for a run.
//!
//! All cores are set alike. The thread that launches belongs to no core, so nobody could say which of them is its own.
//! What is set is put back by [`dahl_energy::clocks`].

use std::collections::BTreeSet;

use dahl_core::{Machine, UnitKind};
use dahl_energy::Tree;
use dahl_energy::clocks::{Clock, SetClocks, record_path, set_clocks};

use crate::error::TuneError;
use crate::follow::StepPlan;
use crate::machine_model::MachineModel;
use crate::this_machine::ThisMachine;

impl ThisMachine {
    pub(crate) fn tree(&self) -> Tree {
        Tree::at(self.system())
    }

    /// The clocks of the cores that this process may use; none where the system tells nothing.
    pub fn clocks(&self) -> Vec<Clock> {
        let mut all = dahl_energy::clocks::clocks(&self.tree());
        all.retain(|c| c.cpus.iter().any(|cpu| self.host().cores.contains(cpu)));
        all
    }

    /// Why cores cannot be set to a frequency here; none if they can.
    fn refusal(&self, hertz: f64) -> Option<String> {
        let clocks = self.clocks();
        if clocks.is_empty() {
            return Some("this system lets nobody set its clocks (no cpufreq)".into());
        }
        if let Some(trouble) = clocks.iter().find_map(|c| c.trouble.as_ref()) {
            return Some(trouble.to_string());
        }
        let lacks = |c: &&Clock| c.hertz.iter().all(|h| (h - hertz).abs() > 500.0);
        clocks.iter().find(lacks).map(|c| {
            let known: Vec<String> = c.hertz.iter().map(|h| format!("{h:e}")).collect();
            format!("{} has no {hertz:e} Hz, but {}", c.name, known.join(", "))
        })
    }

    /// The frequencies that all cores can be set to, the highest first, or why they cannot.
    pub(crate) fn settable(&self) -> Result<Vec<f64>, String> {
        let first = self.clocks().into_iter().next();
        let all = first.map_or(Vec::new(), |c| c.hertz);
        match all.first() {
            None => Err(self.refusal(0.0).unwrap_or_default()),
            Some(&highest) => match self.refusal(highest) {
                Some(why) => Err(why),
                None => Ok(all
                    .into_iter()
                    .filter(|h| self.refusal(*h).is_none())
                    .collect()),
            },
        }
    }

    /// Sets all cores to a frequency until the value is dropped or the process ends.
    pub(crate) fn set_all(&self, hertz: f64) -> Result<SetClocks, TuneError> {
        let clocks = self.clocks();
        let wanted: Vec<(&Clock, f64)> = clocks.iter().map(|c| (c, hertz)).collect();
        let record = match self.system().as_os_str() == "/sys" {
            true => record_path(),
            false => self.system().join("dahl-clocks.json"),
        };
        let set = set_clocks(&self.tree(), &wanted, &record);
        set.map_err(|e| TuneError::Plan(e.to_string()))
    }

    /// Why the states of a machine's units cannot be set here; none if they can, or if it has none.
    pub fn refuses_states(&self, machine: &Machine) -> Option<String> {
        let units = machine.units.iter().filter(|u| !u.states.is_empty());
        for unit in units {
            for state in &unit.states {
                let why = match state.hertz {
                    _ if unit.kind != UnitKind::CPU => Some("only clocks of cores are set".into()),
                    None => Some("the file gives no `hertz` for its states".into()),
                    Some(hertz) => self.refusal(hertz),
                };
                if let Some(why) = why {
                    return Some(format!("unit {:?}: {why}", unit.name));
                }
            }
        }
        None
    }
}

impl MachineModel {
    /// Without frequency states, if the machine is this computer and they cannot be set here; the text says why. A plan
    /// that cannot run is of no use to whoever has the machine.
    pub fn with_states_that_run(mut self, this: &ThisMachine) -> (MachineModel, Option<String>) {
        let why = match this.is(&self.machine) {
            true => this.refuses_states(&self.machine),
            false => None,
        };
        if why.is_some() {
            self.machine.units.iter_mut().for_each(|u| u.states.clear());
        }
        (self, why)
    }
}

impl StepPlan {
    /// The frequency that all cores are set to; none if they are left alone.
    fn clock(&self) -> Result<Option<f64>, String> {
        let states = |order: &[u32]| -> BTreeSet<u8> {
            let tasks = order.iter();
            tasks.map(|&t| self.file.tasks[t as usize].state).collect()
        };
        let mut wanted: Option<(&str, Option<f64>)> = None;
        for unit in self.file.units.iter().filter(|u| !u.order.is_empty()) {
            let states = states(&unit.order);
            if states.len() > 1 {
                let name = &unit.name;
                return Err(format!(
                    "{name} changes its frequency state within a step, which no run does: give it `switch_seconds` in \
                     the machine file and plan again"
                ));
            }
            let hertz = match states.first() {
                None | Some(0) => None,
                Some(state) => match unit.hertz {
                    Some(hertz) => Some(hertz),
                    None => {
                        return Err(format!(
                            "{} runs in frequency state {state}, and nobody said which clock that is: give its states \
                             `hertz` in the machine file and plan again",
                            unit.name
                        ));
                    }
                },
            };
            match wanted {
                None => wanted = Some((&unit.name, hertz)),
                Some((_, same)) if same == hertz => {}
                Some((other, _)) => {
                    return Err(format!(
                        "{other} and {} run in different frequency states, and all cores are set alike here",
                        unit.name
                    ));
                }
            }
        }
        Ok(wanted.and_then(|w| w.1))
    }

    /// Refuses a plan whose frequency states cannot be set on this computer: it can be simulated, not followed.
    pub fn check_states(&self, this: &ThisMachine) -> Result<(), TuneError> {
        let refused = |why: String| {
            TuneError::Plan(format!("{} cannot be followed here: {why}", self.name()))
        };
        match self.clock().map_err(refused)? {
            None => Ok(()),
            Some(hertz) => this.refusal(hertz).map_or(Ok(()), |why| Err(refused(why))),
        }
    }

    /// Sets the plan's clock, if it has one, until the value is dropped or the process ends.
    pub(crate) fn set_clocks(&self, this: &ThisMachine) -> Result<Option<SetClocks>, TuneError> {
        self.check_states(this)?;
        let Ok(Some(hertz)) = self.clock() else {
            return Ok(None);
        };
        this.set_all(hertz).map(Some)
    }
}
