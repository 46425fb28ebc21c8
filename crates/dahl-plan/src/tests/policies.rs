//! Plans that leave order and unit to a policy: what is expected of them where that is known by hand, and files that are
//! none.

use std::sync::Arc;

use dahl_core::{Graph, Machine, Seconds, UnitId};
use dahl_sim::Options;

use crate::expected::{Expected, FollowError};
use crate::explain::{sentences, unit_summaries};
use crate::file::PlanFile;
use crate::policy::PlanPolicy;
use crate::problem::Objective;

use super::graphs::{machine, planned, step, times};

/// A step of nine seconds, left to a policy on the second of two cores.
fn left(policy: &str, state: usize) -> (Arc<Graph>, Machine, PlanFile) {
    let (graph, machine) = (step(3), machine(2, false));
    let (_, _, mut file) = planned(&graph, &machine, Objective::Time);
    file.units[0].order.clear();
    file.units[1].order = (0..graph.len() as u32).collect();
    for task in &mut file.tasks {
        (task.unit, task.state) = (1, state as u8);
    }
    let policy = PlanPolicy::new(policy, &machine, &[UnitId(1)], state);
    let file = file.left_to(policy, &machine);
    (graph, machine, file)
}

#[test]
fn a_policy_has_its_units_and_their_states_and_no_others() {
    for policy in ["eager", "ws", "dm", "dmda", "dmdas"] {
        // Ten watts of the machine, one of the core that waits, and five or, at half the speed, one and a half.
        for (state, seconds, watts) in [(0, 9.0, 16.0), (1, 18.0, 12.5)] {
            let (graph, machine, file) = left(policy, state);
            let times = times(&graph, &machine);
            let found = Expected::of(&file, &graph, &machine, &times, &Options::default()).unwrap();
            assert!((found.seconds.0 - seconds).abs() < 1e-9, "{found:?}");
            assert!((found.joules.0 - watts * seconds).abs() < 1e-9, "{found:?}");
            assert_eq!(found.works, [Seconds(0.0), Seconds(seconds)], "{policy}");
        }
    }
}

#[test]
fn a_plan_with_a_policy_is_kept_and_told() {
    let (graph, machine, file) = left("dmda", 1);
    let read = PlanFile::from_json(&file.to_json()).unwrap();
    assert_eq!(read, file);
    assert_eq!(read.refusal(&graph, &machine), None);
    assert_eq!(read.decides(), "dmda");
    let states: Vec<Vec<u8>> = (0..2)
        .map(|u| read.states_of(u).into_iter().collect())
        .collect();
    assert_eq!(states, [vec![], vec![1]]);
    let text = sentences(&read).join(" ");
    let says = "dmda decides order and unit of every task at run time, on cpu:1 in state 1";
    assert!(text.contains(says), "{text}");
    let cores = &unit_summaries(&read)[0];
    assert_eq!((cores.used, cores.count), (1, 2));
}

#[test]
fn policies_and_units_that_are_not_there_are_refused() {
    let (graph, machine, file) = left("ws", 0);
    let read = |change: &dyn Fn(&mut PlanFile, &mut PlanPolicy)| {
        let mut other = file.clone();
        let mut policy = other.policy.take().unwrap();
        change(&mut other, &mut policy);
        other.policy = Some(policy);
        PlanFile::from_json(&other.to_json()).map_err(|e| e.to_string())
    };
    for (read, says) in [
        (
            read(&|_, p| p.name = "dmd".into()),
            "policy.name: unknown policy \"dmd\": did you mean \"dm\"?",
        ),
        (
            read(&|_, p| p.units[0].name = "gpu:7".into()),
            "policy.units[0]: unknown unit \"gpu:7\"; there are: cpu:0, cpu:1",
        ),
        (
            read(&|_, p| p.units.push(p.units[0].clone())),
            "policy.units[1]: \"cpu:1\" is there twice",
        ),
        (
            read(&|_, p| p.units.clear()),
            "policy.units: none takes part",
        ),
        (
            read(&|_, p| p.units[0].name = "cpu:0".into()),
            "task 0: is not on a unit of the plan's policy",
        ),
        (
            read(&|f, _| f.tasks[2].state = 1),
            "task 2: is not on a unit of the plan's policy, in the state",
        ),
    ] {
        let error = read.unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
    // What a file cannot know: the machine's units and their states.
    let expected = |machine: &Machine, file: &PlanFile| {
        let times = times(&graph, machine);
        Expected::of(file, &graph, machine, &times, &Options::default()).unwrap_err()
    };
    let alone = super::graphs::machine(1, false);
    assert_eq!(expected(&alone, &file), FollowError::Unit("cpu:1".into()));
    let mut faster = file.clone();
    faster.policy.as_mut().unwrap().units[0].state = 3;
    let error = expected(&machine, &faster).to_string();
    assert!(
        error.contains("\"cpu:1\" in frequency state 3, and it has 1"),
        "{error}"
    );
}
