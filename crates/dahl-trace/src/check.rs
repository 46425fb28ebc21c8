//! What must hold of a trace: every index names something, times are in order, dependencies lead
//! forwards, a unit runs one task at a time, and figures can be added up.
//!
//! Files are checked when they are read and when they are written, so that everything else may index and add
//! without looking. Whether the events are *plausible* is not asked.

use dahl_core::trace::{
    MessageRun, NOBODY, TaskId, TaskRun, Trace, TraceEnd, TraceGraph, Transfer,
};

/// The most nanoseconds of all units together, of all transfers, and bytes of these. Twice as much still is a number:
/// 146 years.
const MOST: u128 = 1 << 62;

/// Finds the first thing that does not hold, as a text that says where and what.
pub fn check(trace: &Trace) -> Result<(), String> {
    for (i, m) in trace.memories.iter().enumerate() {
        below(m.node.into(), trace.nodes.len(), "node")
            .map_err(|e| format!("memories[{i}] ({}): {e}", m.name))?;
    }
    for (i, u) in trace.units.iter().enumerate() {
        below(u.memory.into(), trace.memories.len(), "memory")
            .map_err(|e| format!("units[{i}] ({}): {e}", u.name))?;
    }
    for (i, g) in trace.graphs.iter().enumerate() {
        graph(g).map_err(|e| format!("graphs[{i}]: {e}"))?;
    }
    for (i, l) in trace.launches.iter().enumerate() {
        below(l.graph as usize, trace.graphs.len(), "graph")
            .and_then(|()| below(l.node.into(), trace.nodes.len(), "node"))
            .map_err(|e| format!("launches[{i}]: {e}"))?;
    }
    let mut units = vec![0; trace.units.len()];
    let mut last = (0, 0);
    for (i, t) in trace.tasks.iter().enumerate() {
        task(trace, t, &mut units, &mut last).map_err(|e| format!("tasks[{i}]: {e}"))?;
    }
    let mut last = 0;
    for (i, t) in trace.transfers.iter().enumerate() {
        transfer(trace, t, &mut last).map_err(|e| format!("transfers[{i}]: {e}"))?;
    }
    let mut last = 0;
    for (i, m) in trace.messages.iter().enumerate() {
        message(trace, m, &mut last).map_err(|e| format!("messages[{i}]: {e}"))?;
    }
    let mut last = 0;
    for (i, m) in trace.memory.iter().enumerate() {
        below(m.memory.into(), trace.memories.len(), "memory")
            .and_then(|()| ordered(&mut last, m.at))
            .map_err(|e| format!("memory[{i}]: {e}"))?;
    }
    let mut last = 0;
    for (i, p) in trace.power.iter().enumerate() {
        below(p.domain.into(), trace.domains.len(), "domain")
            .and_then(|()| ordered(&mut last, p.at))
            .and_then(|()| amount(p.watts, "watts"))
            .map_err(|e| format!("power[{i}]: {e}"))?;
    }
    sums(trace)
}

/// What is added up downstream is a number.
fn sums(trace: &Trace) -> Result<(), String> {
    let ends = trace.tasks.iter().map(|t| t.end);
    let ends = ends.chain(trace.transfers.iter().map(|t| t.end));
    let ends = ends.chain(trace.messages.iter().map(|m| m.end));
    let ends = ends.chain(trace.launches.iter().map(|l| l.at));
    let ends = ends.chain(trace.memory.iter().map(|m| m.at));
    let ends = ends.chain(trace.power.iter().map(|p| p.at));
    let latest = u128::from(ends.chain([trace.end]).max().unwrap_or(0));
    let moved = |amount: fn(&Transfer) -> u64| {
        let amounts = trace.transfers.iter().map(|t| u128::from(amount(t)));
        amounts.sum::<u128>()
    };
    for (what, sum) in [
        ("ns of all units", latest * trace.units.len().max(1) as u128),
        ("ns of all transfers", moved(|t| t.end - t.start)),
        ("bytes of all transfers", moved(|t| t.bytes)),
        ("ns of all messages", {
            let ends = trace.messages.iter();
            ends.map(|m| u128::from(m.end - m.start)).sum()
        }),
    ] {
        if sum > MOST {
            return Err(format!("{sum} {what} are more than {MOST}"));
        }
    }
    Ok(())
}

fn below(index: usize, length: usize, what: &str) -> Result<(), String> {
    if index < length {
        Ok(())
    } else {
        Err(format!("{what} {index} does not exist; there are {length}"))
    }
}

fn amount(value: f64, what: &str) -> Result<(), String> {
    if value.is_finite() && value >= 0.0 {
        Ok(())
    } else {
        Err(format!("{value} {what} is no amount"))
    }
}

