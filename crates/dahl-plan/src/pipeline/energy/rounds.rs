//! Iterations whose rounds are all alike: one option for all forward and one for all backward computations of a stage.
//!
//! In the middle of many micro-batches each stage does one of both in every round. The cheapest two that together take no
//! longer than the round may be no corners of a hull, so no rounding of a linear program finds them.

use super::options::Choice;
use super::round::Rounding;

/// Rounds of all lengths.
pub(super) struct Rounds {
    /// For each stage, pairs of options with rising seconds and falling joules.
    stages: Vec<Vec<Pair>>,
    /// All lengths of rounds that make a difference, rising.
    lengths: Vec<f64>,
}

struct Pair {
    seconds: f64,
    joules: f64,
    options: [usize; 2],
}

impl Rounds {
    pub(super) fn new(rounding: &Rounding<'_>) -> Rounds {
        let stages: Vec<Vec<Pair>> = rounding
            .options
            .iter()
            .map(|stage| pairs(rounding, stage))
            .collect();
        let mut lengths: Vec<f64> = stages.iter().flatten().map(|p| p.seconds).collect();
        lengths.sort_by(f64::total_cmp);
        lengths.dedup();
        Rounds { stages, lengths }
    }

    /// The longest rounds with which all ends in time; what is left of the time goes to single computations.
    pub(super) fn best(&self, rounding: &Rounding<'_>, end: f64) -> Vec<usize> {
        let fits = |length: &f64| {
            let seconds = rounding.seconds(&self.of(rounding, *length));
            rounding.iteration.makespan(&seconds) <= end
        };
        let count = self.lengths.partition_point(fits);
        let length = self.lengths[count.saturating_sub(1)];
        rounding.fill(self.of(rounding, length), end)
    }

    /// Options of rounds of that length, or of the shortest possible.
    fn of(&self, rounding: &Rounding<'_>, length: f64) -> Vec<usize> {
        let best = self.stages.iter().map(|pairs| {
            let fits = pairs.partition_point(|p| p.seconds <= length);
            pairs[fits.saturating_sub(1)].options
        });
        let best: Vec<[usize; 2]> = best.collect();
        let kinds = rounding.iteration.kind.iter();
        kinds.map(|&(stage, i)| best[stage][i]).collect()
    }
}

fn pairs(rounding: &Rounding<'_>, [forward, backward]: &[Vec<Choice>; 2]) -> Vec<Pair> {
    let mut all: Vec<Pair> = Vec::new();
    for (f, a) in forward.iter().enumerate() {
        all.extend(backward.iter().enumerate().map(|(b, c)| Pair {
            seconds: a.seconds + c.seconds,
            joules: rounding.cost(a) + rounding.cost(c),
            options: [f, b],
        }));
    }
    all.sort_by(|a, b| {
        a.seconds
            .total_cmp(&b.seconds)
            .then(a.joules.total_cmp(&b.joules))
    });
    let mut least = f64::INFINITY;
    all.retain(|p| {
        let cheaper = p.joules < least;
        least = least.min(p.joules);
        cheaper
    });
    all
}
