//! Batches: items in a seeded order, converted to floating point where the caller says.
//!
//! A batch is named by its epoch and its number in it, and can be made without making those before:
//! resuming costs nothing, and threads can make different batches at once and still agree. The last
//! batch of an epoch may be smaller; nothing is dropped or repeated.

use std::sync::Arc;

use dahl_core::Element;
use dahl_core::hash::Checksum;

use super::Dataset;
use super::error::DataError;
use super::order::Order;
use super::samples::Expects;
use super::source::Source;

/// Makes batches of a source. Clones share the data; each has its own scratch memory.
#[derive(Clone)]
pub struct Batches<T> {
    source: Source,
    batch: usize,
    seed: Option<u64>,
    expects: Option<Expects>,
    /// Per channel, what each byte of an image becomes.
    tables: Arc<[[T; 256]]>,
    scratch: Vec<u8>,
}

impl<T: Element> Batches<T> {
    /// Batches of `batch` items in the stored order, each byte divided by 255.
    pub fn new(source: impl Into<Source>, batch: usize) -> Result<Batches<T>, DataError> {
        let source = source.into();
        if batch == 0 {
            return Err(DataError::Usage("a batch needs at least one sample".into()));
        }
        super::sample_size(source.shape())?;
        let channels = source.shape()[0];
        let tables = table(&vec![0.0; channels], &vec![1.0; channels]);
        Ok(Batches {
            source,
            batch,
            seed: None,
            expects: None,
            tables,
            scratch: Vec::new(),
        })
    }

    /// Shuffles: each epoch has its own order, the same for every run with this seed. Generated batches are
    /// as they are.
    pub fn shuffled(mut self, seed: u64) -> Batches<T> {
        self.seed = Some(seed);
        self
    }

    /// Refuses labels that are not what a loss expects: now, or where batches are generated, then.
    pub fn expecting(mut self, expects: Expects) -> Result<Batches<T>, DataError> {
        self.source.check_labels(expects)?;
        self.expects = Some(expects);
        Ok(self)
    }

    /// Subtracts a mean from each channel of images and divides it by a deviation, after the division by 255:
    /// rounded as PyTorch's `ToTensor` and `Normalize` round.
    pub fn normalised(mut self, mean: &[f64], std: &[f64]) -> Result<Batches<T>, DataError> {
        if !matches!(self.source, Source::Images(_)) {
            return Err(DataError::Usage(format!(
                "{}: only sets of images are normalised here; normalise own samples yourself",
                self.source.name()
            )));
        }
        let channels = self.source.shape()[0];
        if mean.len() != channels || std.len() != channels {
            return Err(DataError::Usage(format!(
                "{} has {channels} channels, but {} means and {} deviations are given",
                self.source.name(),
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

    /// A checksum of what bytes become.
    pub(crate) fn scaling(&self) -> u64 {
        let mut sum = Checksum::default();
        let values = self.tables.iter().flatten();
        values.for_each(|v| sum.add(&v.to_f64().to_le_bytes()));
        sum.finish()
    }

    /// Where they come from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Batches in an epoch.
    pub fn per_epoch(&self) -> usize {
        match &self.source {
            Source::Generated(batches) => batches.per_epoch(),
            source => source.samples().unwrap_or(0).div_ceil(self.batch),
        }
    }

    /// Makes batch `batch` of epoch `epoch` and returns how many samples it has. Afterwards `inputs` holds
    /// the samples and `targets` their labels, a class number or some values each, and nothing else.
    pub fn fill(
        &mut self,
        epoch: u64,
        batch: usize,
        inputs: &mut Vec<T>,
        targets: &mut Vec<T>,
    ) -> Result<usize, DataError> {
        if batch >= self.per_epoch() {
            let n = self.per_epoch();
            return Err(DataError::Usage(format!(
                "no batch {batch} in an epoch of {n}"
            )));
        }
        targets.clear();
        let size: usize = self.source.shape().iter().product();
        let (len, source) = match &self.source {
            Source::Generated(batches) => {
                let (made, samples, width) = batches.make(epoch, batch, self.expects)?;
                sized(inputs, samples, size)?;
                made.samples.copy_to(0, inputs);
                (0..samples).for_each(|i| made.labels.push_to(i, width, targets));
                return Ok(samples);
            }
            source => (source.samples().unwrap_or(0), source),
        };
        let order = match self.seed {
            Some(seed) => Order::shuffled(len, seed, epoch),
            None => Order::stored(len),
        };
        let first = batch * self.batch;
        let samples = (len - first).min(self.batch);
        sized(inputs, samples, size)?;
        reserve(targets, samples)?;
        for (place, out) in (first..).zip(inputs.chunks_exact_mut(size)) {
            let Some(item) = order.get(place) else {
                return Err(DataError::Usage(format!("no item at place {place}")));
            };
            match source {
                Source::Memory(data) => {
                    data.samples().copy_to(item * size, out);
                    let (labels, width) = data.labels();
                    labels.push_to(item, width, targets);
                }
                Source::Images(data) => {
                    let label = image(&**data, item, &self.tables, &mut self.scratch, out)?;
                    targets.push(T::from_f64(label as f64));
                }
                Source::Generated(_) => {}
            }
        }
        Ok(samples)
    }
}

/// Makes room for so many samples of so many values.
fn sized<T: Element>(out: &mut Vec<T>, samples: usize, size: usize) -> Result<(), DataError> {
    let values = samples.saturating_mul(size);
    reserve(out, values)?;
    out.resize(values, T::default());
    Ok(())
}

fn reserve<T>(out: &mut Vec<T>, values: usize) -> Result<(), DataError> {
    let missing = values.saturating_sub(out.len());
    out.try_reserve_exact(missing).map_err(|_| {
        let bytes = (values as u64).saturating_mul(size_of::<T>() as u64);
        DataError::Memory {
            what: "a batch",
            bytes: dahl_core::Bytes(bytes),
        }
    })
}

/// Converts an image and returns its class.
fn image<T: Copy>(
    data: &dyn Dataset,
    item: usize,
    tables: &[[T; 256]],
    scratch: &mut Vec<u8>,
    out: &mut [T],
) -> Result<usize, DataError> {
    if let Some(found) = data.view(item) {
        let (bytes, label) = found?;
        convert(tables, bytes, out);
        return Ok(label);
    }
    scratch.resize(out.len(), 0);
    let label = data.read(item, scratch)?;
    convert(tables, scratch, out);
    Ok(label)
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
