//! The nodes of a cluster: what each computed, sent, received and waited for.
//!
//! Messages are *under way* to a node from when both ends have begun one to when it has arrived; several at once count
//! once. Of that time, what its units spent waiting for messages was in vain, on average over the units; the rest is
//! *hidden* behind computing.

use dahl_core::trace::{Nanos, Trace};
use serde::Serialize;

use super::stats::ratio;
use super::timeline::{Idle, UnitTime};
use crate::network::crossings;

/// A node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeTime {
    /// Its name.
    pub node: String,
    /// How far its times may be from those of the first node.
    pub uncertainty_ns: Nanos,
    /// Its units.
    pub units: u64,
    /// What they computed, of their time.
    pub busy: f64,
    /// What they waited for messages, of their time.
    pub waiting_for_messages: f64,
    /// Messages that it sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages that it received.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// How long messages were under way to it.
    pub network_ns: Nanos,
    /// Part of that in which its units did not wait for them.
    pub hidden: f64,
}

/// All nodes, if there are several.
pub(super) fn of(trace: &Trace, units: &[UnitTime], gaps: &[Idle]) -> Vec<NodeTime> {
    if trace.nodes.len() < 2 {
        return vec![];
    }
    let crossings = crossings(trace);
    let node_of = |end: u32| {
        let launch = trace.messages[end as usize].id.launch;
        trace.launches[launch as usize].node
    };
    let node = |(number, node): (usize, &dahl_core::trace::TraceNode)| {
        let number = number as u16;
        let own = |unit: u16| trace.node_of(unit) == number;
        let times = || units.iter().zip(0..).filter(|u| own(u.1)).map(|u| u.0);
        let span: Nanos = times().map(|t| t.span_ns).sum();
        let share = |part: fn(&UnitTime) -> Nanos| {
            let sum: Nanos = times().map(part).sum();
            ratio(sum as f64, span as f64)
        };
        let sent = || crossings.iter().filter(|c| node_of(c.send) == number);
        let received = || crossings.iter().filter(|c| node_of(c.receive) == number);
        let under_way = union(received().map(|c| (c.start, c.end)).collect());
        let waits = gaps.iter().filter(|g| own(g.unit) && g.messages > g.from);
        let in_vain: Nanos = waits.map(|g| inside(&under_way, g.from, g.messages)).sum();
        let network_ns = under_way.iter().map(|(from, to)| to - from).sum();
        let of_units = network_ns as f64 * times().count() as f64;
        NodeTime {
            node: node.name.clone(),
            uncertainty_ns: node.uncertainty,
            units: times().count() as u64,
            busy: share(|t| t.busy_ns),
            waiting_for_messages: share(|t| t.waiting_for_messages_ns),
            sent: sent().count() as u64,
            sent_bytes: sent().map(|c| c.bytes).sum(),
            received: received().count() as u64,
            received_bytes: received().map(|c| c.bytes).sum(),
            network_ns,
            hidden: 1.0 - ratio(in_vain as f64, of_units),
        }
    };
    trace.nodes.iter().enumerate().map(node).collect()
}

/// The times that are in any of some spans, in order.
fn union(mut spans: Vec<(Nanos, Nanos)>) -> Vec<(Nanos, Nanos)> {
    spans.sort_unstable();
    let mut all: Vec<(Nanos, Nanos)> = vec![];
    for (from, to) in spans {
        match all.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => all.push((from, to)),
        }
    }
    all
}

/// How much of a span lies in spans that are in order.
fn inside(spans: &[(Nanos, Nanos)], from: Nanos, to: Nanos) -> Nanos {
    let first = spans.partition_point(|s| s.1 <= from);
    let touched = spans[first..].iter().take_while(|s| s.0 < to);
    touched.map(|s| s.1.min(to) - s.0.max(from)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_joined_and_cut() {
        let all = union(vec![(5, 9), (0, 2), (8, 12), (20, 30)]);
        assert_eq!(all, [(0, 2), (5, 12), (20, 30)]);
        assert_eq!(inside(&all, 1, 25), 1 + 7 + 5);
        assert_eq!(inside(&all, 12, 20), 0);
        assert_eq!(inside(&all, 40, 50), 0);
    }
}
