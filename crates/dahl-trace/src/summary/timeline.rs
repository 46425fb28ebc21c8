//! What a unit did with its time.
//!
//! A unit's tasks, in order, cut the span into pieces:
//!
//! | piece | is |
//! |---|---|
//! | a task's start to its end | **busy** |
//! | taken to start, while a transfer for this very task was under way | **transferring** |
//! | taken to start otherwise | **waiting for data**: copies that others asked for, or room |
//! | from the last task's end (or the span's begin) to taken, before the task was ready | **waiting for work** |
//! | of that, before a message of another node had come that led to the task | **waiting for messages** instead |
//! | the same, after it was ready | **overhead** of the runtime |
//! | after the unit's last task | **waiting for work** |
//!
//! A message led to a task if it released it, or one that released it, and so on. Where a node has only one memory no data can be waited for: taken to start is then overhead as well. A
//! unit that turns to a task before it has ended the one before counts from that end on. So the pieces
//! neither overlap nor leave anything out, and their sum is the span.

use dahl_core::trace::{NOBODY, Nanos, TaskId, TaskRun, Trace, Transfer};
use serde::Serialize;

use crate::Index;
use crate::network::is_message;

/// Where a unit's time went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnitTime {
    /// Its name; `all` for the sum of all units.
    pub unit: String,
    /// Tasks it ran.
    pub tasks: u64,
    /// Of which the host's processor ran for it, because its device lacked room or had failed.
    pub fell_back: u64,
    /// See [`self`], as the following.
    pub busy_ns: Nanos,
    /// Waiting for its own transfers.
    pub transferring_ns: Nanos,
    /// Waiting for data otherwise.
    pub waiting_for_data_ns: Nanos,
    /// Nothing was ready for it.
    pub waiting_for_work_ns: Nanos,
    /// Nothing was ready for it before other nodes sent something.
    pub waiting_for_messages_ns: Nanos,
    /// Something was ready for it.
    pub overhead_ns: Nanos,
    /// The sum.
    pub span_ns: Nanos,
}

/// A unit's time between two tasks.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// The unit.
    pub unit: u16,
    /// When the gap begins.
    pub from: Nanos,
    /// Until when it waited for messages; the gap's begin if it did not.
    pub messages: Nanos,
    /// When the unit's next task was ready, inside the gap.
    pub ready: Nanos,
    /// When the gap ends.
    pub to: Nanos,
    /// The run after the gap; none after the unit's last.
    pub next: Option<u32>,
}

/// Numbers of each unit's runs, by start.
pub fn lines(trace: &Trace) -> Vec<Vec<u32>> {
    let mut lines = vec![vec![]; trace.units.len()];
    for (i, t) in trace.tasks.iter().enumerate() {
        lines[usize::from(t.unit)].push(i as u32);
    }
    lines
}

/// The time of each unit, and all its gaps.
pub fn times(
    trace: &Trace,
    index: &Index,
    lines: &[Vec<u32>],
    from: Nanos,
    to: Nanos,
) -> (Vec<UnitTime>, Vec<Idle>) {
    let own = OwnTransfers::of(trace);
    let mut gaps = vec![];
    let mut units = vec![];
    for (u, line) in lines.iter().enumerate() {
        let mut time = UnitTime {
            unit: trace.units[u].name.clone(),
            tasks: line.len() as u64,
            fell_back: line
                .iter()
                .filter(|i| trace.tasks[**i as usize].fell_back)
                .count() as u64,
            span_ns: to - from,
            ..UnitTime::default()
        };
        let one_memory = !has_to_fetch(trace, u as u16);
        let mut now = from;
        let mut gap = |time: &mut UnitTime, from, ready: Nanos, to, next| {
            if from < to {
                let ready = ready.clamp(from, to);
                let messages = message_wait(trace, index, next, from).min(ready);
                time.waiting_for_messages_ns += messages - from;
                time.waiting_for_work_ns += ready - messages;
                time.overhead_ns += to - ready;
                gaps.push(Idle {
                    unit: u as u16,
                    from,
                    messages,
                    ready,
                    to,
                    next,
                });
            }
        };
        for &i in line {
            let t = &trace.tasks[i as usize];
            let taken = t.taken.max(now);
            gap(&mut time, now, t.ready, taken, Some(i));
            let wait = t.start.max(taken) - taken;
            if one_memory {
                time.overhead_ns += wait;
            } else {
                let moving = own.overlap(t, taken);
                time.transferring_ns += moving;
                time.waiting_for_data_ns += wait - moving;
            }
            now = now.max(t.end);
            time.busy_ns += now - t.start.max(taken);
        }
        gap(&mut time, now, to, to, None);
        units.push(time);
    }
    (units, gaps)
}

