//! Instruction levels that `DAHL_SIMD` forces: right results at each, the same bits for any number of workers, and
//! refusals that name what there is. Processes at different levels stand for different machines.

mod common;

use std::path::Path;

use common::{Said, dahl_under, folder};
use dahl::ops::simd::{Level, VARIABLE, check};

/// The levels of this machine, worst first.
fn levels() -> impl Iterator<Item = Level> {
    let best = check().expect("the tests run at a level that exists");
    Level::ALL.into_iter().filter(move |&level| level <= best)
}

fn at(level: Level, args: &[&str]) -> Said {
    dahl_under(&[(VARIABLE, &level.to_string())], args, "")
}

/// Trains 20 steps and returns the bytes of the weights.
fn weights(level: Level, model: &str, workers: &str, folder: &Path) -> Vec<u8> {
    let file = folder.join("weights.safetensors");
    let path = file.to_str().expect("a UTF-8 path");
    let common = "--data synthetic:1x28x28:200 --val-limit 0 --steps 20 --batch 16 --quiet";
    let mut args = vec!["train", model, "--workers", workers, "--save", path];
    args.extend(common.split(' '));
    let said = at(level, &args);
    assert_eq!(said.code, Some(0), "{level}, {args:?}: {}", said.err);
    std::fs::read(&file).expect("weights were saved")
}

#[test]
fn every_implementation_is_right_at_every_level() {
    for level in levels() {
        let said = at(level, &["check", "--unit", "cpu", "--json"]);
        assert_eq!(said.code, Some(0), "{level}: {}", said.err);
        let report: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!(report["passed"], true, "{level}");
        assert_eq!(report["kernels"]["level"], level.to_string());
    }
}

#[test]
fn weights_of_a_level_are_the_same_for_any_number_of_workers() {
    let folder = folder("levels");
    for model in ["small-cnn", "lenet5"] {
        let mut seen = Vec::new();
        for level in levels() {
            let first = weights(level, model, "1", &folder);
            for workers in ["1", "2"] {
                let again = weights(level, model, workers, &folder);
                assert!(
                    first == again,
                    "{model} at {level}, {workers} workers: other bits"
                );
            }
            seen.push(first);
        }
        // Fused multiply-adds round otherwise: if nothing differed, the variable would have done nothing.
        if let [portable, .., best] = &seen[..] {
            assert!(portable != best, "{model}: levels make no difference");
        }
    }
}

#[test]
fn a_level_that_cannot_be_had_is_refused_by_name() {
    let best = check().expect("the tests run at a level that exists");
    let lacking = Level::ALL.into_iter().filter(|&level| level > best);
    let lacking = lacking.map(|level| level.to_string());
    for asked in lacking.chain(["avx1024".into(), "AVX2 ".into()]) {
        for args in [&["train", "small-cnn"][..], &["ops"], &["check"]] {
            let said = dahl_under(&[(VARIABLE, &asked)], args, "");
            assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{asked}");
            for part in [VARIABLE, &asked, "this machine has portable", best.name()] {
                assert!(said.err.contains(part), "{asked}: {part:?} in {}", said.err);
            }
        }
    }
}

#[test]
fn a_run_does_not_go_on_at_another_level() {
    let Some(best) = levels().last().filter(|&best| best > Level::Portable) else {
        eprintln!("skipped: this machine has one level");
        return;
    };
    let folder = folder("another-level");
    let checkpoint = folder.to_str().expect("a UTF-8 path");
    let args = |option| {
        let common = "train small-cnn --data synthetic:1x28x28:64 --val-limit 0 --epochs 1 --quiet";
        let mut args: Vec<&str> = common.split(' ').collect();
        args.extend([option, checkpoint]);
        args
    };
    let said = at(Level::Portable, &args("--checkpoint"));
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = at(best, &args("--resume"));
    assert_eq!(said.code, Some(1), "{}", said.err);
    let want = format!("cpu {best}, slices of 512");
    for part in ["cpu portable, slices of 512", &want] {
        assert!(said.err.contains(part), "{part:?} in {}", said.err);
    }
    let said = at(Level::Portable, &args("--resume"));
    assert_eq!(said.code, Some(0), "{}", said.err);
}
