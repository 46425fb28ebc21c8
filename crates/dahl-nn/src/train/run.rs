//! The loop: batches in, losses out, until the run has ended or its watcher stops it.

use std::ops::ControlFlow;

use dahl_core::{DType, Executor, Shown};
use dahl_data::{Batches, DataError, Expects, Part, Prefetch, Prefetcher, Prepared, Source};

use super::events::{EpochReport, Event, Progress};
use super::phase::Input;
use super::{Session, Totals, TrainError};
use crate::losses::Targets;
use crate::step::Pass;

/// Who is told what happens, and may stop the run.
pub(super) type Watch<'a> = dyn FnMut(&mut Progress<'_>) -> ControlFlow<()> + 'a;

impl Session {
    /// Trains until the epochs or steps are done, or `watch` breaks; returns how the epochs went that ended in
    /// this call.
    ///
    /// A run that was stopped, by `watch` or by [`Session::stop_handle`], has finished the steps it launched; calling
    /// this again goes on from there, as [`Session::resume`] does from the checkpoint that a stopped run writes if it
    /// writes any. A checkpoint that cannot be written does not end the run: see [`Session::unsaved`].
    pub fn run(
        &mut self,
        exec: &mut dyn Executor,
        train: impl Into<Source>,
        validation: Option<Source>,
        watch: &mut dyn FnMut(&mut Progress<'_>) -> ControlFlow<()>,
    ) -> Result<Vec<EpochReport>, TrainError> {
        let train = train.into();
        self.prepare(exec)?;
        match self.step.dtype {
            DType::F32 => self.run_as::<f32>(exec, train, validation, watch),
            DType::F64 => self.run_as::<f64>(exec, train, validation, watch),
        }
    }

    fn run_as<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        train: Source,
        validation: Option<Source>,
        watch: &mut Watch<'_>,
    ) -> Result<Vec<EpochReport>, TrainError> {
        let batches = self.training_batches::<T>(train)?;
        // What is wrong with the validation set should not be found out after an epoch.
        let validation = validation.map(|v| self.batches::<T>(v)).transpose()?;
        exec.compare(&mut || self.facts(&batches))?;
        self.open_checkpoints(exec, &batches)?;
        let steps = batches.per_epoch() as u64;
        let total = self.training.total(steps)?;
        let (epoch, batch) = match self.batch_in_epoch == steps {
            true => (self.epoch + 1, 0),
            false => (self.epoch, self.batch_in_epoch),
        };
        let prefetch = Prefetch {
            epoch,
            batch: batch as usize,
            threads: batches.source().loaders(),
            ..Prefetch::default()
        };
        let part = self.own_part(exec, &batches)?;
        let mut source = Prefetcher::start_part(&batches, prefetch, part)?;
        let mut history = Vec::new();
        let (mut stop, mut saved) = (false, None);
        self.interrupted = false;
        loop {
            // The end of an epoch is due, also where a run was stopped before it or while it was judged.
            let complete = self.batch_in_epoch == steps;
            if self.is_report_due(steps, total) {
                let Some(report) = self.end_epoch::<T>(exec, validation.as_ref(), complete)? else {
                    self.interrupted = true;
                    break;
                };
                history.push(report);
                let is_best = self.is_best(&report);
                stop |= self.tell(exec, watch, Event::Epoch(report)).is_break();
                stop |= self.save_checkpoint(exec, watch)?.is_break();
                if is_best {
                    self.keep_best()?;
                }
                stop |= complete && self.stopped_early();
                saved = Some(self.launched);
            }
            let to_do =
                !self.stopped_early() && self.launched < total || self.is_report_due(steps, total);
            self.interrupted = to_do && self.is_stopped(exec)?;
            if stop || self.interrupted || !to_do {
                break;
            }
            let Some(batch) = source.next() else { break };
            let mut batch = batch?;
            self.steps.complete(exec, &mut source, &mut batch)?;
            let schedule = &self.training.schedule;
            let rate = schedule.lr(self.launched, steps, total, self.rate);
            self.launch(exec, &batch, rate)?;
            drop(batch);
            self.batch_in_epoch += 1;
            let event = Event::Step {
                epoch: self.epoch + 1,
                step: self.batch_in_epoch,
                steps,
                total,
                rate,
                totals: self.totals,
            };
            stop |= self.tell(exec, watch, event).is_break();
            let every = self.checkpoints.as_ref().and_then(|c| c.every);
            if every.is_some_and(|n| self.launched.is_multiple_of(n))
                && self.batch_in_epoch < steps
                && self.launched < total
            {
                stop |= self.save_checkpoint(exec, watch)?.is_break();
                saved = Some(self.launched);
            }
        }
        self.waited = source.waited();
        self.settle(exec)?;
        if (stop || self.interrupted) && saved != Some(self.launched) {
            // Nothing is left to stop.
            let _ = self.save_checkpoint(exec, watch)?;
        }
        exec.wait()?;
        Ok(history)
    }

