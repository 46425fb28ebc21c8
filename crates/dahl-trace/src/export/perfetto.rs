//! Perfetto's own format: a stream of `TracePacket`s (protos/perfetto/trace in Perfetto's sources).
//!
//! A process for each node; a thread for each unit with a slice for each task, and one for each time it waited for
//! messages of other nodes; a track for each pair of memories,
//! and more where copies overlap; a counter for each memory and each power domain. A flow for each
//! dependency between two tasks that ran: the graph's edges, and from launch to launch the task that
//! released the other. Texts are interned: written once, then referred to.
//!
//! Left out: when tasks were taken (ready is an annotation), since slices of one thread must nest.

use std::collections::HashMap;
use std::io::{self, Write};

use dahl_core::trace::{Nanos, Trace};

use super::events::{self, What};
use super::protobuf::Message;
use super::regions;
use crate::Index;
use crate::summary::memory::hosts;

/// Numbers of fields, by message.
mod field {
    pub(super) const PACKET: u32 = 1;
    pub(super) mod packet {
        pub(crate) const TIMESTAMP: u32 = 8;
        pub(crate) const SEQUENCE: u32 = 10;
        pub(crate) const EVENT: u32 = 11;
        pub(crate) const INTERNED: u32 = 12;
        pub(crate) const FLAGS: u32 = 13;
        pub(crate) const TRACK: u32 = 60;
    }
    pub(super) mod track {
        pub(crate) const UUID: u32 = 1;
        pub(crate) const NAME: u32 = 2;
        pub(crate) const PROCESS: u32 = 3;
        pub(crate) const THREAD: u32 = 4;
        pub(crate) const PARENT: u32 = 5;
        pub(crate) const COUNTER: u32 = 8;
    }
    pub(super) mod event {
        pub(crate) const CATEGORY: u32 = 3;
        pub(crate) const ANNOTATION: u32 = 4;
        pub(crate) const TYPE: u32 = 9;
        pub(crate) const NAME: u32 = 10;
        pub(crate) const TRACK: u32 = 11;
        pub(crate) const COUNT: u32 = 30;
        pub(crate) const COUNT_DOUBLE: u32 = 44;
        pub(crate) const FLOW: u32 = 47;
        pub(crate) const FLOW_END: u32 = 48;
    }
    pub(super) mod annotation {
        pub(crate) const NAME: u32 = 1;
        pub(crate) const NUMBER: u32 = 3;
        pub(crate) const TEXT: u32 = 17;
    }
}

const BEGIN: u64 = 1;
const END: u64 = 2;
const COUNTER: u64 = 4;

/// The number and track of a node's process.
fn process(node: u16) -> u64 {
    1 + u64::from(node)
}

fn unit_track(unit: u16) -> u64 {
    1 << 20 | u64::from(unit)
}

/// The number of a unit's thread, after those of all processes.
fn thread(unit: u16) -> u64 {
    (1 << 17) + u64::from(unit)
}

fn lane_track(lane: u32) -> u64 {
    1 << 40 | u64::from(lane)
}

fn memory_track(memory: u16) -> u64 {
    2 << 20 | u64::from(memory)
}

fn power_track(domain: u16) -> u64 {
    3 << 20 | u64::from(domain)
}

/// Kinds of interned texts, each with numbers of its own, by their field in `InternedData`.
#[derive(Clone, Copy)]
enum Kind {
    Category = 1,
    Name = 2,
    AnnotationName = 3,
    Text = 29,
}

struct Writer<'a, W> {
    out: W,
    trace: &'a Trace,
    event: Message,
    new: Message,
    known: [HashMap<String, u64>; 4],
    /// The interned text of each task's regions, by graph.
    regions: Vec<Vec<u64>>,
}

/// Writes a trace for <https://ui.perfetto.dev>.
pub fn write(trace: &Trace, out: impl Write) -> io::Result<()> {
    let index = Index::of(trace);
    let mut w = Writer {
        out,
        trace,
        event: Message::default(),
        new: Message::default(),
        known: Default::default(),
        regions: trace
            .graphs
            .iter()
            .map(|g| vec![0; g.tasks.len()])
            .collect(),
    };
    let (lane_of, lanes) = events::lanes(trace);
    w.tracks(&lanes)?;
    let flows = Flows::of(trace, &index);
    for (at, what) in events::by_time(trace, &index) {
        w.event.clear();
        match what {
            What::TaskBegin(run) => w.task(run, &flows),
            What::TaskEnd(run) => {
                let unit = trace.tasks[run as usize].unit;
                w.begin_or_end(END, unit_track(unit));
            }
            What::WaitBegin(unit) => {
                w.begin_or_end(BEGIN, unit_track(unit));
                w.named("wait", "waiting for messages");
            }
            What::WaitEnd(unit) => w.begin_or_end(END, unit_track(unit)),
            What::TransferBegin(t) => w.transfer(t, lane_track(lane_of[t as usize])),
            What::TransferEnd(t) => w.begin_or_end(END, lane_track(lane_of[t as usize])),
            What::Memory(m, bytes) => {
                w.begin_or_end(COUNTER, memory_track(m));
                w.event.number(field::event::COUNT, bytes);
            }
            What::Power(d, watts) => {
                w.begin_or_end(COUNTER, power_track(d));
                w.event.double(field::event::COUNT_DOUBLE, watts);
            }
        }
        w.packet(at)?;
    }
    w.out.flush()
}

