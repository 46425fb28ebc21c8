//! Random programs whose plans the simulator follows, transfers included: the rules hold and nothing hangs,
//! with as little room as it takes, durations that vary and several launches in flight.

use std::sync::Arc;

use crate::file::PlanFile;
use crate::problem::Objective;
use crate::solve::Limits;
use dahl_core::graph::boundary::edges_between;
use dahl_core::{
    Arena, Bytes, Codelet, Cost, DType, Graph, Handle, Link, Machine, Memory, MemoryId, Mode,
    Operand, Param, Recorder, Region, Seconds, Task, Unit, UnitId, UnitKind,
};
use dahl_sched::policy::Fixed;
use dahl_sim::{Interruptions, Noise, Options, Prediction, Times, simulate};

use super::graphs::planned_with;
use super::random::Dice;

/// Elements of every array.
const LENGTH: usize = 12;

/// Tasks that read and write parts of a few arrays; some only a CPU can run.
pub(super) fn program(dice: &mut Dice) -> Arc<Graph> {
    let codelet = |name| {
        let cost = Codelet::new(name).cost(|call| Cost {
            flops: call.int(0) as f64,
            bytes: 0.0,
        });
        cost.implement("reference", UnitKind::CPU, |_| Ok(()))
    };
    let host = Arc::new(codelet("host"));
    let any = Arc::new(codelet("any").implement("card", UnitKind::GPU, |_| Ok(())));
    let (arena, r) = (Arena::new(), Recorder::new());
    let mut arrays: Vec<Handle> = (0..1 + dice.below(3))
        .map(|i| {
            arena
                .alloc(&format!("a{i}"), &[LENGTH], DType::F32)
                .unwrap()
        })
        .collect();
    for i in 0..dice.below(3) {
        // Temporaries may only be read once they have been written.
        let own = r.temporary_handle(&format!("t{i}"), &[LENGTH], DType::F32);
        r.submit(Task::new(&any, &[own.with(Mode::Write)]).params(&[Param::Int(1)]));
        arrays.push(own);
    }
    for _ in 0..1 + dice.below(23) {
        let mut parts: Vec<(Handle, Mode)> = Vec::new();
        for _ in 0..1 + dice.below(3) {
            let array = &arrays[dice.below(arrays.len())];
            let from = dice.below(LENGTH);
            let to = from + 1 + dice.below(LENGTH - from);
            let part = array.part(&Region::new([0, 0, 0, from], [1, 1, 1, to]).unwrap());
            let mode = [Mode::Read, Mode::Write, Mode::ReadWrite][dice.below(3)];
            if !parts.iter().any(|p| p.0.storage.id == part.storage.id) {
                parts.push((part, mode));
            }
        }
        let operands: Vec<Operand<'_>> = parts.iter().map(|(h, m)| h.with(*m)).collect();
        let codelet = if dice.chance(50) { &host } else { &any };
        let seconds = 1 + dice.below(4) as i64;
        r.submit(Task::new(codelet, &operands).params(&[Param::Int(seconds)]));
    }
    r.finish().unwrap()
}

fn machine(dice: &mut Dice) -> Machine {
    let mut machine = Machine::cpus(1 + dice.below(2));
    for d in 0..1 + dice.below(2) {
        let memory = MemoryId(d as u16 + 1);
        let capacity = Bytes(150 + dice.below(350) as u64);
        machine
            .memories
            .push(Memory::new(format!("d{d}"), Some(capacity)));
        for u in 0..1 + dice.below(2) {
            let unit = Unit::new(format!("gpu{d}.{u}"), UnitKind::GPU, memory);
            machine.units.push(unit);
        }
        for (from, to) in [(MemoryId::HOST, memory), (memory, MemoryId::HOST)] {
            machine.links.push(Link::new(from, to, 40.0, Seconds(0.1)));
        }
    }
    machine
}

