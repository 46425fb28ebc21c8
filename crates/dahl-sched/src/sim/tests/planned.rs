//! Random programs that follow a plan's transfers: the rules hold, and nothing hangs, with as little room as
//! it takes, durations that vary and several launches in flight.

use dahl_core::Bytes;
use proptest::prelude::*;

use super::super::{Fixed, Interruptions, Noise};
use super::random::{Step, machine, program, verify};
use super::*;
use crate::plan::file::{For, PlanFile, fingerprint};
use crate::plan::lowered::Lowered;
use crate::plan::problem::{Goal, Objective};
use crate::plan::solve::{Effort, solve};

/// A quick plan.
fn plan(graph: &Graph, machine: &Machine) -> PlanFile {
    let lowered = Lowered::new(graph, machine, &times(graph, machine));
    let objective = Objective::Time;
    let goal = Goal {
        objective,
        deadline: None,
    };
    let effort = Effort {
        rounds: 30,
        bound_rounds: 1,
        exact: 0,
        ..Effort::default()
    };
    let solution = solve(&lowered.problem, &goal, &effort, &mut || true).unwrap();
    let made_for = For {
        model: "random".into(),
        batch: 1,
        dtype: "f32".into(),
        grain: "auto".into(),
        optimizer: "none".into(),
        machine: machine.name.clone(),
        machine_fingerprint: fingerprint(machine),
        graph_fingerprint: format!("{:016x}", graph.fingerprint()),
        objective,
        deadline: None,
    };
    PlanFile::new(made_for, graph, machine, &lowered, &solution, Vec::new())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]
    #[test]
    fn plans_are_followed_with_little_room_and_varying_durations(
        persistent in 1usize..4,
        temporaries in 0usize..3,
        steps in proptest::collection::vec(
            (proptest::collection::vec((0usize..7, 0usize..12, 1usize..13, 0u8..3), 1..4), 1i64..5, any::<bool>()),
            1..24,
        ),
        cpus in 1usize..3,
        devices in proptest::collection::vec((1usize..3, 150u64..500), 1..3),
        launches in 1usize..5,
        in_flight in 1usize..4,
        works in any::<bool>(),
        fed in any::<bool>(),
        sigma in 0.0f64..0.5,
    ) {
        let steps: Vec<Step> = steps;
        let arena = Arena::new();
        let arrays: Vec<Handle> = (0..persistent)
            .map(|i| arena.alloc(&format!("a{i}"), &[12], DType::F32).unwrap())
            .collect();
        let graph = program(&arrays, temporaries, &steps);
        // The plan counts on more room than there will be, and on devices that are worth it.
        let mut roomy = machine(cpus, &devices);
        roomy.memories.iter_mut().for_each(|m| m.capacity = m.capacity.map(|_| Bytes(1 << 20)));
        let plan = plan(&graph, &roomy);
        let scarce = machine(cpus, &devices);
        let noise = Noise {
            seed: 3,
            sigma,
            apart: 0.0,
            interruptions: Interruptions::default(),
        };
        let options = Options {
            steps: launches,
            in_flight,
            launcher: works.then_some(UnitId(0)),
            fed,
            noise: Some(noise),
            transfers: Some(Arc::new(plan.carried(&graph).unwrap())),
            record: true,
            ..Options::default()
        };
        for machine in [&roomy, &scarce] {
            let fixed = Fixed::new(graph.len(), plan.orders()).unwrap();
            let table = times(&graph, machine);
            let out = simulate(&graph, machine, &table, &fixed, &options).unwrap();
            verify(&graph, machine, &out, launches);
        }
    }
}
