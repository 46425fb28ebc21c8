//! Branch and bound: decide, propagate, learn from conflicts, restart from time to time.

use super::analyse::{Analysis, Known};
use super::energetic::Scratch;
use super::model::{Model, Precedence};
use super::trail::{Conflict, Literal, Reason};
use crate::problem::Goal;

/// Conflicts between two restarts, the first time.
const RESTART: u64 = 100;

/// Learned clauses that are kept at first, and how many more after each restart.
const KEPT: usize = 3000;
const MORE: usize = 30;

/// Restarts between two that try to rule out cheap plans first.
const PROBES: u64 = 4;

/// Conflicts between two questions whether to go on, and decisions.
const ASKED: u64 = 8;
const DECIDED: u64 = 256;

/// A search.
pub(super) struct BranchAndBound {
    pub model: Model,
    analysis: Analysis,
    room: Scratch,
    /// Entries of the trail that have been followed up.
    followed: usize,
    /// Resources to look at again, and by number those that depend on it.
    stale: Vec<bool>,
    works_of: Vec<Vec<u16>>,
    /// Whether to look at the cost again, and by number whether that depends on it.
    unpriced: bool,
    priced: Vec<bool>,
    /// Conflicts so far, and when to begin anew.
    pub conflicts: u64,
    due: u64,
    restarts: u64,
    decisions: u64,
    /// When everything starts in a plan near which to look, by the number of its start; infinite or nothing if unknown.
    pub hinted: Vec<f64>,
    /// What part of the gap is to be ruled out first, and the cost tried.
    cumulative: f64,
    tried: Option<Literal>,
}

/// How far a search has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There is a plan.
    Complete,
    /// There is none.
    Nothing,
    /// It was told to stop.
    Stopped,
}

impl BranchAndBound {
    /// Nothing is decided.
    pub(super) fn new(model: Model) -> Self {
        let mut works_of = vec![Vec::new(); model.trail.numbers()];
        for (w, energetic) in model.works.iter().enumerate() {
            for var in energetic.numbers() {
                works_of[var.index()].push(w as u16);
            }
        }
        let mut priced = vec![false; model.trail.numbers()];
        for var in model.budget.numbers() {
            priced[var.index()] = true;
            priced[(!var).index()] = true;
        }
        BranchAndBound {
            unpriced: true,
            priced,
            stale: vec![true; model.works.len()],
            works_of,
            model,
            analysis: Analysis::default(),
            room: Scratch::default(),
            followed: 0,
            conflicts: 0,
            due: RESTART,
            restarts: 0,
            decisions: 0,
            hinted: Vec::new(),
            cumulative: 0.5,
            tried: None,
        }
    }

    /// No plan costs less than this.
    pub(super) fn floor(&mut self) -> f64 {
        self.model.trail.back_to(0);
        self.model.budget.floor(&self.model.trail)
    }

    /// Plans that cost this or are late are of no interest any more.
    pub(super) fn limit(&mut self, limit: f64, goal: &Goal) -> Result<(), Conflict> {
        self.restart();
        let m = &mut self.model;
        if limit.is_finite() {
            m.trail.follow(m.budget.below(limit), &[])?;
        }
        let latest = goal.deadline.unwrap_or(f64::INFINITY) * (1.0 + 1e-9) * m.budget.ticks;
        if latest < m.trail.most(m.budget.end) as f64 {
            m.trail.follow(m.budget.end.at_most(latest as i64), &[])?;
        }
        Ok(())
    }

    /// Searches until there is a plan, or something to say.
    pub(super) fn step(&mut self, keep_going: &mut dyn FnMut() -> bool) -> Step {
        loop {
            let mut result = self.propagate();
            if result.is_ok() {
                if self.conflicts >= self.due {
                    self.begin_anew();
                    continue;
                }
                self.decisions += 1;
                if self.decisions.is_multiple_of(DECIDED) && !keep_going() {
                    return Step::Stopped;
                }
                if let Some(literal) = self.choose() {
                    self.model.trail.decide(literal);
                    continue;
                }
                result = match self.resolve_resource_conflicts() {
                    Ok(true) => continue,
                    Ok(false) => return Step::Complete,
                    Err(conflict) => Err(conflict),
                };
            }
            if result.is_err() {
                self.conflicts += 1;
                if !self.learn() {
                    return Step::Nothing;
                }
                if self.conflicts.is_multiple_of(ASKED) && !keep_going() {
                    return Step::Stopped;
                }
            }
        }
    }

