//! Proven best plans of small problems.
//!
//! Where all tasks run in one memory, or in either of two that are large enough, `layers` looks at partial
//! plans in the order of time; with two, the memory of each task and the transfers are among its choices
//! (`open`). Otherwise `places` tries memories task by task, and `layers` the rest.
//!
//! Nothing here guesses: when it is stopped it says so, and what it has found is not called a proof.

mod certificate;
mod compare;
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

/// If memories can be given to tasks in at most this many ways, each of them is searched by itself.
const DECIDED: usize = 600;

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
    solve_apart(frame, goal, beat, tolerance, DECIDED, keep_going)
}

/// The same, with each choice of memories searched by itself if there are at most `apart` of them: that
/// changes how long it takes, never what is found.
pub fn solve_apart(
    frame: &Frame<'_>,
    goal: &Goal,
    beat: f64,
    tolerance: f64,
    apart: usize,
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
    let mut memories: Vec<Vec<usize>> = (0..frame.problem.tasks.len())
        .map(|t| frame.memories_of(t))
        .collect();
    if memories.iter().all(|m| m.len() == 1) {
        let memory: Vec<usize> = memories.iter_mut().map(|m| m[0]).collect();
        result.close(frame, goal, memory, ROUNDS, tolerance, keep_going);
    } else if let Some(open) = Open::new(frame) {
        let facts = Facts::new(&open.net, *goal, ROUNDS, Some(&open));
        match open.decided(&facts, beat * (1.0 - tolerance), apart, keep_going) {
            // Bounds for one network alone are better than those for all of them.
            Some(mut all) => {
                all.sort_by(|a, b| a.0.total_cmp(&b.0));
                for (bound, memory) in all {
                    result.close(frame, goal, memory, FEWER_ROUNDS, tolerance, keep_going);
                    if !result.proven {
                        result.floor = bound;
                        break;
                    }
                }
            }
            // What is decided in the order of time finds good plans and raises the bound; where that
            // does not end, deciding memories first may.
            None => {
                let mut search = Layers::new(&facts, beat, tolerance, keep_going);
                search.widest = WIDEST_OPEN;
                search.run();
                result.take(search, |found| open.plan(frame, &found));
                if !result.proven {
                    let floor = result.floor;
                    result.proven = true;
                    result = places::search(frame, goal, result, tolerance, keep_going);
                    result.floor = floor;
                }
            }
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
