//! Small programs for the tests, whose tasks take as long as their first parameter says.

mod batches;
mod energy;
mod hand;
mod memory;
mod ports;
mod random;

use std::sync::{Arc, LazyLock};

use dahl_core::{
    Arena, Bytes, Codelet, Cost, DType, Graph, Handle, Link, Machine, Memory, MemoryId, Operand,
    Param, Recorder, Seconds, Task, Unit, UnitId, UnitKind,
};

use super::{Options, Prediction, Times, simulate};
use dahl_sched::policy::by_name;

static ANY: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    let codelet = Codelet::new("any").cost(|call| Cost {
        flops: call.int(0) as f64,
        bytes: 0.0,
    });
    let codelet = codelet.implement("reference", UnitKind::CPU, |_| Ok(()));
    Arc::new(codelet.implement("card", UnitKind::GPU, |_| Ok(())))
});

/// A codelet that only a CPU has.
static HOST: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    let codelet = Codelet::new("host").cost(|call| Cost {
        flops: call.int(0) as f64,
        bytes: 0.0,
    });
    Arc::new(codelet.implement("reference", UnitKind::CPU, |_| Ok(())))
});

/// A task that takes so many seconds on a unit of speed 1.
fn task(r: &Recorder, seconds: i64, operands: &[Operand<'_>]) -> u32 {
    r.submit(Task::new(&ANY, operands).params(&[Param::Int(seconds)]))
}

fn array(arena: &Arena, name: &str, bytes: usize) -> Handle {
    arena.alloc(name, &[bytes / 4], DType::F32).unwrap()
}

/// Seconds as the tasks say, divided by the unit's `flops`.
fn times(graph: &Graph, machine: &Machine) -> Times {
    Times::from_fn(graph, machine, |class, unit| {
        let class = &graph.classes[class as usize];
        class.choice(unit.kind)?;
        let speed = unit.rated.map_or(1.0, |r| r.flops);
        Some(Seconds(class.cost.flops / speed))
    })
    .unwrap()
}

fn run(graph: &Graph, machine: &Machine, policy: &str, steps: usize) -> Prediction {
    let options = Options {
        steps,
        record: true,
        ..Options::default()
    };
    run_with(graph, machine, policy, &options)
}

fn run_with(graph: &Graph, machine: &Machine, policy: &str, options: &Options) -> Prediction {
    let policy = by_name(policy, machine).unwrap();
    simulate(graph, machine, &times(graph, machine), &*policy, options).unwrap()
}

/// One CPU, and a device of so many bytes behind a link of one byte per second each way.
fn with_device(capacity: u64) -> Machine {
    let mut machine = Machine::cpus(1);
    let device = MemoryId(1);
    machine
        .memories
        .push(Memory::new("device", Some(Bytes(capacity))));
    let unit = Unit::new("gpu:0", UnitKind::GPU, device);
    machine.units.push(unit);
    for (from, to) in [(MemoryId::HOST, device), (device, MemoryId::HOST)] {
        machine.links.push(Link::new(from, to, 1.0, Seconds(0.0)));
    }
    machine
}

/// The device alone: the CPU is gone.
fn device_only(capacity: u64) -> Machine {
    let mut machine = with_device(capacity);
    machine.units.remove(0);
    machine
}

/// Unit and time of every task, in program order.
fn when(prediction: &Prediction) -> Vec<(u16, f64, f64)> {
    let mut runs = prediction.runs.clone();
    runs.sort_by_key(|r| r.task);
    runs.iter().map(|r| (r.unit, r.start.0, r.end.0)).collect()
}

const FIRST: UnitId = UnitId(0);
