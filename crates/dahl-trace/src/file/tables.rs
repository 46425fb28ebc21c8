//! Which columns each table has. What is written and what is read stand next to each other.
//!
//! Times of a task are kept as differences: its start from the start before, everything else from its
//! neighbour in time, so that most take one to three bytes.

use dahl_core::graph::deps::Edge;
use dahl_core::region::Region;
use dahl_core::trace::{
    Launch, Load, MemorySample, MessageRun, PowerSample, TaskId, TaskRun, TraceAccess, TraceEnd,
    TraceGraph, TraceMessage, TraceTask, Transfer,
};
use dahl_core::{Mode, Shape};

use super::columns::{Columns, Table};

type Read<T> = Result<T, String>;

const MODES: [Mode; 4] = [Mode::Read, Mode::Write, Mode::ReadWrite, Mode::Reduce];
const NO_TASK: TaskId = TaskId { launch: 0, task: 0 };

/// The tasks, accesses and edges of a graph.
pub(super) fn graph(g: &TraceGraph) -> Vec<u8> {
    let mut t = Table::default();
    t.rows(g.tasks.len(), 6);
    t.near(g.tasks.iter().map(|x| x.class.into()));
    t.near(g.tasks.iter().map(|x| x.section.into()));
    t.near(g.tasks.iter().map(|x| x.first_access.into()));
    t.plain(g.tasks.iter().map(|x| x.access_count.into()));
    // Shifted, so that there are no negative ones.
    t.near(
        g.tasks
            .iter()
            .map(|x| (i64::from(x.priority) - i64::from(i32::MIN)) as u64),
    );
    t.rows(g.accesses.len(), 12);
    t.near(g.accesses.iter().map(|x| x.storage.into()));
    let mode = |m: Mode| MODES.iter().position(|x| *x == m).unwrap_or(0) as u64;
    t.plain(g.accesses.iter().map(|x| mode(x.mode)));
    for axis in 0..4 {
        t.near(g.accesses.iter().map(|x| x.region.start()[axis] as u64));
        t.plain(g.accesses.iter().map(|x| x.region.dims4()[axis] as u64));
    }
    t.rows(g.successor_start.len(), 1);
    t.near(g.successor_start.iter().map(|&x| x.into()));
    t.rows(g.successors.len(), 2);
    t.near(g.successors.iter().map(|&x| x.into()));
    ends(&mut t, &g.inlets);
    ends(&mut t, &g.outlets);
    t.rows(g.messages.len(), 8);
    t.near(g.messages.iter().map(|x| x.task.into()));
    t.near(g.messages.iter().map(|x| x.transfer.into()));
    t.plain(g.messages.iter().map(|x| x.peer.into()));
    t.plain(g.messages.iter().map(|x| x.sends.into()));
    t.plain(g.messages.iter().map(|x| x.bytes));
    t.done()
}

fn ends(t: &mut Table, rows: &[TraceEnd]) {
    t.rows(rows.len(), 15);
    t.near(rows.iter().map(|x| x.storage.into()));
    t.near(rows.iter().map(|x| x.edge.task.into()));
    t.plain(rows.iter().map(|x| x.edge.writes.into()));
    t.plain(rows.iter().map(|x| x.shape.rank() as u64));
    for axis in 0..4 {
        t.near(rows.iter().map(|x| x.shape.dims4()[axis] as u64));
        t.near(rows.iter().map(|x| x.edge.region.start()[axis] as u64));
        t.plain(rows.iter().map(|x| x.edge.region.dims4()[axis] as u64));
    }
}

