//! Whole training runs against PyTorch, in double precision: losses of every epoch, weights and
//! statistics at the end. The runs are made by `fixtures/make_runs.py`; those of the models that come with the
//! project, in both precisions, by `fixtures/make_models.py`.

mod support;

use dahl_nn::weights;
use support::{How, assert_as_kept, assert_close, cases, fixtures, models, run};

const TOLERANCE: f64 = 1e-10;

/// Every case with this grain.
fn as_pytorch(grain: &'static str) {
    for case in cases() {
        let ours = run(
            &case,
            &How {
                grain,
                ..How::default()
            },
        );
        let name = format!("{} with {grain}", case.name);
        assert_eq!(ours.epochs.len(), case.losses.len(), "{name}");
        for (epoch, totals) in ours.epochs.iter().enumerate() {
            let (loss, want) = (totals.mean_loss(), case.losses[epoch]);
            assert!(
                (loss - want).abs() < TOLERANCE,
                "{name}, epoch {epoch}: loss {loss}, not {want}"
            );
            assert_eq!(
                totals.correct, case.correct[epoch],
                "{name}, epoch {epoch}: correct predictions"
            );
            assert_eq!(totals.samples, case.count as u64, "{name}");
        }
        let file = fixtures()
            .join("runs")
            .join(format!("{}.safetensors", case.name));
        let theirs = weights::read(&file).expect("fixtures are in the repository");
        assert_close(&name, &ours.weights, &theirs, TOLERANCE);
        let (loss, want) = (ours.evaluated.mean_loss(), case.evaluated);
        assert!(
            (loss - want).abs() < TOLERANCE,
            "{name}: evaluated to {loss}, not {want}"
        );
    }
}

#[test]
fn runs_end_where_pytorch_ends() {
    as_pytorch("auto");
}

#[test]
fn so_do_runs_cut_by_sample() {
    as_pytorch("sample=4");
}

#[test]
fn so_do_runs_cut_by_channel() {
    as_pytorch("channel=3");
}

#[test]
fn so_do_runs_cut_by_height_and_width() {
    as_pytorch("height=3,width=2");
}

#[test]
fn so_do_runs_cut_in_all_dimensions() {
    as_pytorch("sample=2,channel=2,height=2,width=2");
}

#[test]
fn so_do_the_models_that_come_with_the_project() {
    for (case, dtype, tolerance) in models() {
        let how = How {
            dtype,
            ..How::default()
        };
        let name = format!("{} {dtype}", case.name);
        assert_as_kept(&name, &run(&case, &how), &case, tolerance);
    }
}
