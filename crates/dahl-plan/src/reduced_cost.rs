//! Reduced-cost fixing: execution modes that no better plan can use, once a good plan is known.
//!
//! A plan that costs less than the incumbent can take only so long. A mode is out if it takes longer together with
//! the shortest paths before and after it, or if the lower bound plus its reduced cost reaches the incumbent's
//! cost. With fewer modes the bound rises and further modes go out. A mode is dropped for a class of tasks if it is
//! out for each of them.
//!
//! What is dropped may well be part of the incumbent: only better plans count.

use super::bound::{self, Bound, Cut, DualBound, PossibleTransfers};
use super::dispatch::reduced_costs;
use super::network::{ExecMode, Frame};
use super::problem::{Goal, Objective};

/// Most times that bound and modes are found again.
const ROUNDS: usize = 6;

/// The frame without such modes, and what bounds the plans that cost less than `limit`; `known` is the
/// frame's own bound, with its multipliers. `None` if a class is left without a mode: there is no such plan.
/// Stopped, it leaves modes that could go.
pub(crate) fn fix_modes<'p>(
    frame: &Frame<'p>,
    goal: &Goal,
    limit: f64,
    rounds: usize,
    known: (&Bound, &DualBound),
    keep_going: &mut dyn FnMut() -> bool,
) -> Option<(Frame<'p>, Bound)> {
    let mut frame = frame.clone();
    let carries = PossibleTransfers::new(&frame);
    let (mut bound, mut dual) = (known.0.clone(), known.1.clone());
    for _ in 0..ROUNDS {
        if !drop_modes(&mut frame, goal, limit, &bound, &dual) {
            break;
        }
        if frame.modes.iter().any(Vec::is_empty) {
            return None;
        }
        if !keep_going() {
            break;
        }
        let (next, prices) = bound::bound(&frame.relaxed(), &carries, goal, rounds, keep_going);
        // Fictitious play of limited length may find worse prices for a smaller problem.
        if next.cost > bound.cost {
            bound = next;
        }
        dual = prices;
    }
    Some((frame, bound))
}

/// Drops modes; whether there were any to drop.
fn drop_modes(
    frame: &mut Frame<'_>,
    goal: &Goal,
    limit: f64,
    bound: &Bound,
    dual: &DualBound,
) -> bool {
    let net = frame.relaxed();
    let least = bound::least_joules(&net);
    let longest = goal.longest(limit, net.standing_watts, least);
    let longest = longest.min(goal.deadline.unwrap_or(f64::INFINITY));
    let shortest = net.shortest();
    let (heads, tails) = (net.heads(&shortest), net.tails(&shortest));
    let joules = f64::from(u8::from(goal.objective != Objective::Time));
    let reduced_costs = reduced_costs(frame, dual, joules);
    let possible = |t: usize, k: usize, w: &ExecMode| {
        let seconds = heads[t] + w.seconds + tails[t];
        if seconds > longest * (1.0 + 1e-9) {
            return false;
        }
        let whole = dual.value + reduced_costs[t][k];
        let floor = match goal.objective {
            Objective::Time => whole,
            _ => goal.floor(
                bound.seconds.max(seconds),
                &[
                    Cut {
                        value: least,
                        price: 0.0,
                    },
                    Cut {
                        value: whole,
                        price: dual.price,
                    },
                ],
            ),
        };
        floor < limit
    };
    let mut tasks = vec![Vec::new(); frame.modes.len()];
    for (t, &class) in frame.problem.tasks.iter().enumerate() {
        tasks[class as usize].push(t);
    }
    let keep = |(class, modes): (usize, &Vec<ExecMode>)| -> Vec<ExecMode> {
        let all = &tasks[class];
        let some =
            |(k, w): &(usize, &ExecMode)| all.is_empty() || all.iter().any(|&t| possible(t, *k, w));
        let kept = modes.iter().enumerate().filter(some);
        kept.map(|(_, w)| *w).collect()
    };
    let modes: Vec<Vec<ExecMode>> = frame.modes.iter().enumerate().map(keep).collect();
    let dropped = modes != frame.modes;
    frame.modes = modes;
    dropped
}
