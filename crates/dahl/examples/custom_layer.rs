//! A layer of the program's own: the square of its input, forward and backward, used from Rust and from a file.
//!
//!     cargo run --release -p dahl --example custom_layer

use std::sync::{Arc, LazyLock};

use dahl::nn::Registry;
use dahl::nn::keys::Named;
use dahl::nn::layers::Layer;
use dahl::nn::lower::Tape;
use dahl::nn::model::Extent;
use dahl::prelude::*;
use serde::{Deserialize, Serialize};

/// y = x²: x, y.
static SQUARE: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    Arc::new(
        Codelet::new("square").implement("reference", UnitKind::CPU, |ops| {
            let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
            for_rows(x.dims(), |at| {
                x.row(at)
                    .iter()
                    .zip(y.row(at))
                    .for_each(|(x, y)| *y = x * x);
            });
            Ok(())
        }),
    )
});

/// dx = 2 x dy: dy, x, dx.
static SQUARE_GRAD: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    Arc::new(
        Codelet::new("square_grad").implement("reference", UnitKind::CPU, |ops| {
            let (dy, x, mut dx) = (ops.read::<f32>(0), ops.read::<f32>(1), ops.write::<f32>(2));
            for_rows(x.dims(), |at| {
                let inputs = dy.row(at).iter().zip(x.row(at));
                inputs
                    .zip(dx.row(at))
                    .for_each(|((dy, x), dx)| *dx = 2.0 * x * dy);
            });
            Ok(())
        }),
    )
});

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Square;

impl Named for Square {
    const NAME: &'static str = "square";
}

impl Layer for Square {
    fn extent(&self, inputs: &[Extent]) -> Result<Extent, String> {
        Ok(inputs[0])
    }

    fn forward(&self, tape: &mut Tape<'_>) -> Handle {
        let y = tape.new_output();
        tape.map(&SQUARE, &[&tape.input(0)], &y, &[]);
        y
    }

    fn backward(&self, tape: &mut Tape<'_>, dy: &Handle) {
        let dx = tape.new_gradient(0);
        tape.map(&SQUARE_GRAD, &[dy, &tape.input(0)], &dx, &[]);
        tape.give_gradient(0, dx);
    }
}

fn main() -> Result<(), dahl::Error> {
    let data = Data::open_first("fashion-mnist-small", [1, 28, 28], 3200, 500)?;
    let start = Model::builder("squares", [1, 28, 28]).flatten().linear(32);
    let model = start.layer(Square).linear(10).build()?;
    let history = Trainer::new(model.clone()).epochs(2).fit(&data)?;
    println!(
        "loss {:.3}, then {:.3}",
        history[0].train.mean_loss(),
        history[1].train.mean_loss()
    );
    assert!(history[1].train.mean_loss() < history[0].train.mean_loss());

    // A file may name it too, where the reader says so.
    let registry = Registry::default().with_layer::<Square>();
    let again = Model::from_toml_with(&model.to_toml(), "squares.toml", &registry)?;
    assert_eq!(again.fingerprint(), model.fingerprint());
    Ok(())
}
