//! The traces of the nodes of a cluster as one.
//!
//! Units, memories and power domains get their node's name before their own, times become those of the first node, and
//! what was equal on several nodes stays apart: each has launches of its own part of a graph. Messages of which both
//! ends are known become transfers between nodes.

use dahl_core::trace::{
    Alignment, Launch, MemorySample, MessageRun, NOBODY, Nanos, PowerSample, TaskId, TaskRun,
    Trace, TraceNode, Transfer,
};

/// One trace of several nodes, each with the name and the clock of its node; what made the first is what made all.
pub fn merge(nodes: Vec<(String, Alignment, Trace)>) -> Trace {
    // Nothing happens before the trace begins.
    let first = |(_, alignment, trace): &(String, Alignment, Trace)| {
        earliest(trace).map_or(0, |at| alignment.apply(at))
    };
    let shift = -nodes.iter().map(first).min().unwrap_or(0).min(0);
    let names = apart(nodes.iter().map(|n| n.0.as_str()).collect());
    let mut all = Trace::default();
    for (number, ((_, alignment, trace), name)) in nodes.into_iter().zip(names).enumerate() {
        if number == 0 {
            all.about.clone_from(&trace.about);
            all.simulated = trace.simulated;
        }
        let moved = Moved {
            node: number as u16,
            clock: &|at| alignment.apply(at).saturating_add(shift).max(0) as u64,
            units: all.units.len() as u16,
            memories: all.memories.len() as u16,
            graphs: all.graphs.len() as u32,
            launches: all.launches.len() as u32,
            domains: all.domains.len() as u16,
        };
        all.nodes.push(TraceNode {
            name: name.clone(),
            uncertainty: alignment.uncertainty,
        });
        moved.enter(trace, &name, &mut all);
    }
    order_launches(&mut all);
    crate::network::enter_transfers(&mut all);
    all
}

/// When the first thing happened.
fn earliest(trace: &Trace) -> Option<Nanos> {
    let launches = trace.launches.iter().map(|l| l.at);
    let tasks = trace.tasks.iter().map(|t| t.ready);
    let transfers = trace.transfers.iter().map(|t| t.start);
    let messages = trace.messages.iter().map(|m| m.start);
    let samples = trace.memory.iter().map(|m| m.at);
    let power = trace.power.iter().map(|p| p.at);
    let all = launches.chain(tasks).chain(transfers);
    all.chain(messages).chain(samples).chain(power).min()
}

/// Names of nodes, with their number where several have the same.
fn apart(names: Vec<&str>) -> Vec<String> {
    let is_alone = |name: &str| names.iter().filter(|n| **n == name).count() == 1;
    let apart = |(i, name): (usize, &&str)| match is_alone(name) {
        true => (*name).to_string(),
        false => format!("{name}.{i}"),
    };
    names.iter().enumerate().map(apart).collect()
}

/// Where what one node has goes.
struct Moved<'c> {
    node: u16,
    clock: &'c dyn Fn(Nanos) -> Nanos,
    units: u16,
    memories: u16,
    graphs: u32,
    launches: u32,
    domains: u16,
}

impl Moved<'_> {
    fn enter(&self, trace: Trace, name: &str, all: &mut Trace) {
        let at = self.clock;
        let id = |id: TaskId| self.task(id);
        all.units.extend(trace.units.into_iter().map(|mut u| {
            u.name = format!("{name}/{}", u.name);
            u.memory += self.memories;
            u
        }));
        all.memories.extend(trace.memories.into_iter().map(|mut m| {
            m.name = format!("{name}/{}", m.name);
            m.node = self.node;
            m
        }));
        all.graphs.extend(trace.graphs.into_iter().map(|mut g| {
            // The same number on two nodes is not the same data.
            for storage in &mut g.storages {
                storage.data = storage.data << 16 | u64::from(self.node);
            }
            g
        }));
        let launch = |l: Launch| Launch {
            step: l.step,
            graph: l.graph + self.graphs,
            at: at(l.at),
            node: self.node,
        };
        all.launches.extend(trace.launches.into_iter().map(launch));
        all.tasks.extend(trace.tasks.into_iter().map(|t| TaskRun {
            id: id(t.id),
            released_by: id(t.released_by),
            unit: t.unit + self.units,
            ready: at(t.ready),
            taken: at(t.taken),
            start: at(t.start),
            end: at(t.end),
            fell_back: t.fell_back,
        }));
        all.transfers
            .extend(trace.transfers.into_iter().map(|t| Transfer {
                from: t.from + self.memories,
                to: t.to + self.memories,
                for_task: id(t.for_task),
                start: at(t.start),
                end: at(t.end),
                ..t
            }));
        all.messages
            .extend(trace.messages.into_iter().map(|m| MessageRun {
                id: id(m.id),
                start: at(m.start),
                end: at(m.end),
            }));
        all.memory
            .extend(trace.memory.into_iter().map(|m| MemorySample {
                at: at(m.at),
                memory: m.memory + self.memories,
                bytes: m.bytes,
            }));
        let domains = trace.domains.into_iter();
        all.domains.extend(domains.map(|d| format!("{name}: {d}")));
        all.power
            .extend(trace.power.into_iter().map(|p| PowerSample {
                at: at(p.at),
                domain: p.domain + self.domains,
                watts: p.watts,
            }));
        all.dropped += trace.dropped;
        all.end = all.end.max(at(trace.end));
    }

    fn task(&self, id: TaskId) -> TaskId {
        match id.task {
            NOBODY => TaskId {
                launch: self.launches,
                ..id
            },
            _ => TaskId {
                launch: id.launch + self.launches,
                ..id
            },
        }
    }
}

/// Puts launches in the order of steps, so that what waits for each other stands side by side.
fn order_launches(trace: &mut Trace) {
    let mut order: Vec<u32> = (0..trace.launches.len() as u32).collect();
    let key = |&l: &u32| {
        let launch = &trace.launches[l as usize];
        (launch.step, launch.node)
    };
    order.sort_by_key(key);
    let mut place = vec![0; order.len()];
    (0..)
        .zip(&order)
        .for_each(|(to, &from)| place[from as usize] = to);
    let moved = |id: &mut TaskId| id.launch = place.get(id.launch as usize).copied().unwrap_or(0);
    trace.launches = order.iter().map(|&l| trace.launches[l as usize]).collect();
    for task in &mut trace.tasks {
        moved(&mut task.id);
        moved(&mut task.released_by);
    }
    trace
        .transfers
        .iter_mut()
        .for_each(|t| moved(&mut t.for_task));
    trace.messages.iter_mut().for_each(|m| moved(&mut m.id));
}
