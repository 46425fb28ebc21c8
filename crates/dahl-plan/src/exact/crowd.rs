//! Crowds: what goes on at once although together it takes more than there is.
//!
//! Where everything that is decided starts as early as it can, too many tasks may overlap on a group of equal
//! units, transfers on a link, or copies in a memory. Then one of them ends before another starts: that is a clause,
//! and its orders are choices from then on.

use super::model::{Order, Share, Span};
use super::search::Search;
use super::trail::{Conflict, Fact, Trail};

impl Search {
    /// Puts crowds apart; false if there are none.
    pub(super) fn spread_crowds(&mut self) -> Result<bool, Conflict> {
        let trail = &self.model.trail;
        let crowds = self.model.shares.iter().filter_map(|s| crowd(trail, s));
        let crowds: Vec<Vec<Span>> = crowds.collect();
        crowds.iter().try_for_each(|crowd| self.spread(crowd))?;
        Ok(!crowds.is_empty())
    }

    /// Of a crowd, one goes before another.
    fn spread(&mut self, crowd: &[Span]) -> Result<(), Conflict> {
        let mut clause: Vec<Fact> = crowd.iter().filter_map(|s| s.here).map(|h| !h).collect();
        for (k, &a) in crowd.iter().enumerate() {
            for &b in &crowd[..k] {
                let (one, other) = (self.before(a, b)?, self.before(b, a)?);
                clause.extend([one, other]);
            }
        }
        let m = &mut self.model;
        m.clauses.require(&mut m.trail, clause)
    }

    /// That one goes before another, which then does not go before it.
    fn before(&mut self, first: Span, second: Span) -> Result<Fact, Conflict> {
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
        m.trail.lean(if earlier { before } else { !before });
        m.orders.push(Order {
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
fn crowd(trail: &Trail, share: &Share) -> Option<Vec<Span>> {
    let is_there = |t: &&(Span, u64)| {
        let lasts = trail.least(t.0.start) < trail.least(t.0.end);
        lasts && t.0.is_certain(trail)
    };
    let mut takers: Vec<(Span, u64)> = share.takers.iter().filter(is_there).copied().collect();
    takers.sort_by_key(|t| trail.least(t.0.start));
    for (k, &(last, mut taken)) in takers.iter().enumerate() {
        // All of these go on when the last one starts.
        let mut others: Vec<(Span, u64)> = takers[..k].to_vec();
        others.retain(|t| t.0.overlaps(&last, trail));
        // Who takes most goes first: fewer are needed for too much.
        others.sort_by_key(|t| std::cmp::Reverse(t.1));
        let mut crowd = vec![last];
        for (span, takes) in others {
            if taken > share.limit {
                break;
            }
            crowd.push(span);
            taken += takes;
        }
        if taken > share.limit {
            return Some(crowd);
        }
    }
    None
}
