//! Augmentation: random changes of training images, as part of the batch.
//!
//! A pipeline is a list of transforms in the order in which they happen, written in one line:
//!
//! | Transform | What | torchvision's |
//! |---|---|---|
//! | `flip[:P]` | mirrored left to right with probability P, one half unless said | `RandomHorizontalFlip` |
//! | `crop:PIXELS` | so many black pixels on every side, then a part of the old size from anywhere in it | `RandomCrop` |
//! | `rotate:DEGREES` | turned by up to so many degrees, nearest pixel, corners black | `RandomRotation` |
//! | `brightness:B` | every value times 1−B to 1+B | `ColorJitter` |
//! | `contrast:C` | spread around the mean grey by 1−C to 1+C | `ColorJitter` |
//! | `erase[:P]` | with probability P, one half unless said, a rectangle becomes 0 | `RandomErasing` |
//! | `mixup:ALPHA` | λ of a sample and 1−λ of the one before it in its batch, λ from Beta(ALPHA, ALPHA); labels alike | `MixUp` |
//!
//! The first five change bytes; `erase` and `mixup`, which come last, change what these were normalised to. What happens
//! to a sample is a function of seed, epoch and the sample's number, and λ of seed, epoch and batch: the same whatever thread
//! prepares it and when. Validation and predictions are never changed.

mod colour;
mod geometry;
mod mix;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use dahl_core::Element;

use super::error::DataError;
use super::random::{Draw, mix};

pub(crate) use mix::{blend, lambda};

/// One kind of random change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transform {
    /// Mirrors left to right with a probability.
    Flip(f64),
    /// Shifts by up to so many pixels along both axes.
    Crop(usize),
    /// Turns by up to so many degrees either way.
    Rotate(f64),
    /// Multiplies all values by up to this more or less than 1.
    Brightness(f64),
    /// Multiplies the distance from the mean grey by up to this more or less than 1.
    Contrast(f64),
    /// Sets a rectangle to 0 with a probability.
    Erase(f64),
    /// Mixes neighbours in a batch; both parameters of the beta distribution.
    Mixup(f64),
}

/// Names, whether they need a number, its default, and its range.
const TABLE: [(&str, Option<f64>, f64, f64); 7] = [
    ("flip", Some(0.5), 0.0, 1.0),
    ("crop", None, 1.0, 4096.0),
    ("rotate", None, 0.0, 180.0),
    ("brightness", None, 0.0, 1.0),
    ("contrast", None, 0.0, 1.0),
    ("erase", Some(0.5), 0.0, 1.0),
    ("mixup", None, 0.05, 8.0),
];

impl Transform {
    /// Its name in texts, and its number.
    fn parts(&self) -> (&'static str, f64) {
        match *self {
            Transform::Flip(p) => ("flip", p),
            Transform::Crop(pixels) => ("crop", pixels as f64),
            Transform::Rotate(degrees) => ("rotate", degrees),
            Transform::Brightness(by) => ("brightness", by),
            Transform::Contrast(by) => ("contrast", by),
            Transform::Erase(p) => ("erase", p),
            Transform::Mixup(alpha) => ("mixup", alpha),
        }
    }

    /// Whether it comes after normalisation.
    fn is_late(&self) -> bool {
        matches!(self, Transform::Erase(_) | Transform::Mixup(_))
    }

    fn parse(text: &str) -> Result<Transform, String> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name.trim(), Some(number.trim())),
            None => (text.trim(), None),
        };
        let Some(&(name, default, least, most)) = TABLE.iter().find(|row| row.0 == name) else {
            let names = TABLE.map(|row| row.0);
            return Err(dahl_core::text::unknown("transform", name, &names));
        };
        let value = match (number, default) {
            (None, Some(default)) => Some(default),
            (None, None) => return Err(format!("`{name}` needs a number, as in `{name}:{least}`")),
            (Some(number), _) => number.parse::<f64>().ok(),
        };
        let whole = name != "crop" || value.is_some_and(|v| v.fract() == 0.0);
        let value = value.filter(|v| (least..=most).contains(v) && whole);
        let value = value.ok_or_else(|| {
            let kind = if name == "crop" {
                "a whole number"
            } else {
                "a number"
            };
            format!("`{text}`: {name} takes {kind} from {least} to {most}")
        })?;
        Ok(match name {
            "flip" => Transform::Flip(value),
            "crop" => Transform::Crop(value as usize),
            "rotate" => Transform::Rotate(value),
            "brightness" => Transform::Brightness(value),
            "contrast" => Transform::Contrast(value),
            "erase" => Transform::Erase(value),
            _ => Transform::Mixup(value),
        })
    }
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, number) = self.parts();
        write!(f, "{name}:{number}")
    }
}

/// A pipeline of random changes; empty for none.
///
/// ```
/// use dahl_data::Augment;
///
/// let augment: Augment = "flip,crop:4,rotate:10,erase:0.25".parse().unwrap();
/// assert_eq!(augment.to_string(), "flip:0.5,crop:4,rotate:10,erase:0.25");
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Augment {
    transforms: Vec<Transform>,
}

impl Augment {
    /// A pipeline of these transforms.
    pub fn new(transforms: Vec<Transform>) -> Result<Augment, DataError> {
        let text: Vec<String> = transforms.iter().map(Transform::to_string).collect();
        text.join(",").parse()
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.transforms.is_empty()
    }

