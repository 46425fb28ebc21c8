//! The largest gaps of the units, and whom they waited for.
//!
//! A gap ends with a task. If that became ready during the gap, the unit waited for the task that
//! released it; and if that was short, for the one that released *that*, and so on, back to the gap's
//! begin. Of this chain the one that filled most of the gap is the one to blame: the **straggler**. After
//! a unit's last task the chain is that of the task that ended last of all.

use dahl_core::trace::{NOBODY, Nanos, Trace};
use serde::Serialize;

use super::task::TaskRef;
use super::timeline::Idle;
use crate::Index;

/// A unit's time without a task.
#[derive(Clone, Debug, Serialize)]
pub struct Gap {
    /// The unit.
    pub unit: String,
    /// When it begins.
    pub from_ns: Nanos,
    /// When it ends.
    pub to_ns: Nanos,
    /// How long it is.
    pub length_ns: Nanos,
    /// Before the next task was ready.
    pub waiting_for_work_ns: Nanos,
    /// Before that, while a message that led to it was missing.
    pub waiting_for_messages_ns: Nanos,
    /// After it was.
    pub overhead_ns: Nanos,
    /// The unit's next task; none after its last.
    pub next: Option<TaskRef>,
    /// The task whose end released the next one.
    pub released_by: Option<TaskRef>,
    /// The step whose launch released the next one, where no task did.
    pub launch: Option<u64>,
    /// Of the tasks that led to the next one, that which filled most of the gap.
    pub straggler: Option<TaskRef>,
    /// The node whose message released the next one, or one before it.
    pub message_from: Option<String>,
    /// All this in words.
    pub says: String,
}

/// The longest gaps, longest first.
pub(super) fn largest(trace: &Trace, index: &Index, mut gaps: Vec<Idle>, top: usize) -> Vec<Gap> {
    let key = |g: &Idle| (std::cmp::Reverse(g.to - g.from), g.from, g.unit);
    if top == 0 {
        return vec![];
    }
    if gaps.len() > top {
        gaps.select_nth_unstable_by_key(top - 1, key);
        gaps.truncate(top);
    }
    gaps.sort_by_key(key);
    let last = (0..trace.tasks.len() as u32).max_by_key(|&r| trace.tasks[r as usize].end);
    gaps.iter().map(|g| gap(trace, index, g, last)).collect()
}

fn gap(trace: &Trace, index: &Index, g: &Idle, last: Option<u32>) -> Gap {
    let releaser = |r: u32| index.find(trace, trace.tasks[r as usize].released_by);
    let (released_by, launch) = match g.next {
        Some(next) => {
            let by = trace.tasks[next as usize].released_by;
            let launch = trace.tasks[next as usize].id.launch as usize;
            let step = (by.task == NOBODY).then(|| trace.launches[launch].step);
            (releaser(next), step)
        }
        None => (last, None),
    };
    let mut straggler = None;
    let mut most = 0;
    let mut chain = released_by;
    while let Some(r) = chain {
        let t = &trace.tasks[r as usize];
        if t.end <= g.from {
            break;
        }
        let inside = t.end.min(g.to).saturating_sub(t.start.max(g.from));
        if inside > most {
            (straggler, most) = (Some(r), inside);
        }
        chain = releaser(r);
    }
    let refer = |r: Option<u32>| r.map(|r| TaskRef::of(trace, r));
    let mut gap = Gap {
        unit: trace.units[usize::from(g.unit)].name.clone(),
        from_ns: g.from,
        to_ns: g.to,
        length_ns: g.to - g.from,
        waiting_for_work_ns: g.ready - g.messages,
        waiting_for_messages_ns: g.messages - g.from,
        overhead_ns: g.to - g.ready,
        next: refer(g.next),
        released_by: refer(released_by),
        launch,
        straggler: refer(straggler),
        message_from: sender(trace, index, g),
        says: String::new(),
    };
    gap.says = says(&gap);
    gap
}

/// Who sent the message that led to the task after a gap.
fn sender(trace: &Trace, index: &Index, g: &Idle) -> Option<String> {
    let mut chain = g.next.filter(|_| g.messages > g.from);
    while let Some(r) = chain {
        let by = trace.tasks[r as usize].released_by;
        if by.task == NOBODY {
            return None;
        }
        if let Some(message) = trace.graph_of(by.launch).message(by.task) {
            let node = trace.nodes.get(usize::from(message.peer))?;
            return Some(node.name.clone());
        }
        chain = index.find(trace, by);
    }
    None
}

fn says(gap: &Gap) -> String {
    let name = |t: &TaskRef| {
        let layer = if t.layer.is_empty() {
            String::new()
        } else {
            format!(" of {}", t.layer)
        };
        format!("{}{layer} (step {}, task {})", t.codelet, t.step, t.task)
    };
    let waiting = gap.waiting_for_work_ns + gap.waiting_for_messages_ns;
    if gap.overhead_ns > waiting
        && let Some(next) = &gap.next
    {
        return format!("{} was ready, but no unit took it", name(next));
    }
    if gap.waiting_for_messages_ns > gap.waiting_for_work_ns
        && let (Some(next), Some(node)) = (&gap.next, &gap.message_from)
    {
        return format!("{} waited for a message from {node}", name(next));
    }
    if let Some(step) = gap.launch {
        return format!("step {step} had not been launched");
    }
    let Some(blamed) = gap.straggler.as_ref().or(gap.released_by.as_ref()) else {
        return "what it waited for is not in the trace".into();
    };
    let took = dahl_core::Seconds(blamed.duration_ns as f64 * 1e-9);
    let which = format!("{}, {took} on {}", name(blamed), blamed.unit);
    match &gap.next {
        None => format!("nothing was left to do but {which}"),
        Some(next) => format!("{} waited for {which}", next.codelet),
    }
}
