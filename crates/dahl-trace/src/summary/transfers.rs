//! Copies between memories, by pair of memories.

use std::collections::BTreeMap;

use dahl_core::trace::{Nanos, Trace};
use serde::Serialize;

use super::stats::ratio;

/// What went from one memory to another.
#[derive(Clone, Debug, Serialize)]
pub struct PairTraffic {
    /// Where from.
    pub from: String,
    /// Where to.
    pub to: String,
    /// Copies.
    pub count: u64,
    /// Of which made before a task asked.
    pub ahead: u64,
    /// Of which carried more parts of an array than their task asked for.
    pub joined: u64,
    /// Of which were started together with others.
    pub batched: u64,
    /// Bytes.
    pub bytes: u64,
    /// Sum of the copies' durations.
    pub total_ns: Nanos,
    /// Bytes by that time.
    pub gbytes: f64,
}

/// Pairs of memories, by time.
pub(super) fn by_pair(trace: &Trace) -> Vec<PairTraffic> {
    let mut pairs = BTreeMap::new();
    for t in &trace.transfers {
        let pair = pairs.entry((t.from, t.to)).or_insert_with(|| PairTraffic {
            from: trace.memories[usize::from(t.from)].name.clone(),
            to: trace.memories[usize::from(t.to)].name.clone(),
            count: 0,
            ahead: 0,
            joined: 0,
            batched: 0,
            bytes: 0,
            total_ns: 0,
            gbytes: 0.0,
        });
        pair.count += 1;
        pair.ahead += u64::from(t.ahead);
        pair.joined += u64::from(t.load.parts > 1);
        pair.batched += u64::from(t.batch > 1);
        pair.bytes += t.bytes;
        pair.total_ns += t.end - t.start;
    }
    let mut rows: Vec<PairTraffic> = pairs.into_values().collect();
    for row in &mut rows {
        row.gbytes = ratio(row.bytes as f64, row.total_ns as f64);
    }
    rows.sort_by_key(|r| std::cmp::Reverse(r.total_ns));
    rows
}
