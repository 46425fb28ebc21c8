//! Traces for other tools: Perfetto, ViTE and pj_dump (Paje), spreadsheets (CSV), Graphviz (DOT).
//!
//! Each format is one function from a trace to a writer. Times are kept to the nanosecond in all of
//! them, so that sums of task times are the same everywhere. What a format cannot say is left out, never
//! approximated; each module says what that is.

mod colour;
pub mod csv;
pub mod dot;
mod events;
pub mod paje;
pub mod perfetto;
mod protobuf;

use dahl_core::Mode;
use dahl_core::trace::TraceGraph;

/// What a task touches, for people: `read x[0..4], write y[0..4]`.
pub fn regions(graph: &TraceGraph, task: u32) -> String {
    let mut text = String::new();
    for a in graph.accesses_of(task) {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(match a.mode {
            Mode::Read => "read ",
            Mode::Write => "write ",
            Mode::ReadWrite => "read-write ",
            Mode::Reduce => "reduce ",
        });
        text.push_str(&graph.storages[a.storage as usize].name);
        text.push_str(&a.region.to_string());
    }
    text
}
