//! How fast the simulator is: tasks per second of its own time, on graphs of the usual shapes.
//!
//! `cargo run --release -p dahl-sim --example sim_speed`. Best of several runs; building the graph and
//! the policy is not counted. Words after `--` choose the lines that contain them all: `-- dmda memories`.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::{
    Arena, Bytes, Codelet, DType, Graph, Handle, Link, Machine, Memory, MemoryId, Mode, Recorder,
    Seconds, Task, Unit, UnitKind,
};
use dahl_sched::policy::by_name;
use dahl_sim::{Options, Times, simulate};

fn codelet() -> Arc<Codelet> {
    let any = Codelet::new("any").implement("reference", UnitKind::CPU, |_| Ok(()));
    Arc::new(any.implement("card", UnitKind::GPU, |_| Ok(())))
}

/// `width` lanes of `depth` tasks; each also reads its neighbour's lane.
fn stencil(arena: &Arena, width: usize, depth: usize) -> Arc<Graph> {
    let lanes: Vec<Handle> = (0..2 * width)
        .map(|_| arena.alloc("", &[64], DType::F32).expect("small"))
        .collect();
    let (codelet, r) = (codelet(), Recorder::new());
    for step in 0..depth {
        let (from, to) = lanes.split_at(width);
        let (from, to) = if step % 2 == 0 {
            (from, to)
        } else {
            (to, from)
        };
        for i in 0..width {
            let operands = [
                from[i].with(Mode::Read),
                from[(i + 1) % width].with(Mode::Read),
                to[i].with(Mode::Write),
            ];
            r.submit(Task::new(&codelet, &operands));
        }
    }
    r.finish().expect("a good program")
}

/// `width` independent chains.
fn chains(arena: &Arena, width: usize, depth: usize) -> Arc<Graph> {
    let lanes: Vec<Handle> = (0..width)
        .map(|_| arena.alloc("", &[64], DType::F32).expect("small"))
        .collect();
    let (codelet, r) = (codelet(), Recorder::new());
    for _ in 0..depth {
        for lane in &lanes {
            r.submit(Task::new(&codelet, &[lane.with(Mode::ReadWrite)]));
        }
    }
    r.finish().expect("a good program")
}

/// CPUs, and devices with memories of their own.
fn machine(cpus: usize, devices: usize, room: u64) -> Machine {
    let mut machine = Machine::cpus(cpus);
    for i in 0..devices {
        let memory = MemoryId(i as u16 + 1);
        let room = Memory::new(format!("d{i}"), Some(Bytes(room)));
        machine.memories.push(room);
        machine
            .units
            .push(Unit::new(format!("gpu:{i}"), UnitKind::GPU, memory));
        for (from, to) in [(MemoryId::HOST, memory), (memory, MemoryId::HOST)] {
            machine.links.push(Link::new(from, to, 1e9, Seconds(1e-6)));
        }
    }
    machine
}

fn measure(name: &str, graph: &Graph, machine: &Machine, policy: &str, steps: usize) {
    let line = format!("{name:<44} {policy:<6}");
    if !std::env::args().skip(1).all(|word| line.contains(&word)) {
        return;
    }
    let times = Times::from_fn(graph, machine, |_, unit| {
        Some(Seconds(if unit.kind == UnitKind::GPU {
            2e-6
        } else {
            1e-5
        }))
    });
    let times = times.expect("good times");
    let options = Options {
        steps,
        ..Options::default()
    };
    let (mut best, mut tasks, mut copies) = (f64::INFINITY, 0, 0);
    for _ in 0..5 {
        let policy = by_name(policy, machine).expect("a known policy");
        let start = Instant::now();
        let prediction = simulate(graph, machine, &times, &*policy, &options).expect("it runs");
        best = best.min(start.elapsed().as_secs_f64());
        tasks = prediction.tasks();
        copies = prediction.links.iter().map(|l| l.transfers).sum();
    }
    println!(
        "{line} {tasks:>7} tasks {copies:>7} copies {best:>7.3} s {:>6.2} M tasks/s",
        tasks as f64 / best / 1e6
    );
}

fn main() {
    let arena = Arena::new();
    let small = stencil(&arena, 100, 100);
    let wide = stencil(&arena, 1000, 100);
    let lanes = chains(&arena, 256, 400);
    let (none, ample, scarce) = (0, 1 << 20, 1 << 14);
    // Name, graph, CPUs, devices, their room, launches.
    let cases = [
        ("10,000 x 50 launches, 2 units", &small, 2, 0, none, 50),
        ("100,000, 64 units", &wide, 64, 0, none, 1),
        ("102,400 in chains, 64 units", &lanes, 64, 0, none, 1),
        ("10,000 x 10 launches, 2 + memory", &small, 2, 1, ample, 10),
        ("100,000, 60 + 4 memories", &wide, 60, 4, ample, 1),
        (
            "102,400 in chains, 60 + 4 memories",
            &lanes,
            60,
            4,
            ample,
            1,
        ),
        ("100,000, 60 + 4 scarce memories", &wide, 60, 4, scarce, 1),
    ];
    for policy in ["eager", "ws", "dm", "dmda", "dmdas"] {
        for (name, graph, cpus, devices, room, steps) in &cases {
            let machine = machine(*cpus, *devices, *room);
            measure(name, graph, &machine, policy, *steps);
        }
    }
}
