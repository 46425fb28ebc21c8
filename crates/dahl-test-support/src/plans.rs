//! Plans, transfers included, for made-up durations of up to 2000 seconds.

use dahl_core::random::Random;
use dahl_core::{Bytes, Graph, Link, Machine, Memory, MemoryId, Seconds, Unit, UnitKind};
use dahl_plan::{Goal, GraphProblem, Limits, Objective, PlanFile, PlanTarget};
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
    let of_graph = GraphProblem::new(graph, machine, &times.unwrap());
    let goal = Goal {
        objective: Objective::Time,
        deadline: None,
    };
    let limits = Limits {
        rounds: 20,
        bound_iterations: 1,
        exact_tasks: 0,
        ..Limits::default()
    };
    let solution = dahl_plan::plan(&of_graph.problem, &goal, &limits, &mut || true).unwrap();
    let target = PlanTarget::new("random", "random".into(), graph, machine, &goal);
    PlanFile::new(target, graph, machine, &of_graph, &solution, Vec::new())
}

/// What the runtime takes of it.
pub fn schedule(graph: &Graph, plan: &PlanFile) -> Schedule {
    Schedule {
        graph: graph.fingerprint(),
        order: plan.orders(),
        transfers: plan.planned_transfers().unwrap(),
    }
}