fn ordered(last: &mut u64, at: u64) -> Result<(), String> {
    if at < *last {
        return Err(format!("at {at} ns, after one at {} ns", *last));
    }
    *last = at;
    Ok(())
}

fn graph(g: &TraceGraph) -> Result<(), String> {
    for (i, c) in g.classes.iter().enumerate() {
        amount(c.flops, "flops")
            .and_then(|()| amount(c.bytes, "bytes"))
            .map_err(|e| format!("classes[{i}]: {e}"))?;
    }
    for (i, a) in g.accesses.iter().enumerate() {
        below(a.storage as usize, g.storages.len(), "storage")
            .map_err(|e| format!("accesses[{i}]: {e}"))?;
        let (start, end) = (a.region.start(), a.region.end());
        if (0..start.len()).any(|d| start[d] >= end[d]) {
            return Err(format!("accesses[{i}]: an empty region"));
        }
    }
    for (i, t) in g.tasks.iter().enumerate() {
        let end = t.first_access as usize + usize::from(t.access_count);
        below(t.class as usize, g.classes.len(), "class")
            .and_then(|()| below(t.section as usize, g.sections.len(), "section"))
            .and_then(|()| match end <= g.accesses.len() {
                true => Ok(()),
                false => Err(format!(
                    "its accesses end at {end}; there are {}",
                    g.accesses.len()
                )),
            })
            .map_err(|e| format!("tasks[{i}]: {e}"))?;
    }
    let mut next = 0;
    for (i, m) in g.messages.iter().enumerate() {
        below(m.task as usize, g.tasks.len(), "task")
            .and_then(|()| match m.task >= next {
                true => Ok(()),
                false => Err("not by task".into()),
            })
            .map_err(|e| format!("messages[{i}]: {e}"))?;
        next = m.task + 1;
    }
    ends(g, &g.inlets).map_err(|e| format!("inlets{e}"))?;
    ends(g, &g.outlets).map_err(|e| format!("outlets{e}"))?;
    edges(g)
}

/// Ends of a graph's boundary: by storage, of tasks that exist, inside their shapes.
fn ends(g: &TraceGraph, ends: &[TraceEnd]) -> Result<(), String> {
    let mut last = 0;
    for (i, e) in ends.iter().enumerate() {
        let (dims, upto) = (e.shape.dims4(), e.edge.region.end());
        let inside = (0..dims.len()).all(|a| upto[a] <= dims[a]);
        below(e.storage as usize, g.storages.len(), "storage")
            .and_then(|()| below(e.edge.task as usize, g.tasks.len(), "task"))
            .and_then(|()| match inside && e.storage >= last {
                true => Ok(()),
                false if inside => Err("not by storage".into()),
                false => Err(format!("a part outside of {}", e.shape)),
            })
            .map_err(|e| format!("[{i}]: {e}"))?;
        last = e.storage;
    }
    Ok(())
}

/// Successors of each task: a proper table, and all of them later tasks.
fn edges(g: &TraceGraph) -> Result<(), String> {
    let starts = &g.successor_start;
    if g.tasks.is_empty() && starts.is_empty() && g.successors.is_empty() {
        return Ok(());
    }
    if starts.len() != g.tasks.len() + 1
        || starts[0] != 0
        || starts[g.tasks.len()] as usize != g.successors.len()
        || starts.windows(2).any(|w| w[0] > w[1])
    {
        return Err(format!(
            "the table of successors does not fit {} tasks",
            g.tasks.len()
        ));
    }
    for (i, range) in starts.windows(2).enumerate() {
        for &s in &g.successors[range[0] as usize..range[1] as usize] {
            below(s as usize, g.tasks.len(), "task")
                .map_err(|e| format!("tasks[{i}]: successor: {e}"))?;
            if s as usize <= i {
                return Err(format!("tasks[{i}]: its successor {s} does not come later"));
            }
        }
    }
    Ok(())
}

fn exists(trace: &Trace, id: TaskId) -> Result<(), String> {
    below(id.launch as usize, trace.launches.len(), "launch")?;
    below(
        id.task as usize,
        trace.graph_of(id.launch).tasks.len(),
        "task",
    )
}

