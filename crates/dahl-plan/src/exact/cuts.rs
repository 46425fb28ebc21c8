//! The cuts of a [budget](super::budget): what every mode of every task costs, at several weights of a second.

use super::budget::{Budget, CUTS, CostCut, Price};
use super::build::TICKS;
use super::trail::Trail;
use crate::bound::{DualBound, PossibleTransfers, Steps, dual_ascent, least_joules};
use crate::dispatch::reduced_costs;
use crate::network::{ExecMode, Frame};
use crate::problem::{Goal, Objective};

/// What the dearest plan costs: so much that rounding down loses nothing of interest.
const COSTS: i64 = 1 << 52;

/// What plans cost that take so many seconds at most, with cuts found in so many rounds.
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
        let modes = &frame.modes[class as usize];
        let price = |w: &ExecMode| {
            let mut costs = [0.0; CUTS];
            costs[0] = w.joules;
            Price { here: None, costs }
        };
        most += modes.iter().map(|w| w.joules).fold(0.0, f64::max);
        tasks.push(modes.iter().map(price).collect());
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
        cuts: Vec::new(),
        main: if goal.objective == Objective::Time {
            0
        } else {
            2
        },
        tasks,
        transfers: Vec::new(),
        because: Vec::new(),
        room: Default::default(),
    };
    add_cuts(frame, &mut budget, rounds, keep_going);
    budget
}

/// Cuts under the cost, each by so many iterations of the dual bound.
fn add_cuts(
    frame: &Frame<'_>,
    budget: &mut Budget,
    rounds: usize,
    keep_going: &mut dyn FnMut() -> bool,
) {
    let (net, carries) = (frame.relaxed(), PossibleTransfers::new(frame));
    let mut dual = |weights| dual_ascent(&net, &carries, weights, Steps::Alone, rounds, keep_going);
    if budget.goal.objective == Objective::Time {
        return add_cut(frame, budget, &dual((1.0, 0.0)), (1.0, 0.0));
    }
    budget.cuts.push(CostCut {
        weight: 0.0,
        value: 0.0,
    });
    let standing = budget.standing_watts;
    let seconds = dual((1.0, 0.0)).value;
    let power = least_joules(&net) / seconds.max(f64::MIN_POSITIVE) + standing;
    let weights = match budget.goal.objective {
        // Where the product counts, a second costs what is needed in one, too.
        Objective::Edp => [0.5, 1.0, 1.5, 2.5].map(|k| standing + k * power),
        _ if standing > 0.0 => [0.5, 1.0, 2.0, 4.0].map(|k| k * standing),
        _ => [0.5, 1.0, 2.0, 4.0].map(|k| k * power),
    };
    for weight in weights {
        add_cut(frame, budget, &dual((weight, 1.0)), (weight, 1.0));
    }
}

/// The cut of a dual bound with these weights of time and joules.
fn add_cut(frame: &Frame<'_>, budget: &mut Budget, dual: &DualBound, (weight, joules): (f64, f64)) {
    let k = budget.cuts.len();
    let reduced_costs = reduced_costs(frame, dual, joules);
    for (modes, reduced_costs) in budget.tasks.iter_mut().zip(reduced_costs) {
        for (mode, reduced_cost) in modes.iter_mut().zip(reduced_costs) {
            mode.costs[k] = reduced_cost;
        }
    }
    let value = dual.value;
    budget.cuts.push(CostCut { weight, value });
}
