//! The sum of what it reads.

use dahl_core::Handle;
use dahl_ops::elementwise;
use serde::{Deserialize, Serialize};

use super::{Extent, Layer, ModelBuilder, Named, Tape};

/// `x + y + …`, for residual connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Add;

impl Named for Add {
    const NAME: &'static str = "add";
}

impl Layer for Add {
    fn reads_many(&self) -> bool {
        true
    }

    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        let [first, rest @ ..] = inputs else {
            return Err("reads nothing".into());
        };
        if rest.is_empty() {
            return Err("reads one value, add needs two or more: list them in `from`".into());
        }
        match rest.iter().find(|e| *e != first) {
            Some(other) => Err(format!(
                "inputs are {first} and {other}, and must be equal: make the branches meet with the same \
                 channels, strides and padding (a conv2d with kernel 1 can change channels and stride)"
            )),
            None => Ok(*first),
        }
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let mut total = tape.input(0);
        for i in 1..tape.input_count() {
            let y = tape.new_output();
            tape.map(&elementwise::ADD, &[&total, &tape.input(i)], &y, &[]);
            total = y;
        }
        total
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        for i in 0..tape.input_count() {
            if tape.wants_gradient(i) {
                tape.give_gradient(i, dy.clone());
            }
        }
    }
}

impl ModelBuilder {
    /// The sum of two or more layers, by their names.
    #[allow(clippy::should_implement_trait)] // a layer's name, as all methods here are
    #[track_caller]
    pub fn add<S: Into<String>>(self, names: impl IntoIterator<Item = S>) -> Self {
        self.layer(Add)
            .reads(names.into_iter().map(Into::into).collect())
    }
}
