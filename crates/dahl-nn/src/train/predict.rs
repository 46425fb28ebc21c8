//! Predictions: what a model gives for samples whose targets nobody knows.

use dahl_core::{DType, ExecError, Executor, Shown};
use dahl_data::{Samples, Source};

use super::phase::{Collect, Input};
use super::{Session, TrainError};
use crate::lower::state::Io;
use crate::step::Pass;

/// What a model gave: a row of scores (logits) for each sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    outputs: usize,
    values: Vec<f64>,
}

impl Scores {
    /// Rows of so many scores, one after another.
    pub(super) fn new(outputs: usize, values: Vec<f64>) -> Scores {
        Scores { outputs, values }
    }

    /// How many samples.
    pub fn len(&self) -> usize {
        self.values.len() / self.outputs.max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The scores of a sample, exactly as they were computed in either precision.
    ///
    /// # Panics
    /// If there is no such sample.
    pub fn row(&self, sample: usize) -> &[f64] {
        &self.values[sample * self.outputs..][..self.outputs]
    }

    /// The scores of all samples, in their order.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.values.chunks_exact(self.outputs.max(1))
    }

    /// The class with the largest score of each sample, the first of equals: what accuracy counts.
    pub fn classes(&self) -> Vec<usize> {
        let larger = |a: f64, b: f64| a > b || (a.is_nan() && !b.is_nan());
        let best = |row: &[f64]| {
            (1..row.len()).fold(
                0,
                |best, i| if larger(row[i], row[best]) { i } else { best },
            )
        };
        self.rows().map(best).collect()
    }

    /// The softmax of a sample's scores.
    ///
    /// # Panics
    /// If there is no such sample.
    pub fn probabilities(&self, sample: usize) -> Vec<f64> {
        let row = self.row(sample);
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<f64> = row.iter().map(|x| (x - most).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(|p| p / sum).collect()
    }
}

/// Which classes are taken for which: a row for each class, with how many of its samples have their largest score where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    classes: usize,
    counts: Vec<u64>,
}

impl Confusion {
    fn new(classes: usize) -> Confusion {
        let counts = vec![0; classes * classes];
        Confusion { classes, counts }
    }

    /// How many classes the model tells apart.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// For every class, how many samples of this one were taken for it.
    ///
    /// # Panics
    /// If there is no such class.
    pub fn row(&self, class: usize) -> &[u64] {
        &self.counts[class * self.classes..][..self.classes]
    }

    /// Samples of a class.
    pub fn samples(&self, class: usize) -> u64 {
        self.row(class).iter().sum()
    }

    /// The share of a class's samples that is found.
    pub fn accuracy(&self, class: usize) -> f64 {
        self.row(class)[class] as f64 / self.samples(class).max(1) as f64
    }

    /// The pairs of different classes with the most samples, the most first: what is taken for what, how often.
    pub fn mistakes(&self) -> Vec<(usize, usize, u64)> {
        let all =
            (0..self.counts.len()).map(|i| (i / self.classes, i % self.classes, self.counts[i]));
        let mut wrong: Vec<_> = all.filter(|&(a, b, n)| a != b && n > 0).collect();
        wrong.sort_by_key(|&(a, b, n)| (std::cmp::Reverse(n), a, b));
        wrong
    }
}

impl Collect for Scores {
    fn collect(&mut self, exec: &mut dyn Executor, io: &Io, _: usize) -> Result<(), ExecError> {
        let Some(scores) = &io.scores else {
            return Ok(());
        };
        exec.read(scores, &mut |v| {
            self.values.extend((0..v.len()).map(|i| v.get(i)));
        })
    }
}