impl<W: Write> Writer<'_, W> {
    fn put(&mut self, packet: &Message) -> io::Result<()> {
        let mut head = Message::default();
        head.bytes_field(field::PACKET, packet.bytes());
        self.out.write_all(head.bytes())
    }

    /// Descriptions of all tracks, in packets before the first event.
    fn tracks(&mut self, lanes: &[(u16, u16, u32)]) -> io::Result<()> {
        let trace = self.trace;
        let command = trace.about.iter().find(|a| a.0 == "command");
        let name = command.map_or("dahl".into(), |c| format!("dahl: {}", c.1));
        let several = trace.nodes.len() > 1;
        for node in 0..trace.nodes.len().max(1) as u16 {
            let name = match several {
                true => format!("{}: {name}", trace.nodes[usize::from(node)].name),
                false => name.clone(),
            };
            self.track(node == 0, |t| {
                t.number(field::track::UUID, process(node));
                t.message(field::track::PROCESS, |p| {
                    p.number(1, process(node));
                    p.text(6, &name);
                });
            })?;
        }
        for (u, unit) in trace.units.iter().enumerate() {
            self.track(false, |t| {
                t.number(field::track::UUID, unit_track(u as u16));
                let process = process(trace.node_of(u as u16));
                t.number(field::track::PARENT, process);
                t.message(field::track::THREAD, |p| {
                    p.number(1, process);
                    p.number(2, thread(u as u16));
                    p.text(5, &unit.name);
                });
            })?;
        }
        let memory = |m: u16| &trace.memories[usize::from(m)].name;
        let node = |m: u16| trace.memories[usize::from(m)].node;
        for (l, &(from, to, number)) in lanes.iter().enumerate() {
            let mut name = format!("{} → {}", memory(from), memory(to));
            if number > 0 {
                name.push_str(&format!(" ({})", number + 1));
            }
            self.track(false, |t| {
                t.number(field::track::UUID, lane_track(l as u32));
                t.number(field::track::PARENT, process(node(to)));
                t.text(field::track::NAME, &name);
            })?;
        }
        let hosts = hosts(trace);
        for m in 0..trace.memories.len() as u16 {
            let is_host = m == 0 || hosts.iter().any(|h| h.0 == m);
            let what = if is_host { "temporaries" } else { "copies" };
            let name = format!("memory {}: {what}", memory(m));
            // 3 is bytes.
            let process = process(node(m));
            self.counter(memory_track(m), process, &name, |c| c.number(3, 3))?;
        }
        for (d, domain) in trace.domains.iter().enumerate() {
            let name = format!("power: {domain}");
            let process = process(0);
            self.counter(power_track(d as u16), process, &name, |c| c.text(6, "W"))?;
        }
        Ok(())
    }

    fn counter(
        &mut self,
        track: u64,
        process: u64,
        name: &str,
        unit: impl Fn(&mut Message),
    ) -> io::Result<()> {
        self.track(false, |t| {
            t.number(field::track::UUID, track);
            t.number(field::track::PARENT, process);
            t.text(field::track::NAME, name);
            t.message(field::track::COUNTER, unit);
        })
    }

    fn track(&mut self, first: bool, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        let mut packet = Message::default();
        packet.number(field::packet::SEQUENCE, 1);
        if first {
            // Nothing is known of this sequence before.
            packet.number(field::packet::FLAGS, 1);
        }
        packet.message(field::packet::TRACK, fill);
        self.put(&packet)
    }

    /// Puts the event with what it interned into a packet.
    fn packet(&mut self, at: Nanos) -> io::Result<()> {
        let mut packet = Message::default();
        packet.number(field::packet::TIMESTAMP, at);
        packet.number(field::packet::SEQUENCE, 1);
        // It needs what was interned before.
        packet.number(field::packet::FLAGS, 2);
        if !self.new.is_empty() {
            packet.bytes_field(field::packet::INTERNED, self.new.bytes());
            self.new.clear();
        }
        packet.bytes_field(field::packet::EVENT, self.event.bytes());
        self.put(&packet)
    }

    /// The number of a text.
    fn intern(&mut self, kind: Kind, text: &str) -> u64 {
        let known = &mut self.known[match kind {
            Kind::Category => 0,
            Kind::Name => 1,
            Kind::AnnotationName => 2,
            Kind::Text => 3,
        }];
        if let Some(&number) = known.get(text) {
            return number;
        }
        let number = known.len() as u64 + 1;
        known.insert(text.into(), number);
        self.new.message(kind as u32, |m| {
            m.number(1, number);
            m.text(2, text);
        });
        number
    }

    fn begin_or_end(&mut self, kind: u64, track: u64) {
        self.event.number(field::event::TYPE, kind);
        self.event.number(field::event::TRACK, track);
    }

    fn named(&mut self, category: &str, name: &str) {
        let category = self.intern(Kind::Category, category);
        self.event.number(field::event::CATEGORY, category);
        let name = self.intern(Kind::Name, name);
        self.event.number(field::event::NAME, name);
    }

    fn annotate(&mut self, name: &str, value: u64, field: u32) {
        let name = self.intern(Kind::AnnotationName, name);
        self.event.message(field::event::ANNOTATION, |a| {
            a.number(field::annotation::NAME, name);
            a.number(field, value);
        });
    }

    fn annotate_text(&mut self, name: &str, text: &str) {
        let text = self.intern(Kind::Text, text);
        self.annotate(name, text, field::annotation::TEXT);
    }

    fn task(&mut self, run: u32, flows: &Flows) {
        let trace = self.trace;
        let t = &trace.tasks[run as usize];
        self.begin_or_end(BEGIN, unit_track(t.unit));
        let class = trace.class_of(t.id);
        self.named("task", &class.codelet);
        self.annotate_text("implementation", trace.implementation_of(t));
        self.annotate_text("layer", trace.section_of(t.id));
        self.annotate_text("shapes", &class.shapes);
        let launch = &trace.launches[t.id.launch as usize];
        let (graph, task) = (launch.graph as usize, t.id.task as usize);
        if self.regions[graph][task] == 0 {
            let text = regions(&trace.graphs[graph], t.id.task);
            self.regions[graph][task] = self.intern(Kind::Text, &text);
        }
        let text = self.regions[graph][task];
        self.annotate("regions", text, field::annotation::TEXT);
        self.annotate("step", launch.step, field::annotation::NUMBER);
        self.annotate("task", t.id.task.into(), field::annotation::NUMBER);
        self.annotate("ready_ns", t.ready, field::annotation::NUMBER);
        for flow in flows.from(run) {
            self.event.fixed(field::event::FLOW, flow);
        }
        for &(_, flow) in flows.to(run) {
            self.event.fixed(field::event::FLOW_END, flow);
        }
    }

    fn transfer(&mut self, transfer: u32, track: u64) {
        let t = &self.trace.transfers[transfer as usize];
        self.begin_or_end(BEGIN, track);
        let node = |m: u16| self.trace.memories[usize::from(m)].node;
        let name = match t.ahead {
            _ if node(t.from) != node(t.to) => "message",
            true => "copy ahead",
            false => "copy",
        };
        self.named("transfer", name);
        self.annotate("bytes", t.bytes, field::annotation::NUMBER);
        self.annotate_text("carries", t.load.choice());
        self.annotate("asked bytes", t.load.asked, field::annotation::NUMBER);
        self.annotate("parts", t.load.parts.into(), field::annotation::NUMBER);
        self.annotate(
            "parts wanted",
            t.load.wanted.into(),
            field::annotation::NUMBER,
        );
        self.annotate("copies in batch", t.batch.into(), field::annotation::NUMBER);
    }
}

/// Numbers for dependencies, found by either end.
struct Flows {
    /// Where the flows of each run begin; those from 1 on are numbered by where they come from.
    starts: Vec<u64>,
    /// Runs that flows lead to, with the flow; sorted.
    ends: Vec<(u32, u64)>,
}

impl Flows {
    fn of(trace: &Trace, index: &Index) -> Flows {
        let mut edges = index.edges(trace);
        edges.sort_unstable();
        let mut starts = vec![0; trace.tasks.len() + 1];
        let mut ends = Vec::with_capacity(edges.len());
        for (i, &(from, to)) in edges.iter().enumerate() {
            starts[from as usize + 1] += 1;
            ends.push((to, i as u64 + 1));
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        ends.sort_unstable();
        Flows { starts, ends }
    }

    fn from(&self, run: u32) -> impl Iterator<Item = u64> {
        self.starts[run as usize] + 1..self.starts[run as usize + 1] + 1
    }

    fn to(&self, run: u32) -> &[(u32, u64)] {
        let first = self.ends.partition_point(|e| e.0 < run);
        let count = self.ends[first..].partition_point(|e| e.0 == run);
        &self.ends[first..first + count]
    }
}
