//! How layers are cut into tasks, chosen by planning: cuts of the whole batch first, then the other
//! dimensions of the whole model, then layer by layer along all four dimensions.
//!
//! Every cut is lowered and planned with little effort. The grain is part of what is computed, so the plan
//! names it.

use std::collections::HashSet;

use anyhow::Context;
use dahl_core::{DType, Machine};
use dahl_nn::lower::grain::{Grain, Parts};
use dahl_nn::model::Model;
use dahl_plan::GraphProblem;
use dahl_plan::{Goal, Objective, PlanError};
use dahl_plan::{Limits, plan};
use dahl_sched::model::PerfModel;
use dahl_sim::Times;

use crate::commands::rhythm;
use crate::commands::simulate::{StepOptions, lowered, paced};

/// What all cuts share.
pub struct Lowering<'a> {
    pub model: &'a Model,
    pub machine: &'a Machine,
    pub batch: usize,
    pub dtype: DType,
    pub known: Option<PerfModel>,
    /// Whether durations are those that were measured of the machine itself.
    pub own: bool,
    pub assume: bool,
    pub step: &'a StepOptions,
}

/// One cut.
pub struct Candidate {
    pub grain: Grain,
    pub step: dahl_nn::step::Lowered,
    /// Durations, with what following a plan adds.
    pub times: Times,
    /// The machine, with what following a plan adds.
    pub paced: Machine,
    /// What that is, if it was measured.
    pub adds: Option<rhythm::Expected>,
    pub lowered: GraphProblem,
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
        let graph = &*step.graph;
        let mut times = Times::estimate(graph, self.machine, self.known.as_ref(), self.assume)?;
        let (paced, adds) = paced(self.own, self.machine, &mut times, "plan", graph)?;
        let lowered = GraphProblem::new(graph, &paced, &times);
        Ok(Candidate {
            grain: grain.clone(),
            step,
            times,
            paced,
            adds,
            lowered,
        })
    }
}

/// What a cut costs when it is planned with little effort.
fn tried(candidate: &Candidate, goal: &Goal) -> Result<f64, PlanError> {
    let limits = Limits {
        rounds: 30,
        bound_iterations: 60,
        exact_tasks: 0,
        ..Limits::default()
    };
    let problem = &candidate.lowered.problem;
    let cost = |goal: &Goal| plan(problem, goal, &limits, &mut || true).map(|s| s.cost);
    if goal.deadline.is_none() {
        return cost(goal);
    }
    // Whether it can be in time is told sooner by the fastest plan than by looking for another one in vain. With more
    // effort it may be in time after all: the faster, the likelier.
    let seconds = cost(&Goal {
        objective: Objective::Time,
        deadline: None,
    })?;
    let late = 1e30 * seconds;
    if !goal.in_time(seconds) {
        return Ok(late);
    }
    let quiet = Limits {
        explain: false,
        ..limits
    };
    let found = plan(problem, goal, &quiet, &mut || true);
    Ok(found.map_or(late, |s| s.cost))
}

/// Tasks beyond which a cut is not looked at: planning would take longer than it saves.
const MOST_TASKS: usize = 20_000;

/// The best cut. Goes on looking while `keep_going` says so, but tries one cut in any case.
pub fn choose(
    lowering: &Lowering<'_>,
    goal: &Goal,
    keep_going: &mut dyn FnMut() -> bool,
) -> anyhow::Result<Candidate> {
    let mut search = Search {
        lowering,
        goal,
        seen: HashSet::new(),
        best: None,
        refused: None,
    };
    for grain in whole(lowering) {
        if search.best.is_some() && !keep_going() {
            break;
        }
        search.improves(&grain)?;
    }
    // The other dimensions, from the best cut of the batch.
    while let Some(Grain::Fixed(parts)) = search.grain() {
        let mut moved = false;
        for next in neighbours(parts, lowering.batch) {
            moved |= keep_going() && search.improves(&Grain::Fixed(next))?;
        }
        if !moved {
            break;
        }
    }
    if let Some(grain) = search.grain() {
        search.by_layer(grain, keep_going)?;
    }
    let Some((_, best)) = search.best else {
        let too_many = || anyhow::anyhow!("every cut has more than {MOST_TASKS} tasks");
        let error = search.refused.unwrap_or_else(too_many);
        return Err(error).context("no cut of the layers can be planned");
    };
    Ok(best)
}

