//! What was measured for one key: a bounded history of durations that outliers cannot bend.
//!
//! Let `W` be the window of the last [`WINDOW`] accepted samples, `m` its median and
//!
//! ```text
//! MAD = median |x − m|  over x in W        σ = 1.4826 · MAD   (a standard deviation, for normal noise)
//! ```
//!
//! Once `W` has [`SETTLED`] samples, a new sample `x` is accepted if `|x − m| ≤ REACH · σ`, or if it is
//! within [`OUTLIER_FACTOR`] times `m` either way: a core whose other half works for somebody else is that much
//! slower, for a millisecond or a minute, and a prediction that left this out would be wrong. When `W` reaches [`SETTLED`], the same
//! rule is applied once to what was let in before it could be judged.
//!
//! A rejected sample becomes a *suspect*; an accepted one takes the oldest suspect away. So suspects
//! pile up only if more than half of the samples are rejected, and then it is the history that is
//! wrong: at [`PATIENCE`] of them the level has shifted, and the history starts over from the
//! suspects. A machine that is throttled, or left alone again, is followed after about eight samples.
//!
//! Besides the window there are running figures over all samples since the last restart: count, mean
//! and variance (Welford's recurrence; Chan's formula to merge two), minimum. The estimate of a
//! duration is a mean, because what it is for is adding: the mean of all of them, unless the window's
//! differs from it by more than [`DRIFT`] standard errors; then things have changed slowly, and the
//! window's counts.
//!
//! This file never looks at a clock: durations are handed to it.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Accepted samples that are kept.
pub(crate) const WINDOW: usize = 64;
/// Samples from which outliers are judged.
pub(crate) const SETTLED: usize = 8;
/// Suspects that make a new level.
pub(crate) const PATIENCE: usize = 8;
/// Half-width of the band of accepted samples, in standard deviations.
pub(crate) const REACH: f64 = 6.0;
/// How many times longer or shorter than the median a sample may be, if that is further.
pub const OUTLIER_FACTOR: f64 = 2.0;

/// Standard errors by which the window's mean may differ from that of all samples.
pub(crate) const DRIFT: f64 = 4.0;

/// Standard deviation of normal noise whose median absolute deviation is one.
const NORMAL: f64 = 1.4826;
/// Durations outside this range are clock errors: a picosecond to some thirty years.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 1e-12..=1e9;

/// What became of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It entered the history.
    Accepted,
    /// It is far from the others and was set aside.
    Suspect,
    /// It was one suspect too many: the history started over from the suspects.
    Restarted,
    /// It was among the first after the start, and does not enter.
    Cold,
    /// It is no duration: zero, negative, not finite, or absurd.
    Refused,
}

/// The figures of a history, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Accepted samples since the last restart.
    pub count: u64,
    /// Mean of all of them.
    pub mean: f64,
    /// Median of the window.
    pub median: f64,
    /// Standard deviation of the window, estimated from the median absolute deviation.
    pub sigma: f64,
    /// Standard deviation of all accepted samples.
    pub std: f64,
    /// Smallest accepted sample.
    pub min: f64,
    /// Samples rejected, ever.
    pub rejected: u64,
    /// Times the level shifted.
    pub restarts: u64,
}

/// Durations measured for one key; see the top of this file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct History {
    /// Oldest first.
    window: VecDeque<f64>,
    /// The window, sorted.
    sorted: Vec<f64>,
    count: u64,
    mean: f64,
    /// Sum of squared differences from the mean.
    m2: f64,
    min: f64,
    /// Oldest first, fewer than [`PATIENCE`].
    suspects: Vec<f64>,
    rejected: u64,
    restarts: u64,
}

impl History {
    /// Adds a duration in seconds.
    pub(crate) fn record(&mut self, x: f64) -> Verdict {
        if !PLAUSIBLE.contains(&x) {
            return Verdict::Refused;
        }
        if self.window.len() < SETTLED {
            self.accept(x);
            if self.window.len() == SETTLED {
                self.settle();
            }
            return Verdict::Accepted;
        }
        if self.admits(x) {
            self.accept(x);
            if !self.suspects.is_empty() {
                self.suspects.remove(0);
            }
            return Verdict::Accepted;
        }
        self.suspects.push(x);
        self.rejected = self.rejected.saturating_add(1);
        if self.suspects.len() < PATIENCE {
            return Verdict::Suspect;
        }
        let suspects = std::mem::take(&mut self.suspects);
        self.rejected = self.rejected.saturating_sub(suspects.len() as u64);
        self.restarts = self.restarts.saturating_add(1);
        self.restart(&suspects);
        self.settle();
        Verdict::Restarted
    }

