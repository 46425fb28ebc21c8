//! Who waits for whom, and under which conditions: `to ≥ from + by` if some choices are made.
//!
//! Where all conditions hold, bounds follow. Where all but one do and the bounds contradict the arc, the
//! last one is false.

use super::trail::{Conflict, Literal, Reason, Trail, Var};

/// Most conditions of an arc.
const CONDITIONS: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Arc {
    from: Var,
    to: Var,
    by: i64,
    count: u8,
    conditions: [Literal; CONDITIONS],
}

/// All arcs, each with its mirror image, which lowers upper bounds.
#[derive(Debug, Default)]
pub(super) struct Arcs {
    all: Vec<Arc>,
    /// By the numbers that may wake them.
    woken: Vec<Vec<u32>>,
    /// Those that were added since they were last looked at.
    fresh: usize,
}

impl Arcs {
    /// Adds `to ≥ from + by` under these conditions, at most four.
    pub(super) fn add(&mut self, from: Var, to: Var, by: i64, conditions: &[Literal]) {
        let mut all = [from.at_least(0); CONDITIONS];
        all[..conditions.len()].copy_from_slice(conditions);
        for (from, to) in [(from, to), (!to, !from)] {
            let id = self.all.len() as u32;
            self.all.push(Arc {
                from,
                to,
                by,
                count: conditions.len() as u8,
                conditions: all,
            });
            for var in conditions.iter().map(|c| c.var).chain([from]) {
                if self.woken.len() <= var.index() {
                    self.woken.resize(var.index() + 1, Vec::new());
                }
                self.woken[var.index()].push(id);
            }
        }
    }

    /// What follows from arcs that were added.
    pub(super) fn begin(&mut self, trail: &mut Trail) -> Result<(), Conflict> {
        let fresh = std::mem::replace(&mut self.fresh, self.all.len());
        (fresh..self.all.len()).try_for_each(|a| self.check(a as u32, trail))
    }

    /// What follows from a bound that was raised.
    pub(super) fn raised(&self, trail: &mut Trail, var: Var) -> Result<(), Conflict> {
        let mut woken = self.woken.get(var.index()).into_iter().flatten();
        woken.try_for_each(|&a| self.check(a, trail))
    }

    /// Facts from which it follows by an arc that its second number is at least this; no more than is needed for that.
    pub(super) fn reasons(&self, arc: u32, least: i64, mut each: impl FnMut(Literal)) {
        let arc = &self.all[arc as usize];
        each(arc.from.at_least(least - arc.by));
        arc.conditions().iter().for_each(|&c| each(c));
    }

    fn check(&self, id: u32, trail: &mut Trail) -> Result<(), Conflict> {
        let arc = &self.all[id as usize];
        let from = trail.least(arc.from);
        let least = from + arc.by;
        let needed = arc.to.at_least(least);
        if trail.holds(needed) {
            return Ok(());
        }
        let fails = trail.fails(needed);
        let conditions = arc.conditions();
        let mut open = None;
        for (k, &c) in conditions.iter().enumerate() {
            if !trail.holds(c) {
                // Of an open condition something follows only where the arc cannot be kept.
                if !fails || open.is_some() || trail.fails(c) {
                    return Ok(());
                }
                open = Some(k);
            }
        }
        if !fails {
            trail.enter(needed, Reason::Arc(id));
            return Ok(());
        }
        let mut because = [arc.from.at_least(from); CONDITIONS + 1];
        because[1..=conditions.len()].copy_from_slice(conditions);
        match open {
            None => trail.follow(needed, &because[..=conditions.len()]),
            Some(k) => {
                // In place of the open one: what it would contradict.
                because[1 + k] = arc.to.at_most(least - 1);
                trail.follow(!conditions[k], &because[..=conditions.len()])
            }
        }
    }
}

impl Arc {
    fn conditions(&self) -> &[Literal] {
        &self.conditions[..usize::from(self.count)]
    }
}