fn read_ends(c: &mut Columns) -> Read<Vec<TraceEnd>> {
    // Storage, task, whether it writes, rank, extents, start and length.
    type Row = (u32, u32, bool, u8, [u32; 4], [u32; 4], [u32; 4]);
    let mut rows: Vec<Row> = vec![Default::default(); c.rows(16)?];
    c.near(&mut rows, |x, v| x.0 = v)?;
    c.near(&mut rows, |x, v| x.1 = v)?;
    c.plain(&mut rows, |x, v: u8| x.2 = v != 0)?;
    c.plain(&mut rows, |x, v| x.3 = v)?;
    for axis in 0..4 {
        c.near(&mut rows, |x, v| x.4[axis] = v)?;
        c.near(&mut rows, |x, v| x.5[axis] = v)?;
        c.plain(&mut rows, |x, v| x.6[axis] = v)?;
    }
    let end = |(storage, task, writes, rank, extents, start, length): Row| {
        let extents = extents.map(|x| x as usize);
        let axes = extents.len().checked_sub(usize::from(rank));
        let axes = axes.ok_or("a shape of more than four axes")?;
        Ok(TraceEnd {
            storage,
            shape: Shape::new(&extents[axes..]).map_err(|e| e.to_string())?,
            edge: Edge {
                task,
                region: region(start, length)?,
                writes,
            },
        })
    };
    rows.into_iter().map(end).collect()
}

fn region(start: [u32; 4], length: [u32; 4]) -> Read<Region> {
    let start = start.map(|x| x as usize);
    let end = std::array::from_fn(|a| start[a] + length[a] as usize);
    Region::new(start, end).ok_or_else(|| "an impossible region".into())
}

/// Reads what [`graph`] wrote.
pub(super) fn read_graph(c: &mut Columns, mut g: TraceGraph) -> Read<TraceGraph> {
    let task = TraceTask {
        class: 0,
        section: 0,
        first_access: 0,
        access_count: 0,
        priority: 0,
    };
    g.tasks = vec![task; c.rows(5)?];
    c.near(&mut g.tasks, |x, v| x.class = v)?;
    c.near(&mut g.tasks, |x, v| x.section = v)?;
    c.near(&mut g.tasks, |x, v| x.first_access = v)?;
    c.plain(&mut g.tasks, |x, v| x.access_count = v)?;
    c.near(&mut g.tasks, |x, v: u32| {
        x.priority = (i64::from(v) + i64::from(i32::MIN)) as i32
    })?;
    // Storage, mode, starts and lengths.
    let mut rows = vec![(0u32, 0u8, [0u32; 4], [0u32; 4]); c.rows(10)?];
    c.near(&mut rows, |x, v| x.0 = v)?;
    c.plain(&mut rows, |x, v| x.1 = v)?;
    for axis in 0..4 {
        c.near(&mut rows, |x, v| x.2[axis] = v)?;
        c.plain(&mut rows, |x, v| x.3[axis] = v)?;
    }
    g.accesses = rows
        .into_iter()
        .map(|(storage, mode, start, length)| {
            Ok(TraceAccess {
                storage,
                mode: *MODES
                    .get(usize::from(mode))
                    .ok_or("an unknown access mode")?,
                region: region(start, length)?,
            })
        })
        .collect::<Read<_>>()?;
    g.successor_start = vec![0; c.rows(1)?];
    c.near(&mut g.successor_start, |x, v| *x = v)?;
    g.successors = vec![0; c.rows(1)?];
    c.near(&mut g.successors, |x, v| *x = v)?;
    g.inlets = read_ends(c)?;
    g.outlets = read_ends(c)?;
    let message = TraceMessage {
        task: 0,
        transfer: 0,
        peer: 0,
        sends: false,
        bytes: 0,
    };
    g.messages = vec![message; c.rows(5)?];
    c.near(&mut g.messages, |x, v| x.task = v)?;
    c.near(&mut g.messages, |x, v| x.transfer = v)?;
    c.plain(&mut g.messages, |x, v| x.peer = v)?;
    c.plain(&mut g.messages, |x, v: u8| x.sends = v != 0)?;
    c.plain(&mut g.messages, |x, v| x.bytes = v)?;
    Ok(g)
}

pub(super) fn launches(rows: &[Launch]) -> Vec<u8> {
    let mut t = Table::default();
    t.rows(rows.len(), 6);
    t.near(rows.iter().map(|x| x.step));
    t.near(rows.iter().map(|x| x.graph.into()));
    t.near(rows.iter().map(|x| x.at));
    t.plain(rows.iter().map(|x| x.node.into()));
    t.done()
}