/// Whether operands of a unit's tasks may be in another memory. Between nodes with launches of their own nothing is
/// fetched: messages are.
pub(crate) fn has_to_fetch(trace: &Trace, unit: u16) -> bool {
    let together = trace.launches.iter().all(|l| l.node == 0);
    let node = trace.node_of(unit);
    let reached = trace.memories.iter().filter(|m| together || m.node == node);
    reached.count() > 1
}

/// Until when, after the begin of a gap, a message was missing that led to the next task; the begin if none was.
fn message_wait(trace: &Trace, index: &Index, next: Option<u32>, from: Nanos) -> Nanos {
    if trace.messages.is_empty() {
        return from;
    }
    let mut chain = next;
    while let Some(r) = chain {
        let run = &trace.tasks[r as usize];
        if run.ready <= from || run.released_by.task == NOBODY {
            return from;
        }
        if is_message(trace, run.released_by) {
            return run.ready;
        }
        chain = index.find(trace, run.released_by);
    }
    from
}

/// Before which runs a unit waited for messages, from when to when; by run.
pub(crate) fn message_waits(trace: &Trace, index: &Index) -> Vec<(u32, Nanos, Nanos)> {
    if trace.messages.is_empty() {
        return vec![];
    }
    let (from, to) = super::extent(trace);
    let gaps = times(trace, index, &lines(trace), from, to).1;
    let waited = gaps.iter().filter(|g| g.messages > g.from);
    let mut waits: Vec<_> = waited
        .filter_map(|g| Some((g.next?, g.from, g.messages)))
        .collect();
    waits.sort_unstable();
    waits
}

/// The sum over units.
pub fn total(units: &[UnitTime]) -> UnitTime {
    let mut all = UnitTime {
        unit: "all".into(),
        ..UnitTime::default()
    };
    for u in units {
        all.tasks += u.tasks;
        all.fell_back += u.fell_back;
        all.busy_ns += u.busy_ns;
        all.transferring_ns += u.transferring_ns;
        all.waiting_for_data_ns += u.waiting_for_data_ns;
        all.waiting_for_work_ns += u.waiting_for_work_ns;
        all.waiting_for_messages_ns += u.waiting_for_messages_ns;
        all.overhead_ns += u.overhead_ns;
        all.span_ns += u.span_ns;
    }
    all
}

/// Transfers by the task they were made for.
struct OwnTransfers<'a> {
    sorted: Vec<&'a Transfer>,
}

impl<'a> OwnTransfers<'a> {
    fn of(trace: &'a Trace) -> OwnTransfers<'a> {
        let mut sorted: Vec<&Transfer> = trace.transfers.iter().collect();
        sorted.sort_by_key(|t: &&Transfer| (t.for_task, t.start));
        OwnTransfers { sorted }
    }

    /// How long, from `taken` until the task started, its transfers were under way.
    fn overlap(&self, run: &TaskRun, taken: Nanos) -> Nanos {
        let key = |t: &&Transfer| -> TaskId { t.for_task };
        let first = self.sorted.partition_point(|t| key(t) < run.id);
        let (mut now, mut sum) = (taken, 0);
        for t in &self.sorted[first..] {
            if key(t) != run.id {
                break;
            }
            let (from, to) = (t.start.max(now), t.end.min(run.start));
            if from < to {
                sum += to - from;
                now = to;
            }
        }
        sum
    }
}
