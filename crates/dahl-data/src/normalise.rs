//! Normalisation: the mean and deviation of each channel, by which images are centred and scaled.

use std::fmt;
use std::str::FromStr;

use dahl_core::Element;
use serde::{Deserialize, Serialize};

use super::Dataset;
use super::batches::{convert, table};
use super::error::DataError;

/// Images that are read to measure a set, evenly spread; all of a smaller one.
const MEASURED: usize = 10_000;

/// Mean and standard deviation per channel, of values from 0 to 1.
///
/// ```
/// use dahl_data::Normalise;
///
/// let cifar: Normalise = "0.4914,0.4822,0.4465/0.2470,0.2435,0.2616".parse().unwrap();
/// assert_eq!(cifar.mean().len(), 3);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Normalise {
    mean: Vec<f64>,
    std: Vec<f64>,
}

/// The least deviation: images divided by less are so large that nothing can be learnt from them.
const LEAST: f64 = 1e-6;

impl Normalise {
    /// Means and deviations, as many of each as there are channels.
    pub fn new(mean: Vec<f64>, std: Vec<f64>) -> Result<Normalise, DataError> {
        if mean.is_empty() || mean.len() != std.len() {
            return Err(DataError::Usage(format!(
                "{} means and {} deviations are given: one of each per channel is needed",
                mean.len(),
                std.len()
            )));
        }
        let usable = |s: &f64| s.is_finite() && *s >= LEAST;
        if !mean.iter().all(|m| m.is_finite()) || !std.iter().all(usable) {
            return Err(DataError::Usage(format!(
                "means must be finite, deviations finite and at least {LEAST}"
            )));
        }
        Ok(Normalise { mean, std })
    }

    /// The means, a channel each.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// The deviations, a channel each.
    pub fn std(&self) -> &[f64] {
        &self.std
    }

    /// Converts images of so many bytes each, as batches do.
    pub fn convert<T: Element>(
        &self,
        bytes: &[u8],
        size: usize,
        out: &mut [T],
    ) -> Result<(), DataError> {
        if !size.is_multiple_of(self.mean.len()) {
            let channels = self.mean.len();
            return Err(DataError::Usage(format!(
                "images of {size} values are normalised by {channels} channels"
            )));
        }
        let tables = table(&self.mean, &self.std);
        let images = bytes.chunks_exact(size).zip(out.chunks_exact_mut(size));
        images.for_each(|(bytes, out)| convert(&tables, bytes, out));
        Ok(())
    }

    /// Mean and deviation of a set's images, each channel over all pixels; of sets with more than 10,000 images, of
    /// as many that are evenly spread. Sums are whole numbers, so the result is the same everywhere; it is rounded to
    /// four digits, to be read and typed.
    pub fn measure(data: &dyn Dataset) -> Result<Normalise, DataError> {
        let channels = data.shape()[0];
        let mut pixels = vec![0; super::sample_size(data.shape())?];
        let plane = pixels.len() / channels.max(1);
        let mut sums = vec![[0u128; 3]; channels];
        for index in (0..data.len()).step_by(data.len().div_ceil(MEASURED).max(1)) {
            data.read(index, &mut pixels)?;
            for (sum, plane) in sums.iter_mut().zip(pixels.chunks_exact(plane)) {
                let values = plane.iter().map(|&p| u64::from(p));
                sum[0] += plane.len() as u128;
                sum[1] += u128::from(values.clone().sum::<u64>());
                sum[2] += u128::from(values.map(|v| v * v).sum::<u64>());
            }
        }
        let round = |v: f64| (v * 1e4).round() / 1e4;
        let moments = sums.iter().map(|&[n, sum, squares]| {
            // n·Σx² − (Σx)² is exact, and so never below 0.
            let spread = (n * squares - sum * sum) as f64;
            let n = n as f64;
            (
                round(sum as f64 / n / 255.0),
                round(spread.sqrt() / n / 255.0),
            )
        });
        let (mean, std): (Vec<f64>, Vec<f64>) = moments.unzip();
        if let Some(channel) = std.iter().position(|&s| s == 0.0) {
            return Err(DataError::Usage(format!(
                "{}: channel {channel} has one value everywhere, so no deviation; give mean and deviation yourself",
                data.name()
            )));
        }
        Normalise::new(mean, std)
    }
}

impl fmt::Display for Normalise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |v: &[f64]| v.iter().map(f64::to_string).collect::<Vec<_>>().join(",");
        write!(f, "{}/{}", list(&self.mean), list(&self.std))
    }
}

impl FromStr for Normalise {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Normalise, DataError> {
        let numbers =
            |t: &str| -> Option<Vec<f64>> { t.split(',').map(|x| x.trim().parse().ok()).collect() };
        let sides = text
            .split_once('/')
            .map(|(mean, std)| [mean, std].map(numbers));
        let Some([Some(mean), Some(std)]) = sides else {
            return Err(DataError::Usage(format!(
                "`{text}` is no normalisation: write MEAN,…/DEVIATION,… with a number of each per channel, such as \
                 0.286/0.353"
            )));
        };
        Normalise::new(mean, std)
    }
}

impl TryFrom<String> for Normalise {
    type Error = DataError;

    fn try_from(text: String) -> Result<Normalise, DataError> {
        text.parse()
    }
}

impl From<Normalise> for String {
    fn from(normalise: Normalise) -> String {
        normalise.to_string()
    }
}