    /// Adds what another history, taken as the newer one, has seen. Counts add up, unless the newer
    /// history is at another level: then it replaces this one.
    pub(crate) fn merge(&mut self, newer: &History) {
        let certain = newer.rejected.saturating_sub(newer.suspects.len() as u64);
        let restarts = self.restarts.saturating_add(newer.restarts);
        let rejected = self.rejected.saturating_add(certain);
        if newer.is_whole() {
            // Everything it saw is in its window: as if this history had seen it.
            self.rejected = rejected;
            self.restarts = restarts;
            for &x in &newer.window {
                self.record(x);
            }
        } else if self.window.len() < SETTLED {
            let mine = std::mem::replace(self, newer.clone());
            self.suspects.clear();
            self.rejected = rejected;
            self.restarts = restarts;
            for &x in &mine.window {
                self.record(x);
            }
        } else if self.admits(newer.median()) || newer.admits(self.median()) {
            self.rejected = rejected;
            self.restarts = restarts;
            self.pool(newer);
        } else {
            *self = newer.clone();
            self.suspects.clear();
            self.rejected = rejected;
            self.restarts = restarts.saturating_add(1);
        }
        for &x in &newer.suspects {
            self.record(x);
        }
    }

    /// Whether there is no accepted sample.
    pub(crate) fn is_empty(&self) -> bool {
        self.window.is_empty()
    }

    /// Accepted samples since the last restart.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Median of the window; zero if there is no sample.
    pub(crate) fn median(&self) -> f64 {
        median(&self.sorted)
    }

    /// The estimate of a duration: see the top of this file; zero if there is no sample.
    pub(crate) fn typical(&self) -> f64 {
        let n = self.window.len() as f64;
        if self.is_whole() || n < 2.0 {
            return self.mean;
        }
        let recent = self.window.iter().sum::<f64>() / n;
        let squares: f64 = self.window.iter().map(|x| (x - recent).powi(2)).sum();
        let error = (squares / (n * (n - 1.0))).sqrt();
        match (recent - self.mean).abs() <= DRIFT * error {
            true => self.mean,
            false => recent,
        }
    }

    /// Standard deviation of all accepted samples, as a part of their mean; none of less than two.
    pub fn spread(&self) -> Option<f64> {
        let summary = self.summary().filter(|s| s.count > 1)?;
        Some(summary.std / summary.mean)
    }

    /// The figures, if there is a sample.
    pub fn summary(&self) -> Option<Summary> {
        if self.is_empty() {
            return None;
        }
        let std = if self.count < 2 {
            0.0
        } else {
            (self.m2 / (self.count - 1) as f64).sqrt()
        };
        Some(Summary {
            count: self.count,
            mean: self.mean,
            median: self.median(),
            sigma: self.sigma(),
            std,
            min: self.min,
            rejected: self.rejected,
            restarts: self.restarts,
        })
    }

