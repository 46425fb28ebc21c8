//! Fusion: a list of patterns over layers that one kernel computes in one pass.
//!
//! A model's layers become *groups*, each a layer by itself or the longest pattern that fits. A pattern sees
//! a chain of layers of which each is the only reader of the one before, so nobody misses the values in
//! between. Whether a pattern applies depends on the model alone, never on the machine: it changes the bits.

use dahl_core::Handle;
use dahl_ops::conv2d::fused::supports_pool;

use super::batch_norm2d::Rectifier;
use super::conv2d::pooled;
use super::{BatchNorm2d, Conv2d, Layer, MaxPool2d, Relu, Relu6};
use crate::lower::Tape;
use crate::model::{Extent, Model};

/// All patterns; the first that fits is taken.
const PATTERNS: &[fn(&Chain<'_>) -> Option<Match>] = &[conv_relu_pool, conv_relu, batch_norm_relu];

/// Layers of the longest pattern: more of a chain is not looked at.
const LONGEST: usize = 3;

/// Layers that run as one, instead of their own tasks.
pub(crate) trait Fused {
    /// As [`Layer::forward`], for all of them.
    fn forward(&self, tape: &mut Tape<'_>) -> Handle;
    /// As [`Layer::backward`], for all of them.
    fn backward(&self, tape: &mut Tape<'_>, gradient: &Handle);
}

/// How many layers a pattern takes, and what runs in their place.
type Match = (usize, Box<dyn Fused>);

/// A layer and those behind it, each the only reader of the one before.
struct Chain<'a> {
    layers: Vec<&'a dyn Layer>,
    /// What the first one reads.
    input: Extent,
}

impl<'a> Chain<'a> {
    /// Layer `i` if it is of this type.
    fn get<T: Layer + 'static>(&self, i: usize) -> Option<&'a T> {
        self.layers.get(i)?.as_any().downcast_ref()
    }
}

/// A convolution and the positive part.
fn conv_relu(chain: &Chain<'_>) -> Option<Match> {
    struct ConvRelu(Conv2d);

    impl Fused for ConvRelu {
        fn forward(&self, tape: &mut Tape<'_>) -> Handle {
            self.0.forward_with(tape, true)
        }

        fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
            self.0.backward_with(tape, dy, true);
        }
    }

    chain.get::<Relu>(1)?;
    Some((2, Box::new(ConvRelu(*chain.get(0)?))))
}

/// Below this many products of channels, the direct convolution and so the fused one is the best.
const FUSED_CHANNELS: usize = 256;

/// A convolution of few channels without groups and gaps, the positive part and max-pooling.
fn conv_relu_pool(chain: &Chain<'_>) -> Option<Match> {
    let conv = chain.get::<Conv2d>(0)?;
    chain.get::<Relu>(1)?;
    let MaxPool2d(pool) = chain.get(2)?;
    let channels = chain.input.channels();
    let fits = conv.is_plain()
        && supports_pool(pool.kernel.0, pool.stride.0, pool.padding.0)
        && channels < 12
        && channels * conv.out_channels < FUSED_CHANNELS;
    let side = pool.kernel.0[0];
    fits.then(|| -> Match { (3, Box::new(pooled::ConvReluPool { conv: *conv, side })) })
}

/// Batch normalisation and the positive part, cut off at six or not.
fn batch_norm_relu(chain: &Chain<'_>) -> Option<Match> {
    struct BatchNormRelu(BatchNorm2d, Rectifier);

    impl Fused for BatchNormRelu {
        fn forward(&self, tape: &mut Tape<'_>) -> Handle {
            self.0.forward_with(tape, Some(self.1))
        }

        fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
            self.0.backward_with(tape, dy, Some(self.1));
        }
    }

    let cap = match (chain.get::<Relu>(1), chain.get::<Relu6>(1)) {
        (None, None) => return None,
        (Some(_), _) => None,
        (None, Some(_)) => Some(6.0),
    };
    Some((
        2,
        Box::new(BatchNormRelu(*chain.get(0)?, Rectifier { cap })),
    ))
}

/// Layers that run as one.
pub(crate) struct Group {
    /// The first layer, whose parameters it has.
    pub layer: usize,
    /// What runs instead of that layer, if it is not alone.
    pub fused: Option<Box<dyn Fused>>,
    /// The values it reads.
    pub inputs: Vec<usize>,
    /// The value it makes.
    pub output: usize,
    /// What traces and errors call it.
    pub label: String,
}

/// The groups of a model, in an order in which they can run.
pub(crate) fn groups(model: &Model) -> Vec<Group> {
    let layers = &model.layers;
    let mut readers = vec![0; layers.len() + 1];
    for layer in layers {
        // Who reads a value twice is one reader.
        let mut from = layer.from.clone();
        from.sort_unstable();
        from.dedup();
        from.iter().for_each(|&value| readers[value] += 1);
    }
    // Whether the only reader of layer `i` is the next one.
    let leads_on = |i: usize| {
        let next = layers.get(i + 1);
        next.is_some_and(|l| l.from == [i + 1]) && readers[i + 1] == 1
    };
    let mut groups = Vec::new();
    let mut i = 0;
    while i < layers.len() {
        let end = (i..i + LONGEST - 1).find(|&j| !leads_on(j));
        let end = end.unwrap_or(i + LONGEST - 1);
        let chain = Chain {
            layers: layers[i..=end].iter().map(|l| &*l.layer).collect(),
            input: model.extents()[layers[i].from[0]],
        };
        let found = PATTERNS.iter().find_map(|pattern| pattern(&chain));
        let (count, fused) = found.map_or((1, None), |(count, fused)| (count, Some(fused)));
        let last = i + count - 1;
        let label = match count {
            1 => model.label(i),
            _ => format!("{}..{}", model.label(i), model.label(last)),
        };
        groups.push(Group {
            layer: i,
            fused,
            inputs: layers[i].from.clone(),
            output: last + 1,
            label,
        });
        i = last + 1;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the time is linear cannot be tested without a clock; whether it ends can: with the square of the
    /// layers this took minutes, with their cube years.
    #[test]
    fn many_layers_are_grouped() {
        let layers = 200_000;
        let mut builder = Model::builder("deep", [1, 4, 4]).flatten();
        for _ in 0..layers {
            builder = builder.relu();
        }
        let model = builder.linear(2).build().unwrap();
        assert_eq!(groups(&model).len(), layers + 2);
    }

    #[test]
    fn a_value_that_others_read_too_is_not_fused_away() {
        let fused = |text: &str| {
            let start = "name = \"m\"\ninput = [1, 8, 8]\n[[layers]]\ntype = \"conv2d\"\nout_channels = 2\n\
                         kernel = 3\npadding = 1\nname = \"c\"\n[[layers]]\ntype = \"relu\"\nname = \"r\"\n";
            let end =
                "[[layers]]\ntype = \"flatten\"\n[[layers]]\ntype = \"linear\"\nout_features = 2\n";
            let model = Model::from_toml(&format!("{start}{text}{end}"), "m.toml").unwrap();
            groups(&model)[0].fused.is_some()
        };
        assert!(fused(""));
        assert!(!fused(
            "[[layers]]\ntype = \"add\"\nfrom = [\"c\", \"r\"]\n"
        ));
        assert!(fused("[[layers]]\ntype = \"add\"\nfrom = [\"r\", \"r\"]\n"));
    }
}
