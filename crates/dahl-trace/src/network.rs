//! Messages between nodes: which ends belong together.
//!
//! Both ends of a message have the same number in launches of the same step. A message *crosses* from when both nodes
//! have begun it to when the receiver has all of it; before that the one waits for the other. Ends whose other end is
//! not in the trace cross nothing.

use std::collections::HashMap;

use dahl_core::trace::{Load, MessageRun, Nanos, TaskId, Trace, TraceMessage, Transfer};

use crate::Index;

/// A message of which both ends are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossing {
    /// The sender's end: index into [`Trace::messages`].
    pub send: u32,
    /// The receiver's.
    pub receive: u32,
    /// How much.
    pub bytes: u64,
    /// When both nodes had begun it.
    pub start: Nanos,
    /// When the receiver had it, or when it began, if clocks say that this was later.
    pub end: Nanos,
}

/// All messages of a trace that [`crate::check`] accepts, by start.
pub fn crossings(trace: &Trace) -> Vec<Crossing> {
    let mut sends = HashMap::new();
    let ends = || (0..).zip(&trace.messages);
    for (i, end) in ends() {
        let message = message_of(trace, end);
        if message.sends {
            sends.insert(name(trace, end, message), i);
        }
    }
    let mut all = Vec::with_capacity(sends.len());
    for (receive, end) in ends() {
        let message = message_of(trace, end);
        if message.sends {
            continue;
        }
        if let Some(&send) = sends.get(&name(trace, end, message)) {
            let start = end.start.max(trace.messages[send as usize].start);
            all.push(Crossing {
                send,
                receive,
                bytes: message.bytes,
                start,
                end: end.end.max(start),
            });
        }
    }
    all.sort_by_key(|c| (c.start, c.receive));
    all
}

/// Enters all messages among the transfers, as copies between the first memories of two nodes. For who makes a trace.
pub fn enter_transfers(trace: &mut Trace) {
    let host = |node: u16| {
        let place = trace.memories.iter().position(|m| m.node == node);
        place.unwrap_or(0) as u16
    };
    let node = |end: u32| trace.launches[trace.messages[end as usize].id.launch as usize].node;
    let transfer = |c: Crossing| Transfer {
        from: host(node(c.send)),
        to: host(node(c.receive)),
        bytes: c.bytes,
        for_task: trace.messages[c.receive as usize].id,
        ahead: false,
        load: Load::asked(c.bytes),
        batch: 1,
        start: c.start,
        end: c.end,
    };
    let transfers: Vec<Transfer> = crossings(trace).into_iter().map(transfer).collect();
    trace.transfers.extend(transfers);
    trace.sort();
}

/// Runs that each message joins: of the tasks that the send waited for the one that ended last, and of those that waited
/// for the receive the first; only where both are in the trace.
pub fn joined(trace: &Trace, index: &Index) -> Vec<(u32, u32)> {
    let end = |end: u32| trace.messages[end as usize].id;
    let mut before = HashMap::new();
    for (number, graph) in (0u32..).zip(&trace.graphs) {
        let sends = |task: u32| graph.message(task).is_some_and(|m| m.sends);
        for task in 0..graph.tasks.len() as u32 {
            let next = graph.successors_of(task).iter();
            for &send in next.filter(|&&s| sends(s)) {
                before
                    .entry((number, send))
                    .or_insert_with(Vec::new)
                    .push(task);
            }
        }
    }
    let join = |c: &Crossing| {
        let (send, receive) = (end(c.send), end(c.receive));
        let graph = trace.launches[send.launch as usize].graph;
        let run = |launch, task| index.find(trace, TaskId { launch, task });
        let tasks = before.get(&(graph, send.task))?;
        let runs = tasks.iter().filter_map(|&task| run(send.launch, task));
        let from = runs.max_by_key(|&r| trace.tasks[r as usize].end)?;
        let next = trace.graph_of(receive.launch).successors_of(receive.task);
        let runs = next.iter().filter_map(|&task| run(receive.launch, task));
        let to = runs.min_by_key(|&r| trace.tasks[r as usize].start)?;
        Some((from, to))
    };
    crossings(trace).iter().filter_map(join).collect()
}

/// Whether a task stands for a message.
pub(crate) fn is_message(trace: &Trace, id: TaskId) -> bool {
    let graph = trace.graph_of(id.launch);
    !graph.messages.is_empty() && graph.message(id.task).is_some()
}

/// What an end is an end of.
pub(crate) fn message_of<'t>(trace: &'t Trace, end: &MessageRun) -> &'t TraceMessage {
    let graph = trace.graph_of(end.id.launch);
    graph.message(end.id.task).expect("checked")
}

/// What both nodes call a message: sender, receiver, step and number.
fn name(trace: &Trace, end: &MessageRun, message: &TraceMessage) -> (u16, u16, u64, u32) {
    let launch = &trace.launches[end.id.launch as usize];
    let (from, to) = match message.sends {
        true => (launch.node, message.peer),
        false => (message.peer, launch.node),
    };
    (from, to, launch.step, message.transfer)
}
