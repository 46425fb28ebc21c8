//! Ways that no better plan can use, once a good plan is known.
//!
//! A better plan than the best one known can take only so long. A way that takes longer together with
//! the shortest paths before and after it is out, and so is one that at the prices of the
//! bound makes the whole as dear as that plan. With fewer ways the bound rises and further ways
//! go out. A way is dropped for a class of tasks if it is out for each of them.
//!
//! What is dropped may well be part of the plan that is known: only better ones count.

use super::bound::{self, Bound, Carries, Game, Line};
use super::network::{Frame, Way};
use super::problem::{Goal, Objective};

/// Most times that bound and ways are found again.
const ROUNDS: usize = 6;

/// The frame without such ways, and what bounds the plans that cost less than `limit`. `None` if a class
/// is left without a way: there is no such plan.
pub fn fix<'p>(
    frame: &Frame<'p>,
    goal: &Goal,
    limit: f64,
    rounds: usize,
) -> Option<(Frame<'p>, Bound)> {
    let mut frame = frame.clone();
    let carries = Carries::new(&frame);
    let relaxed = frame.relaxed();
    let (mut bound, mut game) = bound::bound(&relaxed, &carries, goal, rounds);
    for _ in 0..ROUNDS {
        if !drop_ways(&mut frame, goal, limit, &bound, &game) {
            break;
        }
        if frame.ways.iter().any(Vec::is_empty) {
            return None;
        }
        let (next, prices) = bound::bound(&frame.relaxed(), &carries, goal, rounds);
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
    let longest = longest(goal, limit, net.standing_watts, least);
    let shortest = net.shortest();
    let (heads, tails) = (net.heads(&shortest), net.tails(&shortest));
    let joules = f64::from(u8::from(goal.objective != Objective::Time));
    let price = game.price;
    let resources = net.resources.len();
    let places = frame.problem.memories.len();
    let cost = |t: usize, w: &Way| {
        let r = usize::from(w.resource);
        let memory = frame.problem.groups[r].memory;
        // Empty where transfers are not priced.
        let place = game.place.get(t * places + memory).copied();
        let seconds = game.path[t] + game.work[t * resources + r];
        joules * w.joules + seconds * w.seconds + place.unwrap_or(0.0)
    };
    let possible = |t: usize, w: &Way| {
        let seconds = heads[t] + w.seconds + tails[t];
        if seconds > longest * (1.0 + 1e-9) {
            return false;
        }
        let ways = &frame.ways[frame.problem.tasks[t] as usize];
        let cheapest = ways
            .iter()
            .map(|w| cost(t, w))
            .fold(f64::INFINITY, f64::min);
        let whole = game.value + cost(t, w) - cheapest;
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
                        price,
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
    let keep = |(class, ways): (usize, &Vec<Way>)| -> Vec<Way> {
        let some =
            |w: &&Way| tasks[class].is_empty() || tasks[class].iter().any(|&t| possible(t, w));
        ways.iter().filter(some).copied().collect()
    };
    let ways: Vec<Vec<Way>> = frame.ways.iter().enumerate().map(keep).collect();
    let dropped = ways != frame.ways;
    frame.ways = ways;
    dropped
}

/// How long a plan that costs less than `limit` can take, when its tasks need so many joules.
fn longest(goal: &Goal, limit: f64, standing: f64, joules: f64) -> f64 {
    let most = match goal.objective {
        Objective::Time => limit,
        _ if standing <= 0.0 && goal.objective == Objective::Energy => f64::INFINITY,
        Objective::Energy => (limit - joules) / standing,
        // T × (standing × T + joules) = limit
        Objective::Edp if standing <= 0.0 => limit / joules,
        Objective::Edp => {
            ((joules * joules + 4.0 * standing * limit).sqrt() - joules) / (2.0 * standing)
        }
    };
    most.min(goal.deadline.unwrap_or(f64::INFINITY))
}
