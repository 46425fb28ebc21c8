//! From times that a linear program allows to one option for each computation.
//!
//! Each computation gets a corner of the convex hull of its options: the slowest that ends in time, where what one leaves
//! of its time goes to the next, or the nearest. Then ways that are too long are made faster where a second costs least,
//! and computations with slack slower. What comes out is in time by the times of the options themselves.

use super::iteration::Iteration;
use super::options::Choice;

/// Options of a computation with their joules above waiting.
pub(super) struct Rounding<'a> {
    pub(super) iteration: &'a Iteration,
    pub(super) options: &'a [[Vec<Choice>; 2]],
    /// Which options are corners of their convex hull.
    pub(super) corners: Vec<[Vec<usize>; 2]>,
    pub(super) watts: f64,
}

impl Rounding<'_> {
    fn of(&self, v: usize) -> &[Choice] {
        let (stage, instruction) = self.iteration.kind[v];
        &self.options[stage][instruction]
    }

    /// What an option costs above waiting as long.
    pub(super) fn cost(&self, choice: &Choice) -> f64 {
        choice.joules - self.watts * choice.seconds
    }

    /// What each computation takes.
    pub(super) fn seconds(&self, chosen: &[usize]) -> Vec<f64> {
        let each = chosen.iter().enumerate();
        each.map(|(v, &c)| self.of(v)[c].seconds).collect()
    }

    /// The option of each computation, given when a linear program lets each begin and end, and when all must have
    /// ended. What one computation leaves of its time goes to those after it, or in the other direction to those
    /// before it, or each gets what is nearest; the best of the three is taken.
    pub(super) fn round(&self, windows: &[(f64, f64)], end: f64) -> Vec<usize> {
        let turned: Vec<(f64, f64)> = windows.iter().map(|w| (end - w.1, end - w.0)).collect();
        let order = 0..self.iteration.len();
        let along = self.pass_on(windows, order.clone(), &self.iteration.waits);
        let against = self.pass_on(&turned, order.rev(), &self.iteration.next);
        let joules = |chosen: &Vec<usize>| self.rate(chosen).1;
        let first = self.fill(self.nearest(windows), end);
        let others = [along, against].map(|chosen| self.fill(chosen, end));
        others.into_iter().fold(first, |best, other| {
            if joules(&other) < joules(&best) {
                other
            } else {
                best
            }
        })
    }

    /// The corner nearest to the time of each window.
    fn nearest(&self, windows: &[(f64, f64)]) -> Vec<usize> {
        let near = windows.iter().enumerate().map(|(v, window)| {
            let (stage, instruction) = self.iteration.kind[v];
            let far = |c: usize| (self.of(v)[c].seconds - (window.1 - window.0)).abs();
            let corners = self.corners[stage][instruction].iter().copied();
            corners
                .min_by(|&a, &b| far(a).total_cmp(&far(b)))
                .unwrap_or(0)
        });
        near.collect()
    }

    /// Gives each computation, one after the other, the slowest corner of its convex hull that ends within its window,
    /// from when those that it waits for have really ended.
    fn pass_on(
        &self,
        windows: &[(f64, f64)],
        order: impl Iterator<Item = usize>,
        waits: &[Vec<u32>],
    ) -> Vec<usize> {
        let mut chosen = vec![0; windows.len()];
        let mut ends = vec![0.0; windows.len()];
        for v in order {
            let begin = waits[v]
                .iter()
                .map(|&u| ends[u as usize])
                .fold(0.0, f64::max);
            chosen[v] = self.slowest_corner(v, windows[v].1 - begin);
            ends[v] = begin + self.of(v)[chosen[v]].seconds;
        }
        chosen
    }

    /// The slowest corner of a computation that takes no more than so many seconds, or the fastest.
    pub(super) fn slowest_corner(&self, v: usize, room: f64) -> usize {
        let (stage, instruction) = self.iteration.kind[v];
        let all = self.of(v);
        let mut corners = self.corners[stage][instruction].iter().copied().rev();
        // Windows were counted in small whole units, rounded.
        let fits = |c: &usize| all[*c].seconds <= room + 1e-9;
        corners.find(fits).unwrap_or(0)
    }

    /// What to speed up on the longest way, and to which option, if that is too long: where a second costs least.
    fn cheapest(&self, slack: &Slack, chosen: &[usize]) -> Option<(usize, usize)> {
        let way = |v: usize| slack.heads[v] + slack.seconds[v] + slack.tails[v];
        let longest = (0..chosen.len()).map(way).fold(0.0, f64::max);
        let excess = longest - slack.end * (1.0 + 1e-12);
        if excess <= 0.0 {
            return None;
        }
        let on_it = (0..chosen.len()).filter(|&v| way(v) >= longest * (1.0 - 1e-12));
        let moves = on_it.flat_map(|v| {
            let (all, now) = (self.of(v), chosen[v]);
            (0..now).map(move |to| {
                let gained = (all[now].seconds - all[to].seconds).min(excess);
                let paid = self.cost(&all[to]) - self.cost(&all[now]);
                (paid / gained, v, to)
            })
        });
        let best = moves.min_by(|a, b| a.0.total_cmp(&b.0))?;
        Some((best.1, best.2))
    }

    /// Speeds up what is too slow by rounding, then slows down where slack is left, the largest saving first.
    pub(super) fn fill(&self, mut chosen: Vec<usize>, end: f64) -> Vec<usize> {
        let count = chosen.len();
        let mut slack = Slack::new(self.iteration, self.seconds(&chosen), end);
        while let Some((v, to)) = self.cheapest(&slack, &chosen) {
            chosen[v] = to;
            slack = Slack::new(self.iteration, self.seconds(&chosen), end);
        }
        for _ in 0..3 {
            let mut gains: Vec<(f64, usize)> = Vec::new();
            for v in 0..count {
                let all = self.of(v);
                let to = slack.reach(v, all, chosen[v]);
                if to > chosen[v] {
                    gains.push((self.cost(&all[chosen[v]]) - self.cost(&all[to]), v));
                }
            }
            if gains.is_empty() {
                break;
            }
            gains.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (_, v) in gains {
                let all = self.of(v);
                chosen[v] = slack.slow(self.iteration, v, all, chosen[v], all.len() - 1);
            }
        }
        chosen
    }

    /// Changes one option after the other, up or down, and repairs the rest; keeps what costs less.
    pub(super) fn exchange(&self, mut best: Vec<usize>, end: f64, tries: usize) -> Vec<usize> {
        /// Prime, so that computations far apart follow each other.
        const STRIDE: usize = 7919;
        let mut joules = self.rate(&best).1;
        for turn in 0..tries {
            let v = turn / 2 * STRIDE % best.len();
            let (now, most) = (best[v], self.of(v).len() - 1);
            let mut next = best.clone();
            next[v] = match turn % 2 {
                0 if now < most => now + 1,
                1 if now > 0 => now - 1,
                _ => continue,
            };
            let next = self.fill(next, end);
            let found = self.rate(&next);
            if found.1 < joules && found.0 <= end * (1.0 + 1e-9) {
                (best, joules) = (next, found.1);
            }
        }
        best
    }

    /// Seconds and joules of an iteration with these options.
    pub(super) fn rate(&self, chosen: &[usize]) -> (f64, f64) {
        let end = self.iteration.makespan(&self.seconds(chosen));
        let each = chosen.iter().enumerate();
        let computing: f64 = each.map(|(v, &c)| self.cost(&self.of(v)[c])).sum();
        (
            end,
            computing + self.watts * end * self.options.len() as f64,
        )
    }
}

