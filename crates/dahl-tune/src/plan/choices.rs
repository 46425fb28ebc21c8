//! Simple choices: what somebody without a planner would try, each simulated as a run of many steps.
//!
//! A subset of the units, one frequency state for all of them, one uniform grain, and `ws`, `dmda` or `dmdas` at run
//! time. What a bound rules out is not simulated: a step takes no less than its work divided among the units, or the
//! cycle through its weights, and no fewer joules than its tasks at their cheapest. The best of them is what a plan is
//! compared with first, and where its search begins.

use std::collections::HashSet;

use dahl_core::{UnitId, UnitKind};
use dahl_nn::Step;
use dahl_nn::lower::grain::Grain;
use dahl_plan::{Alternative, Expected, Goal, Orders, PlanFile, PlanPolicy, PlanTarget};
use dahl_sim::Options;

use super::candidate::{Candidate, PerStep};
use super::{MOST_TASKS, PlanOptions};
use crate::error::TuneError;
use crate::grains::batch_cuts;
use crate::machine_model::{Durations, MachineModel};

/// Who decides at run time.
pub(super) const POLICIES: [&str; 3] = ["ws", "dmda", "dmdas"];

/// Steps that are simulated of every choice: those before and after the ones that count.
const STEPS: [usize; 2] = [2, 6];

/// Some units of a machine.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Subset {
    pub name: String,
    pub units: Vec<UnitId>,
    /// Whether all units of one kind, and no others, are in it.
    pub kind: bool,
}

/// One choice, and what it takes.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// Which grain, by its place among the candidates.
    pub candidate: usize,
    pub subset: Subset,
    pub state: usize,
    pub policy: &'static str,
    pub takes: PerStep,
}

/// A simple choice that a plan is compared with, and what a run of it is expected to take, as exactly as is said of a plan.
#[derive(Clone)]
pub(super) struct Rival {
    /// In words.
    pub alternative: Alternative,
    pub choice: Choice,
    /// None where it cannot be told: the alternative has then what a few steps take.
    pub expected: Option<Expected>,
}

/// All choices that were considered.
pub(super) struct Choices {
    /// The step with every grain that was tried.
    pub candidates: Vec<Candidate>,
    /// What was simulated, the best first.
    pub all: Vec<Choice>,
    /// How many there were, those that a bound rules out among them.
    pub considered: usize,
}

/// The units of a machine by what somebody would use: all, each kind, one, and halves of the cores.
pub(super) fn subsets(machine: &dahl_core::Machine) -> Vec<Subset> {
    let mut kinds: Vec<(UnitKind, dahl_core::MemoryId, Vec<UnitId>)> = Vec::new();
    for (u, unit) in machine.units.iter().enumerate() {
        let id = UnitId(u as u16);
        match kinds
            .iter_mut()
            .find(|k| (k.0, k.1) == (unit.kind, unit.memory))
        {
            Some(kind) => kind.2.push(id),
            None => kinds.push((unit.kind, unit.memory, vec![id])),
        }
    }
    let name = |units: &[UnitId]| {
        let name = &machine.units[usize::from(units[0].0)].name;
        let stem = name.split(':').next().unwrap_or(name);
        match units.len() {
            1 => name.clone(),
            n => format!("{n} {stem}"),
        }
    };
    let all: Vec<UnitId> = (0..machine.units.len() as u16).map(UnitId).collect();
    let mut out = vec![Subset {
        name: match all.len() {
            1 => name(&all),
            n => format!("all {n} units"),
        },
        kind: kinds.len() == 1,
        units: all,
    }];
    for (kind, _, units) in &kinds {
        let mut count = units.len();
        while count > 0 {
            out.push(Subset {
                name: name(&units[..count]),
                units: units[..count].to_vec(),
                kind: count == units.len(),
            });
            count /= 2;
        }
        // A device beside one core, which keeps what little the device is bad at.
        let core = kinds.iter().find(|k| k.0 == UnitKind::CPU);
        if let Some((_, _, cores)) = core.filter(|_| *kind != UnitKind::CPU) {
            out.push(Subset {
                name: format!("{} and {}", name(units), name(&cores[..1])),
                units: units.iter().chain(&cores[..1]).copied().collect(),
                kind: false,
            });
        }
    }
    let mut seen = HashSet::new();
    out.retain(|s| seen.insert(s.units.iter().map(|u| u.0).collect::<Vec<_>>()));
    out
}

