//! Simple statistics of durations.

use serde::Serialize;

/// How long things took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// Sum.
    pub total_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Half take no longer.
    pub median_ns: u64,
    /// 99 of 100 take no longer.
    pub p99_ns: u64,
    /// Longest.
    pub max_ns: u64,
    /// Interquartile range divided by the median: 0 where all take equally long.
    pub spread: f64,
}

impl Spread {
    /// Of these durations, which get sorted.
    pub(crate) fn of(durations: &mut [u64]) -> Spread {
        durations.sort_unstable();
        let Some(&max_ns) = durations.last() else {
            return Spread::default();
        };
        let total_ns: u64 = durations.iter().sum();
        let median_ns = quantile(durations, 0.5);
        let quartiles = quantile(durations, 0.75) - quantile(durations, 0.25);
        Spread {
            count: durations.len() as u64,
            total_ns,
            mean_ns: total_ns as f64 / durations.len() as f64,
            median_ns,
            p99_ns: quantile(durations, 0.99),
            max_ns,
            spread: ratio(quartiles as f64, median_ns as f64),
        }
    }
}

/// The smallest value that a share `q` of the sorted values does not exceed.
pub(super) fn quantile(sorted: &[u64], q: f64) -> u64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// `a / b`, or 0 where there is nothing to divide by.
pub(super) fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_numbers() {
        let mut numbers: Vec<u64> = (1..=100).rev().collect();
        let s = Spread::of(&mut numbers);
        assert_eq!((s.count, s.total_ns, s.max_ns), (100, 5050, 100));
        assert_eq!((s.median_ns, s.p99_ns, s.mean_ns), (50, 99, 50.5));
        assert_eq!(s.spread, 1.0);
        assert_eq!(Spread::of(&mut []), Spread::default());
        assert_eq!(Spread::of(&mut [7]).p99_ns, 7);
        assert_eq!(Spread::of(&mut [0, 0]).spread, 0.0);
    }
}
