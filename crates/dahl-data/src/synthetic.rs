//! Images made on the fly, of any size and number, that a network can learn to tell apart.
//!
//! A class is two plane waves per channel, each with its own direction, frequency and phase. An image
//! is its class's waves, moved a little, weakened a little, plus noise. Everything is integer
//! arithmetic on counter-based random numbers: item *i* is the same bytes on every machine, and no
//! two items, nor training and validation, are alike.

use super::error::DataError;
use super::random::{below, mix};
use super::{Dataset, Split, check_shape};

const CLASS_KEY: u64 = 0xc1a5_5e5d;
const TRAIN_KEY: u64 = 0x7a11;
const VALIDATION_KEY: u64 = 0x7e57;

/// A wave: turns per image side in both directions (in 1/65536 turns), and its phase.
struct Wave {
    down: u32,
    right: u32,
    phase: u32,
}

/// A split of a synthetic data set.
pub(crate) struct Synthetic {
    name: String,
    shape: [usize; 3],
    len: usize,
    classes: usize,
    key: u64,
}

impl Synthetic {
    pub(crate) fn new(
        name: String,
        shape: [usize; 3],
        count: usize,
        classes: usize,
        split: Split,
        input: [usize; 3],
        limit: Option<usize>,
    ) -> Result<Synthetic, DataError> {
        check_shape(&name, shape, input)?;
        let (count, key) = match split {
            Split::Train => (count, TRAIN_KEY),
            Split::Validation => (count.div_ceil(5), VALIDATION_KEY),
        };
        let len = count.min(limit.unwrap_or(usize::MAX));
        if len == 0 || classes == 0 || shape.contains(&0) {
            return Err(DataError::Empty {
                what: name,
                hint: "",
            });
        }
        Ok(Synthetic {
            name,
            shape,
            len,
            classes,
            key,
        })
    }

    /// The waves of a class in a channel, at most three turns across the image.
    fn wave(&self, class: usize, channel: usize, which: u64) -> Wave {
        let r = mix(
            CLASS_KEY,
            ((class as u64) << 20 | channel as u64) << 1 | which,
        );
        let turns = |bits: u64| ((bits & 0xffff) * 3) as u32;
        Wave {
            down: turns(r),
            right: turns(r >> 16),
            phase: (r >> 32) as u32 & 0xffff,
        }
    }
}

/// A smooth wave, −16384 to 16384 for a turn of 65536: two parabolas, close to a sine.
#[inline]
fn wave(turn: u32) -> i32 {
    let t = i32::from(turn as u16 as i16);
    (t * (32768 - t.abs())) >> 14
}

impl Dataset for Synthetic {
    fn name(&self) -> &str {
        &self.name
    }

    fn len(&self) -> usize {
        self.len
    }

    fn classes(&self) -> usize {
        self.classes
    }

    fn shape(&self) -> [usize; 3] {
        self.shape
    }

    fn read(&self, index: usize, pixels: &mut [u8]) -> Result<usize, DataError> {
        super::check_read(self, index, pixels)?;
        let class = index % self.classes;
        let [_, h, w] = self.shape;
        let key = mix(self.key, index as u64);
        let step = |turns: u32, side: usize| (u64::from(turns) / side as u64) as u32;
        for (channel, plane) in pixels.chunks_exact_mut(h * w).enumerate() {
            let waves = [0, 1].map(|which| {
                let r = mix(key, which << 32);
                let base = self.wave(class, channel, which);
                // Moved by up to an eighth of a turn either way, the same in all channels.
                let moved = base
                    .phase
                    .wrapping_add((r & 0x3fff) as u32)
                    .wrapping_sub(0x2000);
                let gain = 40 + below(r << 20, 60) as i32;
                (step(base.down, h), step(base.right, w), moved, gain)
            });
            let [(d0, r0, p0, g0), (d1, r1, p1, g1)] = waves;
            for (y, row) in plane.chunks_exact_mut(w).enumerate() {
                let mut t0 = (y as u32).wrapping_mul(d0).wrapping_add(p0);
                let mut t1 = (y as u32).wrapping_mul(d1).wrapping_add(p1);
                let place = 1u64 << 40 | (channel as u64) << 32 | y as u64;
                let row_key = mix(key, place);
                for (x, eight) in row.chunks_mut(8).enumerate() {
                    let noise = mix(row_key, x as u64).to_le_bytes();
                    for (pixel, noise) in eight.iter_mut().zip(noise) {
                        let signal = (wave(t0) * g0 + wave(t1) * g1) >> 15;
                        let value = 128 + signal + (i32::from(noise) - 128) / 2;
                        *pixel = value.clamp(0, 255) as u8;
                        t0 = t0.wrapping_add(r0);
                        t1 = t1.wrapping_add(r1);
                    }
                }
            }
        }
        Ok(class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(split: Split) -> Synthetic {
        let shape = [1, 16, 16];
        Synthetic::new("synthetic".into(), shape, 1000, 10, split, shape, None).unwrap()
    }

    #[test]
    fn nearest_mean_tells_validation_images_apart() {
        let (train, validation) = (set(Split::Train), set(Split::Validation));
        let mut means = vec![[0f64; 256]; 10];
        let mut pixels = [0; 256];
        for i in 0..train.len() {
            let label = train.read(i, &mut pixels).unwrap();
            means[label]
                .iter_mut()
                .zip(pixels)
                .for_each(|(m, p)| *m += f64::from(p) / 100.0);
        }
        let mut right = 0;
        for i in 0..validation.len() {
            let label = validation.read(i, &mut pixels).unwrap();
            let distance = |m: &[f64; 256]| -> f64 {
                m.iter()
                    .zip(pixels)
                    .map(|(m, p)| (m - f64::from(p)).powi(2))
                    .sum()
            };
            let best = (0..10).min_by(|&a, &b| distance(&means[a]).total_cmp(&distance(&means[b])));
            right += usize::from(best == Some(label));
        }
        // Learnable, and by more than chance: 200 images, 20 by luck.
        assert!(right > 140, "{right} of {}", validation.len());
    }

    #[test]
    fn items_are_fixed_and_differ() {
        let (train, validation) = (set(Split::Train), set(Split::Validation));
        let (mut a, mut b) = ([0; 256], [0; 256]);
        train.read(3, &mut a).unwrap();
        train.read(3, &mut b).unwrap();
        assert_eq!(a, b);
        train.read(13, &mut b).unwrap();
        assert_ne!(a, b);
        validation.read(3, &mut b).unwrap();
        assert_ne!(a, b);
        assert_eq!(
            a[..4],
            FIRST,
            "the bytes of synthetic sets are part of the interface"
        );
    }

    const FIRST: [u8; 4] = [142, 162, 159, 84];

    #[test]
    fn odd_sizes_work_and_bad_calls_are_errors() {
        let shape = [3, 1, 11];
        let set = Synthetic::new("s".into(), shape, 7, 1000, Split::Train, shape, Some(5)).unwrap();
        assert_eq!(set.len(), 5);
        assert!(set.read(0, &mut [0; 33]).is_ok());
        assert!(set.read(5, &mut [0; 33]).is_err());
        assert!(set.read(0, &mut [0; 32]).is_err());
    }
}
