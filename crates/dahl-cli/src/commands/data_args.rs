//! Options that say which images.

use std::path::PathBuf;
use std::sync::Arc;

use dahl::data::{self, Augment, DataError, DataSpec, Dataset, Split};
use dahl::nn::Model;

use crate::print;

/// Which images.
#[derive(clap::Args, Clone)]
pub struct DataOptions {
    /// Images: fashion-mnist-small (shipped), fashion-mnist, idx:DIR, cifar-10:DIR, cifar-100:DIR,
    /// folder:DIR (a sub-folder per class, or CSV), tar:DIR, npy:DIR, npz:FILE, synthetic:CxHxW:N[:classes]
    #[arg(long, default_value = "fashion-mnist-small")]
    pub data: String,
    /// Use only the first N images
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Use only the first N images for validation; 0 for none
    #[arg(long, value_name = "N")]
    pub val_limit: Option<usize>,
    /// Where the data has no validation images of its own, draw a tenth with this seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub split_seed: u64,
    /// Keep decoded pictures in this folder: decoded once, mapped from then on
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

impl DataOptions {
    /// What would make images come faster, of what is not done already.
    pub fn faster(&self, augment: Option<&Augment>) -> Vec<&'static str> {
        let mut ways = Vec::new();
        let decoded = matches!(
            DataSpec::parse(&self.data),
            Ok(DataSpec::Folder(_) | DataSpec::Tar(_))
        );
        if decoded && self.cache.is_none() {
            ways.push("--cache DIR keeps decoded pictures");
        }
        if augment.is_some_and(|a| !a.is_empty()) {
            ways.push("fewer transforms of --augment take less time");
        }
        ways
    }

    /// Opens a part of the images for a model, as long as the limit of that part says.
    pub fn open(&self, model: &Model, split: Split) -> anyhow::Result<Arc<dyn Dataset>> {
        self.open_first(model, split, self.limit_of(split))
    }

    /// Opens the first images of a part for a model.
    pub fn open_first(
        &self,
        model: &Model,
        split: Split,
        limit: Option<usize>,
    ) -> anyhow::Result<Arc<dyn Dataset>> {
        let set = self.open_shaped(model.input, split, limit);
        let set = set.map_err(|error| match error {
            DataError::Shape { .. } => anyhow::anyhow!("{error}; --data chooses"),
            error => error.into(),
        })?;
        data::check_classes(&*set, model.classes())?;
        if split == Split::Train
            && let Some(text) = data::spare_outputs(&*set, model.classes())
        {
            print::warning(&text);
        }
        Ok(set)
    }

    /// Opens a part of the images where no model was named, in their own extents; pictures, which may differ, in these.
    pub fn open_alone(
        &self,
        pictures: [usize; 3],
        split: Split,
    ) -> anyhow::Result<Arc<dyn Dataset>> {
        let limit = self.limit_of(split);
        match self.open_shaped(pictures, split, limit) {
            Err(DataError::Shape { data, .. }) => Ok(self.open_shaped(data, split, limit)?),
            other => Ok(other?),
        }
    }

    fn limit_of(&self, split: Split) -> Option<usize> {
        match split {
            Split::Train => self.limit,
            Split::Validation => self.val_limit,
        }
    }

    fn open_shaped(
        &self,
        shape: [usize; 3],
        split: Split,
        limit: Option<usize>,
    ) -> Result<Arc<dyn Dataset>, DataError> {
        let spec = DataSpec::parse(&self.data)?;
        let (roots, seed) = (data::default_roots(), self.split_seed);
        let set = data::open_drawn(&spec, split, shape, limit, &roots, seed)?;
        let mut set: Arc<dyn Dataset> = set.into();
        if let Some(folder) = &self.cache {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            set = data::cached(set, folder, threads)?;
        }
        Ok(set)
    }
}
