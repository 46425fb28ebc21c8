//! Plans in competition: what a step of a run costs decides, not who made the plan.
//!
//! Plans come from the planner's equations, from what simple choices did, and from changes of these; and a simple choice
//! is a plan itself, which leaves order and unit to its policy. All are judged alike, by the expected run. A grain whose durations were never measured has to be better by more than such guesses
//! are usually off.

use dahl_core::{Joules, Seconds};
use dahl_nn::lower::grain::Grain;
use dahl_plan::{Goal, Orders, PlanFile};

use super::candidate::{Candidate, PerStep};
use super::choices::{Choice, Choices, Rival};
use super::improve::improve;
use super::{PlanOptions, contender};
use crate::error::TuneError;
use crate::machine_model::MachineModel;

/// How much better a plan must be whose durations are guesses.
const GUESS: f64 = 1.15;

/// By which part a policy must be cheaper than an order: less is rounding.
const ROUNDING: f64 = 1e-13;

/// A plan, for which candidate it is, and what is known of it.
pub(super) struct Found {
    pub candidate: usize,
    pub file: PlanFile,
    pub cost: f64,
}

impl Found {
    fn orders(&self) -> Orders {
        Orders {
            units: self.file.orders(),
            states: self.file.states(),
        }
    }
}

pub(super) struct Pool<'a> {
    pub machine: &'a MachineModel,
    pub options: &'a PlanOptions,
    /// Candidates, and the choices that were tried with them.
    pub choices: Choices,
    /// The best plan with an order.
    pub best: Option<Found>,
    /// The best that leaves it to a policy.
    pub left: Option<Found>,
    /// Why nothing is expected of a plan's run, where that is so.
    pub warning: Option<String>,
}

impl<'a> Pool<'a> {
    /// With no plan yet.
    pub(super) fn new(
        machine: &'a MachineModel,
        options: &'a PlanOptions,
        choices: Choices,
    ) -> Pool<'a> {
        Pool {
            machine,
            options,
            choices,
            best: None,
            left: None,
            warning: None,
        }
    }
}

