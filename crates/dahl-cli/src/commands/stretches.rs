//! Runs in short stretches, so that what disturbs a machine for a moment can be told from what it does.
//!
//! A stretch that took twice as long as most is left out, whole, whoever measures and whatever for: nothing
//! shorter is judged here, and no task is left out of a stretch that counts. What is learnt from stretches and
//! what is compared with it so goes through the same sieve.

use dahl_core::trace::Trace;

use super::measure::Measure;

/// Usual seconds of a stretch.
pub const STRETCH: f64 = 0.02;

/// How many times as long as most a stretch may take.
pub const MOST: f64 = 2.0;

/// How many steps of this length make a stretch of so many seconds.
pub fn steps(once: f64, stretch: f64) -> u64 {
    ((stretch / once.max(1e-9)) as u64).clamp(1, 100_000)
}

/// Seconds of a step, by stretch, with what was recorded in each.
#[derive(Default)]
pub struct Stretches {
    all: Vec<(f64, Option<Trace>)>,
}

impl Stretches {
    /// Another stretch of so many steps.
    pub fn run(&mut self, measure: &mut Measure, steps: u64) -> anyhow::Result<()> {
        let seconds = measure.steps(steps)?;
        self.add(seconds, measure.runtime.take_trace());
        Ok(())
    }

    /// Another one, of which only the time is kept: what was recorded is thrown away unseen.
    pub fn time(&mut self, measure: &mut Measure, steps: u64) -> anyhow::Result<()> {
        let seconds = measure.steps(steps)?;
        measure.runtime.take_trace();
        self.add(seconds, None);
        Ok(())
    }

    fn add(&mut self, seconds: f64, trace: Option<Trace>) {
        self.all.push((seconds, trace));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Those that count.
    fn usual(&self) -> impl Iterator<Item = &(f64, Option<Trace>)> {
        let mut seconds: Vec<f64> = self.all.iter().map(|s| s.0).collect();
        seconds.sort_by(f64::total_cmp);
        let most = MOST * seconds.get(seconds.len() / 2).copied().unwrap_or(0.0);
        self.all.iter().filter(move |s| s.0 <= most)
    }

    /// Mean seconds of a step.
    pub fn seconds(&self) -> f64 {
        self.usual().map(|s| s.0).sum::<f64>() / self.usual().count().max(1) as f64
    }

    /// The mean's standard error, as a part of it.
    pub fn error(&self) -> f64 {
        let (mean, n) = (self.seconds(), self.usual().count() as f64);
        let squares: f64 = self.usual().map(|s| (s.0 - mean).powi(2)).sum();
        match n > 1.0 && mean > 0.0 {
            true => (squares / (n * (n - 1.0))).sqrt() / mean,
            false => f64::INFINITY,
        }
    }

    /// Seconds of a step in the best one.
    pub fn best(&self) -> f64 {
        self.all.iter().map(|s| s.0).fold(f64::INFINITY, f64::min)
    }

    /// What was recorded.
    pub fn traces(&self) -> Vec<&Trace> {
        self.usual().filter_map(|s| s.1.as_ref()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_stretches_are_left_out() {
        let mut all = Stretches::default();
        for (seconds, recorded) in [(1.0, true), (1.2, false), (9.0, true), (1.1, true)] {
            all.add(seconds, recorded.then(Trace::default));
        }
        assert_eq!((all.len(), all.traces().len()), (4, 2));
        assert!((all.seconds() - 1.1).abs() < 1e-12);
        // A hundredth in ten around the mean, of three.
        assert!((all.error() - 0.02f64.sqrt() / 6f64.sqrt() / 1.1).abs() < 1e-9);
        assert_eq!(steps(0.005, STRETCH), 4);
        assert_eq!(steps(0.3, STRETCH), 1);
    }
}
