//! The extent of a value for one sample, and how each kind of layer changes it.

use std::fmt;

use super::{Kind, MAX_ELEMENTS};

/// How large a value is, for one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Channels, height, width.
    Image([usize; 3]),
    /// A row of numbers.
    Flat(usize),
}

impl Extent {
    /// How many elements.
    #[allow(clippy::len_without_is_empty)] // never empty: a model with an empty value is refused
    pub fn len(&self) -> usize {
        match *self {
            Extent::Image([c, h, w]) => c * h * w,
            Extent::Flat(n) => n,
        }
    }

    /// The extent if it has no zero and is not absurdly large.
    pub(super) fn checked(self) -> Result<Extent, String> {
        let sizes: &[usize] = match &self {
            Extent::Image(sizes) => sizes,
            Extent::Flat(n) => std::slice::from_ref(n),
        };
        if sizes.contains(&0) {
            return Err(format!(
                "{self} has no elements; every size must be 1 or more"
            ));
        }
        elements(sizes).map(|_| self)
    }
}

/// The product of sizes, if an array may be that large.
pub(super) fn elements(sizes: &[usize]) -> Result<usize, String> {
    let product = sizes
        .iter()
        .try_fold(1usize, |n, &size| n.checked_mul(size));
    product.filter(|&n| n <= MAX_ELEMENTS).ok_or_else(|| {
        let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
        format!(
            "an array of {} elements is too large (at most {MAX_ELEMENTS})",
            sizes.join("×")
        )
    })
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Image([c, h, w]) => write!(f, "{c}×{h}×{w}"),
            Extent::Flat(n) => write!(f, "{n}"),
        }
    }
}

/// What a layer gives when it reads values of these extents.
pub(super) fn output(kind: &Kind, inputs: &[Extent]) -> Result<Extent, String> {
    if let Kind::Add = kind {
        return sum(inputs);
    }
    let &[input] = inputs else {
        return Err(format!(
            "reads {} values; only add reads more than one: give `from` a single name",
            inputs.len()
        ));
    };
    match *kind {
        Kind::Conv2d {
            out_channels,
            kernel,
            stride,
            padding,
            ..
        } => {
            let [_, h, w] = image(input)?;
            if out_channels == 0 {
                return Err("out_channels must be 1 or more".into());
            }
            let [h, w] = windows([h, w], kernel, stride, padding)?;
            Extent::Image([out_channels, h, w]).checked()
        }
        Kind::MaxPool2d {
            kernel,
            stride,
            padding,
        }
        | Kind::AvgPool2d {
            kernel,
            stride,
            padding,
        } => {
            let [c, h, w] = image(input)?;
            let sizes = windows([h, w], kernel, stride, padding)?;
            if padding[0] > kernel[0] / 2 || padding[1] > kernel[1] / 2 {
                return Err(format!(
                    "padding {} is more than half the kernel {}; use at most {}",
                    pair(padding),
                    pair(kernel),
                    pair([kernel[0] / 2, kernel[1] / 2])
                ));
            }
            Extent::Image([c, sizes[0], sizes[1]]).checked()
        }
        Kind::AdaptiveAvgPool2d => image(input).map(|[c, ..]| Extent::Image([c, 1, 1])),
        Kind::BatchNorm2d => image(input).map(Extent::Image),
        Kind::Dropout { p } if !(0.0..=1.0).contains(&p) => {
            Err(format!("p is {p}; a probability lies between 0 and 1"))
        }
        Kind::Linear { out_features, .. } => match input {
            Extent::Image(_) => Err(format!(
                "input is an image of {input}, linear reads a row of numbers: put a flatten before it"
            )),
            Extent::Flat(_) if out_features == 0 => Err("out_features must be 1 or more".into()),
            Extent::Flat(_) => Extent::Flat(out_features).checked(),
        },
        Kind::Relu | Kind::Dropout { .. } => Ok(input),
        Kind::Flatten | Kind::Add => Ok(Extent::Flat(input.len())),
    }
}

/// The extent of a sum.
fn sum(inputs: &[Extent]) -> Result<Extent, String> {
    let [first, rest @ ..] = inputs else {
        return Err("reads nothing".into());
    };
    if rest.is_empty() {
        return Err("reads one value, add needs two or more: list them in `from`".into());
    }
    match rest.iter().find(|e| *e != first) {
        Some(other) => Err(format!(
            "inputs are {first} and {other}, and must be equal: make the branches meet with the same \
             channels, strides and padding (a conv2d with kernel 1 can change channels and stride)"
        )),
        None => Ok(*first),
    }
}

/// The sizes of an image, or what to do about it not being one.
fn image(input: Extent) -> Result<[usize; 3], String> {
    match input {
        Extent::Image(sizes) => Ok(sizes),
        Extent::Flat(n) => Err(format!(
            "input is a row of {n} numbers, needs an image: put it before the flatten"
        )),
    }
}

/// How many windows fit along height and width.
fn windows(
    input: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
) -> Result<[usize; 2], String> {
    if kernel.contains(&0) {
        return Err(format!("kernel is {}, must be 1 or more", pair(kernel)));
    }
    if stride.contains(&0) {
        return Err(format!("stride is {}, must be 1 or more", pair(stride)));
    }
    let mut out = [0; 2];
    for axis in 0..2 {
        let padded = padding[axis]
            .checked_mul(2)
            .and_then(|p| p.checked_add(input[axis]));
        let padded = padded.filter(|&n| n <= MAX_ELEMENTS);
        let padded = padded.ok_or_else(|| format!("padding {} is too large", pair(padding)))?;
        if kernel[axis] > padded {
            return Err(format!(
                "kernel {} is larger than the input of {} with padding {}: use a smaller kernel, \
                 more padding, or less pooling before",
                pair(kernel),
                pair(input),
                pair(padding)
            ));
        }
        out[axis] = (padded - kernel[axis]) / stride[axis] + 1;
    }
    Ok(out)
}

fn pair([h, w]: [usize; 2]) -> String {
    format!("{h}×{w}")
}
