//! Paje, which ViTE shows and `pj_dump` of PajeNG turns into tables (L. Schnorr, "Paje trace file
//! format").
//!
//! Containers: the program, its units, its memories and its meters; of a cluster also its nodes, which have the units
//! and memories. A state of a unit is a task, with
//! its codelet as value; layer, implementation, step and number are extra fields. A transfer is a link
//! between memories, a dependency that made a task ready on another unit a link between units. Memory
//! and power are variables. Times are seconds with nine digits.
//!
//! Left out: dependencies that were satisfied before the last one, or on the same unit, which in ViTE
//! would cover everything else.

use std::collections::HashMap;
use std::io::{self, Write};

use dahl_core::trace::{Nanos, Trace};

use super::colour;
use super::events::{self, What};
use crate::Index;

/// The definitions of events, with the numbers used below.
const HEADER: &str = "\
%EventDef PajeDefineContainerType 0
% Alias string
% Type string
% Name string
%EndEventDef
%EventDef PajeDefineStateType 1
% Alias string
% Type string
% Name string
%EndEventDef
%EventDef PajeDefineVariableType 2
% Alias string
% Type string
% Name string
% Color color
%EndEventDef
%EventDef PajeDefineLinkType 3
% Alias string
% Type string
% StartContainerType string
% EndContainerType string
% Name string
%EndEventDef
%EventDef PajeDefineEntityValue 4
% Alias string
% Type string
% Name string
% Color color
%EndEventDef
%EventDef PajeCreateContainer 5
% Time date
% Alias string
% Type string
% Container string
% Name string
%EndEventDef
%EventDef PajeDestroyContainer 6
% Time date
% Name string
% Type string
%EndEventDef
%EventDef PajePushState 7
% Time date
% Type string
% Container string
% Value string
% Layer string
% Implementation string
% Step int
% Task int
%EndEventDef
%EventDef PajePopState 8
% Time date
% Type string
% Container string
%EndEventDef
%EventDef PajeSetVariable 9
% Time date
% Type string
% Container string
% Value double
%EndEventDef
%EventDef PajeStartLink 10
% Time date
% Type string
% Container string
% Value string
% StartContainer string
% Key string
%EndEventDef
%EventDef PajeEndLink 11
% Time date
% Type string
% Container string
% Value string
% EndContainer string
% Key string
%EndEventDef
0 P 0 \"Program\"
0 W P \"Meter\"
";

/// What is inside what, on one node and on several.
const ONE: &str = "\
0 U P \"Unit\"
0 M P \"Memory\"
";
const SEVERAL: &str = "\
0 N P \"Node\"
0 U N \"Unit\"
0 M N \"Memory\"
";

/// What containers can show.
const SHOWN: &str = "\
1 T U \"Task\"
2 B M \"Bytes\" \"0.4 0.6 0.9\"
2 J W \"Watts\" \"0.9 0.5 0.3\"
3 X P M M \"Transfer\"
3 D P U U \"Release\"
";

/// Writes a trace in the Paje format.
pub fn write(trace: &Trace, mut out: impl Write) -> io::Result<()> {
    let index = Index::of(trace);
    let inside = if trace.nodes.len() > 1 { SEVERAL } else { ONE };
    out.write_all([HEADER, inside, SHOWN].concat().as_bytes())?;
    let codelets = values(trace, &mut out)?;
    containers(trace, &mut out)?;
    for (at, what) in events(trace, &index) {
        let at = Time(at);
        match what {
            Line::Happened(What::TaskBegin(r)) => {
                let t = &trace.tasks[r as usize];
                writeln!(
                    out,
                    "7 {at} T u{} {} {} {} {} {}",
                    t.unit,
                    codelets[trace.class_of(t.id).codelet.as_str()],
                    Quoted(trace.section_of(t.id)),
                    Quoted(trace.implementation_of(t)),
                    trace.launches[t.id.launch as usize].step,
                    t.id.task
                )?;
            }
            Line::Happened(What::TaskEnd(r)) => {
                writeln!(out, "8 {at} T u{}", trace.tasks[r as usize].unit)?;
            }
            Line::Happened(What::WaitBegin(unit)) => {
                writeln!(out, "7 {at} T u{unit} wait \"\" \"\" 0 0")?;
            }
            Line::Happened(What::WaitEnd(unit)) => writeln!(out, "8 {at} T u{unit}")?,
            Line::Happened(What::TransferBegin(i)) => {
                let t = &trace.transfers[i as usize];
                let value = if t.ahead { "ahead" } else { "copy" };
                writeln!(out, "10 {at} X p {value} m{} x{i}", t.from)?;
            }
            Line::Happened(What::TransferEnd(i)) => {
                let t = &trace.transfers[i as usize];
                let value = if t.ahead { "ahead" } else { "copy" };
                writeln!(out, "11 {at} X p {value} m{} x{i}", t.to)?;
            }
            Line::Happened(What::Memory(m, bytes)) => writeln!(out, "9 {at} B m{m} {bytes}")?,
            Line::Happened(What::Power(d, watts)) => writeln!(out, "9 {at} J w{d} {watts}")?,
            Line::Released(by, r) => {
                let unit = trace.tasks[by as usize].unit;
                writeln!(out, "10 {at} D p released u{unit} d{r}")?;
            }
            Line::Reached(r) => {
                let unit = trace.tasks[r as usize].unit;
                writeln!(out, "11 {at} D p released u{unit} d{r}")?;
            }
        }
    }
    let end = Time(crate::summary::extent(trace).1.max(trace.end));
    writeln!(out, "6 {end} p P")?;
    out.flush()
}