/// How much longer each computation may take.
struct Slack {
    seconds: Vec<f64>,
    heads: Vec<f64>,
    tails: Vec<f64>,
    end: f64,
}

impl Slack {
    fn new(iteration: &Iteration, seconds: Vec<f64>, end: f64) -> Slack {
        Slack {
            heads: iteration.heads(&seconds),
            tails: iteration.tails(&seconds),
            end,
            seconds,
        }
    }

    /// The slowest option that keeps all in time.
    fn reach(&self, v: usize, all: &[Choice], now: usize) -> usize {
        let room = self.end - self.heads[v] - self.tails[v];
        let fits = all.partition_point(|c| c.seconds <= room);
        now.max(fits.saturating_sub(1))
    }

    /// Moves a computation from an option towards a slower one as far as it can; says which it has now.
    fn slow(&mut self, it: &Iteration, v: usize, all: &[Choice], now: usize, to: usize) -> usize {
        let to = self.reach(v, all, now).min(to).max(now);
        if to > now {
            self.seconds[v] = all[to].seconds;
            self.push_heads(it, v);
            self.push_tails(it, v);
        }
        to
    }

    /// Later begins of what follows, in the order of the list, as far as anything changes.
    fn push_heads(&mut self, it: &Iteration, from: usize) {
        let mut open = std::collections::BTreeSet::new();
        open.extend(it.next[from].iter().copied());
        while let Some(v) = open.pop_first() {
            let v = v as usize;
            let ends = it.waits[v]
                .iter()
                .map(|&u| self.heads[u as usize] + self.seconds[u as usize]);
            let head = ends.fold(0.0, f64::max);
            if head > self.heads[v] {
                self.heads[v] = head;
                open.extend(it.next[v].iter().copied());
            }
        }
    }

    fn push_tails(&mut self, it: &Iteration, from: usize) {
        let mut open = std::collections::BTreeSet::new();
        open.extend(it.waits[from].iter().copied());
        while let Some(v) = open.pop_last() {
            let v = v as usize;
            let ways = it.next[v]
                .iter()
                .map(|&w| self.tails[w as usize] + self.seconds[w as usize]);
            let tail = ways.fold(0.0, f64::max);
            if tail > self.tails[v] {
                self.tails[v] = tail;
                open.extend(it.waits[v].iter().copied());
            }
        }
    }
}
