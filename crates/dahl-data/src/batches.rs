//! Batches: items in a seeded order, converted to floating point where the caller says.
//!
//! A batch is named by its epoch and its number in it, and can be made without making those before:
//! resuming costs nothing, and threads can make different batches at once and still agree. The last
//! batch of an epoch may be smaller; nothing is dropped or repeated.

use std::ops::Range;
use std::sync::Arc;

use dahl_core::Element;
use dahl_core::hash::Checksum;

use super::augment::{self, Augment, Canvas, Key};
use super::error::DataError;
use super::normalise::Normalise;
use super::order::Order;
use super::random::Draw;
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
    augment: Arc<Augment>,
    /// The key of its random numbers.
    augment_seed: u64,
    scratch: Scratch<T>,
}

/// Memory that is used for every sample.
#[derive(Clone, Default)]
struct Scratch<T> {
    image: Vec<u8>,
    spare_image: Vec<u8>,
    spare: Vec<T>,
    /// What the first sample of a part is mixed with.
    before: (Vec<T>, Vec<T>),
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
            augment: Arc::default(),
            augment_seed: 0,
            scratch: Scratch::default(),
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
    pub fn normalised(mut self, by: &Normalise) -> Result<Batches<T>, DataError> {
        if !matches!(self.source, Source::Images(_)) {
            return Err(DataError::Usage(format!(
                "{}: only sets of images are normalised here; normalise own samples yourself",
                self.source.name()
            )));
        }
        let channels = self.source.shape()[0];
        if by.mean().len() != channels {
            return Err(DataError::Usage(format!(
                "{} has {}, but {} means and deviations are given",
                self.source.name(),
                dahl_core::several(channels, "channel"),
                by.mean().len(),
            )));
        }
        self.tables = table(by.mean(), by.std());
        Ok(self)
    }

    /// Changes samples at random, by seed, epoch and sample. What the loss expects is said before, because mixed samples
    /// have mixed labels.
    pub fn augmented(mut self, augment: &Augment, seed: u64) -> Result<Batches<T>, DataError> {
        let refuse = |reason: String| {
            Err(DataError::Augment {
                text: augment.to_string(),
                reason: format!("{}: {reason}", self.source.name()),
            })
        };
        if augment.is_empty() {
            return Ok(self);
        }
        if let Source::Generated(_) = self.source {
            return refuse("batches of a program's own function are as they are".into());
        }
        if let (Some(transform), Source::Memory(_)) = (augment.needs_bytes(), &self.source) {
            return refuse(format!(
                "{transform} changes images, these samples are arrays"
            ));
        }
        let [_, height, width] = self.source.shape();
        if let (Some(transform), 1) = (augment.needs_image(), height * width) {
            return refuse(format!(
                "{transform} changes images, these samples are rows of numbers"
            ));
        }
        if augment.mixup().is_some() && matches!(self.expects, None | Some(Expects::Classes(_))) {
            return refuse(
                "mixup gives every sample parts of two classes; use a loss that takes them, such as \
                 soft_cross_entropy"
                    .into(),
            );
        }
        self.augment = Arc::new(augment.clone());
        self.augment_seed = seed;
        Ok(self)
    }