impl Pool<'_> {
    fn goal(&self) -> &Goal {
        &self.options.goal
    }

    /// The candidate of a grain.
    pub(super) fn candidate(&mut self, grain: &Grain) -> Result<usize, TuneError> {
        let all = &mut self.choices.candidates;
        if let Some(known) = all.iter().position(|c| c.step.grain == *grain) {
            return Ok(known);
        }
        let step = all[0].step.clone();
        let new = Candidate::new(&step, grain, self.machine)?;
        let same = |c: &Candidate| c.lowered.graph.fingerprint() == new.lowered.graph.fingerprint();
        if let Some(known) = all.iter().position(same) {
            return Ok(known);
        }
        all.push(new);
        Ok(all.len() - 1)
    }

    /// What a plan of a candidate is worth that takes so much: more where durations are guesses.
    fn worth(&self, candidate: usize, takes: PerStep) -> f64 {
        let of = &self.choices.candidates[candidate];
        let guessed = of.durations.guessed(&of.lowered.graph) > 0;
        takes.cost(self.goal()) * if guessed { GUESS } else { 1.0 }
    }

    fn tell(&self, takes: PerStep) {
        let any_time = Goal {
            deadline: None,
            ..*self.goal()
        };
        self.options.progress.found(takes.cost(&any_time));
    }

    /// Keeps a plan if it is the best, by what is expected of its run.
    pub(super) fn offer(&mut self, candidate: usize, mut file: PlanFile) {
        let of = &self.choices.candidates[candidate];
        match of.expected(&file) {
            Ok(expected) => file.expected = Some(expected),
            Err(error) => self.warning = Some(format!("what a run takes is unknown: {error}")),
        }
        let (seconds, joules) = file.per_step();
        let takes = PerStep {
            seconds: Seconds(seconds),
            joules: Joules(joules),
        };
        // One that nothing is expected of only if there is no other.
        let cost = match file.expected {
            Some(_) => self.worth(candidate, takes),
            None => f64::INFINITY,
        };
        if self.best.as_ref().is_none_or(|b| cost < b.cost) {
            self.tell(takes);
            self.best = Some(Found {
                candidate,
                file,
                cost,
            });
        }
    }

    /// Keeps a simple choice as a plan if it is cheaper than all that have an order, and than the one that is kept.
    pub(super) fn leave_to(&mut self, rival: &Rival) {
        let Some(expected) = &rival.expected else {
            return;
        };
        let (candidate, takes) = (rival.choice.candidate, PerStep::of(expected));
        let cost = self.worth(candidate, takes);
        let least = cost * (1.0 + ROUNDING);
        if cost.is_infinite() || self.chosen().is_some_and(|c| c.cost <= least) {
            return;
        }
        let of = &self.choices.candidates[candidate];
        let target = of.target(&self.machine.machine.name, self.goal());
        let file = target
            .ok()
            .and_then(|t| rival.choice.file(of, self.machine, t));
        if let Some(mut file) = file {
            file.expected = Some(expected.clone());
            self.tell(takes);
            self.left = Some(Found {
                candidate,
                file,
                cost,
            });
        }
    }

    /// The best of all plans; one with an order if a policy is no cheaper.
    pub(super) fn chosen(&self) -> Option<&Found> {
        let both = self.best.iter().chain(&self.left);
        both.min_by(|a, b| a.cost.total_cmp(&b.cost))
    }

    /// The same, for good.
    pub(super) fn take(&mut self) -> Option<Found> {
        let both = self.best.take().into_iter().chain(self.left.take());
        both.min_by(|a, b| a.cost.total_cmp(&b.cost))
    }

    /// Plans what a choice did, step by step.
    pub(super) fn adopt(&mut self, choice: &Choice) {
        let of = &self.choices.candidates[choice.candidate];
        let all = choice.orders(of, self.machine);
        let cost = |orders: &Orders| {
            let takes = of.follow(orders);
            takes.map_or(f64::INFINITY, |t| t.cost(self.goal()))
        };
        let costs: Vec<f64> = all.iter().map(cost).collect();
        let best = (0..all.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]));
        if let Some(best) = best {
            self.offer_orders(choice.candidate, &all[best]);
        }
    }

    fn offer_orders(&mut self, candidate: usize, orders: &Orders) {
        let of = &self.choices.candidates[candidate];
        let Ok(target) = of.target(&self.machine.machine.name, self.goal()) else {
            return;
        };
        if let Some(file) = of.file(target, orders) {
            self.offer(candidate, file);
        }
    }

    /// Changes the best plan as long as that helps and it costs more than what is enough. Says whether another round may
    /// help, too: there is time, something to change, and more than enough.
    pub(super) fn improve(
        &mut self,
        enough: f64,
        round: u64,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> bool {
        let Some(best) = &self.best else { return false };
        let candidate = best.candidate;
        let mut orders = best.orders();
        let of = &self.choices.candidates[candidate];
        let goal = *self.goal();
        let units = &of.durations.machine.units;
        let rigid = units.len() < 2 && units.iter().all(|u| u.states.is_empty());
        let Some(before) = of.follow(&orders).map(|t| t.cost(&goal)) else {
            return false;
        };
        if rigid || before <= enough || !keep_going() {
            return false;
        }
        let limits = (enough, self.options.seed.wrapping_add(round));
        if improve(of, &goal, &mut orders, before, limits, keep_going) < before {
            self.offer_orders(candidate, &orders);
        }
        keep_going()
    }

    /// Plans a grain by the equations.
    pub(super) fn solve(
        &mut self,
        grain: &Grain,
        explain: bool,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> Result<(), TuneError> {
        let c = self.candidate(grain)?;
        let of = &self.choices.candidates[c];
        let limits = dahl_plan::Limits {
            explain,
            // What it says there is of a step alone.
            progress: None,
            ..self.options.limits()
        };
        let goal = *self.goal();
        let solution = contender::solve(
            of,
            &goal,
            limits,
            self.options.pipeline.as_ref(),
            keep_going,
        )?;
        let file = contender::file(of, &self.machine.machine.name, &goal, &solution)?;
        self.offer(c, file);
        Ok(())
    }
}
