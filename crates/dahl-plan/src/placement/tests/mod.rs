//! Tests of placement: against exhaustive search, published optima and hostile input.

mod exhaustive;
mod published;
mod random;
mod refusals;
mod wide;

use super::{DeviceKind, Placement, PlacementProblem};

/// Fails unless the answer respects the problem, by the words of the problem alone.
fn check(problem: &PlacementProblem, answer: &Placement) {
    let n = problem.nodes.len();
    let mut place = vec![usize::MAX; n];
    for (number, device) in answer.devices.iter().enumerate() {
        for id in &device.nodes {
            let node = problem
                .nodes
                .iter()
                .position(|n| n.id == *id)
                .expect("a node of the problem");
            assert_eq!(place[node], usize::MAX, "node {id} is placed twice");
            place[node] = number;
        }
    }
    assert!(
        place.iter().all(|&p| p != usize::MAX),
        "a node is not placed: {place:?}"
    );
    for kind in [DeviceKind::Accelerator, DeviceKind::Cpu] {
        let used = answer.devices.iter().filter(|d| d.kind == kind).count();
        let limit = if kind == DeviceKind::Cpu {
            problem.cpus
        } else {
            problem.accelerators
        };
        assert!(
            used <= limit,
            "{used} devices of kind {kind:?}, there are {limit}"
        );
    }
    assert!(
        allowed(problem, &place),
        "order or colours broken by {place:?}"
    );
    let mut largest = 0f64;
    for (number, device) in answer.devices.iter().enumerate() {
        let load = load(problem, &place, number, device.kind).expect("a part that fits");
        assert!(
            (load - device.load).abs() <= 1e-9 * load.max(1.0),
            "{load} {device:?}"
        );
        largest = largest.max(load);
    }
    assert!(
        (largest - answer.max_load).abs() <= 1e-9 * largest.max(1.0),
        "{largest} {answer:?}"
    );
    assert!(answer.lower_bound <= answer.max_load, "{answer:?}");
}

/// Whether numbered parts are a chain of downward-closed sets, with colours together.
fn allowed(problem: &PlacementProblem, place: &[usize]) -> bool {
    let nodes = &problem.nodes;
    let same_colour = |a: usize, b: usize| {
        a == b || nodes[a].colour.is_some() && nodes[a].colour == nodes[b].colour
    };
    let pairs = || (0..nodes.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
    if pairs().any(|(a, b)| same_colour(a, b) && place[a] != place[b]) {
        return false;
    }
    // Backward nodes whose colour has no forward node are ordered by their own edges, reversed.
    let orphan = |a: usize| !(0..nodes.len()).any(|b| same_colour(a, b) && !nodes[b].backward);
    problem.edges.iter().all(|&(a, b)| {
        if !nodes[b].backward {
            place[a] <= place[b]
        } else if nodes[a].backward && (orphan(a) || orphan(b)) {
            place[b] <= place[a]
        } else {
            true
        }
    })
}

/// The load of one part on a device of a kind, if it can be there.
fn load(problem: &PlacementProblem, place: &[usize], part: usize, kind: DeviceKind) -> Option<f64> {
    let inside = |n: &usize| place[*n] == part;
    let nodes: Vec<usize> = (0..place.len()).filter(inside).collect();
    if kind == DeviceKind::Cpu {
        return Some(nodes.iter().map(|&n| problem.nodes[n].cpu_time).sum());
    }
    let size: f64 = nodes.iter().map(|&n| problem.nodes[n].size).sum();
    let supported = nodes.iter().all(|&n| problem.nodes[n].on_accelerator);
    if size > problem.size_limit || !supported {
        return None;
    }
    let mut load: f64 = nodes
        .iter()
        .map(|&n| problem.nodes[n].accelerator_time)
        .sum();
    for n in 0..place.len() {
        if problem
            .edges
            .iter()
            .any(|e| e.0 == n && inside(&e.0) != inside(&e.1))
        {
            load += problem.output_cost[n];
        }
    }
    Some(load)
}