/// Reads what [`launches`] wrote.
pub(super) fn read_launches(c: &mut Columns) -> Read<Vec<Launch>> {
    let empty = Launch {
        step: 0,
        graph: 0,
        at: 0,
        node: 0,
    };
    let mut rows = vec![empty; c.rows(4)?];
    c.near(&mut rows, |x, v| x.step = v)?;
    c.near(&mut rows, |x, v| x.graph = v)?;
    c.near(&mut rows, |x, v| x.at = v)?;
    c.plain(&mut rows, |x, v| x.node = v)?;
    Ok(rows)
}

/// The tasks that ran.
pub(super) fn tasks(rows: &[TaskRun]) -> Vec<u8> {
    let mut t = Table::default();
    t.rows(rows.len(), 23);
    t.near(rows.iter().map(|x| x.id.launch.into()));
    t.near(rows.iter().map(|x| x.id.task.into()));
    t.near(rows.iter().map(|x| x.released_by.launch.into()));
    t.near(rows.iter().map(|x| x.released_by.task.into()));
    t.plain(rows.iter().map(|x| x.unit.into()));
    t.near(rows.iter().map(|x| x.start));
    t.plain(rows.iter().map(|x| x.end - x.start));
    t.plain(rows.iter().map(|x| x.start - x.taken));
    t.plain(rows.iter().map(|x| x.taken - x.ready));
    t.plain(rows.iter().map(|x| x.fell_back.into()));
    t.done()
}

/// Reads what [`tasks`] wrote.
pub(super) fn read_tasks(c: &mut Columns) -> Read<Vec<TaskRun>> {
    let empty = TaskRun {
        id: NO_TASK,
        released_by: NO_TASK,
        unit: 0,
        ready: 0,
        taken: 0,
        start: 0,
        end: 0,
        fell_back: false,
    };
    let mut rows = vec![empty; c.rows(10)?];
    c.near(&mut rows, |x, v| x.id.launch = v)?;
    c.near(&mut rows, |x, v| x.id.task = v)?;
    c.near(&mut rows, |x, v| x.released_by.launch = v)?;
    c.near(&mut rows, |x, v| x.released_by.task = v)?;
    c.plain(&mut rows, |x, v| x.unit = v)?;
    c.near(&mut rows, |x, v| x.start = v)?;
    // Wrapped times are out of order, which the check finds.
    c.plain(&mut rows, |x, v: u64| x.end = x.start.wrapping_add(v))?;
    c.plain(&mut rows, |x, v: u64| x.taken = x.start.wrapping_sub(v))?;
    c.plain(&mut rows, |x, v: u64| x.ready = x.taken.wrapping_sub(v))?;
    c.plain(&mut rows, |x, v: u8| x.fell_back = v != 0)?;
    Ok(rows)
}

pub(super) fn transfers(rows: &[Transfer]) -> Vec<u8> {
    let mut t = Table::default();
    t.rows(rows.len(), 24);
    t.plain(rows.iter().map(|x| x.from.into()));
    t.plain(rows.iter().map(|x| x.to.into()));
    t.plain(rows.iter().map(|x| x.bytes));
    t.near(rows.iter().map(|x| x.for_task.launch.into()));
    t.near(rows.iter().map(|x| x.for_task.task.into()));
    t.plain(rows.iter().map(|x| x.ahead.into()));
    t.plain(rows.iter().map(|x| x.load.asked));
    t.plain(rows.iter().map(|x| x.load.parts.into()));
    t.plain(rows.iter().map(|x| x.load.wanted.into()));
    t.plain(rows.iter().map(|x| x.load.whole.into()));
    t.plain(rows.iter().map(|x| x.batch.into()));
    t.near(rows.iter().map(|x| x.start));
    t.plain(rows.iter().map(|x| x.end - x.start));
    t.done()
}

