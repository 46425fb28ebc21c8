//! Transposed convolution: what a convolution's gradient does, as a layer.
//!
//! Its output is what the input's gradient would be of a convolution whose output is this layer's input, so it runs
//! that convolution's codelets with the roles exchanged; there is no kernel of its own but for the bias.

use dahl_core::Handle;
use dahl_core::Mode::{Read, ReadWrite};
use dahl_ops::channelwise::{CHANNEL_SHIFT, ChannelShift};
use serde::{Deserialize, Serialize};

use super::conv2d::tasks::bias_gradient;
use super::conv2d::{is_one, is_single, single};
use super::window::{image, none, not_empty, one, some};
use super::{Conv2d, Extent, Fill, Layer, ModelBuilder, Named, Pair, ParamSpec, Tape, divides};
use crate::lower::tiles;

/// `torch.nn.ConvTranspose2d`: makes images larger, by the stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ConvTranspose2d {
    /// Channels of what it gives.
    pub out_channels: usize,
    /// Height and width of a filter.
    pub kernel: Pair,
    /// Step between the places where filters are put.
    #[serde(default = "one")]
    pub stride: Pair,
    /// What is cut off the result, on each side.
    #[serde(default = "none")]
    pub padding: Pair,
    /// What is put to the result at the bottom and on the right: a convolution with a stride gives the same size for
    /// several inputs.
    #[serde(default = "none", skip_serializing_if = "is_none")]
    pub output_padding: Pair,
    /// Into how many groups the channels are cut.
    #[serde(default = "single", skip_serializing_if = "is_single")]
    pub groups: usize,
    /// Whether a number per channel is added.
    #[serde(default = "super::yes")]
    pub bias: bool,
    /// Distance between neighbouring positions of a filter; 1 leaves no gap.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub dilation: Pair,
}

fn is_none(pair: &Pair) -> bool {
    *pair == none()
}

impl Named for ConvTranspose2d {
    const NAME: &'static str = "conv_transpose2d";
}

impl ConvTranspose2d {
    /// The convolution that it turns round: from its output to its input of so many channels.
    fn turned(&self, channels: usize) -> Conv2d {
        Conv2d {
            out_channels: channels,
            kernel: self.kernel,
            stride: self.stride,
            padding: self.padding,
            dilation: self.dilation,
            groups: self.groups,
            bias: false,
        }
    }

    /// `(n − 1) · stride − 2 · padding + dilation · (kernel − 1) + output_padding + 1`
    fn side(&self, axis: usize, input: usize) -> Result<usize, String> {
        let [kernel, stride, padding, dilation, more] = [
            self.kernel,
            self.stride,
            self.padding,
            self.dilation,
            self.output_padding,
        ]
        .map(|pair| pair.0[axis]);
        let gaps = dilation.checked_mul(kernel - 1);
        let reach = (input - 1).checked_mul(stride);
        let all = gaps.and_then(|g| reach?.checked_add(g)?.checked_add(more)?.checked_add(1));
        let all = all.ok_or_else(|| "stride, dilation and kernel are too large".to_owned())?;
        let cut = padding.checked_mul(2).and_then(|cut| all.checked_sub(cut));
        cut.filter(|&n| n > 0).ok_or_else(|| {
            format!(
                "padding {} cuts off all of an output of {all}: use less padding",
                self.padding
            )
        })
    }
}

impl Layer for ConvTranspose2d {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        let [channels, h, w] = image(inputs[0])?;
        some(&[("out_channels", self.out_channels), ("groups", self.groups)])?;
        not_empty(self.kernel, self.stride, self.dilation)?;
        let (more, stride, dilation) = (self.output_padding.0, self.stride.0, self.dilation.0);
        if (0..2).any(|a| more[a] >= stride[a] && more[a] >= dilation[a]) {
            return Err(format!(
                "output_padding is {}; it must be less than the stride {} or the dilation {}",
                self.output_padding, self.stride, self.dilation
            ));
        }
        divides("groups", self.groups, "the input's", channels)?;
        divides("groups", self.groups, "the output's", self.out_channels)?;
        let sides = [self.side(0, h)?, self.side(1, w)?];
        Extent::Image([self.out_channels, sides[0], sides[1]]).checked()
    }

    fn params(&self, input: Extent) -> Vec<ParamSpec> {
        let (out, [h, w]) = (self.out_channels / self.groups, self.kernel.0);
        // PyTorch counts the inputs of the convolution that is turned round.
        let init = Fill::fan_in(out.saturating_mul(h).saturating_mul(w));
        let shape = [input.channels(), out, h, w];
        let mut params = vec![ParamSpec::trained("weight", &shape, init)];
        if self.bias {
            params.push(ParamSpec::trained("bias", &[self.out_channels], init));
        }
        params
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let (x, y, w) = (tape.input(0), tape.new_output(), tape.param("weight"));
        self.turned(x.shape[1]).convolve_back(tape, [&x, &w, &y]);
        if self.bias {
            let bias = tape.param("bias");
            for n in tape.samples(y.shape.len()) {
                let part = tiles::samples(&y, n);
                let (x, shift) = (part.with(ReadWrite), bias.with(Read));
                CHANNEL_SHIFT.submit(tape.recorder(), ChannelShift { x, shift }, ());
            }
        }
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let (x, w) = (tape.input(0), tape.param("weight"));
        let conv = self.turned(x.shape[1]);
        if tape.wants_gradient(0) {
            let dx = tape.new_gradient(0);
            conv.convolve(tape, [dy, &w, &dx], None, false);
            tape.give_gradient(0, dx);
        }
        let dw = tape.temporary("filter gradient", w.shape.extents());
        conv.add_filter_gradient(tape, [dy, &x, &dw]);
        tape.give_param_gradient("weight", dw);
        if self.bias {
            let parts = tape.samples(dy.shape.len()).len();
            bias_gradient(tape, dy, parts);
        }
    }
}

impl ModelBuilder {
    /// A transposed convolution with stride 1, no padding, no gaps, one group and a bias; `.stride`, `.padding`,
    /// `.dilation`, `.groups`, `.bias` and `.set("output_padding", …)` change that.
    #[track_caller]
    pub fn conv_transpose2d(self, out_channels: usize, kernel: impl Into<Pair>) -> Self {
        self.layer(ConvTranspose2d {
            out_channels,
            kernel: kernel.into(),
            stride: one(),
            padding: none(),
            output_padding: none(),
            groups: 1,
            bias: true,
            dilation: one(),
        })
    }
}
