//! The least time of a batch that is cut into micro-batches and ends with a flush: all stages wait for the last one.
//!
//! M micro-batches through stages of t seconds per batch, with x seconds of transfers and e of exchanging gradients
//! between replicas, take (Σt + Σx) / M plus the largest (M−1)/M · max(t, x) + e: filling, draining, and the slowest
//! stage in between. Replicas share each micro-batch. One version of the weights; a stage keeps the activations of as
//! many micro-batches as there are stages from it to the end, or of all if they are fewer.
//!
//! For a limit on the second term the first is minimised over cuts and units. The range of the second term is divided
//! where the bound is lowest until nothing better can be left.

use super::cost::{Line, Stage};
use super::cuts::Cuts;

/// Stages of a synchronous pipeline with its time, and a time that none are faster than.
pub(super) struct Flushed {
    pub(super) stages: Vec<Stage>,
    pub(super) seconds: f64,
    pub(super) bound: f64,
}

#[derive(Clone, Copy)]
struct Best {
    sum: f64,
    depth: usize,
    stage: Option<Stage>,
}

const NOTHING: Best = Best {
    sum: f64::INFINITY,
    depth: 0,
    stage: None,
};

pub(super) struct Flush<'a> {
    pub(super) cuts: &'a Cuts,
    pub(super) line: &'a Line<'a>,
    pub(super) micro_batches: usize,
    pub(super) most_replicas: usize,
}

/// How many cuts can be compared on so many units in a moment.
pub(super) fn affordable(units: usize) -> usize {
    (3200 / units.max(1)).clamp(24, 800)
}

impl Flush<'_> {
    /// How often the search may ask.
    const STEPS: usize = 48;

    pub(super) fn least_time(&self) -> Option<Flushed> {
        let mut best = self.within(f64::INFINITY)?;
        let (mut slowest, mut sum) = self.parts(&best);
        let mut seconds = sum + slowest;
        // Ranges of the second term, each with the least first term for its upper end.
        let mut open = vec![(0.0, slowest, sum)];
        let mut done = f64::INFINITY;
        for _ in 0..Self::STEPS {
            open.retain(|(low, _, sum)| sum + low < seconds * (1.0 - 1e-12));
            let lowest = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
            let bounds = open.iter().map(|(low, _, sum)| sum + low).enumerate();
            let Some((at, _)) = bounds.min_by(lowest) else {
                break;
            };
            let (low, high, first) = open.swap_remove(at);
            let middle = f64::midpoint(low, high);
            if middle <= low || middle >= high {
                done = done.min(first + low);
                continue;
            }
            open.push((middle, high, first));
            if let Some(stages) = self.within(middle) {
                (slowest, sum) = self.parts(&stages);
                open.push((low, slowest.max(low), sum));
                if sum + slowest < seconds {
                    seconds = sum + slowest;
                    best = stages;
                }
            }
        }
        let left = open.iter().map(|(low, _, sum)| sum + low);
        let bound = left.fold(seconds.min(done), f64::min);
        Some(Flushed {
            stages: best,
            seconds,
            bound,
        })
    }

    /// The largest second term, and the first term.
    fn parts(&self, stages: &[Stage]) -> (f64, f64) {
        let slowest = stages.iter().map(|s| self.slowest(s)).fold(0.0, f64::max);
        (slowest, stages.iter().map(|s| self.share(s)).sum())
    }

    fn slowest(&self, stage: &Stage) -> f64 {
        let m = self.micro_batches as f64;
        let [before, after] = self.line.transfers(self.cuts, stage);
        let own = self.line.compute(self.cuts, stage).max(before).max(after);
        own * (m - 1.0) / m + self.line.exchange(self.cuts, stage) * stage.replicas as f64
    }

    fn share(&self, stage: &Stage) -> f64 {
        let [before, _] = self.line.transfers(self.cuts, stage);
        (self.line.compute(self.cuts, stage) + before) / self.micro_batches as f64
    }

    /// Bytes of a replica of a stage that is so many from the end, itself included.
    pub(super) fn memory(&self, stage: &Stage, depth: usize) -> f64 {
        let (a, b) = (&self.cuts.all[stage.first], &self.cuts.all[stage.last]);
        let kept = depth.min(self.micro_batches) as f64 / self.micro_batches as f64;
        let activations = (b.activations - a.activations) / stage.replicas as f64;
        b.parameters - a.parameters + kept * activations
    }

    /// Stages whose second term is within a limit, with the least first term.
    fn within(&self, limit: f64) -> Option<Vec<Stage>> {
        let (end, units) = (self.cuts.end(), self.line.len());
        let mut best = vec![vec![NOTHING; units + 1]; end + 1];
        best[end].iter_mut().for_each(|b| b.sum = 0.0);
        for first in (0..end).rev() {
            for last in self.cuts.after(first) {
                self.extend(&mut best, first, last, limit);
            }
            // A unit may be left out.
            for place in 1..=units {
                if best[first][place - 1].sum < best[first][place].sum {
                    best[first][place] = best[first][place - 1];
                }
            }
        }
        let (mut at, mut stages) = (0, Vec::new());
        let sums = best[0].iter().map(|b| b.sum).enumerate();
        let (mut used, sum) = sums.min_by(|a, b| a.1.total_cmp(&b.1))?;
        if sum.is_infinite() {
            return None;
        }
        while let Some(stage) = best[at][used].stage {
            stages.push(stage);
            (at, used) = (stage.last, stage.place);
        }
        Some(stages)
    }

    fn extend(&self, best: &mut [Vec<Best>], first: usize, last: usize, limit: f64) {
        let units = self.line.len();
        for place in 0..units {
            let after = best[last][place];
            if after.sum.is_infinite() {
                continue;
            }
            for replicas in 1..=(units - place).min(self.most_replicas) {
                let stage = Stage {
                    first,
                    last,
                    place,
                    replicas,
                    from_inside: false,
                    to_inside: false,
                };
                let sum = after.sum + self.share(&stage);
                let known = &mut best[first][place + replicas];
                let depth = after.depth + 1;
                let fits = || self.memory(&stage, depth) <= self.line.memory(place, replicas);
                if sum < known.sum && self.slowest(&stage) <= limit && fits() {
                    *known = Best {
                        sum,
                        depth,
                        stage: Some(stage),
                    };
                }
            }
        }
    }
}
