//! Ways that no better plan can use, once a good plan is known.
//!
//! A better plan than the best one known can take only so long. A way that takes longer together with
//! the shortest paths before and after it is out, and so is one that at the prices of the
//! bound makes the whole as dear as that plan. With fewer ways the bound rises and further ways
//! go out. A way is dropped for a class of tasks if it is out for each of them.
//!
//! What is dropped may well be part of the plan that is known: only better ones count.

use super::bound::{self, Bound, Carries, Game, Line};
use super::dispatch::regrets;
use super::network::{ExecMode, Frame};
use super::problem::{Goal, Objective};

/// Most times that bound and ways are found again.
const ROUNDS: usize = 6;

/// The frame without such ways, and what bounds the plans that cost less than `limit`; `known` is the
/// frame's own bound, with its prices. `None` if a class is left without a way: there is no such plan.
/// Stopped, it leaves ways that could go.
pub(crate) fn fix<'p>(
    frame: &Frame<'p>,
    goal: &Goal,
    limit: f64,
    rounds: usize,
    known: (&Bound, &Game),
    keep_going: &mut dyn FnMut() -> bool,
) -> Option<(Frame<'p>, Bound)> {
    let mut frame = frame.clone();
    let carries = Carries::new(&frame);
    let (mut bound, mut game) = (known.0.clone(), known.1.clone());
    for _ in 0..ROUNDS {
        if !drop_ways(&mut frame, goal, limit, &bound, &game) {
            break;
        }
        if frame.ways.iter().any(Vec::is_empty) {
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
        game = prices;
    }
    Some((frame, bound))
}

/// Drops ways; whether there were any to drop.
fn drop_ways(frame: &mut Frame<'_>, goal: &Goal, limit: f64, bound: &Bound, game: &Game) -> bool {
    let net = frame.relaxed();
    let least = bound::least_joules(&net);
    let longest = goal.longest(limit, net.standing_watts, least);
    let longest = longest.min(goal.deadline.unwrap_or(f64::INFINITY));
    let shortest = net.shortest();
    let (heads, tails) = (net.heads(&shortest), net.tails(&shortest));
    let joules = f64::from(u8::from(goal.objective != Objective::Time));
    let regrets = regrets(frame, game, joules);
    let possible = |t: usize, k: usize, w: &ExecMode| {
        let seconds = heads[t] + w.seconds + tails[t];
        if seconds > longest * (1.0 + 1e-9) {
            return false;
        }
        let whole = game.value + regrets[t][k];
        let floor = match goal.objective {
            Objective::Time => whole,
            _ => goal.floor(
                bound.seconds.max(seconds),
                &[
                    Line {
                        value: least,
                        price: 0.0,
                    },
                    Line {
                        value: whole,
                        price: game.price,
                    },
                ],
            ),
        };
        floor < limit
    };
    let mut tasks = vec![Vec::new(); frame.ways.len()];
    for (t, &class) in frame.problem.tasks.iter().enumerate() {
        tasks[class as usize].push(t);
    }
    let keep = |(class, ways): (usize, &Vec<ExecMode>)| -> Vec<ExecMode> {
        let all = &tasks[class];
        let some =
            |(k, w): &(usize, &ExecMode)| all.is_empty() || all.iter().any(|&t| possible(t, *k, w));
        let kept = ways.iter().enumerate().filter(some);
        kept.map(|(_, w)| *w).collect()
    };
    let ways: Vec<Vec<ExecMode>> = frame.ways.iter().enumerate().map(keep).collect();
    let dropped = ways != frame.ways;
    frame.ways = ways;
    dropped
}
