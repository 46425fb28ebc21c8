//! The lines of a [budget](super::budget): what every way of every task costs, at several weights of a second.

use super::budget::{Budget, LINES, Line, Price};
use super::make::TICKS;
use super::trail::Trail;
use crate::bound::{Carries, Game, least_joules, play};
use crate::dispatch::regrets;
use crate::network::{ExecMode, Frame};
use crate::problem::{Goal, Objective};

/// What the dearest plan costs: so much that rounding down loses nothing of interest.
const COSTS: i64 = 1 << 52;

/// What plans cost that take so many seconds at most, with lines found in so many rounds.
pub(super) fn budget(
    frame: &Frame<'_>,
    goal: &Goal,
    (seconds, rounds): (f64, usize),
    trail: &mut Trail,
    keep_going: &mut dyn FnMut() -> bool,
) -> Budget {
    let p = frame.problem;
    let mut tasks: Vec<Vec<Price>> = Vec::new();
    let mut most = 0.0;
    for &class in &p.tasks {
        let ways = &frame.ways[class as usize];
        let price = |w: &ExecMode| {
            let mut costs = [0.0; LINES];
            costs[0] = w.joules;
            Price { here: None, costs }
        };
        most += ways.iter().map(|w| w.joules).fold(0.0, f64::max);
        tasks.push(ways.iter().map(price).collect());
    }
    for d in &p.data {
        let links = p.links.iter().map(|l| l.joules_per_byte);
        most += d.bytes as f64 * links.sum::<f64>();
    }
    let worst = goal.cost(seconds, p.standing_watts() * seconds + most);
    let mut budget = Budget {
        goal: *goal,
        cost: trail.number(0, COSTS),
        unit: worst.max(f64::MIN_POSITIVE) / COSTS as f64,
        end: trail.number(0, TICKS),
        ticks: TICKS as f64 / seconds.max(f64::MIN_POSITIVE),
        standing_watts: p.standing_watts(),
        lines: Vec::new(),
        main: if goal.objective == Objective::Time {
            0
        } else {
            2
        },
        tasks,
        moves: Vec::new(),
        because: Vec::new(),
        room: Default::default(),
    };
    draw_lines(frame, &mut budget, rounds, keep_going);
    budget
}

/// Lines under the cost, each by a game of so many rounds.
fn draw_lines(
    frame: &Frame<'_>,
    budget: &mut Budget,
    rounds: usize,
    keep_going: &mut dyn FnMut() -> bool,
) {
    let (net, carries) = (frame.relaxed(), Carries::new(frame));
    let mut game = |weights| play(&net, &carries, weights, rounds, keep_going);
    if budget.goal.objective == Objective::Time {
        return draw(frame, budget, &game((1.0, 0.0)), (1.0, 0.0));
    }
    budget.lines.push(Line {
        weight: 0.0,
        value: 0.0,
    });
    let standing = budget.standing_watts;
    let seconds = game((1.0, 0.0)).value;
    let power = least_joules(&net) / seconds.max(f64::MIN_POSITIVE) + standing;
    let weights = match budget.goal.objective {
        // Where the product counts, a second costs what is needed in one, too.
        Objective::Edp => [0.5, 1.0, 1.5, 2.5].map(|k| standing + k * power),
        _ if standing > 0.0 => [0.5, 1.0, 2.0, 4.0].map(|k| k * standing),
        _ => [0.5, 1.0, 2.0, 4.0].map(|k| k * power),
    };
    for weight in weights {
        draw(frame, budget, &game((weight, 1.0)), (weight, 1.0));
    }
}

/// The line of a game with these weights of time and joules.
fn draw(frame: &Frame<'_>, budget: &mut Budget, game: &Game, (weight, joules): (f64, f64)) {
    let k = budget.lines.len();
    let regrets = regrets(frame, game, joules);
    for (ways, regrets) in budget.tasks.iter_mut().zip(regrets) {
        for (way, regret) in ways.iter_mut().zip(regrets) {
            way.costs[k] = regret;
        }
    }
    let value = game.value;
    budget.lines.push(Line { weight, value });
}