    /// Finds all that follows.
    fn propagate(&mut self) -> Result<(), Conflict> {
        let m = &mut self.model;
        m.arcs.begin(&mut m.trail)?;
        loop {
            while let Some(entry) = m.trail.entries.get(self.followed) {
                let var = entry.literal.var;
                self.followed += 1;
                self.unpriced |= self.priced.get(var.index()).is_some_and(|&p| p);
                for &w in self.works_of.get(var.index()).into_iter().flatten() {
                    self.stale[usize::from(w)] = true;
                }
                m.clauses.raised(&mut m.trail, var)?;
                m.arcs.raised(&mut m.trail, var)?;
            }
            if std::mem::take(&mut self.unpriced) {
                m.budget.check(&mut m.trail)?;
            }
            if self.followed < m.trail.entries.len() {
                continue;
            }
            let Some(w) = self.stale.iter().position(|&s| s) else {
                return Ok(());
            };
            self.stale[w] = false;
            m.works[w].check(&mut m.trail, &mut self.room)?;
        }
    }

    /// Learns from a conflict and goes back to where that says something new. False if it needs no decision:
    /// there is nothing left to find.
    fn learn(&mut self) -> bool {
        let m = &mut self.model;
        let known = Known {
            clauses: &m.clauses,
            arcs: &m.arcs,
        };
        let Some(learned_clause) = self.analysis.learned_clause(&m.trail, known) else {
            return false;
        };
        // What followed there had been found before it was left: nothing is stale but by what is new.
        m.trail.back_to(learned_clause.level);
        self.followed = self.followed.min(m.trail.entries.len());
        let first = learned_clause.literals[0];
        if learned_clause.literals.len() == 1 {
            return m.trail.follow(first, &[]).is_ok();
        }
        let clause = m
            .clauses
            .learn(&m.trail, learned_clause.literals, learned_clause.spread);
        m.trail.enter(first, Reason::Clause(clause));
        true
    }

    fn restart(&mut self) {
        self.model.trail.back_to(0);
        self.followed = self.followed.min(self.model.trail.entries.len());
    }

    /// Begins anew with what was learned; now and then by trying to rule out cheap plans, which raises the floor
    /// even if the search is stopped.
    fn begin_anew(&mut self) {
        self.restart();
        self.restarts += 1;
        self.due = self.conflicts + RESTART * luby(self.restarts);
        let m = &mut self.model;
        m.clauses
            .forget(&m.trail, KEPT + MORE * self.restarts as usize);
        if let Some(tried) = self.tried.take() {
            self.cumulative = match m.trail.fails(tried) {
                true => (self.cumulative * 1.5).min(0.9),
                false => self.cumulative * 0.5,
            };
        }
        if self.restarts.is_multiple_of(PROBES) {
            let cost = m.budget.cost;
            let (least, most) = (m.trail.least(cost), m.trail.most(cost));
            let literal = cost.at_most(least + ((most - least) as f64 * self.cumulative) as i64);
            if !m.trail.holds(literal) && !m.trail.fails(literal) {
                m.trail.decide(literal);
                self.tried = Some(literal);
            }
        }
    }

    /// The next decision: of those that are open, the one most often involved in conflicts lately.
    fn choose(&self) -> Option<Literal> {
        let trail = &self.model.trail;
        let mut best: Option<(f64, Literal)> = None;
        for prices in &self.model.budget.tasks {
            let open = prices
                .iter()
                .filter_map(|p| Some((p.here?, p.costs[self.model.budget.main])));
            let open = open.filter(|(f, _)| !trail.holds(*f) && !trail.fails(*f));
            let Some((literal, _)) = open.min_by(|a, b| a.1.total_cmp(&b.1)) else {
                continue;
            };
            let activity = self.analysis.activity(literal.var);
            if best.is_none_or(|b| activity > b.0) {
                best = Some((activity, trail.leaning(literal).unwrap_or(literal)));
            }
        }
        for order in &self.model.orders {
            let activity = self.analysis.activity(order.before.var);
            if best.is_none_or(|b| activity > b.0) && self.is_open(order) {
                let leaning = trail.leaning(order.before);
                best = Some((activity, leaning.unwrap_or(order.before)));
            }
        }
        best.map(|b| b.1)
    }

    /// Whether two that may not overlap do.
    fn is_open(&self, order: &Precedence) -> bool {
        let trail = &self.model.trail;
        let (a, b) = (&order.first, &order.second);
        let is_known = trail.holds(order.before) || trail.fails(order.before);
        !is_known && a.overlaps(b, trail) && a.is_certain(trail) && b.is_certain(trail)
    }
}

/// 1 1 2 1 1 2 4 …: the sequence of lengths that wastes least when nobody knows how long is needed.
fn luby(mut i: u64) -> u64 {
    loop {
        let bits = u64::BITS - i.leading_zeros();
        if i + 1 == 1 << bits {
            return 1 << (bits - 1);
        }
        i -= (1 << (bits - 1)) - 1;
    }
}