/// Cuts of the whole model into parts of the batch: those with few tasks first, which take little time to try.
fn whole(lowering: &Lowering<'_>) -> Vec<Grain> {
    let most = (2 * lowering.machine.units.len()).clamp(4, 64);
    let samples = std::iter::successors(Some(1), |s| Some(2 * s));
    let samples = samples.take_while(|&s| s <= lowering.batch.min(most));
    let fixed = |sample| {
        Grain::Fixed(Parts {
            sample,
            ..Parts::ONE
        })
    };
    samples.map(fixed).chain([Grain::Auto]).collect()
}

/// Most parts along a dimension other than the batch.
const MOST_PARTS: usize = 16;

/// The parts along one dimension of a cut.
type Dimension = fn(&mut Parts) -> &mut usize;

/// The same cut with twice or half as many parts along one dimension.
fn neighbours(parts: Parts, batch: usize) -> Vec<Parts> {
    let mut all = Vec::new();
    let dimensions: [(Dimension, usize); 4] = [
        (|p| &mut p.sample, batch),
        (|p| &mut p.channel, MOST_PARTS),
        (|p| &mut p.height, MOST_PARTS),
        (|p| &mut p.width, MOST_PARTS),
    ];
    for (dimension, most) in dimensions {
        let now = *dimension(&mut parts.clone());
        for n in [now / 2, now * 2] {
            if n > 0 && n <= most {
                let mut next = parts;
                *dimension(&mut next) = n;
                all.push(next);
            }
        }
    }
    all
}

/// What was found so far.
struct Search<'a, 'l> {
    lowering: &'a Lowering<'l>,
    goal: &'a Goal,
    /// Fingerprints of graphs that were planned: extents bound cuts, and layers that run as one follow the
    /// first of them, so many cuts give the same graph.
    seen: HashSet<u64>,
    best: Option<(f64, Candidate)>,
    refused: Option<anyhow::Error>,
}

impl Search<'_, '_> {
    fn grain(&self) -> Option<Grain> {
        self.best.as_ref().map(|b| b.1.grain.clone())
    }

    /// Plans another cut, unless its graph was planned before, and keeps it if it is better.
    fn improves(&mut self, grain: &Grain) -> anyhow::Result<bool> {
        let candidate = self.lowering.one(grain)?;
        let graph = &candidate.step.graph;
        if graph.len() > MOST_TASKS || !self.seen.insert(graph.fingerprint()) {
            return Ok(false);
        }
        let cost = match tried(&candidate, self.goal) {
            Ok(cost) => cost,
            // Another cut may fit where this one does not.
            Err(error) => {
                self.refused = Some(error.into());
                return Ok(false);
            }
        };
        let better = match &self.best {
            Some((best, _)) => cost < best * (1.0 - 1e-6),
            None => true,
        };
        if better {
            self.best = Some((cost, candidate));
        }
        Ok(better)
    }

    /// From a good cut of the whole model, each layer in turn is cut otherwise, as long as that helps.
    fn by_layer(
        &mut self,
        from: Grain,
        keep_going: &mut dyn FnMut() -> bool,
    ) -> anyhow::Result<()> {
        let layers = self.lowering.model.layers.len();
        let mut now: Vec<Option<Parts>> = match from {
            Grain::Fixed(parts) => vec![Some(parts); layers],
            Grain::Auto => vec![None; layers],
            Grain::Layers(all) => all,
        };
        let mut moved = true;
        while std::mem::take(&mut moved) {
            for layer in 0..now.len() {
                let next = match now[layer] {
                    Some(parts) => neighbours(parts, self.lowering.batch),
                    None => vec![Parts::ONE],
                };
                for parts in next {
                    if !keep_going() {
                        return Ok(());
                    }
                    let old = now[layer].replace(parts);
                    if self.improves(&Grain::Layers(now.clone()))? {
                        moved = true;
                    } else {
                        now[layer] = old;
                    }
                }
            }
        }
        Ok(())
    }
}
