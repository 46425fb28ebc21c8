//! Group norm: groups of neighbouring channels of each sample together.

use dahl_core::Handle;
use dahl_ops::norm::group::{
    GROUP_NORM, GROUP_NORM_AFFINE_GRAD, GROUP_NORM_INPUT_GRAD, GroupNormParams, Groups,
};
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, ParamSpec, Tape, divides, norm, yes};

/// `torch.nn.GroupNorm`: groups of channels of each sample brought to mean 0 and variance 1, then each channel scaled
/// and shifted. The numbers of a row are its channels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GroupNorm {
    /// Into how many groups the channels are cut.
    pub num_groups: usize,
    /// What is added to the variance.
    #[serde(default = "epsilon")]
    pub eps: f64,
    /// Whether channels are scaled and shifted.
    #[serde(default = "yes")]
    pub affine: bool,
}

fn epsilon() -> f64 {
    norm::EPSILON
}

impl Named for GroupNorm {
    const NAME: &'static str = "group_norm";
}

/// Samples × channels × height × width, also of rows.
fn image(of: &Handle) -> Handle {
    let mut extents = of.shape.extents().to_vec();
    extents.resize(4, 1);
    of.reshape(&extents).expect("as many elements")
}

impl Layer for GroupNorm {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        norm::check_epsilon(self.eps)?;
        if self.num_groups == 0 {
            return Err("num_groups must be 1 or more".into());
        }
        let channels = inputs[0].channels();
        divides("num_groups", self.num_groups, "the input's", channels).map(|_| inputs[0])
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        norm::params(&[input.channels()], [self.affine; 2])
    }

    fn check_batch(&self, input: Extent, batch: usize) -> Result<(), String> {
        match batch * input.len() == self.num_groups {
            true => Err(
                "a batch of one sample has one value per group, training needs two; choose fewer \
                 groups, or a batch size that leaves no single sample over"
                    .into(),
            ),
            false => Ok(()),
        }
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let (x, y) = (tape.input(0), tape.new_output());
        let statistics = tape.temporary("statistics", &[tape.batch(), 2 * self.num_groups]);
        let affine = norm::affine(tape, &[x.shape[1]], [self.affine; 2]);
        let params = GroupNormParams {
            groups: self.num_groups,
            epsilon: self.eps,
        };
        let images = [&image(&x), &image(&y)];
        norm::forward(tape, (&GROUP_NORM, params), images, statistics, affine);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let groups = Groups {
            groups: self.num_groups,
        };
        let ops = (&GROUP_NORM_INPUT_GRAD, &GROUP_NORM_AFFINE_GRAD, groups);
        norm::backward(tape, ops, dy, image, [self.affine; 2]);
    }
}

impl ModelBuilder {
    /// Group norm over so many groups of channels.
    #[track_caller]
    pub fn group_norm(self, num_groups: usize) -> Self {
        self.layer(GroupNorm {
            num_groups,
            eps: epsilon(),
            affine: true,
        })
    }
}
