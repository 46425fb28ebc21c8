//! Plans, transfers included, for made-up durations of up to 2000 seconds.

use dahl_core::random::Random;
use dahl_core::{Bytes, Graph, Link, Machine, Memory, MemoryId, Seconds, Unit, UnitKind};
use dahl_plan::file::{For, PlanFile, fingerprint};
use dahl_plan::lowered::Lowered;
use dahl_plan::problem::{Goal, Objective};
use dahl_plan::solve::{Effort, solve};
use dahl_runtime::Schedule;
use dahl_sim::Times;

/// Workers, and devices of one unit each behind links of so many bytes per second: for plans, not for runs.
pub fn machine(workers: usize, devices: usize, capacity: u64, bandwidth: f64) -> Machine {
    let mut machine = Machine::cpus(workers);
    for d in 0..devices {
        let memory = MemoryId(d as u16 + 1);
        let name = format!("device:{d}");
        let room = Memory::new(name.clone(), Some(Bytes(capacity)));
        machine.memories.push(room);
        machine.units.push(Unit::new(name, UnitKind::CPU, memory));
        for (from, to) in [(MemoryId::HOST, memory), (memory, MemoryId::HOST)] {
            machine
                .links
                .push(Link::new(from, to, bandwidth, Seconds(0.0)));
        }
    }
    machine
}

/// A plan for durations that differ by unit, so that every memory gets some of the tasks.
pub fn plan(graph: &Graph, machine: &Machine, seed: u64) -> PlanFile {
    let random = Random::new(seed, 5);
    let units = machine.units.len() as u64;
    let times = Times::from_fn(graph, machine, |class, unit| {
        let unit = machine.units.iter().position(|u| u == unit);
        let at = u64::from(class) * units + unit.unwrap_or(0) as u64;
        Some(Seconds(1.0 + random.below(at, 2000) as f64))
    });
    let lowered = Lowered::new(graph, machine, &times.unwrap());
    let goal = Goal {
        objective: Objective::Time,
        deadline: None,
    };
    let effort = Effort {
        rounds: 20,
        bound_rounds: 1,
        exact: 0,
        ..Effort::default()
    };
    let solution = solve(&lowered.problem, &goal, &effort, &mut || true).unwrap();
    let made_for = For {
        model: "random".into(),
        batch: 1,
        dtype: "f64".into(),
        grain: "auto".into(),
        optimizer: "none".into(),
        machine: machine.name.clone(),
        machine_fingerprint: fingerprint(machine),
        graph_fingerprint: format!("{:016x}", graph.fingerprint()),
        objective: Objective::Time,
        deadline: None,
    };
    PlanFile::new(made_for, graph, machine, &lowered, &solution, Vec::new())
}

/// What the runtime takes of it.
pub fn schedule(graph: &Graph, plan: &PlanFile) -> Schedule {
    Schedule {
        graph: graph.fingerprint(),
        order: plan.orders(),
        transfers: plan.moved().unwrap(),
    }
}