    /// What is changed at random.
    pub(crate) fn augment(&self) -> &Augment {
        &self.augment
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

    /// Samples of a batch, where they are known before it is made.
    pub(crate) fn samples_of(&self, batch: usize) -> Option<usize> {
        let left = self.source.samples()?.checked_sub(batch * self.batch)?;
        Some(left.min(self.batch))
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
        self.fill_part(epoch, batch, 0..usize::MAX, inputs, targets)
    }

    /// Makes only some samples of a batch, the same values as in the whole: for a node that computes with no others.
    /// Returns how many these are; what lies past the end of a smaller batch is left out.
    pub fn fill_part(
        &mut self,
        epoch: u64,
        batch: usize,
        part: Range<usize>,
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
        let clipped = |n: usize| part.start.min(n)..part.end.clamp(part.start.min(n), n);
        if let Source::Generated(batches) = &self.source {
            let (made, samples, width) = batches.make(epoch, batch, self.expects)?;
            let part = clipped(samples);
            sized(inputs, part.len(), size)?;
            made.samples.copy_to(part.start * size, inputs);
            part.clone()
                .for_each(|i| made.labels.push_to(i, width, self.expects, targets));
            return Ok(part.len());
        }
        let len = self.source.samples().unwrap_or(0);
        let order = match self.seed {
            Some(seed) => Order::shuffled(len, seed, epoch),
            None => Order::stored(len),
        };
        let first = batch * self.batch;
        let whole = (len - first).min(self.batch);
        let part = clipped(whole);
        sized(inputs, part.len(), size)?;
        reserve(targets, part.len())?;
        let item = |place: usize| {
            let missing = || DataError::Usage(format!("no item at place {place}"));
            order.get(first + place).ok_or_else(missing)
        };
        for (place, out) in part.clone().zip(inputs.chunks_exact_mut(size)) {
            self.sample(epoch, item(place)?, out, targets)?;
        }
        if let Some(alpha) = self.augment.mixup().filter(|_| !part.is_empty()) {
            let (mut values, mut labels) = std::mem::take(&mut self.scratch.before);
            labels.clear();
            sized(&mut values, 1, size)?;
            let before = item((part.start + whole - 1) % whole)?;
            self.sample(epoch, before, &mut values, &mut labels)?;
            let key = Key {
                seed: !self.augment_seed,
                epoch,
                item: batch as u64,
            };
            let lambda = augment::lambda(&mut Draw::new(key.sample()), alpha);
            mix(inputs, &values, lambda);
            mix(targets, &labels, lambda);
            self.scratch.before = (values, labels);
        }
        Ok(part.len())
    }

    /// Makes one sample of an epoch and adds its label.
    fn sample(
        &mut self,
        epoch: u64,
        item: usize,
        out: &mut [T],
        targets: &mut Vec<T>,
    ) -> Result<(), DataError> {
        let key = Key {
            seed: self.augment_seed,
            epoch,
            item: item as u64,
        };
        let shape = self.source.shape();
        match &self.source {
            Source::Memory(data) => {
                data.samples().copy_to(item * out.len(), out);
                let (labels, width) = data.labels();
                labels.push_to(item, width, self.expects, targets);
                let spare = &mut self.scratch.spare;
                let pixels = &mut *out;
                self.augment.change_values(
                    key,
                    &mut Canvas {
                        pixels,
                        spare,
                        shape,
                    },
                );
            }
            Source::Images(data) => {
                let label = match data.view(item).filter(|_| self.augment.is_empty()) {
                    Some(found) => {
                        let (bytes, label) = found?;
                        convert(&self.tables, bytes, out);
                        label
                    }
                    None => {
                        let Scratch {
                            image,
                            spare_image: spare,
                            ..
                        } = &mut self.scratch;
                        image.resize(out.len(), 0);
                        let label = data.read(item, image)?;
                        self.augment.change(
                            key,
                            &mut Canvas {
                                pixels: image,
                                spare,
                                shape,
                            },
                        );
                        convert(&self.tables, image, out);
                        label
                    }
                };
                super::samples::push_class(label, self.expects, targets);
            }
            Source::Generated(_) => {}
        }
        self.augment.erase(key, out, shape);
        Ok(())
    }
}

/// Every row becomes λ of itself and the rest of the row before it, which for the first is `before`.
fn mix<T: Element>(rows: &mut [T], before: &[T], lambda: f64) {
    let width = before.len();
    for at in (1..rows.len() / width.max(1)).rev() {
        let (earlier, own) = rows.split_at_mut(at * width);
        augment::blend(&mut own[..width], &earlier[(at - 1) * width..], lambda);
    }
    augment::blend(&mut rows[..width], before, lambda);
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

/// What a byte becomes, per channel. Each step is rounded to `T`, as arithmetic in `T` would.
pub(crate) fn table<T: Element>(mean: &[f64], std: &[f64]) -> Arc<[[T; 256]]> {
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

pub(crate) fn convert<T: Copy>(tables: &[[T; 256]], bytes: &[u8], out: &mut [T]) {
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