impl Session {
    /// What the model gives for samples, one after another: floats as they are, bytes divided by 255
    /// and normalised as in training. Dropout is off and normalisation uses its running statistics, as in evaluation.
    pub fn predict<'a>(
        &mut self,
        exec: &mut dyn Executor,
        samples: impl Into<Samples<'a>>,
    ) -> Result<Scores, TrainError> {
        let samples = samples.into();
        self.prepare(exec)?;
        match self.step.dtype {
            DType::F32 => self.predict_as::<f32>(exec, &samples),
            DType::F64 => self.predict_as::<f64>(exec, &samples),
        }
    }

    fn predict_as<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        samples: &Samples<'_>,
    ) -> Result<Scores, TrainError> {
        let shape = self.step.model.input;
        let count = samples.count(shape)?;
        let (mut scores, mut inputs) = (self.no_scores(), Vec::new());
        self.predictions.forget();
        let size: usize = shape.iter().product();
        for first in (0..count).step_by(self.step.batch) {
            let samples_here = self.step.batch.min(count - first);
            inputs.resize(samples_here * size, T::default());
            match (samples, &self.training.normalise) {
                (Samples::Bytes(bytes), Some(by)) => {
                    let bytes = &bytes[first * size..][..inputs.len()];
                    by.convert(bytes, size, &mut inputs)?;
                }
                _ => samples.copy_to(first * size, &mut inputs),
            }
            self.predict_batch(exec, samples_here, &inputs, &mut scores)?;
        }
        self.predictions.drain(exec, &mut scores)?;
        Ok(scores)
    }

    /// What the model gives for every sample of a source, in its order; targets are not looked at.
    pub fn predict_all(
        &mut self,
        exec: &mut dyn Executor,
        data: impl Into<Source>,
    ) -> Result<Scores, TrainError> {
        self.predict_with_targets(exec, data.into(), &mut Vec::new())
    }

    /// Which classes of a source are taken for which. The loss must be one that takes classes.
    pub fn confusion(
        &mut self,
        exec: &mut dyn Executor,
        data: impl Into<Source>,
    ) -> Result<Confusion, TrainError> {
        let data = data.into();
        data.check_labels(self.expects())?;
        let mut targets = Vec::new();
        let scores = self.predict_with_targets(exec, data, &mut targets)?;
        let mut all = Confusion::new(self.step.model.classes());
        for (target, found) in targets.into_iter().zip(scores.classes()) {
            let place = target as usize * all.classes + found;
            if let Some(count) = all.counts.get_mut(place) {
                *count += 1;
            }
        }
        Ok(all)
    }

    fn predict_with_targets(
        &mut self,
        exec: &mut dyn Executor,
        data: Source,
        targets: &mut Vec<f64>,
    ) -> Result<Scores, TrainError> {
        self.prepare(exec)?;
        match self.step.dtype {
            DType::F32 => self.predict_all_as::<f32>(exec, data, targets),
            DType::F64 => self.predict_all_as::<f64>(exec, data, targets),
        }
    }

    fn predict_all_as<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        data: Source,
        targets: &mut Vec<f64>,
    ) -> Result<Scores, TrainError> {
        let batches = self.unlabelled::<T>(data)?;
        let mut scores = self.no_scores();
        self.predictions.forget();
        for batch in self.once(&batches)? {
            let batch = batch?;
            targets.extend(batch.targets().iter().map(|t| t.to_f64()));
            self.predict_batch(exec, batch.samples(), batch.inputs(), &mut scores)?;
        }
        self.predictions.drain(exec, &mut scores)?;
        Ok(scores)
    }

    fn no_scores(&self) -> Scores {
        Scores::new(self.step.model.classes(), Vec::new())
    }

    fn predict_batch<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        samples: usize,
        inputs: &[T],
        scores: &mut Scores,
    ) -> Result<(), TrainError> {
        let input = Input {
            samples,
            given: 0..samples,
            inputs,
            targets: &[],
            values: &[],
            step: 0,
        };
        let turn = self.turn();
        let make = |batch| self.step.lower_as(Pass::Predict, batch, &self.shown, turn);
        self.predictions.launch(exec, (&input, turn), scores, make)
    }
}
