//! A training step written by hand with typed operations: convolution, ReLU, linear layer, cross-entropy, all
//! gradients, SGD. The graph is recorded once and launched for every step.
//!
//!     cargo run --release -p dahl --example array_program

use dahl::core::random::Random;
use dahl::ops::api::Conv2d;
use dahl::prelude::*;

const BATCH: usize = 64;
const FILTERS: usize = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Images of 8×8 with a bright row (class 0) or a bright column (class 1) among noise.
    let random = Random::new(1, 0);
    let label = |n: usize| n % 2;
    let pixel = |i: usize| {
        let (n, row, column) = (i / 64, i / 8 % 8, i % 8);
        let bright = if label(n) == 0 { row } else { column } == n / 2 % 8;
        (random.uniform(i as u64) + f64::from(u8::from(bright))) as f32
    };
    let images: Vec<f32> = (0..BATCH * 64).map(pixel).collect();
    let labels: Vec<f32> = (0..BATCH).map(|n| label(n) as f32).collect();
    let noise = |n: usize, scale: f64| -> Vec<f32> {
        let at = |i: usize| (scale * (random.uniform((1 << 32) + i as u64) - 0.5)) as f32;
        (0..n).map(at).collect()
    };

    let arena = Arena::new();
    let x = arena.from_slice([BATCH, 1, 8, 8], &images)?;
    let labels = arena.from_slice([BATCH], &labels)?;
    let mut filters = arena.from_slice([FILTERS, 1, 3, 3], &noise(FILTERS * 9, 1.0))?;
    let mut bias = arena.zeros::<f32, 1>([FILTERS])?;
    let mut w = arena.from_slice([2, FILTERS * 36], &noise(2 * FILTERS * 36, 0.2))?;
    let mut b = arena.zeros::<f32, 1>([2])?;
    let values = arena.from_slice([3], &[0.1f32, 0.0, 0.0])?; // rate, weight decay, momentum
    let mut loss = arena.zeros::<f32, 0>([])?;

    let r = Recorder::new();
    let options = Conv2d::default();
    let y = ops::conv2d(&r, &x, &filters, Some(&bias), options);
    let hidden = ops::relu(&r, &y).into_shape([BATCH, FILTERS * 36])?;
    let logits = ops::linear(&r, &hidden, &w, Some(&b));
    let end = ops::cross_entropy(&r, &logits, &labels);
    ops::copy_into(&r, &end.loss, &mut loss);

    let dw = ops::linear_weight_grad(&r, &end.gradient, &hidden);
    let db = ops::linear_bias_grad(&r, &end.gradient);
    let dhidden = ops::linear_input_grad(&r, &end.gradient, &w);
    let dy = ops::relu_grad(&r, &dhidden, &hidden).into_shape([BATCH, FILTERS, 6, 6])?;
    let dfilters = ops::conv2d_filter_grad(&r, &x, &dy, options, [3, 3]);
    let dbias = ops::conv2d_bias_grad(&r, &dy);
    ops::sgd_assign(&r, &mut w, &dw, &values);
    ops::sgd_assign(&r, &mut b, &db, &values);
    ops::sgd_assign(&r, &mut filters, &dfilters, &values);
    ops::sgd_assign(&r, &mut bias, &dbias, &values);
    let graph = r.finish()?;
    println!("{} tasks, {} edges", graph.len(), graph.edges().count());

    let mut runtime = Runtime::builder().build()?;
    let mut losses = Vec::new();
    for step in 0..200 {
        runtime.launch(&graph)?;
        if step % 50 == 0 || step == 199 {
            losses.push(runtime.read(&loss)?[0]);
        }
    }
    println!("losses: {losses:.3?}");
    assert!(losses[losses.len() - 1] < 0.2 * losses[0]);
    Ok(())
}
