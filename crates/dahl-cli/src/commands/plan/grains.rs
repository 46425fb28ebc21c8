//! How layers are cut into tasks, chosen by planning: several cuts of the whole model first, then layer
//! by layer.
//!
//! Every cut is lowered and planned with little effort. The grain is part of what is computed, so the plan
//! names it.

use anyhow::Context;
use dahl_core::{DType, Machine};
use dahl_nn::lower::grain::{Grain, Parts};
use dahl_nn::model::Model;
use dahl_sched::model::PerfModel;
use dahl_sched::plan::lowered::Lowered;
use dahl_sched::plan::problem::{Goal, Objective, PlanError};
use dahl_sched::plan::solve::{Effort, solve};
use dahl_sched::sim::Times;

use crate::commands::simulate::{Step, StepOptions, lowered};

/// What all cuts share.
pub struct Lowering<'a> {
    pub model: &'a Model,
    pub machine: &'a Machine,
    pub batch: usize,
    pub dtype: DType,
    pub known: Option<PerfModel>,
    pub assume: bool,
    pub step: &'a StepOptions,
}

/// One cut.
pub struct Candidate {
    pub grain: Grain,
    pub step: Step,
    pub times: Times,
    pub lowered: Lowered,
}

impl Lowering<'_> {
    /// Lowers the model with a grain.
    pub fn one(&self, grain: &Grain) -> anyhow::Result<Candidate> {
        let step = lowered(
            self.model,
            self.batch,
            self.dtype,
            grain,
            self.machine,
            self.step,
        )?;
        let times = Times::estimate(&step.graph, self.machine, self.known.as_ref(), self.assume)?;
        let lowered = Lowered::new(&step.graph, self.machine, &times);
        Ok(Candidate {
            grain: grain.clone(),
            step,
            times,
            lowered,
        })
    }

    /// Lowers and plans, with little effort.
    fn tried(&self, grain: &Grain, goal: &Goal) -> anyhow::Result<(f64, Candidate)> {
        let candidate = self.one(grain)?;
        let effort = Effort {
            rounds: 30,
            bound_rounds: 60,
            exact: 0,
            ..Effort::default()
        };
        let problem = &candidate.lowered.problem;
        let cost = match solve(problem, goal, &effort, &mut || true) {
            Ok(solution) => solution.cost,
            // With more effort it may be in time: the faster, the likelier.
            Err(PlanError::Infeasible(_)) if goal.deadline.is_some() => {
                let fast = Goal {
                    objective: Objective::Time,
                    deadline: None,
                };
                1e30 * solve(problem, &fast, &effort, &mut || true)?.cost
            }
            Err(error) => return Err(error.into()),
        };
        Ok((cost, candidate))
    }
}

/// Tasks beyond which a cut is not looked at: planning would take longer than it saves.
const MOST_TASKS: usize = 20_000;

/// The best cut. Goes on looking while `keep_going` says so, but tries the whole-model cuts
/// in any case.
pub fn choose(
    lowering: &Lowering<'_>,
    goal: &Goal,
    keep_going: &mut dyn FnMut() -> bool,
) -> anyhow::Result<Candidate> {
    let mut best: Option<(f64, Candidate)> = None;
    let mut refused = None;
    let mut fixed: Option<(f64, Parts)> = None;
    for grain in whole(lowering) {
        if best.is_some() && !keep_going() {
            break;
        }
        match lowering.tried(&grain, goal) {
            Ok((cost, candidate)) if candidate.step.graph.len() <= MOST_TASKS => {
                if let Grain::Fixed(parts) = grain
                    && fixed.is_none_or(|f| cost < f.0)
                {
                    fixed = Some((cost, parts));
                }
                if best.as_ref().is_none_or(|b| cost < b.0) {
                    best = Some((cost, candidate));
                }
            }
            Ok(_) => {}
            // Another cut may fit where this one does not.
            Err(e) if e.downcast_ref::<PlanError>().is_some() => refused = Some(e),
            Err(e) => return Err(e),
        }
    }
    let Some(mut best) = best else {
        let too_many = || anyhow::anyhow!("every cut has more than {MOST_TASKS} tasks");
        let error = refused.unwrap_or_else(too_many);
        return Err(error).context("no cut of the layers can be planned");
    };
    if let Some((_, parts)) = fixed {
        by_layer(lowering, goal, parts, &mut best, keep_going);
    }
    Ok(best.1)
}

/// Cuts of the whole model: into parts of the batch and of the channels.
fn whole(lowering: &Lowering<'_>) -> Vec<Grain> {
    let mut all = vec![Grain::Auto];
    let most = (2 * lowering.machine.units.len()).clamp(4, 64);
    let mut sample = 1;
    while sample <= lowering.batch.min(most) {
        for channel in [1, 2] {
            all.push(Grain::Fixed(Parts {
                sample,
                channel,
                ..Parts::ONE
            }));
        }
        sample *= 2;
    }
    all
}

/// From a good cut of the whole model, each layer in turn is cut otherwise, and that is kept if it helps.
fn by_layer(
    lowering: &Lowering<'_>,
    goal: &Goal,
    parts: Parts,
    best: &mut (f64, Candidate),
    keep_going: &mut dyn FnMut() -> bool,
) {
    let mut now = vec![parts; lowering.model.layers.len()];
    let mut cost = f64::INFINITY;
    for layer in 0..now.len() {
        for part in [
            parts.sample / 2,
            parts.sample * 2,
            parts.sample / 4,
            parts.sample * 4,
        ] {
            if part == 0 || part > lowering.batch || !keep_going() {
                continue;
            }
            let mut next = now.clone();
            next[layer].sample = part;
            let Ok((found, candidate)) = lowering.tried(
                &Grain::Layers(next.iter().copied().map(Some).collect()),
                goal,
            ) else {
                continue;
            };
            // Layers that run as one follow the first of them: some cuts change nothing.
            if found < cost * (1.0 - 1e-9) && found <= best.0 {
                (cost, now) = (found, next);
                *best = (found, candidate);
            }
        }
    }
}

/// A grain for people: at most a few of its layers.
pub fn text(grain: &Grain) -> String {
    match grain {
        Grain::Layers(all) => {
            let mut kinds = all.clone();
            kinds.sort_unstable();
            kinds.dedup();
            format!("by layer, {} kinds", kinds.len())
        }
        other => other.to_string(),
    }
}
