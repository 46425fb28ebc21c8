//! Groups: layers that run as one, because a kernel does their work in one pass.

use dahl_ops::conv2d::conv_pool;

use crate::model::{Kind, Layer, Model};

use super::tiles::Geometry;

/// Layers that run as one.
#[derive(Clone, Debug)]
pub struct Group {
    /// The first layer, whose parameters it has.
    pub layer: usize,
    /// What it does.
    pub work: Work,
    /// The values it reads.
    pub inputs: Vec<usize>,
    /// The value it makes.
    pub output: usize,
    /// What traces and errors call it.
    pub label: String,
}

/// What a group does.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// Convolution, then perhaps the positive part.
    Conv {
        /// Its window.
        geometry: Geometry,
        /// Whether the positive part is taken.
        relu: bool,
    },
    /// Convolution, positive part and max-pooling.
    ConvPool {
        /// The convolution's window.
        geometry: Geometry,
        /// The pooling window's side.
        pool: usize,
    },
    /// Batch normalisation, then perhaps the positive part.
    BatchNorm {
        /// Whether the positive part is taken.
        relu: bool,
    },
    /// The positive part.
    Relu,
    /// Max-pooling.
    MaxPool(Geometry),
    /// Average-pooling.
    AvgPool(Geometry),
    /// The mean of each plane.
    GlobalPool,
    /// Dropout.
    Dropout(f64),
    /// Another shape, nothing else.
    Flatten,
    /// A fully connected layer.
    Linear,
    /// The sum of all inputs.
    Add,
}

/// Below this many products of channels, the direct convolution and so the fused one is the best.
const FUSED_CHANNELS: usize = 256;

/// The groups of a model, in an order in which they can run.
pub fn find(model: &Model) -> Vec<Group> {
    let layers = &model.layers;
    let readers = |value: usize| layers.iter().filter(|l| l.from.contains(&value)).count();
    // The layer that reads the output of `i`, if it is the next one and nobody else does.
    let next = |i: usize| -> Option<&Layer> {
        let layer = layers.get(i + 1)?;
        (layer.from == [i + 1] && readers(i + 1) == 1).then_some(layer)
    };
    let mut groups = Vec::new();
    let mut i = 0;
    while i < layers.len() {
        let layer = &layers[i];
        let relu = matches!(next(i).map(|l| &l.kind), Some(Kind::Relu));
        let mut last = i;
        let work = match &layer.kind {
            Kind::Conv2d {
                kernel,
                stride,
                padding,
                out_channels,
                ..
            } => {
                let geometry = Geometry {
                    kernel: *kernel,
                    stride: *stride,
                    padding: *padding,
                };
                let channels = match model.extents()[layer.from[0]] {
                    crate::model::Extent::Image([c, ..]) => c,
                    crate::model::Extent::Flat(n) => n,
                };
                let pool = if relu {
                    next(i + 1).map(|l| &l.kind)
                } else {
                    None
                };
                last += usize::from(relu);
                match pool {
                    Some(Kind::MaxPool2d {
                        kernel,
                        stride,
                        padding,
                    }) if conv_pool::supports(*kernel, *stride, *padding)
                        && channels < 12
                        && channels * out_channels < FUSED_CHANNELS =>
                    {
                        last += 1;
                        Work::ConvPool {
                            geometry,
                            pool: kernel[0],
                        }
                    }
                    _ => Work::Conv { geometry, relu },
                }
            }
            Kind::BatchNorm2d => {
                last += usize::from(relu);
                Work::BatchNorm { relu }
            }
            Kind::Relu => Work::Relu,
            Kind::MaxPool2d {
                kernel,
                stride,
                padding,
            } => Work::MaxPool(Geometry {
                kernel: *kernel,
                stride: *stride,
                padding: *padding,
            }),
            Kind::AvgPool2d {
                kernel,
                stride,
                padding,
            } => Work::AvgPool(Geometry {
                kernel: *kernel,
                stride: *stride,
                padding: *padding,
            }),
            Kind::AdaptiveAvgPool2d => Work::GlobalPool,
            Kind::Dropout { p } => Work::Dropout(*p),
            Kind::Flatten => Work::Flatten,
            Kind::Linear { .. } => Work::Linear,
            Kind::Add => Work::Add,
        };
        let name = |i: usize| {
            layers[i]
                .name
                .clone()
                .unwrap_or_else(|| format!("layers[{i}]"))
        };
        let label = if last == i {
            name(i)
        } else {
            format!("{}..{}", name(i), name(last))
        };
        groups.push(Group {
            layer: i,
            work,
            inputs: layer.from.clone(),
            output: last + 1,
            label,
        });
        i = last + 1;
    }
    groups
}
