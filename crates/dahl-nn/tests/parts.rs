//! Batches in parts: the weights of the whole batch, in less memory. What PyTorch makes of them is in `pytorch_runs.rs`.

use dahl_core::DType;
use dahl_nn::models;
use dahl_nn::step::Step;
use dahl_test_support::runs::{How, assert_close, case, run};

/// Batches and parts that do not divide the images, clipping, momentum: the last batch is one of fewer parts.
#[test]
fn a_batch_in_parts_is_the_batch() {
    for name in ["clipped", "adamw", "weighted", "transposed", "l1"] {
        let mut case = case(name);
        case.batch = 12;
        let whole = run(&case, &How::default());
        for parts in [2, 3, 12] {
            case.accumulate = Some(parts);
            let ours = run(&case, &How::default());
            let name = format!("{name} in {parts} parts");
            assert_close(&name, &ours.weights, &whole.weights, 1e-11);
            for (a, b) in ours.epochs.iter().zip(&whole.epochs) {
                assert!((a.mean_loss() - b.mean_loss()).abs() < 1e-11, "{name}");
                assert_eq!((a.correct, a.samples), (b.correct, b.samples), "{name}");
            }
        }
    }
}

/// A part takes what a batch of its size takes; beside it are sums of gradients, the part's samples, and gaps.
#[test]
fn parts_take_less_memory() {
    let bytes = |batch, parts| {
        let step = Step::new(models::vgg_small())
            .batch(batch)
            .accumulate(parts);
        step.dtype(DType::F32).lower().unwrap().graph.memory.bytes
    };
    let (whole, parts, alone) = (bytes(64, 1), bytes(64, 8), bytes(8, 1));
    assert!(parts < 2 * alone, "{parts}, {alone} alone");
    assert!(parts < whole / 2, "{parts} of {whole}");
}
