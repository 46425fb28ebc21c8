//! The optima that the authors of the format published. Their files are not part of this repository: they are looked
//! for in the folder that `DAHL_PLANNER_CASES` names, else in `shared/planner-cases` beside the checkout.

use std::path::{Path, PathBuf};

use dahl_test_support::skip;

use super::super::{PlacementProblem, solve};
use super::check;

/// The folder, if it is there. One that was named must be.
fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("DAHL_PLANNER_CASES");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let beside = || checkout.join("../shared/planner-cases");
    let folder = named.clone().map_or_else(beside, PathBuf::from);
    let folder = folder.join("dnn-partitioning");
    (named.is_some() || folder.is_dir()).then_some(folder)
}

fn case(folder: &Path, name: &str) -> PlacementProblem {
    let file = folder.join(format!("{name}.json"));
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|e| panic!("{}: {e}; see DAHL_PLANNER_CASES", file.display()));
    PlacementProblem::from_json(&text).expect("a sound problem")
}

#[test]
fn published_optima_are_reached_and_proven() {
    let Some(folder) = folder() else {
        skip!(
            optional: "the published placement problems are not here",
            "put them into ../shared/planner-cases or name their folder in DAHL_PLANNER_CASES"
        );
    };
    let cases = [
        ("bert24_training", 41.7458),
        ("resnet50_training", 78.6318),
        ("gnmt_training", 107.004),
        // No published value: the authors' program does not finish. Ours, proven.
        ("inceptionv3_training", 122.7616),
    ];
    for (name, optimum) in cases {
        let problem = case(&folder, name);
        let answer = solve(&problem, &mut || true).expect("a placement");
        check(&problem, &answer);
        assert!(answer.is_optimal(), "{name}: {answer:?}");
        let error = (answer.max_load - optimum).abs() / optimum;
        assert!(
            error < 5e-6,
            "{name}: {} instead of {optimum}",
            answer.max_load
        );
    }
}
