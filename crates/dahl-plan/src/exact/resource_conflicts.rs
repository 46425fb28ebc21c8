//! Resource-conflict detection: activities that overlap although together they take more than there is.
//!
//! Where everything that is decided starts as early as it can, too many tasks may overlap on a group of equal
//! units, transfers on a link, or copies in a memory: a minimal forbidden set. Then one of them ends before another
//! starts. That is a clause, and its precedences are choices from then on.

use super::model::{Cumulative, Precedence, Span};
use super::search::BranchAndBound;
use super::trail::{Conflict, Literal, Trail};

impl BranchAndBound {
    /// Puts conflict sets apart; false if there are none.
    pub(super) fn resolve_resource_conflicts(&mut self) -> Result<bool, Conflict> {
        let trail = &self.model.trail;
        let conflict_sets = self
            .model
            .cumulatives
            .iter()
            .filter_map(|s| conflict_set(trail, s));
        let conflict_sets: Vec<Vec<Span>> = conflict_sets.collect();
        conflict_sets
            .iter()
            .try_for_each(|conflict_set| self.spread(conflict_set))?;
        Ok(!conflict_sets.is_empty())
    }

    /// Of a conflict set, one goes before another.
    fn spread(&mut self, conflict_set: &[Span]) -> Result<(), Conflict> {
        let mut clause: Vec<Literal> = conflict_set
            .iter()
            .filter_map(|s| s.here)
            .map(|h| !h)
            .collect();
        for (k, &a) in conflict_set.iter().enumerate() {
            for &b in &conflict_set[..k] {
                let (one, other) = (self.before(a, b)?, self.before(b, a)?);
                clause.extend([one, other]);
            }
        }
        let m = &mut self.model;
        m.clauses.require(&mut m.trail, clause)
    }

    /// That one goes before another, which then does not go before it.
    fn before(&mut self, first: Span, second: Span) -> Result<Literal, Conflict> {
        let hinted = |s: &Span| self.hinted.get(s.start.index()).copied();
        let hinted = (hinted(&first), hinted(&second));
        let m = &mut self.model;
        let known = |a: Span, b: Span| {
            let mut orders = m.orders.iter();
            let order = orders.find(|o| (o.first, o.second) == (a, b));
            order.map(|o| o.before)
        };
        if let Some(before) = known(first, second) {
            return Ok(before);
        }
        let reverse = known(second, first);
        let before = m.choice();
        m.put(first, second, before);
        let earlier = match hinted {
            (Some(a), Some(b)) if a != b => a < b,
            _ => m.trail.least(first.start) <= m.trail.least(second.start),
        };
        m.trail.set_phase(if earlier { before } else { !before });
        m.orders.push(Precedence {
            before,
            first,
            second,
        });
        if let Some(reverse) = reverse {
            // Or both would push each other later, little by little, until it is too late.
            m.clauses.require(&mut m.trail, vec![!before, !reverse])?;
        }
        Ok(before)
    }
}

/// The first set that is too much at once, as small as can be.
fn conflict_set(trail: &Trail, cumulative: &Cumulative) -> Option<Vec<Span>> {
    let is_there = |t: &&(Span, u64)| {
        let lasts = trail.least(t.0.start) < trail.least(t.0.end);
        lasts && t.0.is_certain(trail)
    };
    let mut demands: Vec<(Span, u64)> = cumulative
        .demands
        .iter()
        .filter(is_there)
        .copied()
        .collect();
    demands.sort_by_key(|t| trail.least(t.0.start));
    for (k, &(last, mut taken)) in demands.iter().enumerate() {
        // All of these go on when the last one starts.
        let mut others: Vec<(Span, u64)> = demands[..k].to_vec();
        others.retain(|t| t.0.overlaps(&last, trail));
        // Who takes most goes first: fewer are needed for too much.
        others.sort_by_key(|t| std::cmp::Reverse(t.1));
        let mut conflict_set = vec![last];
        for (span, takes) in others {
            if taken > cumulative.limit {
                break;
            }
            conflict_set.push(span);
            taken += takes;
        }
        if taken > cumulative.limit {
            return Some(conflict_set);
        }
    }
    None
}
