//! Tests of models: what is accepted, what is refused and how, and that nothing panics.

mod accepted;
mod damage;
mod refused;
mod shipped;

use super::*;

/// A model of 1×8×8 images whose layers are `layers`, the head left out.
fn with(layers: &str) -> Result<Model, ModelError> {
    Model::from_toml(
        &format!("name = \"m\"\ninput = [1, 8, 8]\n{layers}"),
        "m.toml",
    )
}

/// The layers above, then a flatten and a linear.
fn headed(layers: &str) -> Result<Model, ModelError> {
    with(&format!(
        "{layers}\n[[layers]]\ntype = \"flatten\"\n[[layers]]\ntype = \"linear\"\nout_features = 2\n"
    ))
}