    /// The accepted samples that are kept, oldest first.
    #[cfg(test)]
    pub(super) fn samples(&self) -> impl Iterator<Item = f64> + '_ {
        self.window.iter().copied()
    }

    /// Whether the window holds all that was counted.
    fn is_whole(&self) -> bool {
        self.count == self.window.len() as u64
    }

    fn sigma(&self) -> f64 {
        let m = self.median();
        let mut deviations: Vec<f64> = self.sorted.iter().map(|x| (x - m).abs()).collect();
        deviations.sort_unstable_by(f64::total_cmp);
        NORMAL * median(&deviations)
    }

    fn admits(&self, x: f64) -> bool {
        let m = self.median();
        // The factor first: it decides most cases, and the deviation costs a sort.
        (x <= OUTLIER_FACTOR * m && m <= OUTLIER_FACTOR * x)
            || (x - m).abs() <= REACH * self.sigma()
    }

    fn accept(&mut self, x: f64) {
        self.min = if self.count == 0 { x } else { self.min.min(x) };
        self.count = self.count.saturating_add(1);
        let delta = x - self.mean;
        self.mean += delta / self.count as f64;
        self.m2 += delta * (x - self.mean);
        self.keep(x);
    }

    fn keep(&mut self, x: f64) {
        if self.window.len() == WINDOW
            && let Some(old) = self.window.pop_front()
        {
            let at = self.sorted.partition_point(|&y| y < old);
            self.sorted.remove(at);
        }
        self.window.push_back(x);
        let at = self.sorted.partition_point(|&y| y < x);
        self.sorted.insert(at, x);
    }

    /// Judges the samples that entered unjudged.
    fn settle(&mut self) {
        if !self.is_whole() {
            return;
        }
        let good: Vec<f64> = self
            .window
            .iter()
            .copied()
            .filter(|&x| self.admits(x))
            .collect();
        let bad = self.window.len() - good.len();
        if bad > 0 {
            self.rejected = self.rejected.saturating_add(bad as u64);
            self.restart(&good);
        }
    }

    fn restart(&mut self, samples: &[f64]) {
        let (rejected, restarts) = (self.rejected, self.restarts);
        *self = History {
            rejected,
            restarts,
            ..History::default()
        };
        for &x in samples {
            self.accept(x);
        }
    }

    /// Adds the running figures of both, and keeps the newest of each one's window.
    fn pool(&mut self, newer: &History) {
        let (n, k) = (self.count as f64, newer.count as f64);
        let delta = newer.mean - self.mean;
        self.mean += delta * k / (n + k);
        self.m2 += newer.m2 + delta * delta * n * k / (n + k);
        self.count = self.count.saturating_add(newer.count);
        self.min = self.min.min(newer.min);
        // Half of the window each, more if the other has less.
        let theirs = newer
            .window
            .len()
            .min((WINDOW / 2).max(WINDOW - self.window.len()));
        for &x in newer.window.iter().skip(newer.window.len() - theirs) {
            self.keep(x);
        }
    }
}

/// Median of sorted values; zero if there are none.
fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => sorted[n / 2],
        _ => 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]),
    }
}

/// What is written down; reading it back checks that a history could have looked so.
#[derive(Serialize, Deserialize)]
struct Stored {
    count: u64,
    mean: f64,
    m2: f64,
    min: f64,
    rejected: u64,
    restarts: u64,
    window: Vec<f64>,
    suspects: Vec<f64>,
}

impl From<History> for Stored {
    fn from(h: History) -> Stored {
        Stored {
            count: h.count,
            mean: h.mean,
            m2: h.m2,
            min: h.min,
            rejected: h.rejected,
            restarts: h.restarts,
            window: h.window.into(),
            suspects: h.suspects,
        }
    }
}

impl TryFrom<Stored> for History {
    type Error = String;

    fn try_from(s: Stored) -> Result<History, String> {
        if s.window.len() > WINDOW || s.suspects.len() >= PATIENCE {
            return Err("a history has more samples than are ever kept".into());
        }
        if let Some(x) = s
            .window
            .iter()
            .chain(&s.suspects)
            .find(|x| !PLAUSIBLE.contains(x))
        {
            return Err(format!(
                "a history has the sample {x}, which is no duration"
            ));
        }
        // A window short of its count is full: nothing is dropped from it before that.
        let full = s.window.len() == WINDOW || s.count == s.window.len() as u64;
        let counted = s.count >= s.window.len() as u64 && (s.count == 0) == s.window.is_empty();
        let figures = if s.count == 0 {
            s.mean == 0.0 && s.m2 == 0.0 && s.min == 0.0
        } else {
            s.mean > 0.0
                && s.mean.is_finite()
                && PLAUSIBLE.contains(&s.min)
                && s.m2 >= 0.0
                && s.m2.is_finite()
        };
        if !(full && counted && figures) || s.rejected < s.suspects.len() as u64 {
            return Err("a history contradicts itself".into());
        }
        let mut sorted = s.window.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        Ok(History {
            window: s.window.into(),
            sorted,
            count: s.count,
            mean: s.mean,
            m2: s.m2,
            min: s.min,
            suspects: s.suspects,
            rejected: s.rejected,
            restarts: s.restarts,
        })
    }
}
