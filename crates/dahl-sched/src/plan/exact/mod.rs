//! Proven best plans of small problems.
//!
//! Where all tasks run in one memory, or in either of two that are large enough, `layers` looks at partial
//! plans in the order of time; with two, the memory of each task and the transfers are among its choices
//! (`open`). That finds good plans and raises the bound; where it does not end, deciding all memories first may
//! (`deep`). Where memories are limited or there are more of them, `places` does that by simpler bounds.
//!
//! Nothing here guesses: when it is stopped it says so, and what it has found is not called a proof.

mod certificate;
mod compare;
mod deep;
mod facts;
mod layers;
mod moment;
mod open;
mod paths;
mod places;
mod prices;
mod room;
mod sides;
mod symmetry;
mod tolls;

use super::network::Frame;
use super::problem::Goal;
use super::timeline::Started;
use facts::Facts;
use layers::Layers;
use open::Open;

pub use moment::MOST;

/// Plans within this part of each other count as equal.
const SAME: f64 = 1e-9;

/// Rounds in which prices for bounds are found, where that is done once or often.
const ROUNDS: usize = 2000;
const FEWER_ROUNDS: usize = 80;

/// Width at which memories are no longer decided in the order of time.
const WIDEST_OPEN: usize = 320;

/// What an exact search found.
#[derive(Clone, Debug)]
pub struct Exact {
    /// The cost of the best plan known, whoever found it; infinite if there is none.
    pub cost: f64,
    /// If a plan better than the one to beat was found: each task's memory, and the plan.
    pub found: Option<(Vec<usize>, Vec<Started>)>,
    /// Whether nothing better exists, but for the tolerance.
    pub proven: bool,
    /// No plan costs less, whether proven or not; may be negative infinity.
    pub floor: f64,
    /// Nodes looked at.
    pub nodes: u64,
}

/// Looks for a plan that costs less than `beat`, which may be infinite, by more than the part `tolerance`,
/// until there is none or `keep_going` says no.
pub fn solve(
    frame: &Frame<'_>,
    goal: &Goal,
    beat: f64,
    tolerance: f64,
    keep_going: &mut dyn FnMut() -> bool,
) -> Exact {
    solve_within(frame, goal, beat, tolerance, WIDEST_OPEN, keep_going)
}

/// The same, where memories are open with a beam of at most this width in the order of time, 0 for none, before
/// memories are decided first: that changes how long it takes, never what is proven.
pub fn solve_within(
    frame: &Frame<'_>,
    goal: &Goal,
    beat: f64,
    tolerance: f64,
    widest: usize,
    keep_going: &mut dyn FnMut() -> bool,
) -> Exact {
    let tolerance = tolerance.max(SAME);
    let mut result = Exact {
        cost: beat,
        found: None,
        proven: true,
        floor: f64::NEG_INFINITY,
        nodes: 0,
    };
    let memories: Vec<Vec<usize>> = (0..frame.problem.tasks.len())
        .map(|t| frame.memories_of(t))
        .collect();
    if memories.iter().all(|m| m.len() == 1) {
        let memory = memories.concat();
        result.close(frame, goal, memory, ROUNDS, tolerance, keep_going);
    } else if let Some(open) = Open::new(frame) {
        let facts = Facts::new(&open.net, *goal, ROUNDS, Some(&open));
        if widest > 0 {
            let mut search = Layers::new(&facts, beat, tolerance, keep_going);
            search.widest = widest;
            search.run();
            result.take(search, |found| open.plan(frame, &found));
        }
        if !result.proven || widest == 0 {
            result.proven = true;
            let floor = result.floor;
            result = deep::search(frame, &open, &facts, result, tolerance, keep_going);
            result.floor = floor;
        }
    } else {
        result = places::search(frame, goal, result, tolerance, keep_going);
    }
    if result.proven {
        result.floor = result.cost * (1.0 - tolerance);
    }
    result
}

impl Exact {
    /// Searches the network in which each task runs in the memory given.
    fn close(
        &mut self,
        frame: &Frame<'_>,
        goal: &Goal,
        memory: Vec<usize>,
        rounds: usize,
        tolerance: f64,
        keep_going: &mut dyn FnMut() -> bool,
    ) {
        let Some(net) = frame.network(&memory) else {
            return;
        };
        if net.activities.len() > MOST {
            self.proven = false;
            return;
        }
        let facts = Facts::new(&net, *goal, rounds, None);
        let mut search = Layers::new(&facts, self.cost, tolerance, keep_going);
        search.run();
        self.take(search, |found| (memory, found.log));
    }

    /// Notes what a search found, as a plan by `of`.
    fn take(
        &mut self,
        mut search: Layers<'_, '_>,
        of: impl FnOnce(layers::Found) -> (Vec<usize>, Vec<Started>),
    ) {
        self.nodes += search.nodes;
        self.proven &= !search.stopped;
        self.floor = search.floor;
        if let Some(found) = search.found.take() {
            self.cost = search.best;
            self.found = Some(of(found));
        }
    }
}