/// Uniform cuts of the batch, and the default one.
fn grains(step: &Step, units: usize) -> Vec<Grain> {
    let most = step.batch.min((2 * units).clamp(8, 64));
    batch_cuts(most)
        .map(Grain::Fixed)
        .chain([Grain::Auto])
        .collect()
}

/// A grain in a few words: what is not cut is not named.
pub(super) fn brief(grain: &Grain) -> String {
    let text = grain.in_short();
    let cut: Vec<&str> = text
        .split(',')
        .filter(|part| !part.ends_with("=1"))
        .collect();
    match cut.is_empty() {
        true => "whole".into(),
        false => cut.join(","),
    }
}

impl Choice {
    /// In a few words.
    pub(super) fn name(&self, candidates: &[Candidate]) -> String {
        let state = match self.state {
            0 => String::new(),
            s => format!(" in state {s}"),
        };
        let grain = brief(&candidates[self.candidate].step.grain);
        format!(
            "{} under {}{state}, grain {grain}",
            self.subset.name, self.policy
        )
    }

    fn run(&self, candidate: &Candidate, machine: &MachineModel) -> Option<Prepared> {
        let graph = &candidate.lowered.graph;
        let durations = machine.durations(graph, self.policy).ok()?;
        let policy = (self.policy, &*self.subset.units, self.state);
        Prepared::new(candidate, durations, policy)
    }

    /// What a run is expected to take.
    pub(super) fn expected(
        &self,
        candidate: &Candidate,
        machine: &MachineModel,
    ) -> Option<Expected> {
        let prepared = self.run(candidate, machine)?;
        let d = &prepared.durations;
        let run = Options {
            noise: d.adds.map(|a| a.variation.noise(0)),
            ..prepared.options.clone()
        };
        let graph = &candidate.lowered.graph;
        let found = prepared.policy.expected(graph, &d.machine, &d.times, &run);
        found.ok()
    }

    /// The orders of one launch of a run.
    fn orders_of(
        &self,
        candidate: &Candidate,
        run: &dahl_sim::Prediction,
        launch: usize,
    ) -> Option<Orders> {
        let units = &candidate.durations.machine.units;
        let mut orders = Orders::of_run(&candidate.lowered.graph, units.len(), run, launch)?;
        for (unit, order) in units.iter().zip(&orders.units) {
            let state = self.state.min(unit.states.len()) as u8;
            let own = order.iter();
            own.for_each(|&t| orders.states[t as usize] = state);
        }
        Some(orders)
    }

    /// The plan that leaves order and unit to it, with the orders of a step alone.
    pub(super) fn file(
        &self,
        candidate: &Candidate,
        machine: &MachineModel,
        target: PlanTarget,
    ) -> Option<PlanFile> {
        let prepared = self.run(candidate, machine)?;
        let run = |steps| {
            let options = Options {
                steps,
                record: true,
                in_flight: 1,
                ..prepared.options.clone()
            };
            prepared.simulated(candidate, &options)
        };
        let (shorter, run) = (run(STEPS[0])?, run(STEPS[0] + 1)?);
        let orders = self.orders_of(candidate, &run, STEPS[0])?;
        let (graph, described) = (&candidate.lowered.graph, &prepared.durations.machine);
        let file = PlanFile::of_orders(target, graph, described, &orders, [&shorter, &run]);
        Some(file.left_to(prepared.policy, described))
    }

    /// What it did in several steps, to be followed.
    pub(super) fn orders(&self, candidate: &Candidate, machine: &MachineModel) -> Vec<Orders> {
        let Some(prepared) = self.run(candidate, machine) else {
            return Vec::new();
        };
        let mut out: Vec<Orders> = Vec::new();
        for in_flight in [prepared.options.in_flight, 1] {
            let options = Options {
                steps: STEPS[1],
                in_flight,
                record: true,
                ..prepared.options.clone()
            };
            let Some(run) = prepared.simulated(candidate, &options) else {
                continue;
            };
            for launch in STEPS[0]..STEPS[1] {
                let orders = self.orders_of(candidate, &run, launch);
                out.extend(orders.filter(|o| !out.contains(o)));
            }
        }
        out
    }
}

/// A graph on the units of a choice, in their state.
struct Prepared {
    durations: Durations,
    options: Options,
    policy: PlanPolicy,
}

