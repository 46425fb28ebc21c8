//! Batches: items in a seeded order, converted to floating point where the caller says.
//!
//! A batch is named by its epoch and its number in it, and can be made without making those before:
//! resuming costs nothing, and threads can make different batches at once and still agree. The last
//! batch of an epoch may be smaller; nothing is dropped or repeated.

use std::sync::Arc;

use dahl_core::Element;

use super::Dataset;
use super::error::DataError;
use super::order::Order;

/// Makes batches of a data set. Clones share the data; each has its own scratch memory.
#[derive(Clone)]
pub struct Batches<T> {
    data: Arc<dyn Dataset>,
    batch: usize,
    seed: Option<u64>,
    /// Per channel, what each byte becomes.
    tables: Arc<[[T; 256]]>,
    scratch: Vec<u8>,
}

impl<T: Element> Batches<T> {
    /// Batches of `batch` items in the stored order, each byte divided by 255.
    pub fn new(data: Arc<dyn Dataset>, batch: usize) -> Result<Batches<T>, DataError> {
        if batch == 0 {
            return Err(DataError::Usage("a batch needs at least one image".into()));
        }
        super::image_size(data.shape())?;
        let channels = data.shape()[0];
        let tables = table(&vec![0.0; channels], &vec![1.0; channels]);
        Ok(Batches {
            data,
            batch,
            seed: None,
            tables,
            scratch: Vec::new(),
        })
    }

    /// Shuffles: each epoch has its own order, the same for every run with this seed.
    pub fn shuffled(mut self, seed: u64) -> Batches<T> {
        self.seed = Some(seed);
        self
    }

    /// Subtracts a mean from each channel and divides it by a deviation, after the division by 255:
    /// rounded as PyTorch's `ToTensor` and `Normalize` round.
    pub fn normalised(mut self, mean: &[f64], std: &[f64]) -> Result<Batches<T>, DataError> {
        let channels = self.data.shape()[0];
        if mean.len() != channels || std.len() != channels {
            return Err(DataError::Usage(format!(
                "{} has {channels} channels, but {} means and {} deviations are given",
                self.data.name(),
                mean.len(),
                std.len()
            )));
        }
        let usable = |s: &f64| s.is_finite() && T::from_f64(*s).to_f64() > 0.0;
        if !mean.iter().all(|m| m.is_finite()) || !std.iter().all(usable) {
            return Err(DataError::Usage(
                "means must be finite, deviations finite and above 0".into(),
            ));
        }
        self.tables = table(mean, std);
        Ok(self)
    }

    /// The data set.
    pub fn data(&self) -> &dyn Dataset {
        &*self.data
    }

    /// Images in a batch, the last one of an epoch excepted.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Values of an image.
    pub fn image(&self) -> usize {
        self.data.shape().iter().product()
    }

    /// Batches in an epoch.
    pub fn per_epoch(&self) -> usize {
        self.data.len().div_ceil(self.batch)
    }

    /// Images in batch `batch` of an epoch; 0 past the end.
    pub fn images(&self, batch: usize) -> usize {
        let start = batch.saturating_mul(self.batch);
        self.data.len().saturating_sub(start).min(self.batch)
    }

    /// Makes batch `batch` of epoch `epoch` and returns how many images it has.
    ///
    /// Writes that many images to the start of `pixels` and classes to the start of `labels`; what
    /// follows them is left as it was.
    pub fn fill(
        &mut self,
        epoch: u64,
        batch: usize,
        pixels: &mut [T],
        labels: &mut [usize],
    ) -> Result<usize, DataError> {
        let (images, size) = (self.images(batch), self.image());
        if images == 0 {
            let n = self.per_epoch();
            return Err(DataError::Usage(format!(
                "no batch {batch} in an epoch of {n}"
            )));
        }
        if labels.len() < images || pixels.len() / size < images {
            return Err(DataError::Usage(format!(
                "a batch of {images} images of {size} values does not fit {} values and {} labels",
                pixels.len(),
                labels.len()
            )));
        }
        let order = match self.seed {
            Some(seed) => Order::shuffled(self.data.len(), seed, epoch),
            None => Order::stored(self.data.len()),
        };
        let places = batch * self.batch..;
        let slots = pixels.chunks_exact_mut(size).zip(labels).take(images);
        for (place, (pixels, label)) in places.zip(slots) {
            let Some(item) = order.get(place) else {
                return Err(DataError::Usage(format!("no item at place {place}")));
            };
            *label = match self.data.view(item) {
                Some(found) => {
                    let (bytes, label) = found?;
                    convert(&self.tables, bytes, pixels);
                    label
                }
                None => {
                    self.scratch.resize(size, 0);
                    let label = self.data.read(item, &mut self.scratch)?;
                    convert(&self.tables, &self.scratch, pixels);
                    label
                }
            };
        }
        Ok(images)
    }
}

/// What a byte becomes, per channel. Each step is rounded to `T`, as arithmetic in `T` would.
fn table<T: Element>(mean: &[f64], std: &[f64]) -> Arc<[[T; 256]]> {
    let round = |v: f64| T::from_f64(v).to_f64();
    mean.iter()
        .zip(std)
        .map(|(&mean, &std)| {
            std::array::from_fn(|byte| {
                let centred = round(round(byte as f64 / 255.0) - round(mean));
                T::from_f64(centred / round(std))
            })
        })
        .collect()
}

fn convert<T: Copy>(tables: &[[T; 256]], bytes: &[u8], out: &mut [T]) {
    let plane = bytes.len() / tables.len().max(1);
    if plane == 0 {
        return;
    }
    let planes = bytes.chunks_exact(plane).zip(out.chunks_exact_mut(plane));
    for (table, (bytes, out)) in tables.iter().zip(planes) {
        for (o, &b) in out.iter_mut().zip(bytes) {
            *o = table[usize::from(b)];
        }
    }
}
