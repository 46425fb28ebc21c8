//! A search for a learning rate: steps with a rate that grows from one to the next, and the loss of each.
//!
//! L. N. Smith, "Cyclical learning rates for training neural networks", WACV 2017: the loss falls while the rate is
//! useful and rises when it is too large. The weights are spoilt afterwards; a run starts from fresh ones.

use dahl_core::report::{Report, Table, sparkline};
use dahl_core::{DType, Executor, Shown};
use dahl_data::{Prefetch, Prefetcher, Source};

use super::phase::Input;
use super::{Session, Totals, TrainError};
use crate::step::{Pass, StepError};

/// Which rates are tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSearch {
    /// The first.
    pub from: f64,
    /// The last.
    pub to: f64,
    /// How many, each as much larger than the one before.
    pub steps: u64,
}

impl Default for RateSearch {
    fn default() -> Self {
        RateSearch {
            from: 1e-6,
            to: 1.0,
            steps: 100,
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Rates with the losses of their batches, until these are not finite or four times the lowest.
    pub losses: Vec<(f64, f64)>,
}

/// One of so many rates is a row of a report.
const SHOWN: usize = 5;

/// Losses that the smoothed one needs before its changes mean something: as many as it remembers.
const WARM_UP: usize = 10;

impl Found {
    /// The rate at which the smoothed loss falls fastest; none if it never does. The first losses only count towards the
    /// mean: a mean of few batches moves by chance. Behind the lowest one the rate is too large, and what falls there is
    /// an easy batch among bad ones.
    pub fn steepest(&self) -> Option<f64> {
        let mut smooth = Vec::new();
        let mut mean = 0.0;
        for (i, &(_, loss)) in self.losses.iter().enumerate() {
            mean = 0.9 * mean + 0.1 * loss;
            // As Adam corrects its means: the first ones would be too small.
            smooth.push(mean / (1.0 - 0.9f64.powi(i as i32 + 1)));
        }
        let late = WARM_UP..smooth.len();
        let lowest = late.min_by(|&a, &b| smooth[a].total_cmp(&smooth[b]))?;
        let falls = smooth.windows(2).map(|w| w[0] - w[1]).zip(&self.losses);
        let falls = falls.take(lowest).skip(WARM_UP);
        let best = falls.max_by(|a, b| a.0.total_cmp(&b.0))?;
        (best.0 > 0.0).then_some(best.1.0)
    }

    /// Losses by rate as a table and a curve, and what to do.
    pub fn report(&self) -> Report {
        let (mut report, mut table) = (Report::default(), Table::new(">learning rate|>loss"));
        for (rate, loss) in self.losses.iter().step_by(SHOWN) {
            table.row([format!("{rate:.1e}"), format!("{loss:.4}")]);
        }
        report.table(table);
        let losses: Vec<f64> = self.losses.iter().map(|l| l.1).collect();
        report.line(format!("loss  {}", sparkline(&losses)));
        report.line(match self.steepest() {
            Some(rate) => format!("the loss falls fastest at --lr {rate:.1e}"),
            None => "the loss never falls: check data and model".into(),
        });
        report
    }
}

impl Session {
    /// Trains a few steps with growing rates and tells their losses. The weights are not worth keeping afterwards.
    pub fn find_rate(
        &mut self,
        exec: &mut dyn Executor,
        train: impl Into<Source>,
        search: RateSearch,
    ) -> Result<Found, TrainError> {
        let RateSearch { from, to, steps } = search;
        if !(from > 0.0 && to > from && to.is_finite() && steps > 1) {
            return Err(StepError::Setting {
                setting: "the search for a learning rate",
                value: format!("{from} to {to} in {steps} steps"),
                range: "from a rate above 0 to a larger one, in 2 steps or more",
            }
            .into());
        }
        self.prepare(exec)?;
        match self.step.dtype {
            DType::F32 => self.find_rate_as::<f32>(exec, train.into(), search),
            DType::F64 => self.find_rate_as::<f64>(exec, train.into(), search),
        }
    }

    fn find_rate_as<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        train: Source,
        RateSearch { from, to, steps }: RateSearch,
    ) -> Result<Found, TrainError> {
        let batches = self.training_batches::<T>(train)?;
        let prefetch = Prefetch {
            threads: batches.source().loaders(),
            ..Prefetch::default()
        };
        let (mut found, mut lowest) = (Found::default(), f64::INFINITY);
        for (i, batch) in (0..steps).zip(Prefetcher::start(&batches, prefetch)?) {
            let batch = batch?;
            let part = i as f64 / (steps - 1) as f64;
            let rate = from * libm::pow(to / from, part);
            let values = self.step.values(rate, i + 1);
            let input = Input::of(&batch, &values, i);
            let mut totals = Totals::default();
            let turn = i as usize % self.step.versions();
            let make = |batch| self.step.lower_as(Pass::Train, batch, &self.state, turn);
            self.steps.launch(exec, (&input, turn), &mut totals, make)?;
            self.steps.drain(exec, &mut totals)?;
            let loss = totals.mean_loss();
            lowest = lowest.min(loss);
            if !loss.is_finite() || loss > 4.0 * lowest || self.is_stopped(exec)? {
                break;
            }
            found.losses.push((rate, loss));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Losses fall by halves of a cosine to 0.5, rise, and have one easy batch in between.
    #[test]
    fn an_easy_batch_among_bad_ones_is_no_advice() {
        let loss = |i: usize| match i {
            0..60 => 1.25 + 0.75 * (std::f64::consts::PI * i as f64 / 60.0).cos(),
            75 => 0.1,
            _ => 0.5 + 0.15 * (i as f64 - 60.0),
        };
        let losses = (0..80).map(|i| (1e-6 * 1.1f64.powi(i as i32), loss(i)));
        let found = Found {
            losses: losses.collect(),
        };
        let rate = found.steepest().expect("it falls");
        assert!((1e-6 * 1.1f64.powi(25)..1e-6 * 1.1f64.powi(45)).contains(&rate));
        let rising = Found {
            losses: (0..40).map(|i| (f64::from(i), f64::from(i))).collect(),
        };
        assert_eq!(rising.steepest(), None);
    }
}
