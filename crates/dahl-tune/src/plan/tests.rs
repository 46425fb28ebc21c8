//! Plans against what anybody would try, on described machines.

use std::time::Duration;

use dahl_core::{Machine, NodeId};
use dahl_nn::{Step, models};
use dahl_plan::{Goal, Objective};

use super::cluster::{kinds, only};
use super::*;

fn machine(name: &str) -> MachineModel {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../machines");
    let path = std::path::Path::new(folder).join(name);
    crate::load_machine(&path).unwrap().into()
}

fn step(name: &str, batch: usize) -> Step {
    Step::new(models::find(name.as_ref()).unwrap()).batch(batch)
}

fn options(objective: Objective, deadline: Option<f64>) -> PlanOptions {
    PlanOptions {
        goal: Goal {
            objective,
            deadline,
        },
        time_limit: Duration::from_secs(60),
        rounds: 1,
        ..PlanOptions::default()
    }
}

#[test]
fn a_plan_is_never_worse_than_a_simple_choice() {
    for (name, file) in [("small-cnn", "laptop.toml"), ("small-cnn", "rammus.toml")] {
        for objective in [Objective::Energy, Objective::Time] {
            let planned = plan(&step(name, 16), &machine(file), &options(objective, None)).unwrap();
            let plan = &planned.plan.file;
            let goal = Goal {
                objective,
                deadline: None,
            };
            let cost = plan.cost();
            assert!(plan.alternatives.len() > 1);
            for rival in &plan.alternatives {
                let other = goal.cost(rival.seconds.0, rival.joules.0);
                assert!(
                    cost <= other * (1.0 + 1e-9),
                    "{name} {file}: {cost} {rival:?}"
                );
            }
            assert!(plan.lower_bound <= cost && plan.lower_bound > 0.0);
            let first = &plan.alternatives[0].name;
            assert!(first.starts_with("the best of "), "{first}");
        }
    }
}

#[test]
fn a_deadline_is_one_of_the_run() {
    let (step, machine) = (step("small-cnn", 16), machine("laptop.toml"));
    let fast = plan(&step, &machine, &options(Objective::Time, None)).unwrap();
    let latest = 1.3 * fast.plan.file.per_step().0;
    let found = plan(&step, &machine, &options(Objective::Energy, Some(latest))).unwrap();
    let (seconds, joules) = found.plan.file.per_step();
    assert!(seconds <= latest * (1.0 + 1e-9) && joules <= fast.plan.file.per_step().1);
    let error = plan(&step, &machine, &options(Objective::Energy, Some(1e-7)));
    let error = error.err().expect("too early").to_string();
    assert!(error.contains("deadline"), "{error}");
}

#[test]
fn a_cluster_is_planned_with_the_nodes_that_pay() {
    let cluster = machine("two-nodes.toml");
    let found = plan_cluster(
        &step("small-cnn", 32),
        &cluster,
        &options(Objective::Energy, None),
    )
    .unwrap();
    // The server draws 90 W for nothing: the desktop alone does it for less.
    assert!(
        found.nodes[0].share == 1.0 && !found.nodes[1].on,
        "{:?}",
        found.nodes
    );
    assert!(found.alone.is_some());
    for rival in &found.alternatives {
        assert!(found.joules.0 <= rival.joules.0 * (1.0 + 1e-9), "{rival:?}");
    }
    let names: String = found.alternatives.iter().map(|a| &*a.name).collect();
    for what in [
        "fastest node alone",
        "best single unit",
        "shares by speed",
        "even shares",
    ] {
        assert!(names.contains(what), "{what} is missing from {names}");
    }
    assert!(found.lower_bound > 0.0 && found.gap >= 0.0);
}

#[test]
fn more_nodes_are_never_dearer() {
    let four = machine("four-nodes.toml");
    let step = step("small-cnn", 32);
    let joules = |nodes: &[NodeId]| {
        let mut some = four.machine.of_nodes(nodes);
        some.name = "some".into();
        let found = plan_cluster(&step, &some.into(), &options(Objective::Energy, None));
        found.unwrap().joules.0
    };
    let one = joules(&[NodeId(0)]);
    let all = joules(&[NodeId(0), NodeId(1), NodeId(2), NodeId(3)]);
    assert!(all <= one * (1.0 + 1e-9), "{all} {one}");
}

#[test]
fn a_node_that_stays_on_draws_what_it_draws_waiting() {
    let mut machine = machine("two-nodes.toml").machine;
    let watts = |m: &Machine| only(m, &[NodeId(0)]).base().0;
    assert_eq!(watts(&machine), 40.0);
    machine.nodes[1].off = Some(dahl_core::Watts(3.0));
    assert_eq!(watts(&machine), 43.0);
    machine.nodes[1].off = None;
    assert_eq!(watts(&machine), 40.0 + 90.0 + 20.0 * 3.0);
    let alone = only(&machine, &[NodeId(1)]);
    assert_eq!(alone.memories[0].name, "server");
    assert_eq!((alone.units.len(), alone.nodes.len()), (20, 1));
}

#[test]
fn equal_nodes_are_one_kind() {
    let kinds = |file: &str| kinds(&machine(file).machine);
    assert_eq!(kinds("four-nodes.toml"), [(NodeId(0), 4)]);
    assert_eq!(kinds("two-nodes.toml").len(), 2);
}
