//! Options that say what happens to images on their way into a batch.

use dahl::data::{Augment, Dataset, Normalise};

/// Normalisation and random changes.
#[derive(clap::Args, Clone)]
pub struct ImageArgs {
    /// Normalise images after the division by 255: `measured` on the training images, MEAN,…/DEVIATION,… with a
    /// number of each per channel, or `none`; kept with the weights [default: the model's]
    #[arg(long, value_name = "M/D|measured|none")]
    normalise: Option<String>,
    /// Change training images at random, in this order: flip[:P], crop:PIXELS, rotate:DEGREES, brightness:B,
    /// contrast:C, erase[:P], mixup:ALPHA (with --loss soft_cross_entropy), or `none` [default: the model's]
    #[arg(long, value_name = "TRANSFORM,…")]
    augment: Option<String>,
}

impl ImageArgs {
    /// The random changes, if something was said of them.
    pub fn augment(&self) -> anyhow::Result<Option<Augment>> {
        Ok(match self.augment.as_deref() {
            None => None,
            Some("none") => Some(Augment::default()),
            Some(text) => Some(text.parse()?),
        })
    }

    /// The normalisation, measured on these images if that was said.
    pub fn normalise(&self, train: &dyn Dataset) -> anyhow::Result<Option<Normalise>> {
        Ok(match self.normalise.as_deref() {
            None => None,
            // As they are: a mean of 0 and a deviation of 1 change nothing.
            Some("none") => {
                let channels = train.shape()[0];
                Some(Normalise::new(vec![0.0; channels], vec![1.0; channels])?)
            }
            Some("measured") => Some(Normalise::measure(train)?),
            Some(text) => Some(text.parse()?),
        })
    }
}