impl Prepared {
    fn new(
        candidate: &Candidate,
        mut durations: Durations,
        (name, units, state): (&str, &[UnitId], usize),
    ) -> Option<Prepared> {
        let Durations { machine, times, .. } = &mut durations;
        let policy = PlanPolicy::new(name, machine, units, state);
        policy.set_states(machine, times).ok()?;
        Some(Prepared {
            durations,
            options: candidate.run(),
            policy,
        })
    }

    fn simulated(&self, candidate: &Candidate, options: &Options) -> Option<dahl_sim::Prediction> {
        let (d, graph) = (&self.durations, &candidate.lowered.graph);
        let run = self.policy.simulated(graph, &d.machine, &d.times, options);
        run.ok()
    }

    /// Seconds and joules that no run takes less than; `None` if a task cannot run.
    fn least(&self, candidate: &Candidate, subset: &Subset) -> Option<PerStep> {
        let (d, graph) = (&self.durations, &candidate.lowered.graph);
        let watts = |u: UnitId| {
            let unit = &d.machine.units[usize::from(u.0)];
            unit.power.map_or(0.0, |p| (p.busy.0 - p.idle.0).max(0.0))
        };
        let (mut work, mut joules) = (0.0, 0.0);
        let mut of_class: Vec<Option<(f64, f64)>> = vec![None; graph.classes.len()];
        for task in &graph.tasks {
            let known = &mut of_class[task.class as usize];
            if known.is_none() {
                let times = subset.units.iter().filter_map(|&u| {
                    let overhead = d.machine.units[usize::from(u.0)].overhead.0;
                    Some((u, overhead + d.times.get(task.class, u)?.0))
                });
                let (mut seconds, mut least) = (f64::INFINITY, f64::INFINITY);
                for (u, s) in times {
                    seconds = s.min(seconds);
                    least = least.min(s * watts(u));
                }
                *known = Some((seconds, least));
            }
            let (seconds, least) = known.filter(|k| k.0.is_finite())?;
            work += seconds;
            joules += least;
        }
        let fastest = |task: usize| {
            let known = of_class[graph.tasks[task].class as usize];
            known.map_or(0.0, |k| k.0)
        };
        let waits = candidate.waits(fastest, self.options.in_flight);
        let seconds = waits.max(work / subset.units.len() as f64);
        let idle = d
            .machine
            .units
            .iter()
            .filter_map(|u| u.power)
            .map(|p| p.idle.0);
        let standing = d.machine.base().0 + idle.sum::<f64>();
        Some(PerStep {
            seconds: dahl_core::Seconds(seconds),
            joules: dahl_core::Joules(joules + standing * seconds),
        })
    }
}

