//! Traces in files.
//!
//! A file is the eight bytes `DAHLTRC\n`, a version, a number of sections, and the sections (see
//! `container`): each compressed, with a checksum. Names stand in two kinds of JSON sections: what made
//! the trace with its units and memories, and the names of each graph. All that is numerous, such as
//! the tasks that ran, stands in columns of small numbers (`columns`, `tables`).
//!
//! Reading trusts nothing: lengths are compared with the bytes that are there before anything is
//! allocated, checksums catch accidents, and [`crate::check`] catches what was made wrong on purpose.

mod columns;
mod container;
mod tables;

use std::io::{self, Write};
use std::path::Path;

use dahl_core::trace::{
    Nanos, Trace, TraceClass, TraceGraph, TraceMemory, TraceNode, TraceStorage, TraceUnit,
};
use serde::{Deserialize, Serialize};

use container::{Reader, Section};

/// Why a trace could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file could not be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is something else.
    #[error("not a trace: it does not begin as one; `dahl train --trace FILE` writes traces")]
    NotATrace,
    /// The file is of another version of DAHL.
    #[error(
        "a trace of format version {found}, and this program knows version {known}; \
         record it again, or use the program that wrote it"
    )]
    Version {
        /// The file's.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The bytes are not those that were written.
    #[error("damaged at byte {at}, {place}: {problem}; copy or record it again")]
    Damaged {
        /// Where, in bytes from the file's begin.
        at: usize,
        /// In which section.
        place: String,
        /// What is wrong there.
        problem: String,
    },
    /// What the trace says cannot be.
    #[error("an impossible trace: {0}")]
    Impossible(String),
}

/// Everything but graphs and events.
#[derive(Serialize, Deserialize)]
struct Head {
    about: Vec<(String, String)>,
    simulated: bool,
    nodes: Vec<TraceNode>,
    units: Vec<TraceUnit>,
    memories: Vec<TraceMemory>,
    domains: Vec<String>,
    dropped: u64,
    end: Nanos,
    graphs: u32,
}

/// The part of a graph that has names.
#[derive(Serialize, Deserialize)]
struct Names {
    fingerprint: u64,
    sections: Vec<String>,
    classes: Vec<TraceClass>,
    storages: Vec<TraceStorage>,
}

/// Writes a trace; refuses one that [`read`] would refuse.
pub fn write(trace: &Trace, mut out: impl Write) -> Result<(), TraceError> {
    crate::check(trace).map_err(TraceError::Impossible)?;
    let head = Head {
        about: trace.about.clone(),
        simulated: trace.simulated,
        nodes: trace.nodes.clone(),
        units: trace.units.clone(),
        memories: trace.memories.clone(),
        domains: trace.domains.clone(),
        dropped: trace.dropped,
        end: trace.end,
        graphs: trace.graphs.len() as u32,
    };
    container::begin(&mut out, 7 + 2 * trace.graphs.len() as u32)?;
    container::put(&mut out, Section::Head, &json(&head)?)?;
    for g in &trace.graphs {
        let names = Names {
            fingerprint: g.fingerprint,
            sections: g.sections.clone(),
            classes: g.classes.clone(),
            storages: g.storages.clone(),
        };
        container::put(&mut out, Section::GraphNames, &json(&names)?)?;
        container::put(&mut out, Section::Graph, &tables::graph(g))?;
    }
    container::put(
        &mut out,
        Section::Launches,
        &tables::launches(&trace.launches),
    )?;
    container::put(&mut out, Section::Tasks, &tables::tasks(&trace.tasks))?;
    container::put(
        &mut out,
        Section::Transfers,
        &tables::transfers(&trace.transfers),
    )?;
    container::put(
        &mut out,
        Section::Messages,
        &tables::messages(&trace.messages),
    )?;
    container::put(&mut out, Section::Memory, &tables::memory(&trace.memory))?;
    container::put(&mut out, Section::Power, &tables::power(&trace.power))?;
    out.flush()?;
    Ok(())
}

/// Writes a trace to a file, whole or not at all.
pub fn save(trace: &Trace, path: &Path) -> Result<(), TraceError> {
    let mut refused = None;
    let result = dahl_core::file::write_atomically(path, |out| match write(trace, out) {
        Ok(()) => Ok(()),
        Err(TraceError::Io(e)) => Err(e),
        Err(other) => {
            refused = Some(other);
            Err(io::Error::other("refused"))
        }
    });
    match refused {
        Some(problem) => Err(problem),
        None => Ok(result?),
    }
}

/// Reads a trace from the bytes of a file.
pub fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
    let mut file = Reader::new(bytes)?;
    let head: Head = file.json(Section::Head)?;
    let mut trace = Trace {
        about: head.about,
        simulated: head.simulated,
        nodes: head.nodes,
        units: head.units,
        memories: head.memories,
        domains: head.domains,
        dropped: head.dropped,
        end: head.end,
        ..Trace::default()
    };
    for _ in 0..head.graphs {
        let names: Names = file.json(Section::GraphNames)?;
        let graph = TraceGraph {
            fingerprint: names.fingerprint,
            sections: names.sections,
            classes: names.classes,
            storages: names.storages,
            ..TraceGraph::default()
        };
        trace
            .graphs
            .push(file.table(Section::Graph, |c| tables::read_graph(c, graph))?);
    }
    trace.launches = file.table(Section::Launches, tables::read_launches)?;
    trace.tasks = file.table(Section::Tasks, tables::read_tasks)?;
    trace.transfers = file.table(Section::Transfers, tables::read_transfers)?;
    trace.messages = file.table(Section::Messages, tables::read_messages)?;
    trace.memory = file.table(Section::Memory, tables::read_memory)?;
    trace.power = file.table(Section::Power, tables::read_power)?;
    file.finish()?;
    crate::check(&trace).map_err(TraceError::Impossible)?;
    Ok(trace)
}

/// Reads a trace from a file.
pub fn load(path: &Path) -> Result<Trace, TraceError> {
    read(&dahl_core::file::read_bytes(path)?)
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, TraceError> {
    serde_json::to_vec(value).map_err(|e| TraceError::Impossible(e.to_string()))
}
