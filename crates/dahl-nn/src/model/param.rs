//! Parameters and buffers: what a model's weights are called and how large they are.

use super::extent::elements;
use super::{Extent, Kind, Layer};

/// A parameter or buffer of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its key in weight files: `0.weight`, or `name.weight` where the layer has a name.
    pub key: String,
    /// The layer it belongs to.
    pub layer: usize,
    /// What it is to that layer.
    pub role: Role,
    /// Its shape; empty for a single number.
    pub shape: Vec<usize>,
}

impl Param {
    /// How many elements.
    #[allow(clippy::len_without_is_empty)] // never empty: a model with an empty value is refused
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }
}

/// What a parameter is to its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Filters, a matrix, or a batch norm's scale.
    Weight,
    /// What is added.
    Bias,
    /// A batch norm's running mean.
    RunningMean,
    /// A batch norm's running variance.
    RunningVar,
    /// How many batches a batch norm has seen: an integer.
    NumBatches,
}

impl Role {
    /// Whether the optimiser changes it.
    pub fn is_trained(self) -> bool {
        matches!(self, Role::Weight | Role::Bias)
    }

    /// The last part of its key.
    pub fn name(self) -> &'static str {
        match self {
            Role::Weight => "weight",
            Role::Bias => "bias",
            Role::RunningMean => "running_mean",
            Role::RunningVar => "running_var",
            Role::NumBatches => "num_batches_tracked",
        }
    }
}

/// The parameters of layer `index`, which reads a value of extent `input`.
pub(super) fn of_layer(index: usize, layer: &Layer, input: Extent) -> Result<Vec<Param>, String> {
    let owner = layer.name.clone().unwrap_or_else(|| index.to_string());
    let param = |role: Role, shape: Vec<usize>| {
        elements(&shape)?;
        Ok(Param {
            key: format!("{owner}.{}", role.name()),
            layer: index,
            role,
            shape,
        })
    };
    let bias = |wanted: bool, n: usize| wanted.then(|| param(Role::Bias, vec![n]));
    let channels = match input {
        Extent::Image([c, ..]) => c,
        Extent::Flat(n) => n,
    };
    match layer.kind {
        Kind::Conv2d {
            out_channels,
            kernel: [h, w],
            bias: wanted,
            ..
        } => std::iter::once(param(Role::Weight, vec![out_channels, channels, h, w]))
            .chain(bias(wanted, out_channels))
            .collect(),
        Kind::Linear {
            out_features,
            bias: wanted,
        } => std::iter::once(param(Role::Weight, vec![out_features, channels]))
            .chain(bias(wanted, out_features))
            .collect(),
        Kind::BatchNorm2d => [
            (Role::Weight, vec![channels]),
            (Role::Bias, vec![channels]),
            (Role::RunningMean, vec![channels]),
            (Role::RunningVar, vec![channels]),
            (Role::NumBatches, Vec::new()),
        ]
        .into_iter()
        .map(|(role, shape)| param(role, shape))
        .collect(),
        _ => Ok(Vec::new()),
    }
}
