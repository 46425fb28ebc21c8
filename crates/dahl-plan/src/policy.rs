//! Plans that leave order and unit to a policy.
//!
//! Such a plan decides grain, implementations, which units take part and in which frequency state; of those units the
//! policy chooses one for each task at run time, and its order. What a policy does across steps, tasks of the next one
//! before this one's last and data fetched ahead, no order of a single step can say. The orders in such a file are those
//! of one simulated step, for people: nothing follows them.

use std::collections::BTreeSet;

use dahl_core::{Graph, Machine, UnitId};
use dahl_sched::policy::{Among, Fixed, Policy};
use dahl_sim::{Options, Prediction, Times, simulate};
use serde::{Deserialize, Serialize};

use super::expected::{Expected, FollowError};
use super::file::{FileError, PlanFile, UnitEntry};

/// Who decides at run time, and for whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanPolicy {
    /// The policy, such as `ws`.
    pub name: String,
    /// The units that take part.
    pub units: Vec<UnitInState>,
}

/// A unit in a frequency state, which it keeps through a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UnitInState {
    /// The machine's name for it.
    pub name: String,
    /// Its frequency state; 0 is the usual one.
    pub state: u8,
}

impl PlanPolicy {
    /// A policy on some units of a machine, all in one frequency state, or in the last that they have.
    pub fn new(name: &str, machine: &Machine, units: &[UnitId], state: usize) -> PlanPolicy {
        let unit = |u: &UnitId| {
            let unit = &machine.units[usize::from(u.0)];
            UnitInState {
                name: unit.name.clone(),
                state: state.min(unit.states.len()) as u8,
            }
        };
        PlanPolicy {
            name: name.into(),
            units: units.iter().map(unit).collect(),
        }
    }

    /// The frequency state of a unit; none if it takes no part.
    fn state_of(&self, unit: &str) -> Option<u8> {
        let own = self.units.iter().find(|u| u.name == unit);
        own.map(|u| u.state)
    }

    /// Refuses a name that is no policy's, and units that are not there.
    pub(super) fn check(&self, there: &[UnitEntry]) -> Result<(), FileError> {
        let wrong = |problem: String| Err(FileError::Policy(problem));
        if let Err(unknown) = Among::new(&self.name, &[], &Machine::cpus(1)) {
            return wrong(format!("name: {unknown}"));
        }
        if self.units.is_empty() {
            return wrong("units: none takes part, so nothing would run: name one".into());
        }
        for (i, unit) in self.units.iter().enumerate() {
            let name = &unit.name;
            if !there.iter().any(|u| u.name == *name) {
                let names: Vec<&str> = there.iter().map(|u| &*u.name).collect();
                let text = dahl_core::text::unknown("unit", name, &names);
                return wrong(format!("units[{i}]: {text}"));
            }
            if self.units[..i].iter().any(|u| u.name == *name) {
                return wrong(format!("units[{i}]: {name:?} is there twice: name it once"));
            }
        }
        Ok(())
    }

    /// Its units on a machine.
    fn units_of(&self, machine: &Machine) -> Result<Vec<UnitId>, FollowError> {
        let find = |unit: &UnitInState| {
            let place = machine.units.iter().position(|u| u.name == unit.name);
            let none = || FollowError::Unit(unit.name.clone());
            Ok(UnitId(place.ok_or_else(none)? as u16))
        };
        self.units.iter().map(find).collect()
    }

    /// The policy on its units.
    pub fn on(&self, machine: &Machine) -> Result<Among, FollowError> {
        Ok(Among::new(&self.name, &self.units_of(machine)?, machine)?)
    }

    /// Makes the frequency state of every unit that takes part its usual one.
    pub fn set_states(&self, machine: &mut Machine, times: &mut Times) -> Result<(), FollowError> {
        let units = self.units_of(machine)?;
        for (unit, UnitInState { name, state }) in units.into_iter().zip(&self.units) {
            let has = machine.units[usize::from(unit.0)].states.len();
            if usize::from(*state) > has {
                return Err(FollowError::State {
                    unit: name.clone(),
                    state: *state,
                    has,
                });
            }
            times.settle(machine, unit, usize::from(*state));
        }
        Ok(())
    }

    /// A run on a machine whose units' usual states are those of the plan.
    pub fn simulated(
        &self,
        graph: &Graph,
        machine: &Machine,
        times: &Times,
        run: &Options,
    ) -> Result<Prediction, FollowError> {
        Ok(simulate(graph, machine, times, &self.on(machine)?, run)?)
    }

    /// What a step of such a run is expected to take.
    pub fn expected(
        &self,
        graph: &Graph,
        machine: &Machine,
        times: &Times,
        run: &Options,
    ) -> Result<Expected, FollowError> {
        let mut simulated = |steps, in_flight| {
            let options = Options {
                steps,
                in_flight,
                new_inputs_each_step: true,
                record: false,
                ..run.clone()
            };
            self.simulated(graph, machine, times, &options)
        };
        Expected::of_runs(graph, machine, run, &mut simulated)
    }
}

impl PlanFile {
    /// The same with order and unit left to a policy on the plan's machine.
    pub fn left_to(mut self, policy: PlanPolicy, machine: &Machine) -> PlanFile {
        for (entry, unit) in self.units.iter_mut().zip(&machine.units) {
            let state = policy.state_of(&unit.name).map_or(0, usize::from);
            let state = state.checked_sub(1).and_then(|s| unit.states.get(s));
            entry.hertz = state.and_then(|s| s.hertz);
        }
        self.policy = Some(policy);
        self
    }

    /// Who decides at run time: a policy's name, or `plan`.
    pub fn decides(&self) -> &str {
        self.policy.as_ref().map_or("plan", |p| &p.name)
    }

    /// The frequency states that a unit runs tasks in; none if it takes no part.
    pub fn states_of(&self, unit: usize) -> BTreeSet<u8> {
        let entry = &self.units[unit];
        match &self.policy {
            Some(policy) => policy.state_of(&entry.name).into_iter().collect(),
            None => {
                let state = |t: &u32| self.tasks[*t as usize].state;
                entry.order.iter().map(state).collect()
            }
        }
    }

    /// What decides in a run: the plan's policy, or its orders. Where units may be late, because durations vary, others stand in.
    pub fn deciding(
        &self,
        graph: &Graph,
        machine: &Machine,
        late: bool,
    ) -> Result<Box<dyn Policy>, FollowError> {
        if let Some(policy) = &self.policy {
            return Ok(Box::new(policy.on(machine)?));
        }
        let fixed = Fixed::new(graph.len(), self.orders())?;
        let classes = if late { self.classes() } else { Vec::new() };
        Ok(Box::new(fixed.among(&classes)))
    }
}