/// A value for each codelet; gives their names in the file.
fn values<'a>(trace: &'a Trace, out: &mut impl Write) -> io::Result<HashMap<&'a str, String>> {
    let mut codelets = HashMap::new();
    for class in trace.graphs.iter().flat_map(|g| &g.classes) {
        let name = class.codelet.as_str();
        let number = codelets.len();
        if codelets.contains_key(name) {
            continue;
        }
        codelets.insert(name, format!("c{number}"));
        let [r, g, b] = colour::of(name).map(|c| f64::from(c) / 255.0);
        writeln!(
            out,
            "4 c{number} T {} \"{r:.3} {g:.3} {b:.3}\"",
            Quoted(name)
        )?;
    }
    if !trace.messages.is_empty() {
        writeln!(out, "4 wait T \"waiting for messages\" \"0.85 0.85 0.85\"")?;
    }
    Ok(codelets)
}

fn containers(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let start = Time(0);
    writeln!(out, "5 {start} p P 0 dahl")?;
    let several = trace.nodes.len() > 1;
    if several {
        for (i, n) in trace.nodes.iter().enumerate() {
            writeln!(out, "5 {start} n{i} N p {}", Quoted(&n.name))?;
        }
    }
    let inside = |node: u16| match several {
        true => format!("n{node}"),
        false => "p".into(),
    };
    for (i, u) in trace.units.iter().enumerate() {
        let inside = inside(trace.node_of(i as u16));
        writeln!(out, "5 {start} u{i} U {inside} {}", Quoted(&u.name))?;
    }
    for (i, m) in trace.memories.iter().enumerate() {
        let name = format!("memory {}", m.name);
        writeln!(out, "5 {start} m{i} M {} {}", inside(m.node), Quoted(&name))?;
    }
    for (i, d) in trace.domains.iter().enumerate() {
        writeln!(out, "5 {start} w{i} W p {}", Quoted(d))?;
    }
    Ok(())
}

/// A line of the file.
#[derive(Clone, Copy)]
enum Line {
    Happened(What),
    /// A run released another, on another unit.
    Released(u32, u32),
    /// The other began.
    Reached(u32),
}

/// What happened, by time, with the releases from unit to unit.
fn events(trace: &Trace, index: &Index) -> Vec<(Nanos, Line)> {
    let mut lines: Vec<(Nanos, Line)> = events::by_time(trace, index)
        .into_iter()
        .map(|(at, what)| (at, Line::Happened(what)))
        .collect();
    for (r, t) in trace.tasks.iter().enumerate() {
        let Some(by) = index.find(trace, t.released_by) else {
            continue;
        };
        let from = &trace.tasks[by as usize];
        if from.unit != t.unit && from.end <= t.start {
            lines.push((from.end, Line::Released(by, r as u32)));
            lines.push((t.start, Line::Reached(r as u32)));
        }
    }
    lines.sort_by_key(|l| l.0);
    lines
}

/// Seconds, to the nanosecond.
struct Time(Nanos);

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}.{:09}",
            self.0 / 1_000_000_000,
            self.0 % 1_000_000_000
        )
    }
}

/// A text in quotes, which Paje cannot escape: what would end it early is replaced, and so are commas,
/// which would end a cell in the tables of `pj_dump`.
struct Quoted<'a>(&'a str);

impl std::fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use std::fmt::Write;
        f.write_char('"')?;
        for c in self.0.chars() {
            f.write_char(match c {
                '"' => '\'',
                ',' => ';',
                c if c.is_control() => ' ',
                c => c,
            })?;
        }
        f.write_char('"')
    }
}
