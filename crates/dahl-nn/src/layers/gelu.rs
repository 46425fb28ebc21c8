//! The value times the normal distribution at it, exactly or by the usual approximation.

use dahl_core::Handle;
use dahl_ops::activation;
use serde::{Deserialize, Serialize};

use super::{Layer, ModelBuilder, Named, Tape};

/// `torch.nn.GELU`: `x · Φ(x)`, Φ being the normal distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Gelu {
    /// How Φ is computed.
    pub approximate: Approximate,
}

/// How [`Gelu`] is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Approximate {
    /// By the error function.
    #[default]
    None,
    /// By a hyperbolic tangent.
    Tanh,
}

impl Named for Gelu {
    const NAME: &'static str = "gelu";
}

impl Layer for Gelu {
    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let codelet = match self.approximate {
            Approximate::None => &activation::GELU,
            Approximate::Tanh => &activation::GELU_TANH,
        };
        tape.map_output(codelet, &[])
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let codelet = match self.approximate {
            Approximate::None => &activation::GELU_GRAD,
            Approximate::Tanh => &activation::GELU_TANH_GRAD,
        };
        tape.map_gradient(codelet, &[dy, &tape.input(0)], &[]);
    }
}

impl ModelBuilder {
    /// `x · Φ(x)` by the error function; `.set("approximate", "tanh")` takes the approximation.
    #[track_caller]
    pub fn gelu(self) -> Self {
        self.layer(Gelu::default())
    }
}
