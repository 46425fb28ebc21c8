//! Statistics: medians, bootstrap intervals, ratios paired by block. Pure functions of values and a seed.
//!
//! The interval is the percentile bootstrap's (Efron and Tibshirani, *An Introduction to the Bootstrap*, 1993, chapter 13):
//! the 2.5 % and 97.5 % quantiles of the medians of resamples drawn with replacement. Quantiles are interpolated linearly,
//! as NumPy's default does. Of fewer than six values the 95 % interval of a median is wider than their range, so it
//! cannot be had from them: the range stands in its place, and `few` says so.

use dahl_core::random::Random;
use serde::Serialize;

/// Resamples of an interval.
const RESAMPLES: u64 = 2000;

/// Fewer values than this cannot bound a median with 95 % (2 · 2⁻ⁿ > 5 %).
const FEW: usize = 6;

/// Differences of clocks and counters are off by so much of them, where they are equal.
const ROUNDING: f64 = 1e-9;

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// The lower end of the 95 % interval, or the least value where there are too few.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How many values.
    pub n: usize,
}

impl Estimate {
    /// Width of the interval as a part of the median; infinite of one value.
    pub fn width(&self) -> f64 {
        match self.n > 1 && self.median != 0.0 {
            true => (self.high - self.low) / self.median.abs(),
            false => f64::INFINITY,
        }
    }

    /// Whether there are too few values for a 95 % interval.
    pub fn is_few(&self) -> bool {
        self.n < FEW
    }

    /// Whether the interval contains a value; an end that differs from it by rounding alone is the value.
    pub fn contains(&self, value: f64) -> bool {
        let rounding = ROUNDING * value.abs();
        self.low <= value + rounding && value - rounding <= self.high
    }

    /// Whether two intervals have a value in common.
    pub fn overlaps(&self, other: &Estimate) -> bool {
        self.low <= other.high && other.low <= self.high
    }
}

/// The median; none of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// The quantile of sorted values, interpolated linearly.
fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q * last as f64;
    let below = (at.floor() as usize).min(last);
    let above = (below + 1).min(last);
    let part = at - below as f64;
    Some(sorted[below] + part * (sorted[above] - sorted[below]))
}

/// The median of some values with its interval; none of nothing.
pub(crate) fn estimate(values: &[f64], seed: u64) -> Option<Estimate> {
    bootstrap(
        values.len(),
        seed,
        |draw| {
            let drawn: Vec<f64> = (0..values.len()).map(|i| values[draw(i)]).collect();
            median(&drawn)
        },
        median(values)?,
        range(values),
    )
}

/// The ratio of two medians whose values do not belong to each other, with its interval.
pub(crate) fn unpaired_ratio(above: &[f64], below: &[f64], seed: u64) -> Option<Estimate> {
    let n = above.len().min(below.len());
    let ratio = median(above)? / median(below)?;
    let (a, b) = (range(above), range(below));
    let resample = |values: &[f64], stream: u64| {
        let random = Random::new(seed, stream);
        let drawn: Vec<f64> = (0..values.len() as u64)
            .map(|i| values[random.below(i, values.len() as u64) as usize])
            .collect();
        median(&drawn)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES)
        .filter_map(|r| Some(resample(above, 2 * r)? / resample(below, 2 * r + 1)?))
        .collect();
    finish(&mut ratios, n, ratio, (a.0 / b.1, a.1 / b.0))
}

/// Ratios of values that belong to the same block: their median and its interval.
pub(crate) fn paired_ratio(pairs: &[(f64, f64)], seed: u64) -> Option<Estimate> {
    let ratios: Vec<f64> = pairs
        .iter()
        .map(|(a, b)| a / b)
        .filter(|r| r.is_finite())
        .collect();
    estimate(&ratios, seed)
}

fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

/// The interval of a statistic over resamples of `n` values. `of` gets who was drawn at each place.
fn bootstrap(
    n: usize,
    seed: u64,
    of: impl Fn(&dyn Fn(usize) -> usize) -> Option<f64>,
    value: f64,
    range: (f64, f64),
) -> Option<Estimate> {
    let mut values: Vec<f64> = (0..RESAMPLES)
        .filter_map(|r| {
            let random = Random::new(seed, r);
            of(&|i| random.below(i as u64, n as u64) as usize)
        })
        .collect();
    finish(&mut values, n, value, range)
}

fn finish(values: &mut [f64], n: usize, median: f64, range: (f64, f64)) -> Option<Estimate> {
    values.sort_by(f64::total_cmp);
    let (low, high) = match n < FEW {
        true => range,
        false => (quantile(values, 0.025)?, quantile(values, 0.975)?),
    };
    let estimate = Estimate {
        median,
        low,
        high,
        n,
    };
    [median, low, high]
        .iter()
        .all(|x| x.is_finite())
        .then_some(estimate)
}

/// A ratio in words: `× 1.32 (1.29–1.35)`, or that no difference was seen.
pub(crate) fn ratio_text(ratio: &Estimate) -> String {
    let Estimate {
        median,
        low,
        high,
        n,
    } = ratio;
    match ratio.contains(1.0) {
        true => format!("no difference seen ({low:.3}–{high:.3}, n = {n})"),
        false => format!("× {median:.3} ({low:.3}–{high:.3}, n = {n})"),
    }
}

#[cfg(test)]
mod tests;
