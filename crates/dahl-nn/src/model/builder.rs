//! Models from Rust code: a call per layer, calls after it that say more about the last one.
//!
//! Mistakes are kept until [`ModelBuilder::build`], which reports the first one with the line of the
//! program that made it, so that a chain of calls needs one `?`.

use std::panic::Location;

use super::check::{Draft, assemble};
use super::{Kind, Model, ModelError, Place, check};

/// A height and a width: a number for both, or `[h, w]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// A model being written down; see [`Model::builder`].
#[derive(Debug)]
pub struct ModelBuilder {
    name: String,
    input: [usize; 3],
    drafts: Vec<Draft>,
    place: Place,
    wrong: Option<ModelError>,
}

#[track_caller]
fn here() -> Place {
    let at = Location::caller();
    Place::new(at.file(), Some(at.line() as usize))
}

impl ModelBuilder {
    #[track_caller]
    pub(super) fn new(name: String, input: [usize; 3]) -> Self {
        ModelBuilder {
            name,
            input,
            drafts: Vec::new(),
            place: here(),
            wrong: None,
        }
    }

    /// Appends a layer of any kind, which reads the one before.
    #[track_caller]
    pub fn layer(mut self, kind: Kind) -> Self {
        self.drafts.push(Draft {
            name: None,
            kind,
            from: None,
            place: here(),
            line: None,
        });
        self
    }

    /// A convolution with stride 1, no padding and a bias; `.stride`, `.padding` and `.bias` change that.
    #[track_caller]
    pub fn conv2d(self, out_channels: usize, kernel: impl Into<Pair>) -> Self {
        let Pair(kernel) = kernel.into();
        self.layer(Kind::Conv2d {
            out_channels,
            kernel,
            stride: [1; 2],
            padding: [0; 2],
            bias: true,
        })
    }

    /// The larger of 0 and the value.
    #[track_caller]
    pub fn relu(self) -> Self {
        self.layer(Kind::Relu)
    }

    /// Max pooling with a stride equal to the kernel and no padding; `.stride` and `.padding` change that.
    #[track_caller]
    pub fn max_pool2d(self, kernel: impl Into<Pair>) -> Self {
        let Pair(kernel) = kernel.into();
        self.layer(Kind::MaxPool2d {
            kernel,
            stride: kernel,
            padding: [0; 2],
        })
    }

    /// Average pooling with a stride equal to the kernel and no padding; `.stride` and `.padding` change
    /// that.
    #[track_caller]
    pub fn avg_pool2d(self, kernel: impl Into<Pair>) -> Self {
        let Pair(kernel) = kernel.into();
        self.layer(Kind::AvgPool2d {
            kernel,
            stride: kernel,
            padding: [0; 2],
        })
    }

    /// The mean of each channel.
    #[track_caller]
    pub fn adaptive_avg_pool2d(self) -> Self {
        self.layer(Kind::AdaptiveAvgPool2d)
    }

    /// Batch normalisation.
    #[track_caller]
    pub fn batch_norm2d(self) -> Self {
        self.layer(Kind::BatchNorm2d)
    }

    /// Dropout with probability `p`.
    #[track_caller]
    pub fn dropout(self, p: f64) -> Self {
        self.layer(Kind::Dropout { p })
    }

    /// An image as a row of numbers.
    #[track_caller]
    pub fn flatten(self) -> Self {
        self.layer(Kind::Flatten)
    }

    /// A linear layer with a bias; `.bias(false)` leaves it out.
    #[track_caller]
    pub fn linear(self, out_features: usize) -> Self {
        self.layer(Kind::Linear {
            out_features,
            bias: true,
        })
    }

    /// The sum of two or more layers, by their names.
    #[allow(clippy::should_implement_trait)] // a layer's name, as all methods here are
    #[track_caller]
    pub fn add<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.layer(Kind::Add)
            .reads(names.into_iter().map(Into::into).collect())
    }

    /// Gives the last layer a name.
    #[track_caller]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        match self.drafts.last_mut() {
            Some(draft) => draft.name = Some(name.into()),
            None => self.refuse("named"),
        }
        self
    }

    /// Lets the last layer read other layers than the one before, by their names; `"input"` is the
    /// model's input.
    #[track_caller]
    pub fn from(self, names: &[&str]) -> Self {
        self.reads(names.iter().map(|&name| name.to_owned()).collect())
    }

    #[track_caller]
    fn reads(mut self, names: Vec<String>) -> Self {
        match self.drafts.last_mut() {
            Some(draft) => draft.from = Some(names),
            None => self.refuse("from"),
        }
        self
    }

    /// The stride of the last layer, a convolution or pooling.
    #[track_caller]
    pub fn stride(mut self, value: impl Into<Pair>) -> Self {
        match self.drafts.last_mut().map(|draft| &mut draft.kind) {
            Some(
                Kind::Conv2d { stride, .. }
                | Kind::MaxPool2d { stride, .. }
                | Kind::AvgPool2d { stride, .. },
            ) => *stride = value.into().0,
            _ => self.refuse("stride"),
        }
        self
    }

    /// The padding of the last layer, a convolution or pooling.
    #[track_caller]
    pub fn padding(mut self, value: impl Into<Pair>) -> Self {
        match self.drafts.last_mut().map(|draft| &mut draft.kind) {
            Some(
                Kind::Conv2d { padding, .. }
                | Kind::MaxPool2d { padding, .. }
                | Kind::AvgPool2d { padding, .. },
            ) => *padding = value.into().0,
            _ => self.refuse("padding"),
        }
        self
    }

    /// Whether the last layer, a convolution or linear, adds a bias.
    #[track_caller]
    pub fn bias(mut self, value: bool) -> Self {
        match self.drafts.last_mut().map(|draft| &mut draft.kind) {
            Some(Kind::Conv2d { bias, .. } | Kind::Linear { bias, .. }) => *bias = value,
            _ => self.refuse("bias"),
        }
        self
    }

    /// Checks the whole and gives the model, or the first mistake.
    pub fn build(self) -> Result<Model, ModelError> {
        match self.wrong {
            Some(error) => Err(error),
            None => assemble(self.name, self.input, self.drafts, None, self.place),
        }
    }

    /// Remembers that the last layer has no such property.
    #[track_caller]
    fn refuse(&mut self, key: &str) {
        let place = here();
        let error = match self.drafts.last() {
            None => ModelError::Model {
                message: format!("`{key}` before any layer"),
                place,
            },
            Some(draft) => ModelError::Layer {
                kind: draft.kind.type_name().into(),
                layer: check::label(draft.name.as_deref(), self.drafts.len() - 1),
                message: format!("has no `{key}`"),
                place,
            },
        };
        self.wrong.get_or_insert(error);
    }
}