    /// The parameter of the beta distribution, where samples are mixed: labels are then no classes.
    pub fn mixup(&self) -> Option<f64> {
        match self.transforms.last() {
            Some(&Transform::Mixup(alpha)) => Some(alpha),
            _ => None,
        }
    }

    /// Whether some transform needs bytes.
    pub(crate) fn needs_bytes(&self) -> Option<Transform> {
        let colour =
            |t: &&Transform| matches!(t, Transform::Brightness(_) | Transform::Contrast(_));
        self.transforms.iter().find(colour).copied()
    }

    /// A transform that needs pixels beside and below each other, if there is one.
    pub(crate) fn needs_image(&self) -> Option<Transform> {
        let pixels = |t: &&Transform| !matches!(t, Transform::Mixup(_));
        self.transforms.iter().find(pixels).copied()
    }

    /// What happens to one sample of an epoch: the number of each transform has random numbers of its own.
    fn draws(&self, key: Key, late: bool) -> impl Iterator<Item = (Transform, Draw)> + '_ {
        let numbered = self.transforms.iter().zip(0u64..);
        let wanted = numbered.filter(move |(t, _)| t.is_late() == late);
        wanted.map(move |(&t, i)| (t, Draw::new(mix(key.sample(), i))))
    }

    /// Changes bytes before they are normalised.
    pub(crate) fn change(&self, key: Key, image: &mut Canvas<'_, u8>) {
        for (transform, mut draw) in self.draws(key, false) {
            match transform {
                Transform::Brightness(by) => {
                    colour::brightness(image.pixels, draw.factor(by));
                }
                Transform::Contrast(by) => {
                    colour::contrast(image.pixels, image.shape[0], draw.factor(by));
                }
                other => image.move_pixels(other, &mut draw, 0),
            }
        }
    }

    /// Moves the values of samples that are no bytes.
    pub(crate) fn change_values<T: Element>(&self, key: Key, sample: &mut Canvas<'_, T>) {
        for (transform, mut draw) in self.draws(key, false) {
            sample.move_pixels(transform, &mut draw, T::default());
        }
    }

    /// Changes values after normalisation.
    pub(crate) fn erase<T: Element>(&self, key: Key, values: &mut [T], shape: [usize; 3]) {
        for (transform, mut draw) in self.draws(key, true) {
            if let Transform::Erase(p) = transform
                && draw.uniform() < p
                && let Some(part) = mix::rectangle(&mut draw, shape)
            {
                mix::erase(values, shape, part);
            }
        }
    }
}

/// By which random numbers are found.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub seed: u64,
    pub epoch: u64,
    /// The number of the sample in its set, or of the batch in the epoch.
    pub item: u64,
}

impl Key {
    /// Distinct from the keys of orders, which take seed and epoch as they are.
    pub(crate) fn sample(self) -> u64 {
        mix(
            mix(self.seed ^ 0xa5a5_5eed_0a09_3e27, self.epoch),
            self.item,
        )
    }
}

/// An image with room for another of its size.
pub(crate) struct Canvas<'a, P> {
    pub pixels: &'a mut [P],
    pub spare: &'a mut Vec<P>,
    pub shape: [usize; 3],
}

impl<P: Copy> Canvas<'_, P> {
    fn move_pixels(&mut self, transform: Transform, draw: &mut Draw, fill: P) {
        match transform {
            Transform::Flip(p) if draw.uniform() < p => geometry::flip(self.pixels, self.shape[2]),
            Transform::Crop(padding) => {
                let n = 2 * padding as u64 + 1;
                let [down, right] =
                    [draw.below(n), draw.below(n)].map(|d| d as i64 - padding as i64);
                self.redraw(|from, to, shape| {
                    geometry::shift(from, to, shape, [down, right], fill)
                });
            }
            Transform::Rotate(most) => {
                let degrees = most * (2.0 * draw.uniform() - 1.0);
                self.redraw(|from, to, shape| geometry::rotate(from, to, shape, degrees, fill));
            }
            _ => {}
        }
    }

    fn redraw(&mut self, paint: impl FnOnce(&[P], &mut [P], [usize; 3])) {
        self.spare.clear();
        self.spare.extend_from_slice(self.pixels);
        paint(self.spare, self.pixels, self.shape);
    }
}

impl FromStr for Augment {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Augment, DataError> {
        let wrong = |reason| DataError::Augment {
            text: text.to_owned(),
            reason,
        };
        let parts = text.split(',').filter(|_| !text.trim().is_empty());
        let transforms = parts.map(Transform::parse).collect::<Result<Vec<_>, _>>();
        let transforms = transforms.map_err(wrong)?;
        if !transforms.is_sorted_by_key(Transform::is_late) {
            return Err(wrong(
                "erase and mixup change what has been normalised: put them last".into(),
            ));
        }
        let mixups = transforms
            .iter()
            .filter(|t| matches!(t, Transform::Mixup(_)));
        if mixups.count() > usize::from(matches!(transforms.last(), Some(Transform::Mixup(_)))) {
            return Err(wrong("mixup comes last, and once".into()));
        }
        Ok(Augment { transforms })
    }
}

impl fmt::Display for Augment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, transform) in self.transforms.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            write!(f, "{comma}{transform}")?;
        }
        Ok(())
    }
}
