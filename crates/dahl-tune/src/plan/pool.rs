//! Plans in competition: what a step of a run costs decides, whoever made the plan.
//!
//! Plans come from the planner's equations, from what simple choices did, and from changes of these. All are judged
//! alike, by the expected run. A grain whose durations were never measured has to be better by more than such guesses
//! are usually off.

use dahl_core::{Joules, Seconds};
use dahl_nn::lower::grain::Grain;
use dahl_plan::{Goal, Orders, PlanFile};

use super::candidate::{Candidate, PerStep};
use super::choices::{Choice, Choices};
use super::improve::improve;
use super::{PlanOptions, contender};
use crate::error::TuneError;
use crate::machine_model::MachineModel;

/// How much better a plan must be whose durations are guesses.
const GUESS: f64 = 1.15;

/// A plan, for which candidate it is, and what is known of it.
pub(super) struct Found {
    pub candidate: usize,
    pub file: PlanFile,
    pub cost: f64,
}

/// See the module.
pub(super) struct Pool<'a> {
    pub machine: &'a MachineModel,
    pub options: &'a PlanOptions,
    /// Candidates, and the choices that were tried with them.
    pub choices: Choices,
    pub best: Option<Found>,
    /// Why nothing is expected of a plan's run, where that is so.
    pub warning: Option<String>,
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
        let guessed = of.durations.guessed(&of.lowered.graph) > 0;
        let cost = takes.cost(self.goal()) * if guessed { GUESS } else { 1.0 };
        // One that nothing is expected of only if there is no other.
        let cost = if file.expected.is_some() {
            cost
        } else {
            f64::INFINITY
        };
        if self.best.as_ref().is_none_or(|b| cost < b.cost) {
            self.options.progress.found(takes.cost(&Goal {
                deadline: None,
                ..*self.goal()
            }));
            self.best = Some(Found {
                candidate,
                file,
                cost,
            });
        }
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

    /// Changes the best plan as long as that helps. Says whether another round may help, too: there is time, something to
    /// change, and a gap to the bound.
    pub(super) fn improve(
        &mut self,
        bound: f64,
        round: u64,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> bool {
        let Some(best) = &self.best else { return false };
        let candidate = best.candidate;
        let mut orders = Orders {
            units: best.file.orders(),
            states: best.file.states(),
        };
        let of = &self.choices.candidates[candidate];
        let goal = *self.goal();
        let units = &of.durations.machine.units;
        let rigid = units.len() < 2 && units.iter().all(|u| u.states.is_empty());
        let Some(before) = of.follow(&orders).map(|t| t.cost(&goal)) else {
            return false;
        };
        let enough = bound / (1.0 - self.options.gap.clamp(0.0, 0.99));
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
