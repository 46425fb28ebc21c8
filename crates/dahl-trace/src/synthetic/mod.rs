//! Made-up traces that look like training, for tests, demonstrations and benchmarks.
//!
//! A small convolutional network is trained for as many steps as the wanted number of tasks needs: each
//! step is one launch, two are in flight at a time, and a list scheduler in virtual time gives every
//! task its unit and its times. So dependencies hold, units idle where the graph makes them wait, and a
//! few tasks take far longer than their like. The same arguments give the same trace. Nothing here is
//! measured: the trace says that it is simulated.

mod network;
mod schedule;

use dahl_core::UnitKind;
use dahl_core::random::Random;
use dahl_core::trace::{
    MemorySample, Nanos, PowerSample, Trace, TraceMemory, TraceNode, TraceUnit,
};

use network::Network;

/// Most tasks of one step.
const STEP_TASKS: usize = 1200;

/// A trace of exactly `tasks` tasks on `units` units (at least one). With three units or more the last
/// is a GPU with its own memory, so that there are transfers.
pub fn synthetic(tasks: usize, units: u16, seed: u64) -> Trace {
    let units = units.max(1);
    // A handful of steps where there are few tasks, then steps that grow no further.
    let network = Network::of((tasks / 8).clamp(1, STEP_TASKS));
    let mut trace = Trace {
        about: about(tasks, seed),
        simulated: true,
        nodes: vec![TraceNode::default()],
        units: machine(units),
        memories: vec![TraceMemory {
            name: "host".into(),
            capacity: None,
            node: 0,
        }],
        graphs: vec![network.graph.clone()],
        ..Trace::default()
    };
    if trace.units.last().is_some_and(|u| u.memory == 1) {
        trace.memories.push(TraceMemory {
            name: "gpu:0".into(),
            capacity: Some(GPU_BYTES),
            node: 0,
        });
    }
    schedule::run(&mut trace, &network, tasks, Random::new(seed, 0));
    occupy(&mut trace);
    trace.end = trace.tasks.iter().map(|t| t.end).max().unwrap_or(0) + 1000;
    power(&mut trace);
    trace.sort();
    trace
}

/// What the GPU's memory holds.
const GPU_BYTES: u64 = 64 << 20;
/// Watts of a busy and of an idle unit.
const WATTS: [f64; 2] = [8.5, 2.1];
/// Power samples, whatever the length of the trace.
const POWER_SAMPLES: u64 = 200;

fn about(tasks: usize, seed: u64) -> Vec<(String, String)> {
    let pair = |a: &str, b: String| (a.to_string(), b);
    vec![
        pair("command", format!("synthetic({tasks} tasks, seed {seed})")),
        pair("model", "small convolutional network".into()),
        pair("policy", "list scheduling by program order".into()),
        pair("version", env!("CARGO_PKG_VERSION").into()),
    ]
}

fn machine(units: u16) -> Vec<TraceUnit> {
    let unit = |i: u16| {
        let gpu = units >= 3 && i + 1 == units;
        TraceUnit {
            name: if gpu {
                "gpu:0".into()
            } else {
                format!("cpu:{i}")
            },
            kind: if gpu { UnitKind::GPU } else { UnitKind::CPU },
            memory: u16::from(gpu),
        }
    };
    (0..units).map(unit).collect()
}

/// The GPU's memory fills with what is copied to it, and half of it is given up when it is full.
fn occupy(trace: &mut Trace) {
    let mut arrivals: Vec<(Nanos, u64)> = trace
        .transfers
        .iter()
        .filter(|t| t.to == 1)
        .map(|t| (t.end, t.bytes))
        .collect();
    arrivals.sort_unstable();
    let mut bytes = 0;
    for (at, more) in arrivals {
        bytes += more;
        if bytes > GPU_BYTES {
            bytes = GPU_BYTES / 2;
        }
        trace.memory.push(MemorySample {
            at,
            memory: 1,
            bytes,
        });
    }
}

/// Power follows from how busy the units are.
fn power(trace: &mut Trace) {
    let period = (trace.end / POWER_SAMPLES).max(1);
    let mut busy = vec![0u64; trace.end.div_ceil(period) as usize];
    for t in &trace.tasks {
        let mut from = t.start;
        while from < t.end {
            let slot = from / period;
            let to = t.end.min((slot + 1) * period);
            busy[slot as usize] += to - from;
            from = to;
        }
    }
    let units = trace.units.len() as f64;
    trace.domains.push(format!(
        "modelled ({} W busy, {} W idle per unit)",
        WATTS[0], WATTS[1]
    ));
    for (i, busy) in busy.iter().enumerate() {
        let begin = i as u64 * period;
        let at = trace.end.min(begin + period);
        let share = *busy as f64 / (at - begin) as f64;
        trace.power.push(PowerSample {
            at,
            domain: 0,
            watts: share * WATTS[0] + (units - share) * WATTS[1],
        });
    }
}

/// What an array of this shape takes.
fn bytes(shape: [usize; 4]) -> u64 {
    4 * shape.iter().product::<usize>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_core::trace::NOBODY;

    #[test]
    fn it_has_what_was_asked_for() {
        for (tasks, units) in [(0, 1), (1, 1), (7, 2), (100, 3), (5000, 4)] {
            let trace = synthetic(tasks, units, 1);
            assert_eq!(trace.tasks.len(), tasks);
            assert_eq!(trace.units.len(), usize::from(units));
            crate::check(&trace).expect("a proper trace");
        }
        let trace = synthetic(5000, 4, 1);
        assert!(trace.launches.len() > 3 && !trace.transfers.is_empty());
        assert!(!trace.memory.is_empty() && trace.power.len() >= 200);
        assert!(trace.tasks.iter().any(|t| t.released_by.task == NOBODY));
        assert!(
            trace
                .tasks
                .iter()
                .any(|t| t.released_by.task != NOBODY && t.released_by.launch < t.id.launch)
        );
    }

    #[test]
    fn the_same_arguments_give_the_same_trace() {
        assert_eq!(synthetic(3000, 3, 9), synthetic(3000, 3, 9));
        assert_ne!(synthetic(3000, 3, 9).tasks, synthetic(3000, 3, 8).tasks);
    }

    #[test]
    fn dependencies_hold() {
        let trace = synthetic(4000, 4, 3);
        let index = crate::Index::of(&trace);
        for t in &trace.tasks {
            for &s in trace.graph_of(t.id.launch).successors_of(t.id.task) {
                let id = dahl_core::trace::TaskId { task: s, ..t.id };
                if let Some(s) = index.find(&trace, id) {
                    assert!(trace.tasks[s as usize].ready >= t.end);
                }
            }
        }
    }
}
