//! A point between two others: one's options at the beginning of the iteration, the other's from some moment on.
//!
//! Frequencies are so far apart that between two good iterations there may be none that is as good and has all its rounds
//! alike: what is too fast by a part of a step is lost in every round. Rounds of two kinds, one kind after the other, lose
//! it once. So all points come near the convex hull of the best, as the bound is convex, too.

use super::frontier::Found;
use super::round::Rounding;

/// How often the hull is looked at again: new points may be corners of it.
const ROUNDS: usize = 2;

/// Replaces points by better ones between others, where there are any.
pub(super) fn improve(rounding: &Rounding<'_>, found: &mut [Found]) {
    found.sort_by(|a, b| a.end.total_cmp(&b.end));
    for _ in 0..ROUNDS {
        let corners = hull(found);
        for pair in corners.windows(2) {
            for at in pair[0] + 1..pair[1] {
                let (fast, slow) = (&found[pair[0]], &found[pair[1]]);
                let both = [[fast, slow], [slow, fast]];
                let made = both.map(|two| spliced(rounding, two, found[at].end));
                for made in made {
                    if made.joules < found[at].joules && made.seconds <= made.end * (1.0 + 1e-9) {
                        found[at] = made;
                    }
                }
            }
        }
    }
}

/// The corners of the lower convex hull of points that are sorted by time.
fn hull(found: &[Found]) -> Vec<usize> {
    let mut kept: Vec<usize> = Vec::new();
    for c in 0..found.len() {
        while let [.., a, b] = kept[..] {
            let (a, b, c) = (&found[a], &found[b], &found[c]);
            let straight = (c.joules - a.joules) * (b.end - a.end);
            if (b.joules - a.joules) * (c.end - a.end) < straight {
                break;
            }
            kept.pop();
        }
        kept.push(c);
    }
    kept
}

/// The first one's options for as many computations as lets all end in time, in the order of their begins, then the other's.
fn spliced(rounding: &Rounding<'_>, [first, then]: [&Found; 2], end: f64) -> Found {
    let heads = rounding.iteration.heads(&rounding.seconds(&first.chosen));
    let mut order: Vec<usize> = (0..heads.len()).collect();
    order.sort_by(|&a, &b| heads[a].total_cmp(&heads[b]).then(a.cmp(&b)));
    let made = |count: usize| {
        let mut chosen = then.chosen.clone();
        order[..count]
            .iter()
            .for_each(|&v| chosen[v] = first.chosen[v]);
        chosen
    };
    let fits = |count: usize| {
        let seconds = rounding.seconds(&made(count));
        rounding.iteration.makespan(&seconds) <= end
    };
    // The more of the slower, the longer.
    let (mut low, mut high) = (0, order.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        if fits(middle) == (first.seconds <= then.seconds) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let count = match first.seconds <= then.seconds {
        true => low,
        false => low.saturating_sub(1),
    };
    Found::new(rounding, end, rounding.fill(made(count), end))
}
