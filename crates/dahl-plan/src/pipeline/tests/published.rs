//! Profiles that PipeDream's authors published. Their files are not part of this repository: they are looked for in
//! the folder that `DAHL_PLANNER_CASES` names, else in `shared/planner-cases` beside the checkout.

use std::path::Path;

use dahl_test_support::skip;

use super::super::{PipelineOptions, Platform, Profile, partition};
use super::{best, cases, check};

fn case(folder: &Path, name: &str) -> Profile {
    let file = folder.join(format!("{name}.graph.txt"));
    let text = std::fs::read_to_string(&file)
        .unwrap_or_else(|e| panic!("{}: {e}; see DAHL_PLANNER_CASES", file.display()));
    Profile::from_text(&text).expect("a sound profile")
}

macro_rules! folder_or_skip {
    () => {
        match cases("pipedream") {
            Some(folder) => folder,
            None => skip!(
                optional: "PipeDream's profiles are not here",
                "put them into ../shared/planner-cases or name their folder in DAHL_PLANNER_CASES"
            ),
        }
    };
}

fn equal(units: usize, memory: Option<f64>) -> Platform {
    Platform::equal(units, 1e9, memory).expect("a platform")
}

/// Name, units, memory, seconds, and replicas where they were published.
type Case = (&'static str, usize, Option<f64>, f64, &'static [usize]);

#[test]
fn published_times_are_reached_and_proven() {
    let folder = folder_or_skip!();
    let cases: [Case; 11] = [
        ("vgg16", 4, None, 0.205520896, &[3, 1]),
        ("vgg16", 8, None, 0.103833170, &[7, 1]),
        ("vgg16", 16, None, 0.056529767, &[13, 2, 1]),
        ("alexnet", 4, None, 0.034217141, &[3, 1]),
        ("resnet50", 4, None, 0.162880924, &[2, 2]),
        ("resnet18", 4, None, 0.100004036, &[4]),
        ("gnmt", 4, None, 0.025868, &[1, 1, 1, 1]),
        ("resnet101", 4, None, 0.116555, &[]),
        ("vgg16", 4, Some(16e9), 0.583206, &[4]),
        ("vgg16", 8, Some(16e9), 0.274028, &[]),
        ("vgg16", 16, Some(16e9), 0.117441, &[]),
    ];
    for (name, units, memory, seconds, replicas) in cases {
        let platform = equal(units, memory);
        let plan = best(&case(&folder, name), &platform);
        check(&plan, &platform);
        // As many digits as were published.
        assert!(
            (plan.seconds - seconds).abs() < 1e-6,
            "{name} {units}: {plan:?}"
        );
        if memory.is_none() && !replicas.is_empty() {
            assert!(
                (plan.seconds - seconds).abs() < 1e-9,
                "{name} {units}: {plan:?}"
            );
        }
        assert!(plan.gap() < 1e-9, "{name} {units}: {plan:?}");
        let found: Vec<usize> = plan.stages.iter().map(|s| s.replicas).collect();
        assert!(
            replicas.is_empty() || found == replicas,
            "{name} {units}: {plan:?}"
        );
    }
}

#[test]
fn limits_of_memory_and_shape_hold() {
    let folder = folder_or_skip!();
    let profile = case(&folder, "vgg16");
    let straight = PipelineOptions {
        most_replicas: Some(1),
        ..Default::default()
    };
    let plan = partition(&profile, &equal(4, None), &straight).expect("a pipeline");
    assert!((plan.seconds - 0.411042).abs() < 1e-6, "{plan:?}");
    let options = PipelineOptions::default();
    let error = partition(&profile, &equal(4, Some(8e9)), &options).expect_err("too little memory");
    assert!(error.to_string().contains("7.5 GiB each"), "{error}");
}

#[test]
fn branches_are_joined_where_there_are_too_many() {
    let folder = folder_or_skip!();
    for name in ["inception_v3", "nasnetalarge"] {
        let profile = case(&folder, name);
        for units in [2, 4, 8, 16] {
            let platform = equal(units, None);
            let plan = best(&profile, &platform);
            check(&plan, &platform);
            assert!(
                plan.joined && plan.gap() < 0.5,
                "{name} {units}: {}",
                plan.gap()
            );
        }
    }
}
