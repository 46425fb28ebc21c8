//! What layers with windows share: heights and widths, how many windows fit, and the keys of pooling.

use std::fmt;

use dahl_core::Handle;
use dahl_ops::pool::Windows;
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::lower::tiles::{self, Geometry, Tile};
use crate::lower::{Tape, grain};
use crate::model::{Extent, MAX_ELEMENTS};

/// A height and a width: in files a number for both, or `[h, w]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pair(pub [usize; 2]);

impl From<usize> for Pair {
    fn from(n: usize) -> Self {
        Pair([n, n])
    }
}

impl From<[usize; 2]> for Pair {
    fn from(pair: [usize; 2]) -> Self {
        Pair(pair)
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [h, w] = self.0;
        write!(f, "{h}×{w}")
    }
}

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Sizes;

        impl<'de> Visitor<'de> for Sizes {
            type Value = Pair;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or [height, width]")
            }

            fn visit_u64<E: Error>(self, n: u64) -> Result<Pair, E> {
                let n = usize::try_from(n)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(n), &self));
                n.map(Pair::from)
            }

            fn visit_i64<E: Error>(self, n: i64) -> Result<Pair, E> {
                let size = u64::try_from(n);
                self.visit_u64(size.map_err(|_| E::invalid_value(Unexpected::Signed(n), &Sizes))?)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Pair, A::Error> {
                let mut sizes = Vec::new();
                let unfit = |_| A::Error::invalid_type(Unexpected::Seq, &self);
                while let Some(n) = seq.next_element::<usize>().map_err(unfit)? {
                    sizes.push(n);
                }
                let pair = <[usize; 2]>::try_from(sizes);
                let pair = pair.map_err(|sizes| A::Error::invalid_length(sizes.len(), &self));
                pair.map(Pair)
            }
        }

        deserializer.deserialize_any(Sizes)
    }
}

/// The sizes of an image, or what to do about it not being one.
pub(super) fn image(input: Extent) -> Result<[usize; 3], String> {
    match input {
        Extent::Image(sizes) => Ok(sizes),
        Extent::Flat(n) => Err(format!(
            "input is a row of {n} numbers, needs an image: put it before the flatten"
        )),
    }
}

/// Refuses numbers of which there must be some.
pub(super) fn some(numbers: &[(&str, usize)]) -> Result<(), String> {
    match numbers.iter().find(|n| n.1 == 0) {
        Some((key, _)) => Err(format!("{key} must be 1 or more")),
        None => Ok(()),
    }
}

/// Refuses windows that no convolution and no pooling has.
pub(super) fn not_empty(kernel: Pair, stride: Pair, dilation: Pair) -> Result<(), String> {
    let all = [
        ("kernel", kernel),
        ("stride", stride),
        ("dilation", dilation),
    ];
    match all.iter().find(|pair| pair.1.0.contains(&0)) {
        Some((key, sizes)) => Err(format!("{key} is {sizes}, must be 1 or more")),
        None => Ok(()),
    }
}

/// How many windows fit along height and width.
pub(super) fn windows(input: [usize; 2], geometry: &Geometry) -> Result<[usize; 2], String> {
    let Geometry {
        kernel,
        stride,
        padding,
        dilation,
    } = *geometry;
    not_empty(Pair(kernel), Pair(stride), Pair(dilation))?;
    let mut out = [0; 2];
    for axis in 0..2 {
        let padded = padding[axis]
            .checked_mul(2)
            .and_then(|p| p.checked_add(input[axis]));
        let padded = padded.filter(|&n| n <= MAX_ELEMENTS);
        let padded = padded.ok_or_else(|| format!("padding {} is too large", Pair(padding)))?;
        let span = (kernel[axis] - 1).checked_mul(dilation[axis]);
        if span.is_none_or(|span| span >= padded) {
            let (gaps, less) = match dilation {
                [1, 1] => (String::new(), ""),
                _ => (format!(" with dilation {}", Pair(dilation)), " or dilation"),
            };
            return Err(format!(
                "kernel {}{gaps} is larger than the input of {} with padding {}: use a smaller \
                 kernel{less}, more padding, or less pooling before",
                Pair(kernel),
                Pair(input),
                Pair(padding)
            ));
        }
        out[axis] = geometry.outputs(axis, input[axis]);
    }
    Ok(out)
}

