//! The executed tasks of one launch as a graph for Graphviz: coloured by codelet, with their times, the
//! launch's critical path bold. Other launches, and dependencies on them, are left out.

use std::io::{self, Write};

use dahl_core::Seconds;
use dahl_core::trace::{TaskRun, Trace};

use super::colour;
use crate::Index;
use crate::summary::critical::critical_path;

/// The launch to draw: that of a step, or the one that shows most, the first of those of which the most tasks ran. It is
/// refused if it has more tasks than anybody can read.
pub fn launch(trace: &Trace, step: Option<u64>, limit: usize) -> Result<u32, String> {
    let index = Index::of(trace);
    let size = |l: &u32| index.of_launch(*l).len();
    let launches = (0..trace.launches.len() as u32).rev();
    let Some(fullest) = launches.max_by_key(size).filter(|l| size(l) > 0) else {
        return Err("the trace has no tasks, so there is nothing to draw".into());
    };
    let of = |step| trace.launches.iter().position(|l| l.step == step);
    let launch = match step.map(|step| of(step).ok_or(step)) {
        None => fullest,
        Some(Ok(launch)) => launch as u32,
        Some(Err(step)) => {
            let steps = || trace.launches.iter().map(|l| l.step);
            let (first, last) = (steps().min().unwrap_or(0), steps().max().unwrap_or(0));
            return Err(format!(
                "the trace has no step {step}: its steps are {first} to {last}"
            ));
        }
    };
    match size(&launch) {
        tasks if tasks > limit => Err(format!(
            "{tasks} tasks would make no readable drawing; raise --limit (now {limit}) to get it"
        )),
        _ => Ok(launch),
    }
}

/// Writes the graph of a launch's tasks.
pub fn write(trace: &Trace, launch: u32, mut out: impl Write) -> io::Result<()> {
    let alone = only(trace, launch);
    let index = Index::of(&alone);
    let path = critical_path(&alone, &index);
    let step = trace.launches[launch as usize].step;
    let task = |r: u32| -> &TaskRun { &alone.tasks[r as usize] };
    // What follows each run on the critical path; the last is followed by nobody.
    let mut next = vec![None; alone.tasks.len()];
    for (i, &r) in path.runs.iter().enumerate() {
        next[r as usize] = Some(path.runs.get(i + 1));
    }

    writeln!(out, "digraph dahl {{")?;
    let title = format!(
        "step {step}: {} tasks, critical path {}",
        alone.tasks.len(),
        time(path.length_ns)
    );
    // Rust's quoting of texts is that of DOT as far as quotes, backslashes and line breaks go.
    writeln!(out, "  label={title:?}; labelloc=t;")?;
    writeln!(
        out,
        "  node [shape=box, style=filled, fontname=\"sans-serif\"];"
    )?;
    for &r in index.by_task() {
        let t = task(r);
        let codelet = &trace.class_of(t.id).codelet;
        let [red, green, blue] = colour::of(codelet);
        let label = format!(
            "{codelet} #{}\n{}\n{} on {}\nfrom {}",
            t.id.task,
            trace.section_of(t.id),
            time(t.end - t.start),
            trace.units[usize::from(t.unit)].name,
            time(t.start),
        );
        let width = if next[r as usize].is_some() { 3 } else { 1 };
        writeln!(
            out,
            "  t{} [label={label:?}, fillcolor=\"#{red:02x}{green:02x}{blue:02x}\", \
             penwidth={width}];",
            t.id.task
        )?;
    }
    for (a, b) in index.edges(&alone) {
        let on_path = next[a as usize] == Some(Some(&b));
        let style = if on_path { " [penwidth=3]" } else { "" };
        writeln!(
            out,
            "  t{} -> t{}{style};",
            task(a).id.task,
            task(b).id.task
        )?;
    }
    writeln!(out, "}}")?;
    out.flush()
}

/// A trace with the tasks of one launch only.
fn only(trace: &Trace, launch: u32) -> Trace {
    Trace {
        units: trace.units.clone(),
        memories: trace.memories.clone(),
        graphs: trace.graphs.clone(),
        launches: trace.launches.clone(),
        tasks: trace
            .tasks
            .iter()
            .filter(|t| t.id.launch == launch)
            .copied()
            .collect(),
        ..Trace::default()
    }
}

fn time(nanos: u64) -> Seconds {
    Seconds(nanos as f64 * 1e-9)
}
