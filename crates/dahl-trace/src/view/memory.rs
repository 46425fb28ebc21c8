//! Memory in use over time, one curve per memory.

use dahl_core::trace::{Nanos, Trace};

use crate::Index;
use crate::summary::memory::{host_curve, hosts};

use super::encode::{Columns, step};

/// Bytes in use, from each moment until the next.
pub(super) struct Curve {
    pub name: String,
    pub capacity: Option<u64>,
    pub points: Vec<(Nanos, u64)>,
}

/// The curves of a trace; memories that nothing is known about have none.
pub(super) fn curves(trace: &Trace, index: &Index) -> Vec<Curve> {
    let hosts = hosts(trace);
    let node = |i: usize| hosts.iter().find(|h| usize::from(h.0) == i).map(|h| h.1);
    let of = |(i, memory): (usize, &dahl_core::trace::TraceMemory)| Curve {
        name: format!("{} memory", memory.name),
        capacity: memory.capacity,
        points: match node(i) {
            Some(node) => host_curve(trace, index, node),
            None => samples(trace, i),
        },
    };
    let mut out: Vec<Curve> = trace.memories.iter().enumerate().map(of).collect();
    out.retain(|c| !c.points.is_empty());
    out
}

fn samples(trace: &Trace, memory: usize) -> Vec<(Nanos, u64)> {
    let of = trace
        .memory
        .iter()
        .filter(|s| usize::from(s.memory) == memory);
    of.map(|s| (s.at, s.bytes)).collect()
}

/// Times, then values, of each curve.
pub(super) fn pack(curves: &[Curve]) -> Columns {
    let mut out = Columns::default();
    for curve in curves {
        let mut last = 0;
        out.numbers(
            curve
                .points
                .iter()
                .map(|p| step(std::mem::replace(&mut last, p.0), p.0)),
        );
        let mut last = 0;
        out.numbers(
            curve
                .points
                .iter()
                .map(|p| step(std::mem::replace(&mut last, p.1), p.1)),
        );
    }
    out
}
