//! Two open memories decided task by task, depth first; with all of them known, `layers` finds the rest.

use std::collections::HashSet;

use super::compare::Profile;
use super::facts::Facts;
use super::moment::Moment;
use super::open::Open;
use super::{Exact, FEWER_ROUNDS};
use crate::plan::network::Frame;

/// Searches all sides of all tasks.
pub(super) fn search(
    frame: &Frame<'_>,
    open: &Open,
    facts: &Facts<'_>,
    result: Exact,
    tolerance: f64,
    keep_going: &mut dyn FnMut() -> bool,
) -> Exact {
    let mut search = Deep {
        frame,
        open,
        facts,
        tolerance,
        seen: HashSet::new(),
        result,
        keep_going,
    };
    search.visit(&Moment::new(facts.of.len()), 0);
    search.result
}

struct Deep<'a, 'p> {
    frame: &'a Frame<'p>,
    open: &'a Open,
    facts: &'a Facts<'a>,
    tolerance: f64,
    /// Decisions that were looked at, by how many: with columns exchanged they look the same.
    seen: HashSet<(usize, [u128; 3])>,
    result: Exact,
    keep_going: &'a mut dyn FnMut() -> bool,
}

impl Deep<'_, '_> {
    /// Decides the sides of the tasks from the `depth`-th on, each after those it waits for.
    fn visit(&mut self, m: &Moment, depth: usize) {
        self.result.nodes += 1;
        self.result.proven &= (self.keep_going)();
        if !self.result.proven {
            return;
        }
        let Some(&task) = self.open.relaxed.topological.get(depth) else {
            let (memory, goal) = (self.open.memories(&m.on), self.facts.goal);
            let tolerance = self.tolerance;
            let going = &mut *self.keep_going;
            return self
                .result
                .close(self.frame, &goal, memory, FEWER_ROUNDS, tolerance, going);
        };
        let mut sides: Vec<(f64, Moment)> = Vec::new();
        for side in 0..2 {
            let mut next = m.clone();
            if self.open.bind(&mut next, task as usize, side) {
                sides.push((self.facts.bound(&next), next));
            }
        }
        // The better side first: what it leads to may rule the other out.
        sides.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut profile = Profile::default();
        for (bound, next) in sides {
            let limit = self.result.cost * (1.0 - self.tolerance);
            let key = self.facts.profile(&next, &mut profile);
            if bound < limit && self.seen.insert((depth, key)) {
                self.visit(&next, depth + 1);
            }
        }
    }
}
