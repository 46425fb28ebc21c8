//! Builds the [`Model`] of a problem: its tasks, and what units and links have to do. Transfers and copies are added
//! by [`transfers`](super::transfers).

use super::arcs::Arcs;
use super::clauses::Clauses;
use super::cuts::budget;
use super::energetic::{Demand, Energetic};
use super::model::{Chosen, Crossing, Cumulative, If, Model, Span};
use super::symmetry::columns_of;
use super::trail::{Conflict, Literal, Trail, Var};
use crate::network::{ExecMode, Frame};
use crate::problem::Goal;

/// Ticks of everything done one after the other.
pub(super) const TICKS: i64 = 1 << 40;

/// A model that is being made.
pub(super) struct Builder<'f, 'p> {
    pub frame: &'f Frame<'p>,
    pub model: Model,
    /// For each task and memory whether it runs there; outer none if it cannot.
    pub places: Vec<Vec<Option<If>>>,
    /// For each group of units, who may run there: task, and whether it does.
    groups: Vec<Vec<(u32, If)>>,
    /// The first moment, and the last.
    pub beginning: Var,
    pub end: Var,
}

/// All plans of a problem, with prices found in so many rounds.
pub(super) fn build(
    frame: &Frame<'_>,
    goal: &Goal,
    rounds: usize,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Model, Conflict> {
    let p = frame.problem;
    let longest = |c: &u32| {
        let seconds = frame.modes[*c as usize].iter().map(|w| w.seconds);
        seconds.fold(0.0, f64::max)
    };
    let mut total: f64 = p.tasks.iter().map(longest).sum();
    for d in &p.data {
        total += p.links.iter().map(|l| l.seconds(d.bytes)).sum::<f64>();
    }
    // So that rounding leaves room even for the longest plan.
    total *= 1.001;
    let mut trail = Trail::default();
    let mut maker = Builder {
        beginning: trail.number(0, 0),
        end: trail.number(TICKS, TICKS),
        model: Model {
            budget: budget(frame, goal, (total, rounds), &mut trail, keep_going),
            trail,
            clauses: Clauses::default(),
            arcs: Arcs::default(),
            works: Vec::new(),
            orders: Vec::new(),
            tasks: Vec::new(),
            crossings: Vec::new(),
            cumulatives: Vec::new(),
        },
        frame,
        places: Vec::new(),
        groups: vec![Vec::new(); p.groups.len()],
    };
    for t in 0..p.tasks.len() {
        maker.task(t)?;
    }
    for &(a, b) in &frame.edges {
        let spans = &maker.model.tasks;
        let (before, after) = (spans[a as usize].0, spans[b as usize].0);
        maker.model.arcs.add(before.end, after.start, 0, &[]);
    }
    maker.data()?;
    maker.works();
    maker.columns();
    Ok(maker.model)
}

impl Builder<'_, '_> {
    /// Rounded down: no plan takes less.
    pub(super) fn ticks(&self, seconds: f64) -> i64 {
        (seconds * self.model.budget.ticks).floor() as i64
    }

    /// Something that takes time.
    pub(super) fn span(&mut self, here: If) -> Span {
        Span {
            start: self.model.trail.number(0, TICKS),
            end: self.model.trail.number(0, TICKS),
            here,
        }
    }

    /// That one of some literals is so, of `all` of which one is.
    fn any(&mut self, literals: &[If], all: usize) -> Result<If, Conflict> {
        match literals {
            _ if literals.len() == all => Ok(None),
            [one] => Ok(*one),
            _ => {
                let any = self.model.choice();
                let mut clause = vec![!any];
                for literal in literals.iter().flatten() {
                    self.require(vec![!*literal, any])?;
                    clause.push(*literal);
                }
                self.require(clause)?;
                Ok(Some(any))
            }
        }
    }

    pub(super) fn require(&mut self, literals: Vec<Literal>) -> Result<(), Conflict> {
        let m = &mut self.model;
        m.clauses.require(&mut m.trail, literals)
    }

    fn task(&mut self, t: usize) -> Result<(), Conflict> {
        let p = self.frame.problem;
        let modes = &self.frame.modes[p.tasks[t] as usize];
        let heres = self.one_of(modes.len())?;
        let span = self.span(None);
        let shortest = modes
            .iter()
            .map(|w| w.seconds)
            .fold(f64::INFINITY, f64::min);
        let shortest = self.ticks(shortest);
        self.model.arcs.add(span.start, span.end, shortest, &[]);
        for (w, here) in modes.iter().zip(&heres) {
            if let Some(here) = *here {
                let time = self.ticks(w.seconds);
                self.model.arcs.add(span.start, span.end, time, &[here]);
            }
        }
        let end = self.model.budget.end;
        self.model.arcs.add(span.end, end, 0, &[]);
        for (price, &here) in self.model.budget.tasks[t].iter_mut().zip(&heres) {
            price.here = here;
        }
        let chosen = |(mode, (w, &here)): (usize, (&ExecMode, &If))| Chosen {
            here,
            group: usize::from(w.resource),
            mode,
        };
        let chosen: Vec<Chosen> = modes.iter().zip(&heres).enumerate().map(chosen).collect();
        let on = |is_there: &dyn Fn(usize) -> bool| -> Vec<If> {
            let there = chosen.iter().filter(|c| is_there(c.group));
            there.map(|c| c.here).collect()
        };
        for g in 0..p.groups.len() {
            let on = on(&|group| group == g);
            if !on.is_empty() {
                let on = self.any(&on, heres.len())?;
                self.groups[g].push((t as u32, on));
            }
        }
        let mut places = Vec::new();
        for m in 0..p.memories.len() {
            let here = on(&|group| p.groups[group].memory == m);
            places.push(match here.is_empty() {
                true => None,
                false => Some(self.any(&here, heres.len())?),
            });
        }
        self.places.push(places);
        self.model.tasks.push((span, chosen));
        Ok(())
    }

    /// Facts of which exactly one will hold.
    fn one_of(&mut self, count: usize) -> Result<Vec<If>, Conflict> {
        if count == 1 {
            return Ok(vec![None]);
        }
        let first = self.model.choice();
        if count == 2 {
            return Ok(vec![Some(first), Some(!first)]);
        }
        let mut all = vec![first];
        for _ in 1..count {
            let next = self.model.choice();
            for &other in &all {
                self.require(vec![!next, !other])?;
            }
            all.push(next);
        }
        self.require(all.clone())?;
        Ok(all.into_iter().map(Some).collect())
    }

    /// What units and links have to do, and how many they are.
    fn works(&mut self) {
        let p = self.frame.problem;
        for (g, group) in p.groups.iter().enumerate() {
            let mut parts = Vec::new();
            for (t, (span, modes)) in self.model.tasks.iter().enumerate() {
                for w in modes.iter().filter(|w| w.group == g) {
                    let mode = &self.frame.modes[p.tasks[t] as usize][w.mode];
                    parts.push(Demand {
                        span: Span {
                            here: w.here,
                            ..*span
                        },
                        time: self.ticks(mode.seconds),
                    });
                }
            }
            self.model.works.push(Energetic::new(group.units, parts));
            let demands = self.groups[g].iter().map(|&(t, here)| {
                let span = self.model.tasks[t as usize].0;
                (Span { here, ..span }, 1)
            });
            let demands = demands.collect();
            self.model.cumulatives.push(Cumulative {
                limit: group.units as u64,
                demands,
            });
        }
        for (l, link) in p.links.iter().enumerate() {
            self.carries(link.channels, |c| c.link as usize == l);
        }
        for (s, shared) in p.shared.iter().enumerate() {
            let through = |c: &Crossing| p.links[c.link as usize].shared.contains(&s);
            self.carries(shared.at_once, through);
        }
    }

    /// Of some crossings, so many at once.
    fn carries(&mut self, at_once: usize, some: impl Fn(&Crossing) -> bool) {
        let p = self.frame.problem;
        let mine = self.model.crossings.iter().filter(|c| some(c));
        let time = |c: &Crossing| p.links[c.link as usize].seconds(p.data[c.datum as usize].bytes);
        let parts = mine.clone().map(|c| Demand {
            span: c.span,
            time: self.ticks(time(c)),
        });
        let parts = parts.collect();
        let demands = mine.map(|c| (c.span, 1)).collect();
        self.model.works.push(Energetic::new(at_once, parts));
        self.model.cumulatives.push(Cumulative {
            limit: at_once as u64,
            demands,
        });
    }

    /// Of columns that can change places, the first starts first.
    fn columns(&mut self) {
        let tasks = self.frame.problem.tasks.len();
        for group in columns_of(self.frame) {
            let starts: Vec<Var> = group
                .iter()
                .filter_map(|column| column.iter().find(|&&i| (i as usize) < tasks))
                .map(|&t| self.model.tasks[t as usize].0.start)
                .collect();
            for pair in starts.windows(2) {
                self.model.arcs.add(pair[0], pair[1], 0, &[]);
            }
        }
    }
}
