//! A batch as a picture: what a model would see, for people.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use image::imageops::{self, FilterType};
use image::{ImageFormat, Rgb, RgbImage};

use super::augment::Augment;
use super::error::DataError;
use super::samples::Expects;
use super::{Batches, Dataset};

/// Pixels between images.
const GAP: usize = 2;
/// Smaller images are enlarged, to about so many pixels.
const SEEN: usize = 64;

/// Which batch, and how it is made.
#[derive(Clone, Debug)]
pub struct BatchView {
    /// Images of the batch.
    pub batch: usize,
    /// The epoch, from 0.
    pub epoch: u64,
    /// Key of order and changes.
    pub seed: u64,
    /// How images are changed at random.
    pub augment: Augment,
}

impl BatchView {
    /// Writes a PNG with the images of the first batch side by side, and returns how many these are. Values are shown
    /// as they are before normalisation.
    pub fn write(&self, data: Arc<dyn Dataset>, path: &Path) -> Result<usize, DataError> {
        let [channels, height, width] = data.shape();
        if !matches!(channels, 1 | 3) {
            return Err(DataError::Usage(format!(
                "{}: images of {channels} channels cannot be shown; 1 and 3 can",
                data.name()
            )));
        }
        let shares = Expects::Shares(data.classes());
        let batches = Batches::<f32>::new(data, self.batch)?.expecting(shares)?;
        let batches = batches.shuffled(self.seed);
        let mut batches = batches.augmented(&self.augment, self.seed)?;
        let (mut values, mut labels) = (Vec::new(), Vec::new());
        let n = batches.fill(self.epoch, 0, &mut values, &mut labels)?;
        let columns = n.isqrt().max(1) * 2;
        let columns = columns.min(n);
        let [high, wide] = [(n.div_ceil(columns), height), (columns, width)]
            .map(|(n, side)| n.saturating_mul(side + GAP) + GAP);
        let scale = (SEEN / height.max(width).max(1)).max(1) as u64;
        let too_large =
            || DataError::Usage("the picture would be too large; show fewer images".into());
        let sides = u32::try_from(wide).ok().zip(u32::try_from(high).ok());
        let (wide, high) = sides
            .filter(|(w, h)| u64::from(*w) * u64::from(*h) * scale * scale < 1 << 28)
            .ok_or_else(too_large)?;
        let mut canvas = RgbImage::from_pixel(wide, high, Rgb([32, 64, 160]));
        let plane = height * width;
        for (i, image) in values.chunks_exact(channels * plane).enumerate() {
            let (top, left) = (
                i / columns * (height + GAP) + GAP,
                i % columns * (width + GAP) + GAP,
            );
            for at in 0..plane {
                let byte =
                    |c: usize| (image[c * plane + at] * 255.0).round().clamp(0.0, 255.0) as u8;
                let colour = [0, 1, 2].map(|c| byte(c.min(channels - 1)));
                let (x, y) = (left + at % width, top + at / width);
                canvas.put_pixel(x as u32, y as u32, Rgb(colour));
            }
        }
        if scale > 1 {
            let (wide, high) = (wide * scale as u32, high * scale as u32);
            canvas = imageops::resize(&canvas, wide, high, FilterType::Nearest);
        }
        let mut bytes = Cursor::new(Vec::new());
        let encoded = canvas.write_to(&mut bytes, ImageFormat::Png);
        encoded.map_err(|e| DataError::Usage(format!("cannot make a PNG: {e}")))?;
        let written =
            dahl_core::file::write_atomically(path, |file| file.write_all(bytes.get_ref()));
        written.map_err(DataError::io(path, "write it"))?;
        Ok(n)
    }
}
