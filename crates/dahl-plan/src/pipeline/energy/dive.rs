//! Relax and fix: from a linear program to options, a few computations at a time.
//!
//! Rounding all computations at once loses what neighbours cannot pass on to each other. Here the earliest get the slowest
//! corner of their hull that ends in time, and keep it; then the program is solved again for the others, which makes the
//! best of the time that was left. Solving again is cheap, because it begins with the last solution.

use super::frontier::{Dual, PICO};
use super::round::Rounding;

/// In how many parts an iteration is fixed; the second for those of few computations.
const PARTS: [usize; 2] = [24, 96];

/// Computations up to which an iteration is small.
const SMALL: usize = 400;

/// Changes of single options that are tried, times the number of computations.
const CHANGES: usize = 150_000;

/// The best that is found for an iteration of so many seconds; the dual was solved for that time.
pub(super) fn best(
    dual: &Dual<'_>,
    rounding: &Rounding<'_>,
    known: Vec<usize>,
    end: f64,
) -> Vec<usize> {
    let count = dual.iteration.len();
    let parts = if count <= SMALL {
        &PARTS[..]
    } else {
        &PARTS[..1]
    };
    let found = parts.iter().filter_map(|&p| dive(dual, rounding, p, end));
    let joules = |chosen: &Vec<usize>| rounding.rate(chosen).1;
    let all = [known].into_iter().chain(found);
    let best = all.min_by(|a, b| joules(a).total_cmp(&joules(b)));
    rounding.exchange(best.unwrap_or_default(), end, CHANGES / count.max(1))
}

/// The option of each computation, fixed in so many parts.
fn dive(dual: &Dual<'_>, rounding: &Rounding<'_>, parts: usize, end: f64) -> Option<Vec<usize>> {
    let mut simplex = dual.simplex.clone();
    let it = dual.iteration;
    let count = it.len();
    let mut chosen = vec![usize::MAX; count];
    let mut ends = vec![0.0; count];
    let steps = 200 * simplex.arcs.len() + 1000;
    for part in 0..parts {
        let begin = simplex.price[2 * count];
        let seconds = |node: usize| (begin - simplex.price[node]) as f64 / PICO;
        let windows: Vec<(f64, f64)> = (0..count)
            .map(|v| (seconds(2 * v), seconds(2 * v + 1)))
            .collect();
        let mut open: Vec<usize> = (0..count).filter(|&v| chosen[v] == usize::MAX).collect();
        // Of equal begins the list's order, in which nobody waits for a later one.
        open.sort_by(|&a, &b| windows[a].0.total_cmp(&windows[b].0).then(a.cmp(&b)));
        let now = open.len().div_ceil(parts - part);
        for &v in &open[..now] {
            let waits = it.waits[v].iter().map(|&u| ends[u as usize]);
            let from = waits.fold(0.0, f64::max);
            let option = rounding.slowest_corner(v, windows[v].1 - from);
            let took = dual.of(v)[option].seconds;
            (chosen[v], ends[v]) = (option, from + took);
            let (first, last) = dual.arcs[v];
            for arc in first..=last {
                simplex.set_cost(arc, -((took * PICO).floor() as i64));
            }
        }
        if now < open.len() && !simplex.solve(steps) {
            return None;
        }
    }
    let chosen = rounding.fill(chosen, end);
    Some(chosen)
}