    /// What of each batch is needed on this computer.
    fn own_part<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        batches: &Batches<T>,
    ) -> Result<Part, TrainError> {
        let samples = batches.source().samples();
        let of = samples.map_or(self.step.batch, |n| n.min(self.step.batch));
        if of == 0 || samples.is_none() {
            return Ok(Part::default());
        }
        let turn = self.turn();
        let make = |batch| self.step.lower_as(Pass::Train, batch, &self.state, turn);
        self.steps.prepare((of, turn), make)?;
        let samples = self.steps.samples(exec, of);
        Ok(Part { samples, of })
    }

    /// Whether somebody has asked the run to stop, on any of the computers that work on it.
    pub(super) fn is_stopped(&self, exec: &mut dyn Executor) -> Result<bool, TrainError> {
        Ok(exec.agree(self.stop.take())?)
    }

    /// Whether an epoch has ended, or the last step has cut it short, and nobody was told.
    fn is_report_due(&self, steps: u64, total: u64) -> bool {
        let cut = self.launched >= total && self.batch_in_epoch > 0 && !self.reported;
        cut || self.batch_in_epoch == steps
    }

    /// Batches to train with: in their order, changed at random.
    pub(super) fn training_batches<T: Shown>(
        &self,
        train: Source,
    ) -> Result<Batches<T>, DataError> {
        let mut batches = self.batches::<T>(train)?;
        if self.training.shuffle {
            batches = batches.shuffled(self.step.seed);
        }
        match &self.training.augment {
            Some(augment) => batches.augmented(augment, self.step.seed),
            None => Ok(batches),
        }
    }

    /// Batches of a source, if it is what the step takes.
    fn batches<T: Shown>(&self, source: Source) -> Result<Batches<T>, DataError> {
        self.unlabelled(source)?.expecting(self.expects())
    }

    /// The same, whatever its labels are.
    pub(super) fn unlabelled<T: Shown>(&self, source: Source) -> Result<Batches<T>, DataError> {
        source.check_shape(self.step.model.input)?;
        let batches = Batches::new(source, self.step.batch)?;
        match &self.training.normalise {
            Some(by) => batches.normalised(by),
            None => Ok(batches),
        }
    }

    /// What labels the loss takes.
    pub(super) fn expects(&self) -> Expects {
        let outputs = self.step.model.classes();
        match self.step.loss.targets() {
            Targets::Classes => Expects::Classes(outputs),
            Targets::Values => Expects::Values(outputs),
            Targets::Shares => Expects::Shares(outputs),
        }
    }

    /// Every batch once.
    pub(super) fn once<T: Shown>(&self, batches: &Batches<T>) -> Result<Prefetcher<T>, DataError> {
        let prefetch = Prefetch {
            until: Some(1),
            threads: batches.source().loaders(),
            ..Prefetch::default()
        };
        Prefetcher::start(batches, prefetch)
    }

    pub(super) fn tell(
        &self,
        exec: &mut dyn Executor,
        watch: &mut Watch<'_>,
        event: Event,
    ) -> ControlFlow<()> {
        watch(&mut Progress {
            event,
            session: self,
            exec,
        })
    }

    fn launch<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        batch: &Prepared<T>,
        rate: f64,
    ) -> Result<(), TrainError> {
        let values = self.step.values(rate, self.launched + 1);
        let input = Input::of(batch, &values, self.launched);
        // Each part of a batch counts as one that batch norms have seen.
        self.batches_before += self.step.parts(batch.samples()).len() as u64 - 1;
        let before = self.totals.loss;
        let turn = self.turn();
        let make = |batch| self.step.lower_as(Pass::Train, batch, &self.state, turn);
        self.steps
            .launch(exec, (&input, turn), &mut self.totals, make)?;
        self.launched += 1;
        self.check_loss(before)
    }

    /// Collects what the steps in flight leave.
    pub(super) fn settle(&mut self, exec: &mut dyn Executor) -> Result<(), TrainError> {
        let before = self.totals.loss;
        self.steps.drain(exec, &mut self.totals)?;
        self.check_loss(before)
    }

    fn check_loss(&self, before: f64) -> Result<(), TrainError> {
        let loss = self.totals.loss - before;
        if loss.is_finite() {
            return Ok(());
        }
        Err(TrainError::NotANumber {
            loss,
            step: self.launched,
            epoch: self.epoch + 1,
        })
    }

    /// Judges an epoch and begins the next one; nothing of that if the run is to stop before it is judged.
    fn end_epoch<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        validation: Option<&Batches<T>>,
        complete: bool,
    ) -> Result<Option<EpochReport>, TrainError> {
        self.settle(exec)?;
        let validation = match validation {
            None => None,
            Some(batches) => match self.evaluate_as(exec, batches, true)? {
                None => return Ok(None),
                judged => judged,
            },
        };
        let report = EpochReport {
            epoch: self.epoch + 1,
            train: self.totals,
            validation,
        };
        self.reported = !complete;
        if complete {
            self.epoch += 1;
            self.batch_in_epoch = 0;
            self.totals = Totals::default();
        }
        Ok(Some(report))
    }

    /// Loss and accuracy on a source, with the weights as they are.
    pub fn evaluate(
        &mut self,
        exec: &mut dyn Executor,
        data: impl Into<Source>,
    ) -> Result<Totals, TrainError> {
        let data = data.into();
        self.prepare(exec)?;
        let judged = match self.step.dtype {
            DType::F32 => {
                let batches = self.batches::<f32>(data)?;
                self.evaluate_as(exec, &batches, false)
            }
            DType::F64 => {
                let batches = self.batches::<f64>(data)?;
                self.evaluate_as(exec, &batches, false)
            }
        };
        Ok(judged?.unwrap_or_default())
    }

    fn evaluate_as<T: Shown>(
        &mut self,
        exec: &mut dyn Executor,
        batches: &Batches<T>,
        stops: bool,
    ) -> Result<Option<Totals>, TrainError> {
        let mut totals = Totals::default();
        self.evaluations.forget();
        let mut source = self.once(batches)?;
        while let Some(batch) = source.next() {
            if stops && self.is_stopped(exec)? {
                self.evaluations.drain(exec, &mut totals)?;
                return Ok(None);
            }
            let mut batch = batch?;
            self.evaluations.complete(exec, &mut source, &mut batch)?;
            let input = Input::of(&batch, &[], 0);
            let turn = self.turn();
            let make = |batch| self.step.lower_as(Pass::Evaluate, batch, &self.shown, turn);
            self.evaluations
                .launch(exec, (&input, turn), &mut totals, make)?;
        }
        self.evaluations.drain(exec, &mut totals)?;
        Ok(Some(totals))
    }
}
