//! Comma-separated values, one line a task and one a transfer (RFC 4180; the first line names the
//! columns). Samples of memory and power, and the graph's edges, are left out.

use std::borrow::Cow;
use std::io::{self, Write};

use dahl_core::trace::{NOBODY, TaskId, Trace};

use super::regions;

const COLUMNS: &str = "kind,step,launch,task,codelet,implementation,layer,unit,ready_ns,taken_ns,\
                       start_ns,end_ns,duration_ns,released_by_launch,released_by_task,from,to,bytes,\
                       ahead,carries,asked_bytes,parts,parts_wanted,batch,regions";

/// Writes a trace as CSV.
pub fn write(trace: &Trace, mut out: impl Write) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")?;
    let mut texts: Vec<Vec<Option<String>>> = trace
        .graphs
        .iter()
        .map(|g| vec![None; g.tasks.len()])
        .collect();
    for t in &trace.tasks {
        let launch = trace.launches[t.id.launch as usize];
        let graph = &trace.graphs[launch.graph as usize];
        let text = texts[launch.graph as usize][t.id.task as usize]
            .get_or_insert_with(|| cell(&regions(graph, t.id.task)).into_owned());
        writeln!(
            out,
            "task,{},{},{},{},{},{},{},{},{},{},{},{},{},,,,,,,,,,{text}",
            launch.step,
            t.id.launch,
            t.id.task,
            cell(&trace.class_of(t.id).codelet),
            cell(trace.implementation_of(t)),
            cell(trace.section_of(t.id)),
            cell(&trace.units[usize::from(t.unit)].name),
            t.ready,
            t.taken,
            t.start,
            t.end,
            t.end - t.start,
            task_cells(t.released_by),
        )?;
    }
    for t in &trace.transfers {
        let step = match t.for_task.task {
            NOBODY => String::new(),
            _ => trace.launches[t.for_task.launch as usize].step.to_string(),
        };
        let node = |m: u16| trace.memories[usize::from(m)].node;
        let kind = if node(t.from) == node(t.to) {
            "transfer"
        } else {
            "message"
        };
        let memory = |m: u16| cell(&trace.memories[usize::from(m)].name);
        writeln!(
            out,
            "{kind},{step},{},,,,,,,{},{},{},,,{},{},{},{},{},{},{},{},{},",
            task_cells(t.for_task),
            t.start,
            t.end,
            t.end - t.start,
            memory(t.from),
            memory(t.to),
            t.bytes,
            t.ahead,
            t.load.choice(),
            t.load.asked,
            t.load.parts,
            t.load.wanted,
            t.batch,
        )?;
    }
    out.flush()
}

/// Launch and task, or two empty cells.
fn task_cells(id: TaskId) -> String {
    match id.task {
        NOBODY => ",".into(),
        task => format!("{},{task}", id.launch),
    }
}

fn cell(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}
