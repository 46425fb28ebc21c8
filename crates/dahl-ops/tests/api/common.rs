//! What the tests share: numbers, running, comparing.

use std::sync::Arc;

use dahl_core::{By, DType, Graph, Split};
use dahl_ops::simd::Lane;
use dahl_runtime::Runtime;

pub fn launch(graph: &Arc<Graph>) -> Runtime {
    let mut runtime = Runtime::builder().workers(2).pin(false).build().unwrap();
    runtime.launch(graph).unwrap();
    runtime
}

/// Numbers between −2 and 2, no two runs of them alike.
pub fn numbers<T: Lane>(count: usize, seed: u64) -> Vec<T> {
    let random = dahl_core::random::Random::new(seed, 1);
    (0..count as u64)
        .map(|i| T::from_f64(4.0 * random.uniform(i) - 2.0))
        .collect()
}

pub fn tolerance(dtype: DType) -> f64 {
    if dtype == DType::F32 { 1e-5 } else { 1e-12 }
}

#[track_caller]
pub fn check<T: Lane>(what: &str, got: &[T], want: &[f64]) {
    assert_eq!(got.len(), want.len(), "{what}");
    for (i, (g, &w)) in got.iter().zip(want).enumerate() {
        let (g, allowed) = (g.to_f64(), tolerance(T::DTYPE) * w.abs().max(1.0));
        assert!(
            (g - w).abs() <= allowed,
            "{what} of {}: [{i}] is {g}, not {w}",
            T::DTYPE
        );
    }
}

pub fn wide<T: Lane>(values: &[T]) -> Vec<f64> {
    values.iter().map(|v| v.to_f64()).collect()
}

pub const SHAPE: [usize; 3] = [4, 3, 7];
pub const LEN: usize = 4 * 3 * 7;

/// Cuts the rows, so that parts do not lie in one piece.
pub fn cut() -> Split {
    Split::new().axis(0, By::Count(2)).axis(2, By::Size(3))
}

/// `a · b` for matrices given by their element functions.
pub fn product(
    m: usize,
    k: usize,
    n: usize,
    a: impl Fn(usize, usize) -> f64,
    b: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    (0..m * n)
        .map(|i| (0..k).map(|l| a(i / n, l) * b(l, i % n)).sum())
        .collect()
}
