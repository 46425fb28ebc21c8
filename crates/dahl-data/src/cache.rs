//! Decoded images on disk: a set that is slow to read is read once and mapped from then on.
//!
//! The file belongs to one set, by a checksum of what it is (names, labels, some pictures), its shape and its length:
//! if any of them changes, another file is written. It is written whole or not at all, with a checksum over its header.
//! Pictures that change without their name or size do so unseen, as they do for a checkpoint's identity.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use dahl_core::hash::Checksum;

use super::bytes::{Bytes, map};
use super::error::DataError;
use super::{Dataset, sample_size};

const MAGIC: &[u8; 8] = b"DAHLIMG1";
/// Magic, identity, number of images, bytes of an image, checksum of these.
const HEADER: usize = 40;
/// Images that threads decode before they are written: bounds the memory.
const ROUND: usize = 256;

/// A set whose decoded images lie in a file.
struct Cached {
    inner: Arc<dyn Dataset>,
    bytes: Bytes,
    size: usize,
}

/// The same set, decoded in a file of this folder; decodes it now, on so many threads, if it is not there yet. Sets that
/// lie in memory or in mapped files are returned as they are.
pub fn cached(
    data: Arc<dyn Dataset>,
    folder: &Path,
    threads: usize,
) -> Result<Arc<dyn Dataset>, DataError> {
    if data.view(0).is_some() || data.floats().is_some() {
        return Ok(data);
    }
    let size = sample_size(data.shape())?;
    let identity = data.content();
    std::fs::create_dir_all(folder).map_err(DataError::io(folder, "make it"))?;
    let path = folder.join(format!("{identity:016x}-{size}-{}.images", data.len()));
    let header = header(identity, data.len(), size);
    if !path.is_file() {
        let result = dahl_core::file::write_atomically(&path, |out| {
            fill(&*data, &header, size, threads, out)
        });
        // What is wrong with a picture is not the file's fault.
        result.map_err(|why| match why.downcast::<DataError>() {
            Ok(of_picture) => of_picture,
            Err(why) => DataError::io(&path, "write the decoded images to it")(why),
        })?;
    }
    let bytes = map(&path)?;
    let expected = HEADER + data.len() * (size + 4);
    if bytes.get(..HEADER) != Some(&header[..]) || bytes.len() != expected {
        return Err(DataError::Usage(format!(
            "{} is not the file of decoded images that it is named as; delete it",
            path.display()
        )));
    }
    Ok(Arc::new(Cached {
        inner: data,
        bytes,
        size,
    }))
}

fn header(identity: u64, count: usize, size: usize) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    for number in [identity, count as u64, size as u64] {
        header.extend(number.to_le_bytes());
    }
    let mut sum = Checksum::default();
    sum.add(&header);
    header.extend(sum.finish().to_le_bytes());
    header
}

/// Decodes all images on threads, some at a time, and writes them in order: class, then pixels.
fn fill(
    data: &dyn Dataset,
    header: &[u8],
    size: usize,
    threads: usize,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    out.write_all(header)?;
    let threads = threads.clamp(1, 64);
    let mut round = vec![0; ROUND * (size + 4)];
    for first in (0..data.len()).step_by(ROUND) {
        let count = ROUND.min(data.len() - first);
        let share = count.div_ceil(threads);
        let parts = round[..count * (size + 4)]
            .chunks_mut(share * (size + 4))
            .enumerate();
        std::thread::scope(|scope| {
            let work = parts.map(|(part, records)| {
                scope.spawn(move || {
                    for (i, record) in records.chunks_exact_mut(size + 4).enumerate() {
                        let (class, pixels) = record.split_at_mut(4);
                        let found = data.read(first + part * share + i, pixels)?;
                        class.copy_from_slice(&(found as u32).to_le_bytes());
                    }
                    Ok(())
                })
            });
            let work: Vec<_> = work.collect();
            let panicked = || DataError::Usage("a thread that decodes images panicked".into());
            let results = work.into_iter().map(|t| t.join().map_err(|_| panicked())?);
            results.collect::<Result<(), DataError>>()
        })
        .map_err(std::io::Error::other)?;
        out.write_all(&round[..count * (size + 4)])?;
    }
    Ok(())
}

impl Dataset for Cached {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn len(&self) -> usize {
        self.inner.len()
    }

    fn classes(&self) -> usize {
        self.inner.classes()
    }

    fn shape(&self) -> [usize; 3] {
        self.inner.shape()
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        super::copy_view(self, index, pixels)
    }

    fn view(&self, index: usize) -> Option<Result<(&[u8], usize), DataError>> {
        if index >= self.len() {
            return Some(Err(super::no_such_item(self, index)));
        }
        let record = &self.bytes[HEADER + index * (self.size + 4)..][..self.size + 4];
        let (class, pixels) = record.split_at(4);
        let class = class.iter().rev().fold(0, |n, &b| n << 8 | usize::from(b));
        match class < self.classes() {
            true => Some(Ok((pixels, class))),
            false => Some(Err(DataError::Usage(format!(
                "{}: the decoded image {index} has class {class}: its file is damaged; delete it",
                self.name()
            )))),
        }
    }

    fn class_name(&self, class: usize) -> Option<&str> {
        self.inner.class_name(class)
    }

    // The same data, wherever it is read from.
    fn content(&self) -> u64 {
        self.inner.content()
    }
}
