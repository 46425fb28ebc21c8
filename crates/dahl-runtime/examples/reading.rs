//! Looping over the elements of an array that was waited for costs what looping over a slice costs.
//! Prints nanoseconds per element for both, the best of many passes, and their ratio.

use std::hint::black_box;
use std::time::Instant;

use dahl_core::Arena;
use dahl_runtime::Runtime;

const LEN: usize = 1_000_000;

/// Element by element, by index, as a program would that does not know where they come from.
#[allow(clippy::needless_range_loop)] // Indexing is what is measured.
fn sum(values: &[f32]) -> f32 {
    let mut total = 0.0;
    for i in 0..values.len() {
        total += values[i] * 0.5;
    }
    total
}

fn best(mut pass: impl FnMut() -> f32) -> f64 {
    let once = |pass: &mut dyn FnMut() -> f32| {
        let start = Instant::now();
        black_box(pass());
        start.elapsed().as_secs_f64()
    };
    (0..60)
        .map(|_| once(&mut pass))
        .fold(f64::INFINITY, f64::min)
        * 1e9
        / LEN as f64
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arena = Arena::new();
    let array = arena.full([LEN], 1.0f32)?;
    let vector = vec![1.0f32; LEN];
    let runtime = Runtime::builder().workers(1).build()?;
    let slice = best(|| sum(black_box(&vector)));
    let guard = best(|| {
        // Taking the guard is part of it.
        let values = runtime.read(&array).expect("nothing is in flight");
        sum(black_box(&values))
    });
    println!(
        "slice {slice:.3} ns, guard {guard:.3} ns per element: {:.3}×",
        guard / slice
    );
    Ok(())
}
