//! Layer norm: the last extents of each sample together.

use dahl_core::Handle;
use dahl_ops::norm::layer::{Epsilon, LAYER_NORM, LAYER_NORM_AFFINE_GRAD, LAYER_NORM_INPUT_GRAD};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, ParamSpec, Tape, norm};

/// `torch.nn.LayerNorm`: the last extents of each sample brought to mean 0 and variance 1, then each element scaled
/// and shifted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct LayerNorm {
    /// The extents that are normalised together, the last ones of a sample; all of them unless given.
    #[serde(deserialize_with = "extents", skip_serializing_if = "Option::is_none")]
    pub normalized_shape: Option<Vec<usize>>,
    /// What is added to the variance.
    pub eps: f64,
    /// Whether elements are scaled and shifted.
    pub elementwise_affine: bool,
    /// Whether they are shifted, if they are scaled.
    pub bias: bool,
}

/// A number or a list, as PyTorch takes them.
fn extents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<usize>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a whole number, or a list of them")]
    enum Sizes {
        One(usize),
        All(Vec<usize>),
    }

    Ok(Some(match Sizes::deserialize(deserializer)? {
        Sizes::One(n) => vec![n],
        Sizes::All(sizes) => sizes,
    }))
}

impl Default for LayerNorm {
    fn default() -> Self {
        LayerNorm {
            normalized_shape: None,
            eps: norm::EPSILON,
            elementwise_affine: true,
            bias: true,
        }
    }
}

impl Named for LayerNorm {
    const NAME: &'static str = "layer_norm";
}

impl LayerNorm {
    /// Whether there are a scale and a shift to train.
    fn trained(&self) -> [bool; 2] {
        [
            self.elementwise_affine,
            self.elementwise_affine && self.bias,
        ]
    }

    /// What is normalised together, of samples with these extents.
    fn shape(&self, sample: &[usize]) -> Vec<usize> {
        match &self.normalized_shape {
            Some(shape) => shape.clone(),
            None => sample.to_vec(),
        }
    }
}

impl Layer for LayerNorm {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        norm::check_epsilon(self.eps)?;
        let sizes = inputs[0].sizes();
        let shape = self.shape(&sizes);
        match !shape.is_empty() && sizes.ends_with(&shape) {
            true => Ok(inputs[0]),
            false => Err(format!(
                "normalized_shape is {shape:?}, a sample of the input has {sizes:?}: give the last of \
                 these, or leave the key out for all"
            )),
        }
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        norm::params(&self.shape(&input.sizes()), self.trained())
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let (x, y) = (tape.input(0), tape.new_output());
        let shape = self.shape(&x.shape.extents()[1..]);
        let rows = x.shape.len() / shape.iter().product::<usize>();
        let statistics = tape.temporary("statistics", &[rows, 2]);
        let affine = norm::affine(tape, &shape, self.trained());
        let epsilon = Epsilon { epsilon: self.eps };
        norm::forward(tape, (&LAYER_NORM, epsilon), [&x, &y], statistics, affine);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let ops = (&LAYER_NORM_INPUT_GRAD, &LAYER_NORM_AFFINE_GRAD, ());
        norm::backward(tape, ops, dy, Handle::clone, self.trained());
    }
}

impl ModelBuilder {
    /// Layer norm over whole samples; `.set("normalized_shape", …)` takes their last extents.
    #[track_caller]
    pub fn layer_norm(self) -> Self {
        self.layer(LayerNorm::default())
    }
}
