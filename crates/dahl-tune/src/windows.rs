//! Timing windows: a run measured in short pieces, of which disturbed ones are dropped as outliers.
//!
//! A window that took more than [`OUTLIER_FACTOR`] times the median is left out, whole. Nothing shorter is judged
//! here, and no task is left out of a window that counts. What a performance model learns from and what is compared
//! with its predictions are windows filtered in the same way.

use dahl_core::trace::Trace;

/// Usual seconds of a window.
pub const WINDOW_SECONDS: f64 = 0.02;

/// Windows that took more than this many times the median are outliers.
pub(crate) const OUTLIER_FACTOR: f64 = 2.0;

/// How many steps of this length make a window of so many seconds.
pub(crate) fn steps_per_window(step: f64, window: f64) -> u64 {
    ((window / step.max(1e-9)) as u64).clamp(1, 100_000)
}

/// The mean of what is left without outliers; zero of nothing.
pub fn mean_without_outliers(seconds: &[f64]) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    let most = limit(seconds.to_vec());
    for s in seconds.iter().filter(|s| **s <= most) {
        sum += s;
        count += 1;
    }
    sum / f64::from(count.max(1))
}

/// The longest window that counts.
fn limit(mut seconds: Vec<f64>) -> f64 {
    seconds.sort_by(f64::total_cmp);
    OUTLIER_FACTOR * seconds.get(seconds.len() / 2).copied().unwrap_or(0.0)
}

/// Seconds of a step, by window, with what was recorded in each.
#[derive(Default)]
pub(crate) struct Windows {
    all: Vec<(f64, Option<Trace>)>,
}

impl Windows {
    /// Another window.
    pub(crate) fn add(&mut self, seconds: f64, trace: Option<Trace>) {
        self.all.push((seconds, trace));
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Those that count.
    fn usual(&self) -> impl Iterator<Item = &(f64, Option<Trace>)> {
        let most = limit(self.all.iter().map(|s| s.0).collect());
        self.all.iter().filter(move |s| s.0 <= most)
    }

    /// Mean seconds of a step.
    pub(crate) fn seconds(&self) -> f64 {
        let all: Vec<f64> = self.all.iter().map(|s| s.0).collect();
        mean_without_outliers(&all)
    }

    /// The mean's standard error, as a part of it.
    pub(crate) fn error(&self) -> f64 {
        let (mean, n) = (self.seconds(), self.usual().count() as f64);
        let squares: f64 = self.usual().map(|s| (s.0 - mean).powi(2)).sum();
        match n > 1.0 && mean > 0.0 {
            true => (squares / (n * (n - 1.0))).sqrt() / mean,
            false => f64::INFINITY,
        }
    }

    /// Seconds of a step in the best one.
    pub(crate) fn best(&self) -> f64 {
        self.all.iter().map(|s| s.0).fold(f64::INFINITY, f64::min)
    }

    /// What was recorded in those that count.
    pub(crate) fn traces(&self) -> Vec<&Trace> {
        self.usual().filter_map(|s| s.1.as_ref()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_windows_are_left_out() {
        let mut all = Windows::default();
        for (seconds, recorded) in [(1.0, true), (1.2, false), (9.0, true), (1.1, true)] {
            all.add(seconds, recorded.then(Trace::default));
        }
        assert_eq!((all.len(), all.traces().len()), (4, 2));
        assert!((all.seconds() - 1.1).abs() < 1e-12);
        // A hundredth in ten around the mean, of three.
        assert!((all.error() - 0.02f64.sqrt() / 6f64.sqrt() / 1.1).abs() < 1e-9);
        assert_eq!(steps_per_window(0.005, WINDOW_SECONDS), 4);
        assert_eq!(steps_per_window(0.3, WINDOW_SECONDS), 1);
    }

    #[test]
    fn a_disturbed_window_is_no_part_of_the_mean() {
        assert_eq!(mean_without_outliers(&[1.0, 2.0, 3.0, 7.0]), 2.0);
        assert_eq!(mean_without_outliers(&[1.0, 2.0, 3.0, 6.0]), 3.0);
        assert_eq!(mean_without_outliers(&[7.0, 1.0, 1.0]), 1.0);
        assert_eq!(mean_without_outliers(&[]), 0.0);
    }
}
