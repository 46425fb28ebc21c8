//! Who waits for whom, and under which conditions: `to ≥ from + by` if some choices are made.
//!
//! Where all conditions hold, bounds follow. Where all but one do and the bounds contradict the arc, the
//! last one is false.

use super::trail::{Conflict, Fact, Trail, Var};

/// Most conditions of an arc.
const CONDITIONS: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Arc {
    from: Var,
    to: Var,
    by: i64,
    count: u8,
    conditions: [Fact; CONDITIONS],
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
    pub fn add(&mut self, from: Var, to: Var, by: i64, conditions: &[Fact]) {
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
    pub fn begin(&mut self, trail: &mut Trail) -> Result<(), Conflict> {
        let fresh = std::mem::replace(&mut self.fresh, self.all.len());
        self.all[fresh..].iter().try_for_each(|a| check(a, trail))
    }

    /// What follows from a bound that was raised.
    pub fn raised(&self, trail: &mut Trail, var: Var) -> Result<(), Conflict> {
        let woken = self.woken.get(var.index()).into_iter().flatten();
        woken
            .map(|&a| &self.all[a as usize])
            .try_for_each(|a| check(a, trail))
    }
}

fn check(arc: &Arc, trail: &mut Trail) -> Result<(), Conflict> {
    let conditions = &arc.conditions[..usize::from(arc.count)];
    let mut open = None;
    for (k, &c) in conditions.iter().enumerate() {
        if !trail.holds(c) {
            if open.is_some() || trail.fails(c) {
                return Ok(());
            }
            open = Some(k);
        }
    }
    let from = trail.least(arc.from);
    let least = from + arc.by;
    let mut because = [arc.from.at_least(from); CONDITIONS + 1];
    match open {
        None => {
            if trail.least(arc.to) >= least {
                return Ok(());
            }
            because[1..=conditions.len()].copy_from_slice(conditions);
            trail.follow(arc.to.at_least(least), &because[..=conditions.len()])
        }
        Some(k) => {
            if trail.most(arc.to) >= least {
                return Ok(());
            }
            because[1..=conditions.len()].copy_from_slice(conditions);
            // In place of the open one: what it would contradict.
            because[1 + k] = arc.to.at_most(least - 1);
            trail.follow(!conditions[k], &because[..=conditions.len()])
        }
    }
}
