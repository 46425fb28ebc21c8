//! What `eval` and `predict` share: a model with trained weights, ready to compute.

use std::path::PathBuf;
use std::sync::Arc;

use dahl::data::{Dataset, Split};
use dahl::nn::Model;
use dahl::nn::losses::Targets;
use dahl::nn::optim::Sgd;
use dahl::nn::train::{Session, Training};
use dahl::runtime::network::Member;
use dahl::tune::ThisMachine;

use super::cluster;
use super::data_args::DataOptions;
use super::run_args::{Run, RunArgs};
use super::step_args::{GraphArgs, LossArgs, model, weights_for};
use crate::{interrupt, print};

/// A model, its weights, and data.
#[derive(clap::Args)]
pub struct InferenceArgs {
    /// The model: a file, or the name of a shipped one
    model: PathBuf,
    /// Its weights: a file, or the folder of a checkpoint
    #[arg(long, value_name = "F.safetensors|DIR")]
    weights: PathBuf,
    #[command(flatten)]
    data: DataOptions,
    /// Take the training images instead of the validation images
    #[arg(long, conflicts_with = "val_limit")]
    train: bool,
    #[command(flatten)]
    graph: GraphArgs,
    #[command(flatten)]
    loss: LossArgs,
    #[command(flatten)]
    run: RunArgs,
}

/// All that is needed to compute.
pub struct Ready {
    run: Run,
    /// Who computes.
    pub member: Member,
    /// The model with its weights.
    pub session: Session,
}

impl InferenceArgs {
    /// The model.
    pub fn model(&self) -> anyhow::Result<Model> {
        model(Some(&self.model))
    }

    /// The images.
    pub fn open(&self, model: &Model) -> anyhow::Result<Arc<dyn Dataset>> {
        let (split, limit) = match self.train {
            true => (Split::Train, self.data.limit),
            // One part is read, so --limit is about that one, whichever it is.
            false => (Split::Validation, self.data.val_limit.or(self.data.limit)),
        };
        self.data.open_first(model, split, limit)
    }

    /// Whether samples have classes, by the loss; otherwise the model's output are values.
    pub fn has_classes(&self) -> bool {
        self.loss.loss.targets() != Targets::Values
    }

    /// Reads the weights and starts a runtime.
    pub fn ready(&self, model: Model) -> anyhow::Result<Ready> {
        let this = ThisMachine::look();
        let loaded = weights_for(&model, &self.weights)?;
        // Nothing is updated: the optimiser with the least state.
        let step = self
            .graph
            .step(model, &this, true)?
            .loss(self.loss.loss.clone())
            .optimizer(Sgd::default());
        let run = self.run.prepare(this, step, &self.graph, None, None)?;
        let mut member = run.member()?;
        interrupt::cancels(member.runtime().canceller());
        let mut session = Session::new(run.step.clone(), Training::default())?;
        session.set_weights(&mut member, &loaded.weights)?;
        session.name_classes(loaded.class_names);
        session.normalise_by(loaded.normalise);
        Ok(Ready {
            run,
            member,
            session,
        })
    }
}

impl Ready {
    /// Names of the classes: those kept with the weights, else the data's, else numbers. Different names of both are
    /// worth a warning.
    pub fn class_names(&self, data: Option<&dyn Dataset>) -> Vec<String> {
        let data = |class| data.and_then(|d| d.class_name(class));
        let (names, differing) = self.session.names_of_classes(data);
        differing.iter().for_each(|text| print::warning(text));
        names
    }

    /// Writes the trace, if one was asked for.
    pub fn finish(mut self) -> anyhow::Result<()> {
        let trace = self.run.finish(&mut self.member, |_| ());
        let saved = trace.and_then(|trace| self.run.save(trace.as_ref()));
        cluster::leave(&mut self.member, saved)
    }
}