/// Reads what [`transfers`] wrote.
pub(super) fn read_transfers(c: &mut Columns) -> Read<Vec<Transfer>> {
    let empty = Transfer {
        from: 0,
        to: 0,
        bytes: 0,
        for_task: NO_TASK,
        ahead: false,
        load: Load::asked(0),
        batch: 1,
        start: 0,
        end: 0,
    };
    let mut rows = vec![empty; c.rows(13)?];
    c.plain(&mut rows, |x, v| x.from = v)?;
    c.plain(&mut rows, |x, v| x.to = v)?;
    c.plain(&mut rows, |x, v| x.bytes = v)?;
    c.near(&mut rows, |x, v| x.for_task.launch = v)?;
    c.near(&mut rows, |x, v| x.for_task.task = v)?;
    c.plain(&mut rows, |x, v: u8| x.ahead = v != 0)?;
    c.plain(&mut rows, |x, v| x.load.asked = v)?;
    c.plain(&mut rows, |x, v| x.load.parts = v)?;
    c.plain(&mut rows, |x, v| x.load.wanted = v)?;
    c.plain(&mut rows, |x, v: u8| x.load.whole = v != 0)?;
    c.plain(&mut rows, |x, v| x.batch = v)?;
    c.near(&mut rows, |x, v| x.start = v)?;
    c.plain(&mut rows, |x, v: u64| x.end = x.start.wrapping_add(v))?;
    Ok(rows)
}

/// The ends of messages.
pub(super) fn messages(rows: &[MessageRun]) -> Vec<u8> {
    let mut t = Table::default();
    t.rows(rows.len(), 8);
    t.near(rows.iter().map(|x| x.id.launch.into()));
    t.near(rows.iter().map(|x| x.id.task.into()));
    t.near(rows.iter().map(|x| x.start));
    t.plain(rows.iter().map(|x| x.end - x.start));
    t.done()
}

/// Reads what [`messages`] wrote.
pub(super) fn read_messages(c: &mut Columns) -> Read<Vec<MessageRun>> {
    let empty = MessageRun {
        id: NO_TASK,
        start: 0,
        end: 0,
    };
    let mut rows = vec![empty; c.rows(4)?];
    c.near(&mut rows, |x, v| x.id.launch = v)?;
    c.near(&mut rows, |x, v| x.id.task = v)?;
    c.near(&mut rows, |x, v| x.start = v)?;
    c.plain(&mut rows, |x, v: u64| x.end = x.start.wrapping_add(v))?;
    Ok(rows)
}

/// The memory samples.
pub(super) fn memory(rows: &[MemorySample]) -> Vec<u8> {
    let mut t = Table::default();
    t.rows(rows.len(), 8);
    t.near(rows.iter().map(|x| x.at));
    t.plain(rows.iter().map(|x| x.memory.into()));
    t.near(rows.iter().map(|x| x.bytes));
    t.done()
}

/// Reads what [`memory`] wrote.
pub(super) fn read_memory(c: &mut Columns) -> Read<Vec<MemorySample>> {
    let empty = MemorySample {
        at: 0,
        memory: 0,
        bytes: 0,
    };
    let mut rows = vec![empty; c.rows(3)?];
    c.near(&mut rows, |x, v| x.at = v)?;
    c.plain(&mut rows, |x, v| x.memory = v)?;
    c.near(&mut rows, |x, v| x.bytes = v)?;
    Ok(rows)
}

/// The power samples.
pub(super) fn power(rows: &[PowerSample]) -> Vec<u8> {
    let mut t = Table::default();
    t.rows(rows.len(), 14);
    t.near(rows.iter().map(|x| x.at));
    t.plain(rows.iter().map(|x| x.domain.into()));
    t.wide(rows.iter().map(|x| x.watts));
    t.done()
}

/// Reads what [`power`] wrote.
pub(super) fn read_power(c: &mut Columns) -> Read<Vec<PowerSample>> {
    let empty = PowerSample {
        at: 0,
        domain: 0,
        watts: 0.0,
    };
    let mut rows = vec![empty; c.rows(10)?];
    c.near(&mut rows, |x, v| x.at = v)?;
    c.plain(&mut rows, |x, v| x.domain = v)?;
    c.wide(&mut rows, |x, v| x.watts = v)?;
    Ok(rows)
}