impl Choices {
    /// Those of the grains that planning looks at.
    pub(super) fn of(
        step: &Step,
        machine: &MachineModel,
        options: &PlanOptions,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Choices, TuneError> {
        let grains = match options.search_grain {
            true => grains(step, machine.machine.units.len()),
            false => vec![step.grain.clone()],
        };
        Choices::new(
            step,
            machine,
            &grains,
            &options.goal,
            MOST_TASKS,
            keep_going,
        )
    }

    /// Simulates all that no bound rules out, until told to stop; every subset is simulated once in any case.
    fn new(
        step: &Step,
        machine: &MachineModel,
        grains: &[Grain],
        goal: &Goal,
        most_tasks: usize,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<Choices, TuneError> {
        let mut out = Choices {
            candidates: Vec::new(),
            all: Vec::new(),
            considered: 0,
        };
        let mut seen = HashSet::new();
        let mut refused = None;
        for grain in grains {
            match Candidate::new(step, grain, machine) {
                Ok(candidate) => {
                    let graph = &candidate.lowered.graph;
                    if graph.len() <= most_tasks && seen.insert(graph.fingerprint()) {
                        out.candidates.push(candidate);
                    }
                }
                Err(error) => refused = Some(error),
            }
            if !out.candidates.is_empty() && !keep_going() {
                break;
            }
        }
        if out.candidates.is_empty() {
            return Err(refused.unwrap_or_else(|| {
                TuneError::Plan(format!("every grain has more than {most_tasks} tasks"))
            }));
        }
        let subsets = subsets(&machine.machine);
        let states = machine.machine.units.iter().map(|u| u.states.len()).max();
        let mut open = Vec::new();
        for (c, candidate) in out.candidates.iter().enumerate() {
            for (s, subset) in subsets.iter().enumerate() {
                for state in 0..=states.unwrap_or(0) {
                    let durations = candidate.durations.clone();
                    let choice = (POLICIES[0], &*subset.units, state);
                    let prepared = Prepared::new(candidate, durations, choice);
                    if let Some(least) = prepared.and_then(|p| p.least(candidate, subset)) {
                        open.push((least.cost(goal), c, s, state));
                    }
                }
            }
        }
        open.sort_by(|a, b| {
            a.0.total_cmp(&b.0)
                .then((a.1, a.2, a.3).cmp(&(b.1, b.2, b.3)))
        });
        // Every subset by its most promising grain and state first, so that each can be compared with.
        let mut met = vec![false; subsets.len()];
        let (first, rest): (Vec<_>, Vec<_>) = open
            .into_iter()
            .partition(|o| !std::mem::replace(&mut met[o.2], true));
        let mut best = f64::INFINITY;
        let (count, mut left, mut late) = (first.len(), Vec::new(), false);
        for (i, (least, c, s, state)) in first.into_iter().chain(rest).enumerate() {
            // Once the time is over nobody asks again.
            late = late || i >= count && least < best && !keep_going();
            if i >= count && (late || least >= best) {
                left.push(least);
                continue;
            }
            best = best.min(out.simulate(machine, goal, (c, &subsets[s], state)));
            out.considered += POLICIES.len();
        }
        // What there was no time for was not considered.
        out.considered += POLICIES.len() * left.iter().filter(|least| **least >= best).count();
        let cost = |c: &Choice| c.takes.cost(goal);
        out.all.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
        Ok(out)
    }

    /// Simulates the policies; the least cost.
    fn simulate(
        &mut self,
        machine: &MachineModel,
        goal: &Goal,
        (c, subset, state): (usize, &Subset, usize),
    ) -> f64 {
        let candidate = &self.candidates[c];
        let mut best = f64::INFINITY;
        for policy in POLICIES {
            let mut choice = Choice {
                candidate: c,
                subset: subset.clone(),
                state,
                policy,
                takes: PerStep {
                    seconds: dahl_core::Seconds(f64::INFINITY),
                    joules: dahl_core::Joules(f64::INFINITY),
                },
            };
            let Some(prepared) = choice.run(candidate, machine) else {
                continue;
            };
            let takes = PerStep::between(STEPS, &mut |steps| {
                let options = Options {
                    steps,
                    ..prepared.options.clone()
                };
                prepared.simulated(candidate, &options)
            });
            if let Some(takes) = takes {
                best = best.min(takes.cost(goal));
                choice.takes = takes;
                self.all.push(choice);
            }
        }
        best
    }

    /// The best choice that satisfies a condition.
    pub(super) fn best(&self, which: impl Fn(&Choice) -> bool) -> Option<&Choice> {
        self.all.iter().find(|c| which(c))
    }

    /// The best choice, each kind of unit alone, the best single unit, and `dmda` on all units with the default grain:
    /// each as a run of it is expected to be, or nothing where there is no time to look closer.
    pub(super) fn rivals(&self, machine: &MachineModel) -> Vec<Rival> {
        let mut out: Vec<Rival> = Vec::new();
        let mut add = |what: &str, choice: Option<&Choice>| {
            let Some(choice) = choice else { return };
            let name = choice.name(&self.candidates);
            if !out.iter().any(|o| o.alternative.name.ends_with(&name)) {
                out.push(self.rival(format!("{what}{name}"), choice, machine));
            }
        };
        let best = format!("the best of {} simple choices, ", self.considered);
        add(&best, self.best(|_| true));
        add(
            "the best single unit, ",
            self.best(|c| c.subset.units.len() == 1),
        );
        for subset in subsets(&machine.machine).iter().filter(|s| s.kind) {
            add("", self.best(|c| c.subset == *subset));
        }
        let all = machine.machine.units.len();
        let usual = |c: &Choice| c.policy == "dmda" && c.subset.units.len() == all && c.state == 0;
        add("", self.best(usual));
        out
    }

    /// A choice under a name, looked at closely.
    pub(super) fn rival(&self, name: String, choice: &Choice, machine: &MachineModel) -> Rival {
        let expected = choice.expected(&self.candidates[choice.candidate], machine);
        let takes = expected.as_ref().map_or(choice.takes, PerStep::of);
        Rival {
            alternative: Alternative {
                name,
                seconds: takes.seconds,
                joules: takes.joules,
            },
            choice: choice.clone(),
            expected,
        }
    }
}
