//! Options that say which images.

use std::path::PathBuf;
use std::sync::Arc;

use dahl::data::{self, DataError, DataSpec, Dataset, Split};
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
    /// Opens a part of the images for a model.
    pub fn open(&self, model: &Model, split: Split) -> anyhow::Result<Arc<dyn Dataset>> {
        let spec = DataSpec::parse(&self.data)?;
        let limit = if split == Split::Train {
            self.limit
        } else {
            self.val_limit
        };
        let (roots, seed) = (data::default_roots(), self.split_seed);
        let set =
            data::open_drawn(&spec, split, model.input, limit, &roots, seed).map_err(|error| {
                match error {
                    DataError::Shape { .. } => anyhow::anyhow!("{error}; --data chooses"),
                    error => error.into(),
                }
            })?;
        let mut set: Arc<dyn Dataset> = set.into();
        if let Some(folder) = &self.cache {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            set = data::cached(set, folder, threads)?;
        }
        data::check_classes(&*set, model.classes())?;
        if split == Split::Train
            && let Some(text) = data::spare_outputs(&*set, model.classes())
        {
            print::warning(&text);
        }
        Ok(set)
    }
}