/// `units` is when each unit's last task ended; `last` the start and unit of the task before.
fn task(
    trace: &Trace,
    t: &TaskRun,
    units: &mut [u64],
    last: &mut (u64, u16),
) -> Result<(), String> {
    exists(trace, t.id)?;
    below(t.unit.into(), trace.units.len(), "unit")?;
    if t.released_by.task != NOBODY {
        exists(trace, t.released_by).map_err(|e| format!("released by: {e}"))?;
        if t.released_by >= t.id {
            return Err("released by a later task".into());
        }
    }
    if !(t.ready <= t.taken && t.taken <= t.start && t.start <= t.end) {
        return Err(format!(
            "ready at {}, taken at {}, start at {} and end at {} ns are not in order",
            t.ready, t.taken, t.start, t.end
        ));
    }
    if (t.start, t.unit) < *last {
        return Err(format!(
            "starts at {} ns, after one that starts at {} ns",
            t.start, last.0
        ));
    }
    *last = (t.start, t.unit);
    let free = &mut units[usize::from(t.unit)];
    if t.start < *free {
        return Err(format!(
            "starts at {} ns, while {} is busy until {} ns",
            t.start,
            trace.units[usize::from(t.unit)].name,
            *free
        ));
    }
    *free = t.end;
    Ok(())
}

fn transfer(trace: &Trace, t: &Transfer, last: &mut u64) -> Result<(), String> {
    below(t.from.into(), trace.memories.len(), "memory")?;
    below(t.to.into(), trace.memories.len(), "memory")?;
    if t.for_task.task != NOBODY {
        exists(trace, t.for_task)?;
    }
    if t.start > t.end {
        return Err(format!("start at {} and end at {} ns", t.start, t.end));
    }
    let load = &t.load;
    if load.asked > t.bytes || load.parts == 0 || load.parts > load.wanted {
        return Err(format!("{load:?} of {} bytes", t.bytes));
    }
    if t.batch == 0 {
        return Err("in a batch of 0 copies".into());
    }
    ordered(last, t.start)
}

fn message(trace: &Trace, m: &MessageRun, last: &mut u64) -> Result<(), String> {
    exists(trace, m.id)?;
    if !crate::network::is_message(trace, m.id) {
        return Err(format!("task {} of its graph is no message", m.id.task));
    }
    if m.start > m.end {
        return Err(format!("start at {} and end at {} ns", m.start, m.end));
    }
    ordered(last, m.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic;

    /// Each way to break a trace is found, and said with its place.
    #[test]
    fn broken_traces_are_found() {
        type Break = fn(&mut Trace);
        let cases: [(&str, Break); 25] = [
            ("units[0]", |t| t.units[0].memory = 9),
            ("launches[1]", |t| t.launches[1].graph = 1),
            ("tasks[5]: unit 40", |t| t.tasks[5].unit = 40),
            ("tasks[5]: launch", |t| t.tasks[5].id.launch = 1 << 30),
            ("tasks[5]: task", |t| t.tasks[5].id.task = 1 << 30),
            ("tasks[5]: released by a later", |t| {
                t.tasks[5].released_by = t.tasks[5].id;
            }),
            ("are not in order", |t| t.tasks[5].ready = u64::MAX),
            ("after one that starts", |t| t.tasks.swap(3, 60)),
            ("is busy until", |t| t.tasks[0].end += 1 << 40),
            ("transfers[0]: memory 7", |t| t.transfers[0].to = 7),
            ("transfers[1]: start", |t| t.transfers[1].end = 0),
            ("transfers[0]: Load", |t| t.transfers[0].load.parts = 2),
            ("transfers[0]: in a batch of 0", |t| {
                t.transfers[0].batch = 0
            }),
            ("memory[0]: memory", |t| t.memory[0].memory = 5),
            ("power[3]: at", |t| t.power[2].at = u64::MAX),
            ("power[2]: NaN", |t| t.power[2].watts = f64::NAN),
            ("graphs[0]: classes[0]", |t| {
                t.graphs[0].classes[0].flops = -1.0
            }),
            ("inlets[0]: task", |t| {
                t.graphs[0].inlets[0].edge.task = 1 << 30
            }),
            ("outlets[0]: storage", |t| {
                t.graphs[0].outlets[0].storage = 1 << 30
            }),
            ("inlets[1]: a part outside", |t| {
                t.graphs[0].inlets[1].shape = dahl_core::Shape::SCALAR
            }),
            ("ns of all units", |t| t.end = 1 << 61),
            ("ns of all transfers", |t| {
                t.transfers.iter_mut().for_each(|t| t.end = 1 << 59)
            }),
            ("bytes of all transfers", |t| t.transfers[0].bytes = 1 << 63),
            ("does not come later", |t| t.graphs[0].successors[0] = 0),
            ("table of successors", |t| {
                t.graphs[0].successor_start[1] = 1 << 30
            }),
        ];
        for (says, spoil) in cases {
            let mut trace = synthetic(400, 4, 1);
            assert_eq!(check(&trace), Ok(()));
            spoil(&mut trace);
            let problem = check(&trace).expect_err(says);
            assert!(problem.contains(says), "{says}: {problem}");
        }
    }
}
