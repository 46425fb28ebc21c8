//! All that happened, by time: what formats that are streams of events are made of.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use dahl_core::trace::{Nanos, Trace};

use crate::Index;
use crate::summary::memory::{host_curve, hosts};
use crate::summary::timeline::message_waits;

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum What {
    /// A task, by the number of its run, begins.
    TaskBegin(u32),
    /// It ends.
    TaskEnd(u32),
    /// A unit begins to wait for messages of other nodes.
    WaitBegin(u16),
    /// It ends.
    WaitEnd(u16),
    /// A transfer, by its number, begins.
    TransferBegin(u32),
    /// It ends.
    TransferEnd(u32),
    /// Bytes in use in a memory from now on.
    Memory(u16, u64),
    /// Watts of a domain from now on.
    Power(u16, f64),
}

/// All events by time. At one time, what ends on a unit or lane comes before what begins there.
pub(super) fn by_time(trace: &Trace, index: &Index) -> Vec<(Nanos, What)> {
    let mut events = Vec::with_capacity(2 * (trace.tasks.len() + trace.transfers.len()) + 1024);
    let mut waits = message_waits(trace, index).into_iter().peekable();
    for (i, t) in trace.tasks.iter().enumerate() {
        if let Some((_, from, to)) = waits.next_if(|w| w.0 == i as u32) {
            events.push((from, What::WaitBegin(t.unit)));
            events.push((to, What::WaitEnd(t.unit)));
        }
        events.push((t.start, What::TaskBegin(i as u32)));
        events.push((t.end, What::TaskEnd(i as u32)));
    }
    for (i, t) in trace.transfers.iter().enumerate() {
        events.push((t.start, What::TransferBegin(i as u32)));
        events.push((t.end, What::TransferEnd(i as u32)));
    }
    let hosts = hosts(trace);
    for &(memory, node) in &hosts {
        for (at, bytes) in host_curve(trace, index, node) {
            events.push((at, What::Memory(memory, bytes)));
        }
    }
    let is_host = |memory: u16| hosts.iter().any(|h| h.0 == memory);
    for m in trace.memory.iter().filter(|m| !is_host(m.memory)) {
        events.push((m.at, What::Memory(m.memory, m.bytes)));
    }
    // A sample is the mean of the time before it: it holds from the sample before. The last is repeated
    // at its own time, so that it has an extent.
    let mut before = vec![(0, None); trace.domains.len()];
    for p in &trace.power {
        let last = &mut before[usize::from(p.domain)];
        events.push((last.0, What::Power(p.domain, p.watts)));
        *last = (p.at, Some(p.watts));
    }
    for (d, (at, watts)) in before.into_iter().enumerate() {
        events.extend(watts.map(|w| (at, What::Power(d as u16, w))));
    }
    // Stable, and each unit's events were pushed in their order.
    events.sort_by_key(|e| e.0);
    events
}

/// Lanes for transfers: of one pair of memories, those in one lane do not overlap. Gives each
/// transfer's lane, and each lane's memories with its number among the lanes of its pair.
pub(super) fn lanes(trace: &Trace) -> (Vec<u32>, Vec<(u16, u16, u32)>) {
    let mut lanes: Vec<(u16, u16, u32)> = vec![];
    // Lanes of each pair, the one that is free first on top.
    type Free = BinaryHeap<Reverse<(Nanos, u32)>>;
    let mut pairs: HashMap<(u16, u16), Free> = HashMap::new();
    let mut of = Vec::with_capacity(trace.transfers.len());
    for t in &trace.transfers {
        let pair = pairs.entry((t.from, t.to)).or_default();
        let free = pair.peek().is_some_and(|first| first.0.0 <= t.start);
        let lane = match pair.len() as u32 {
            _ if free => pair.pop().map_or(0, |first| first.0.1),
            number => {
                lanes.push((t.from, t.to, number));
                lanes.len() as u32 - 1
            }
        };
        pair.push(Reverse((t.end, lane)));
        of.push(lane);
    }
    (of, lanes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dahl_core::random::Random;
    use dahl_core::trace::{Load, NOBODY, TaskId, Transfer};

    #[test]
    fn transfers_in_one_lane_do_not_overlap() {
        let random = Random::new(1, 1);
        let copy = |i: u64| {
            let start = random.below(3 * i, 1000);
            Transfer {
                from: random.below(3 * i + 1, 2) as u16,
                to: 2,
                bytes: 1,
                for_task: TaskId {
                    launch: 0,
                    task: NOBODY,
                },
                ahead: false,
                load: Load::asked(1),
                batch: 1,
                start,
                end: start + random.below(3 * i + 2, 40),
            }
        };
        let mut trace = Trace {
            transfers: (0..200).map(copy).collect(),
            ..Trace::default()
        };
        trace.sort();
        let (of, lanes) = lanes(&trace);
        let mut free = vec![0; lanes.len()];
        for (t, lane) in trace.transfers.iter().zip(&of) {
            let l = *lane as usize;
            assert_eq!((lanes[l].0, lanes[l].1), (t.from, t.to));
            assert!(free[l] <= t.start, "{t:?}");
            free[l] = t.end;
        }
        // Never more lanes than copies at one time; and both pairs count from zero.
        assert!(lanes.len() < 40, "{}", lanes.len());
        assert_eq!(lanes.iter().filter(|l| l.2 == 0).count(), 2);
    }
}
