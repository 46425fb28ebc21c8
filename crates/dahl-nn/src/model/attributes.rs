//! The keys of each kind of layer: the one table from which files, fingerprints and tables are made.

use std::fmt;

use super::Kind;

/// One key of a layer with its value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute {
    pub key: &'static str,
    pub value: Value,
    /// Whether leaving the key out of a file means the same.
    pub is_default: bool,
}

/// What a key can hold.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    Size(usize),
    Pair([usize; 2]),
    Flag(bool),
    Real(f64),
}

impl Kind {
    /// The layer's `type` in a file.
    pub fn type_name(&self) -> &'static str {
        match self {
            Kind::Conv2d { .. } => "conv2d",
            Kind::Relu => "relu",
            Kind::MaxPool2d { .. } => "max_pool2d",
            Kind::AvgPool2d { .. } => "avg_pool2d",
            Kind::AdaptiveAvgPool2d => "adaptive_avg_pool2d",
            Kind::BatchNorm2d => "batch_norm2d",
            Kind::Dropout { .. } => "dropout",
            Kind::Flatten => "flatten",
            Kind::Linear { .. } => "linear",
            Kind::Add => "add",
        }
    }

    /// The keys that a layer of this kind has.
    pub(super) fn attributes(&self) -> Vec<Attribute> {
        let entry = |key, value, is_default| Attribute {
            key,
            value,
            is_default,
        };
        let pool = |kernel, stride, padding| {
            vec![
                entry("kernel", Value::Pair(kernel), false),
                entry("stride", Value::Pair(stride), stride == kernel),
                entry("padding", Value::Pair(padding), padding == [0, 0]),
            ]
        };
        match *self {
            Kind::Conv2d {
                out_channels,
                kernel,
                stride,
                padding,
                bias,
            } => vec![
                entry("out_channels", Value::Size(out_channels), false),
                entry("kernel", Value::Pair(kernel), false),
                entry("stride", Value::Pair(stride), stride == [1, 1]),
                entry("padding", Value::Pair(padding), padding == [0, 0]),
                entry("bias", Value::Flag(bias), bias),
            ],
            Kind::MaxPool2d {
                kernel,
                stride,
                padding,
            }
            | Kind::AvgPool2d {
                kernel,
                stride,
                padding,
            } => pool(kernel, stride, padding),
            Kind::Dropout { p } => vec![entry("p", Value::Real(p), p == 0.5)],
            Kind::Linear { out_features, bias } => vec![
                entry("out_features", Value::Size(out_features), false),
                entry("bias", Value::Flag(bias), bias),
            ],
            Kind::Relu
            | Kind::AdaptiveAvgPool2d
            | Kind::BatchNorm2d
            | Kind::Flatten
            | Kind::Add => Vec::new(),
        }
    }
}

impl Attribute {
    /// The value in words of 64 bits; as many for each value of one key.
    pub(super) fn words(&self) -> Vec<u64> {
        match self.value {
            Value::Size(n) => vec![n as u64],
            Value::Pair([h, w]) => vec![h as u64, w as u64],
            Value::Flag(b) => vec![u64::from(b)],
            Value::Real(x) => vec![x.to_bits()],
        }
    }
}

/// As a file writes it.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Value::Size(n) => write!(f, "{n}"),
            Value::Pair([h, w]) if h == w => write!(f, "{h}"),
            Value::Pair([h, w]) => write!(f, "[{h}, {w}]"),
            Value::Flag(b) => write!(f, "{b}"),
            Value::Real(x) => write!(f, "{x:?}"),
        }
    }
}