/// As many seconds as the task's parameter says, on any unit that can.
fn times(graph: &Graph, machine: &Machine) -> Times {
    Times::from_fn(graph, machine, |class, unit| {
        let class = &graph.classes[class as usize];
        class.choice(unit.kind)?;
        Some(Seconds(class.cost.flops))
    })
    .unwrap()
}

fn quick_plan(graph: &Graph, machine: &Machine) -> PlanFile {
    let limits = Limits {
        rounds: 30,
        bound_iterations: 1,
        exact_tasks: 0,
        ..Limits::default()
    };
    let times = times(graph, machine);
    planned_with(graph, machine, &times, Objective::Time, &limits).2
}

/// Every task once and after all it waits for, where the plan has it; one at a time on each unit and link, and
/// no memory overfull.
fn verify(graph: &Graph, machine: &Machine, plan: &PlanFile, out: &Prediction, launches: usize) {
    let n = graph.len();
    assert_eq!(out.runs.len(), n * launches);
    let mut at = vec![None; n * launches];
    for run in &out.runs {
        let task = run.task.task as usize;
        assert!(at[run.task.launch * n + task].replace(run).is_none());
        assert_eq!(usize::from(run.unit), plan.tasks[task].unit);
    }
    let run = |launch: usize, task: u32| at[launch * n + task as usize].unwrap();
    let persistent = |s: &usize| graph.storages[*s].temporary.is_none();
    let between = (0..graph.storages.len()).filter(persistent);
    let between: Vec<(u32, u32)> = between
        .flat_map(|s| edges_between(graph, s as u32, graph, s as u32))
        .collect();
    for late in 0..launches {
        for (a, b) in graph.edges() {
            assert!(run(late, a).end <= run(late, b).taken);
        }
        for early in 0..late {
            for &(a, b) in &between {
                assert!(run(early, a).end <= run(late, b).taken);
            }
        }
    }
    let apart = |mut of: Vec<(f64, f64)>| {
        of.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        of.windows(2).all(|w| w[0].1 <= w[1].0)
    };
    for unit in 0..machine.units.len() {
        let of = out.runs.iter().filter(|r| usize::from(r.unit) == unit);
        assert!(apart(of.map(|r| (r.start.0, r.end.0)).collect()));
    }
    for link in 0..machine.links.len() {
        let of = out.transfers.iter().filter(|t| usize::from(t.link) == link);
        assert!(apart(of.map(|t| (t.start.0, t.end.0)).collect()));
    }
    for (memory, used) in machine.memories.iter().zip(&out.memories) {
        assert!(memory.capacity.is_none_or(|c| used.peak.0 <= c.0));
    }
}

#[test]
fn plans_are_followed_with_little_room_and_varying_durations() {
    let mut dice = Dice::new(31);
    for seed in 0..150 {
        let graph = program(&mut dice);
        // The plan counts on more room than there may be.
        let scarce = machine(&mut dice);
        let mut roomy = scarce.clone();
        let room = |m: &mut Memory| m.capacity = m.capacity.map(|_| Bytes(1 << 20));
        roomy.memories.iter_mut().for_each(room);
        let plan = quick_plan(&graph, &roomy);
        let launches = 1 + dice.below(4);
        let options = Options {
            steps: launches,
            in_flight: 1 + dice.below(3),
            launcher: dice.chance(50).then_some(UnitId(0)),
            new_inputs_each_step: dice.chance(50),
            noise: Some(Noise {
                seed,
                sigma: dice.below(50) as f64 / 100.0,
                unit_sigma: 0.0,
                interruptions: Interruptions::default(),
            }),
            transfers: Some(Arc::new(plan.checked_transfers(&graph, &roomy).unwrap())),
            record: true,
            ..Options::default()
        };
        for machine in [&roomy, &scarce] {
            let fixed = Fixed::new(graph.len(), plan.orders()).unwrap();
            let table = times(&graph, machine);
            let out = simulate(&graph, machine, &table, &fixed, &options).unwrap();
            verify(&graph, machine, &plan, &out, launches);
        }
    }
}