/// The keys of pooling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "PoolKeys")]
pub(crate) struct Pool2d {
    /// Height and width of a window.
    pub kernel: Pair,
    /// Step between windows.
    pub stride: Pair,
    /// What is around the image, on each side.
    pub padding: Pair,
}

/// As written: the stride is the kernel unless it is given.
#[derive(Deserialize)]
struct PoolKeys {
    kernel: Pair,
    stride: Option<Pair>,
    #[serde(default = "none")]
    padding: Pair,
}

/// A stride or a dilation of one.
pub(super) fn one() -> Pair {
    Pair([1, 1])
}

/// No padding.
pub(super) fn none() -> Pair {
    Pair([0, 0])
}

impl From<PoolKeys> for Pool2d {
    fn from(keys: PoolKeys) -> Self {
        Pool2d {
            kernel: keys.kernel,
            stride: keys.stride.unwrap_or(keys.kernel),
            padding: keys.padding,
        }
    }
}

impl Pool2d {
    /// Windows side by side, no padding.
    pub(crate) fn new(kernel: impl Into<Pair>) -> Self {
        let kernel = kernel.into();
        Pool2d {
            kernel,
            stride: kernel,
            padding: none(),
        }
    }

    pub(super) fn geometry(&self) -> Geometry {
        Geometry {
            kernel: self.kernel.0,
            stride: self.stride.0,
            padding: self.padding.0,
            dilation: one().0,
        }
    }

    pub(super) fn extent(&self, input: Extent) -> Result<Extent, String> {
        let [c, h, w] = image(input)?;
        let [out_h, out_w] = windows([h, w], &self.geometry())?;
        let (kernel, padding) = (self.kernel.0, self.padding.0);
        let most = kernel.map(|n| n / 2);
        if padding[0] > most[0] || padding[1] > most[1] {
            return Err(format!(
                "padding {} is more than half the kernel {}; use at most {}",
                self.padding,
                self.kernel,
                Pair(most)
            ));
        }
        Extent::Image([c, out_h, out_w]).checked()
    }

    /// The tasks that pool the input into an output of these extents.
    pub(super) fn forward(&self, tape: &Tape<'_>, y: &Handle) -> Vec<PoolTask> {
        let (geometry, x) = (self.geometry(), tape.input(0));
        let parts = tape.parts(|| grain::light(tape.batch(), x.shape.len(), tape.blocks()));
        let task = |write: Tile| {
            let [n, c, h, w] = write;
            let inp = [
                geometry.read_by(0, h, x.shape[2]),
                geometry.read_by(1, w, x.shape[3]),
            ];
            let window = geometry.window([h.0, w.0], [inp[0].0, inp[1].0]);
            PoolTask {
                read: [n, c, inp[0], inp[1]],
                write,
                windows: Windows { window },
            }
        };
        tiles::grid(y.shape.dims4(), parts)
            .into_iter()
            .map(task)
            .collect()
    }

    /// The tasks that make the input's gradient of the output's.
    pub(super) fn backward(&self, tape: &Tape<'_>, dy: &Handle, dx: &Handle) -> Vec<PoolTask> {
        let geometry = self.geometry();
        let parts = tape.parts(|| grain::light(tape.batch(), dx.shape.len(), tape.blocks()));
        let task = |write: Tile| {
            let [n, c, h, w] = write;
            let out = [
                geometry.reading(0, h, dy.shape[2]),
                geometry.reading(1, w, dy.shape[3]),
            ];
            let window = geometry.window([out[0].0, out[1].0], [h.0, w.0]);
            PoolTask {
                read: [n, c, out[0], out[1]],
                write,
                windows: Windows { window },
            }
        };
        tiles::grid(dx.shape.dims4(), parts)
            .into_iter()
            .map(task)
            .collect()
    }
}

/// What one task of pooling reads and writes.
pub(super) struct PoolTask {
    /// The part of the array that it reads.
    pub(super) read: Tile,
    /// The part of the array that it writes.
    pub(super) write: Tile,
    /// How its windows lie in them.
    pub(super) windows: Windows,
}
