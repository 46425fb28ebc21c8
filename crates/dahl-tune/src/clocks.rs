//! Clocks for plans: which states of a plan or a machine can be set on this computer, and setting them for a run.
//!
//! Where all cores of a plan are in one state, all of this computer's are set alike. Where they differ, workers are pinned and the
//! thread that launches computes nothing, so that every unit is a core of its own; a clock that sets several units must
//! set them alike. Cards are found by their names. A unit has one state through a run: changing takes a system call and
//! tens of microseconds at least, which is what tasks take. What is set is put back by [`dahl_energy::clocks`].

use std::collections::BTreeSet;

use dahl_core::{Machine, UnitKind};
use dahl_energy::Tree;
use dahl_energy::clocks::{Clock, SetClocks, card_clocks, record_path, set_clocks};

use crate::error::TuneError;
use crate::follow::StepPlan;
use crate::gpus;
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

    /// The same, and those of cards.
    pub fn all_clocks(&self) -> Vec<Clock> {
        self.clocks().into_iter().chain(card_clocks()).collect()
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
        clocks.iter().find_map(|c| lacks(c, hertz).err())
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
        self.set(&wanted)
    }

    fn set(&self, wanted: &[(&Clock, f64)]) -> Result<SetClocks, TuneError> {
        let record = match self.system().as_os_str() == "/sys" {
            true => record_path(),
            false => self.system().join("dahl-clocks.json"),
        };
        let set = set_clocks(&self.tree(), wanted, &record);
        set.map_err(|e| TuneError::Plan(e.to_string()))
    }

    /// Why the states of a machine's units cannot be set here; none if they can, or if it has none.
    pub(crate) fn refuses_states(&self, machine: &Machine) -> Option<String> {
        let units = machine.units.iter().filter(|u| !u.states.is_empty());
        for unit in units {
            for state in &unit.states {
                let why = match state.hertz {
                    None => Some("the file gives no `hertz` for its states".into()),
                    Some(hertz) if unit.kind == UnitKind::CPU => self.refusal(hertz),
                    Some(hertz) => refuses_card(&card_clocks(), &unit.name, hertz),
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
    /// that cannot run is of no use to anybody who has the machine.
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

/// What a plan sets for a run.
pub(crate) struct Wanted {
    clocks: Vec<(Clock, f64)>,
    /// Whether cores differ, so that it matters which thread runs on which.
    pub(crate) by_core: bool,
}

impl StepPlan {
    /// The clocks that are set, each with its frequency; none that are left alone.
    fn wanted(&self, this: &ThisMachine) -> Result<Wanted, String> {
        let (mut cores, mut cards) = (Vec::new(), Vec::new());
        for (u, unit) in self.file.units.iter().enumerate() {
            let states = self.file.states_of(u);
            if states.is_empty() {
                continue;
            }
            let hertz = state_of(&unit.name, &states, unit.hertz)?;
            match unit.name.starts_with("gpu:") {
                true => cards.push((&*unit.name, hertz)),
                false => cores.push((&*unit.name, hertz)),
            }
        }
        let mut clocks = Vec::new();
        let same = cores.windows(2).all(|pair| pair[0].1 == pair[1].1);
        match cores.first() {
            Some((_, Some(hertz))) if same => {
                if let Some(why) = this.refusal(*hertz) {
                    return Err(why);
                }
                clocks.extend(this.clocks().into_iter().map(|c| (c, *hertz)));
            }
            Some(_) if !same => clocks = by_core(this, &cores)?,
            _ => {}
        }
        clocks.extend(by_card(&cards)?);
        Ok(Wanted {
            clocks,
            by_core: !same,
        })
    }

    /// Refuses a plan whose frequency states cannot be set on this computer: it can be simulated, not followed.
    pub fn check_states(&self, this: &ThisMachine) -> Result<(), TuneError> {
        self.settings(this).map(|_| ())
    }

    fn settings(&self, this: &ThisMachine) -> Result<Wanted, TuneError> {
        let refused = |why: String| {
            TuneError::Plan(format!("{} cannot be followed here: {why}", self.name()))
        };
        let wanted = self.wanted(this).map_err(refused)?;
        let trouble = wanted.clocks.iter().find_map(|(c, _)| c.trouble.as_ref());
        match trouble {
            Some(trouble) => Err(refused(trouble.to_string())),
            None => Ok(wanted),
        }
    }

    /// Sets the plan's clocks, if it has any, until the value is dropped or the process ends, and says whether cores
    /// differ.
    pub(crate) fn set_clocks(
        &self,
        this: &ThisMachine,
    ) -> Result<Option<(SetClocks, bool)>, TuneError> {
        let wanted = self.settings(this)?;
        let clocks: Vec<(&Clock, f64)> = wanted.clocks.iter().map(|(c, h)| (c, *h)).collect();
        match clocks.is_empty() {
            true => Ok(None),
            false => Ok(Some((this.set(&clocks)?, wanted.by_core))),
        }
    }
}

/// The frequency of the one state of a unit's tasks, which stands in the plan if it is known; none of the usual one.
fn state_of(unit: &str, states: &BTreeSet<u8>, hertz: Option<f64>) -> Result<Option<f64>, String> {
    if states.len() > 1 {
        return Err(format!(
            "{unit} changes its frequency state within a step, which no run does: give it `switch_seconds` in the \
             machine file and plan again"
        ));
    }
    match (states.first(), hertz) {
        (None | Some(0), _) => Ok(None),
        (_, Some(hertz)) => Ok(Some(hertz)),
        (Some(state), None) => Err(format!(
            "{unit} runs in frequency state {state}, and nobody said which clock that is: give its states `hertz` \
             in the machine file and plan again"
        )),
    }
}

/// Units with the frequencies that they are to have; none of the usual state.
type Units<'a> = [(&'a str, Option<f64>)];

/// The number in a unit's name.
fn number(unit: &str) -> Option<usize> {
    unit.rsplit(':').next()?.parse().ok()
}

/// The name of a card's model.
fn model(unit: &str) -> String {
    number(unit).and_then(gpus::name).unwrap_or_default()
}

/// Clocks of cores in different states, where unit `n` is a worker that is pinned to a core of its own.
fn by_core(this: &ThisMachine, units: &Units<'_>) -> Result<Vec<(Clock, f64)>, String> {
    let mut out = Vec::new();
    let mut set = 0;
    for clock in this.clocks() {
        let sets = |unit: &str| {
            let core = number(unit).and_then(|n| this.host().cores.get(n));
            core.is_some_and(|c| clock.cpus.contains(c))
        };
        let own: Vec<_> = units.iter().filter(|u| sets(u.0)).collect();
        if let Some(pair) = own.windows(2).find(|pair| pair[0].1 != pair[1].1) {
            let (a, b) = (pair[0].0, pair[1].0);
            return Err(format!(
                "{a} and {b} run in different frequency states, and {} sets both",
                clock.name
            ));
        }
        if let Some((_, Some(hertz))) = own.first() {
            lacks(&clock, *hertz)?;
            set += own.len();
            out.push((clock, *hertz));
        }
    }
    match set == units.iter().filter(|u| u.1.is_some()).count() {
        true => Ok(out),
        false => Err("a core of the plan has no clock here that could be set".into()),
    }
}

/// Clocks of cards. Cards are known by the names of their models, so those of one model are set alike.
fn by_card(units: &Units<'_>) -> Result<Vec<(Clock, f64)>, String> {
    let mut out: Vec<(Clock, f64)> = Vec::new();
    if units.iter().all(|u| u.1.is_none()) {
        return Ok(out);
    }
    let all = card_clocks();
    for &(unit, hertz) in units {
        let Some(hertz) = hertz else { continue };
        if let Some(why) = refuses_card(&all, unit, hertz) {
            return Err(format!("{unit}: {why}"));
        }
        let name = model(unit);
        let own = all.iter().filter(|c| c.device == name);
        let alike = units.iter().filter(|u| model(u.0) == name);
        if alike.clone().count() != own.clone().count() || alike.clone().any(|u| u.1 != Some(hertz))
        {
            return Err(format!(
                "{} cards here are called {name:?}, and the plan does not set all of them alike: nobody can tell which \
                 of them is {unit}",
                own.count()
            ));
        }
        if !out.iter().any(|(clock, _)| clock.device == name) {
            out.extend(own.map(|clock| (clock.clone(), hertz)));
        }
    }
    Ok(out)
}

/// Why a card cannot be set to a frequency here; none if it can.
fn refuses_card(all: &[Clock], unit: &str, hertz: f64) -> Option<String> {
    let name = model(unit);
    let Some(clock) = all.iter().find(|c| c.device == name) else {
        return Some(format!(
            "clocks of cards are set through NVIDIA's NVML, which knows no {name:?} here"
        ));
    };
    let trouble = clock.trouble.as_ref().map(ToString::to_string);
    trouble.or_else(|| lacks(clock, hertz).err())
}

/// Refuses a frequency that a clock has not.
fn lacks(clock: &Clock, hertz: f64) -> Result<(), String> {
    if clock.hertz.iter().any(|h| (h - hertz).abs() <= 500.0) {
        return Ok(());
    }
    let known: Vec<String> = clock.hertz.iter().map(|h| format!("{h:e}")).collect();
    let known = known.join(", ");
    Err(format!("{} has no {hertz:e} Hz, but {known}", clock.name))
}
