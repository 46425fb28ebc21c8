//! Layers: one file each, and one line in [`LAYERS`].
//!
//! A layer's file has the struct with its keys, what it does to extents, its parameters with their names and
//! first values, its tasks forward and backward, and its method of [`ModelBuilder`]. Model files, tables and
//! fingerprints follow from the struct's serde. Names, defaults and semantics are those of PyTorch's module
//! of the same name. A program's own layer is given to [`ModelBuilder::layer`], or to a [`crate::Registry`]
//! so that files can name it. Which layers run as one is the business of `fusion`.

mod adaptive_avg_pool2d;
mod add;
mod avg_pool2d;
mod batch_norm2d;
mod concat;
mod conv2d;
mod conv_transpose2d;
mod dropout;
mod elu;
mod flatten;
pub(crate) mod fusion;
mod gelu;
mod group_norm;
mod layer_norm;
mod layer_norm2d;
mod layer_scale;
mod leaky_relu;
mod linear;
mod linear2d;
mod max_pool2d;
mod norm;
mod relu;
mod relu6;
mod sigmoid;
mod silu;
mod tanh;
mod upsample;
mod window;

use std::sync::Arc;

use dahl_core::Handle;

pub(crate) use adaptive_avg_pool2d::AdaptiveAvgPool2d;
pub(crate) use add::Add;
pub(crate) use avg_pool2d::AvgPool2d;
pub(crate) use batch_norm2d::BatchNorm2d;
pub(crate) use concat::Concat;
pub(crate) use conv_transpose2d::ConvTranspose2d;
pub(crate) use conv2d::Conv2d;
pub(crate) use dropout::Dropout;
pub(crate) use elu::Elu;
pub(crate) use flatten::Flatten;
pub(crate) use gelu::Gelu;
pub(crate) use group_norm::GroupNorm;
pub(crate) use layer_norm::LayerNorm;
pub(crate) use layer_norm2d::LayerNorm2d;
pub(crate) use layer_scale::LayerScale;
pub(crate) use leaky_relu::LeakyRelu;
pub(crate) use linear::Linear;
pub(crate) use linear2d::Linear2d;
pub(crate) use max_pool2d::MaxPool2d;
pub(crate) use relu::Relu;
pub(crate) use relu6::Relu6;
pub(crate) use sigmoid::Sigmoid;
pub(crate) use silu::Silu;
pub(crate) use tanh::Tanh;
pub(crate) use upsample::Upsample;
pub use window::Pair;
pub(crate) use window::Pool2d;

use crate::keys::{self, Keys, Named, Reader};
use crate::lower::Tape;
use crate::model::{Extent, Fill, ModelBuilder, Role};

/// All layers that model files know.
pub const LAYERS: &[Reader<dyn Layer>] = &[
    reader::<Conv2d>(),
    reader::<Relu>(),
    reader::<MaxPool2d>(),
    reader::<AvgPool2d>(),
    reader::<AdaptiveAvgPool2d>(),
    reader::<BatchNorm2d>(),
    reader::<Dropout>(),
    reader::<Flatten>(),
    reader::<Linear>(),
    reader::<Add>(),
    reader::<Concat>(),
    reader::<Sigmoid>(),
    reader::<Tanh>(),
    reader::<LeakyRelu>(),
    reader::<Elu>(),
    reader::<Gelu>(),
    reader::<Silu>(),
    reader::<LayerNorm>(),
    reader::<GroupNorm>(),
    reader::<ConvTranspose2d>(),
    reader::<Upsample>(),
    reader::<Relu6>(),
    reader::<LayerNorm2d>(),
    reader::<LayerScale>(),
    reader::<Linear2d>(),
];

/// How a layer is read: what a line of [`LAYERS`] has.
pub(crate) const fn reader<T: Layer + Named>() -> Reader<dyn Layer> {
    Reader {
        name: T::NAME,
        read: |given| Ok(Arc::new(keys::read::<T>(given)?)),
    }
}

/// What a layer computes.
pub trait Layer: Keys {
    /// Whether it reads several values; the others read one.
    fn reads_many(&self) -> bool {
        false
    }

    /// The extent of what it gives for one sample, from those of what it reads (at least one); that of the
    /// first unless it says otherwise. The error says what is wrong and what to do about it.
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        Ok(inputs[0])
    }

    /// Its parameters and buffers, if its first input has this extent.
    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        let _ = input;
        Vec::new()
    }

    /// Whether it can be trained with so many samples in a step; the error says what to do about it.
    fn check_batch(&self, input: Extent, batch: usize) -> Result<(), String> {
        let _ = (input, batch);
        Ok(())
    }

    /// Submits the tasks that compute its output, which it returns.
    fn forward(&self, tape: &mut Tape<'_>) -> Handle;

    /// Submits the tasks that turn the output's gradient into those of its inputs and parameters, and gives
    /// these to the tape.
    fn backward(&self, tape: &mut Tape<'_>, gradient: &Handle);
}

/// A parameter or buffer as a layer asks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    /// The last part of its key in weight files, as PyTorch's module calls it.
    pub name: &'static str,
    /// Its shape; empty for a single number.
    pub shape: Vec<usize>,
    /// Who changes it.
    pub role: Role,
    /// How it starts.
    pub init: Fill,
}

impl ParamSpec {
    /// A parameter that the optimiser changes.
    pub fn trained(name: &'static str, shape: &[usize], init: Fill) -> Self {
        ParamSpec {
            name,
            shape: shape.to_vec(),
            role: Role::Trained,
            init,
        }
    }

    /// An array that the layer's own tasks change, such as running statistics.
    pub fn buffer(name: &'static str, shape: &[usize], init: Fill) -> Self {
        ParamSpec {
            role: Role::Buffer,
            ..Self::trained(name, shape, init)
        }
    }
}

/// A number that a layer multiplies by must be one.
pub(crate) fn finite(key: &str, value: f64) -> Result<(), String> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(format!("{key} is {value}; it must be a finite number")),
    }
}

/// What cuts channels into groups must divide them.
pub(crate) fn divides(key: &str, groups: usize, of: &str, channels: usize) -> Result<(), String> {
    match channels.is_multiple_of(groups) {
        true => Ok(()),
        false => Err(format!(
            "{key} is {groups}, which does not divide {of} {channels} channels: choose a divisor"
        )),
    }
}

/// Serde's default for keys that are on unless set.
pub(crate) fn yes() -> bool {
    true
}
