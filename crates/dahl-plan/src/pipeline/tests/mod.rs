//! Tests of pipelines: against exhaustive search, published values and hostile input.

mod exhaustive;
mod published;
mod refusals;

use std::path::{Path, PathBuf};

use super::{PipelineOptions, PipelinePlan, Platform, Profile, partition};

/// A folder of other people's problems, if it is there. One that was named must be.
pub(super) fn cases(kind: &str) -> Option<PathBuf> {
    let named = std::env::var_os("DAHL_PLANNER_CASES");
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let beside = || checkout.join("../shared/planner-cases");
    let folder = named.clone().map_or_else(beside, PathBuf::from).join(kind);
    (named.is_some() || folder.is_dir()).then_some(folder)
}

/// A layer in PipeDream's text; milliseconds and bytes.
fn layer(number: usize, time: f64, activation: f64, parameters: f64) -> String {
    format!(
        "node{number} -- Layer -- forward_compute_time={}, backward_compute_time={}, \
         activation_size={activation}, parameter_size={parameters}\n",
        time / 4.0,
        0.75 * time
    )
}

/// A chain of such layers.
fn chain(layers: &[(f64, f64, f64)]) -> String {
    let nodes = layers.iter().enumerate();
    let nodes = nodes.map(|(n, l)| layer(n, l.0, l.1, l.2));
    let edges = (1..layers.len()).map(|n| format!("\tnode{} -- node{n}\n", n - 1));
    nodes.chain(edges).collect()
}

fn read(text: &str) -> Profile {
    Profile::from_text(text).expect("a sound profile")
}

fn best(profile: &Profile, platform: &Platform) -> PipelinePlan {
    partition(profile, platform, &PipelineOptions::default()).expect("a pipeline")
}

/// Fails unless times, memory and replicas are what they are said to be.
fn check(plan: &PipelinePlan, platform: &Platform) {
    let slowest = plan.stages.iter().map(|s| s.seconds).fold(0.0, f64::max);
    assert_eq!(slowest, plan.seconds, "{plan:?}");
    assert!(plan.lower_bound <= plan.seconds, "{plan:?}");
    let used: usize = plan.stages.iter().map(|s| s.replicas).sum();
    assert!(used <= platform.units.len(), "{plan:?}");
    let mut units: Vec<&String> = plan.stages.iter().flat_map(|s| &s.units).collect();
    units.sort_unstable();
    units.dedup();
    assert_eq!(units.len(), used, "a unit has two stages: {plan:?}");
    for stage in &plan.stages {
        for name in &stage.units {
            let unit = platform.units.iter().find(|u| u.name == *name);
            let memory = unit.expect("a unit").memory.unwrap_or(f64::INFINITY);
            assert!(stage.memory_bytes <= memory, "{plan:?}");
        }
    }
}

#[test]
fn equal_layers_are_divided_equally() {
    let profile = read(&chain(&[(8.0, 1e3, 0.0); 6]));
    let platform = Platform::equal(3, 1e9, None).expect("a platform");
    let options = PipelineOptions {
        most_replicas: Some(1),
        ..Default::default()
    };
    let plan = partition(&profile, &platform, &options).expect("a pipeline");
    assert!((plan.seconds - 16e-3).abs() < 1e-12, "{plan:?}");
    assert!((plan.lower_bound - plan.seconds).abs() < 1e-12, "{plan:?}");
    let ends: Vec<&str> = plan.stages.iter().map(|s| &s.last[..]).collect();
    assert_eq!(ends, ["node1", "node3", "node5"]);
}

#[test]
fn a_faster_unit_gets_more_layers() {
    let profile = read(&chain(&[(8.0, 1e3, 1e9); 9]));
    let mut platform = Platform::equal(2, 1e9, None).expect("a platform");
    platform.units[1].speed = 0.5;
    let plan = best(&profile, &platform);
    check(&plan, &platform);
    assert!((plan.seconds - 48e-3).abs() < 1e-12, "{plan:?}");
    let layers: Vec<usize> = plan.stages.iter().map(|s| s.layers).collect();
    assert!(layers == [6, 3] || layers == [3, 6], "{plan:?}");
    assert!(plan.gap() < 1e-9, "{plan:?}");
}

#[test]
fn micro_batches_fill_and_drain() {
    // Two stages of 16 ms in 4 micro-batches: 4 + 4 to fill, 3 more of 4.
    let profile = read(&chain(&[(8.0, 0.0, 1e9); 4]));
    let platform = Platform::equal(2, 1e9, None).expect("a platform");
    let options = PipelineOptions {
        micro_batches: Some(4),
        ..Default::default()
    };
    let plan = partition(&profile, &platform, &options).expect("a pipeline");
    assert!((plan.seconds - 20e-3).abs() < 1e-12, "{plan:?}");
    assert!(plan.gap() < 1e-6, "{plan:?}");
    assert_eq!(plan.stages.len(), 2);
}

#[test]
fn links_inside_a_node_are_used_for_what_is_large() {
    // Activations that only the fast links carry: the cut falls inside nodes, replicas between them.
    let profile = read(&chain(&[(8.0, 1e8, 0.0); 4]));
    let mut platform = Platform::equal(4, 1e6, None).expect("a platform");
    platform.inside = 1e12;
    for (n, unit) in platform.units.iter_mut().enumerate() {
        unit.node = n / 2;
    }
    let plan = best(&profile, &platform);
    check(&plan, &platform);
    // One stage on all four: nothing is sent at all.
    assert!((plan.seconds - 8e-3).abs() < 1e-12, "{plan:?}");
    let straight = PipelineOptions {
        most_replicas: Some(1),
        ..Default::default()
    };
    let plan = partition(&profile, &platform, &straight).expect("a pipeline");
    check(&plan, &platform);
    assert!((plan.seconds - 16e-3).abs() < 1e-12, "{plan:?}");
    assert_eq!(plan.stages.len(), 2, "{plan:?}");
}
