//! Several nodes at once: each runs its part of a graph, and messages go between them.
//!
//! Every node is an engine of its own, with its own policy, as every process of a run is; here they share one virtual
//! time. A message asks for its link when both ends have begun it, and occupies the ports of both nodes by the rule of
//! [`dahl_core::machine::network`]. Which node runs, sends and receives what is not decided here: parts come from
//! [`dahl_core::graph::partition`], as in the runtime.

use std::collections::HashMap;

use dahl_core::{Bytes, Graph, Machine, MemoryId, NodeId, Seconds};

use super::agenda::{Agenda, Event};
use super::engine::Engine;
use super::links::Lanes;
use super::prediction::{LinkUse, Prediction};
use super::times::Times;
use super::{Options, SimError, check};
use dahl_sched::policy::{Policy, TaskRef};

/// What one node runs.
pub struct NodeRun<'a> {
    /// Its part of the graph.
    pub graph: &'a Graph,
    /// Its units and memories ([`Machine::of_node`]).
    pub machine: &'a Machine,
    /// Durations of its tasks.
    pub times: &'a Times,
    /// Who decides on it.
    pub policy: &'a dyn Policy,
    /// How; the number of steps is the same on all.
    pub options: Options,
}

/// What a run of a cluster came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterPrediction {
    /// From the first launch to the last end.
    pub makespan: Seconds,
    /// By node. Energy is that of the whole makespan.
    pub nodes: Vec<Prediction>,
    /// What links between nodes have carried, by link of the whole machine.
    pub links: Vec<LinkUse>,
    /// When the last node had ended each launch.
    pub steps: Vec<Seconds>,
}

/// Runs the parts of all nodes of a machine in virtual time.
pub fn simulate_cluster(
    machine: &Machine,
    nodes: &[NodeRun<'_>],
) -> Result<ClusterPrediction, SimError> {
    machine.check().map_err(SimError::Machine)?;
    for node in nodes {
        check(node.graph, node.machine, node.times, &node.options)?;
    }
    let engine = |n| -> Engine {
        let n: &NodeRun = n;
        Engine::new(n.graph, n.machine, n.times, n.policy, &n.options)
    };
    let mut cluster = Cluster {
        machine,
        engines: nodes.iter().map(engine).collect(),
        network: Network {
            lanes: Lanes::new(machine),
            agenda: Agenda::default(),
            half: HashMap::new(),
            moves: Vec::new(),
            free: Vec::new(),
            begin: Vec::new(),
        },
    };
    for node in 0..cluster.engines.len() {
        cluster.engines[node].start()?;
        cluster.post(node)?;
    }
    while cluster.turn()? {}
    cluster.finish()
}

struct Cluster<'a> {
    machine: &'a Machine,
    engines: Vec<Engine<'a>>,
    network: Network,
}

/// Messages between nodes.
struct Network {
    lanes: Lanes,
    agenda: Agenda,
    /// Ends that wait for their other end, by sender, receiver, launch and transfer.
    half: HashMap<(u16, u16, usize, u32), TaskRef>,
    moves: Vec<Move>,
    free: Vec<u32>,
    /// Room for messages that may begin.
    begin: Vec<(u32, u16)>,
}

/// A message of which both ends have begun.
#[derive(Clone, Copy)]
struct Move {
    from: (u16, TaskRef),
    to: (u16, TaskRef),
    link: u16,
    bytes: u64,
}

impl Cluster<'_> {
    /// Lets the next thing happen; false if nothing is left to.
    fn turn(&mut self) -> Result<bool, SimError> {
        let network = self.network.agenda.peek();
        let nodes = self.engines.iter().enumerate();
        let node = nodes.filter_map(|(n, e)| Some((e.agenda.peek()?, n)));
        // Of equal moments messages come first, then nodes by number.
        let node = node.min_by(|a, b| a.0.total_cmp(&b.0));
        match (network, node) {
            (None, None) => return Ok(false),
            (Some(at), None) => self.arrive(at)?,
            (Some(at), Some((next, _))) if at <= next => self.arrive(at)?,
            (_, Some((_, node))) => {
                self.engines[node].happen()?;
                self.post(node)?;
            }
        }
        Ok(true)
    }

    /// Takes up the messages that became ready on a node.
    fn post(&mut self, node: usize) -> Result<(), SimError> {
        let mut ready = std::mem::take(&mut self.engines[node].outbox);
        let (graph, now) = (self.engines[node].graph, self.engines[node].now);
        ready.sort_by_key(|t| graph.due_of(t.task, t.launch as u64));
        for task in ready.drain(..) {
            let message = graph.message(task.task).expect("only messages are posted");
            let here = node as u16;
            let (from, to) = match message.sends {
                true => (here, message.peer),
                false => (message.peer, here),
            };
            let key = (from, to, task.launch, message.transfer);
            let Some(other) = self.network.half.remove(&key) else {
                self.network.half.insert(key, task);
                continue;
            };
            let (send, receive) = match message.sends {
                true => (task, other),
                false => (other, task),
            };
            let access = &graph.accesses_of(task.task)[0];
            let storage = graph.arrays[access.array as usize].storage;
            let size = graph.storages[storage as usize].storage.dtype.size();
            let moved = Move {
                from: (from, send),
                to: (to, receive),
                link: self.link(from, to)?,
                bytes: (access.region.len() * size) as u64,
            };
            self.network.ask(moved, now, self.machine);
        }
        self.engines[node].outbox = ready;
        Ok(())
    }

    /// The link between the first memories of two nodes.
    fn link(&self, from: u16, to: u16) -> Result<u16, SimError> {
        let first = |node: u16| {
            let memories = &self.machine.memories;
            memories.iter().position(|m| m.node == NodeId(node))
        };
        let (a, b) = (first(from), first(to));
        let found = a.zip(b).and_then(|(a, b)| {
            let (a, b) = (MemoryId(a as u16), MemoryId(b as u16));
            let links = &self.machine.links;
            links.iter().position(|l| l.from == a && l.to == b)
        });
        let name = |node: u16| self.machine.nodes[usize::from(node)].name.clone();
        found.map(|l| l as u16).ok_or_else(|| SimError::NoRoute {
            from: name(from),
            to: name(to),
        })
    }

    /// A message has arrived: both ends are over.
    fn arrive(&mut self, at: f64) -> Result<(), SimError> {
        let Some((_, Event::Arrived(id))) = self.network.agenda.next() else {
            return Ok(());
        };
        let moved = self.network.leave(id, at, self.machine);
        for (node, task) in [moved.to, moved.from] {
            let node = usize::from(node);
            self.engines[node].message_ended(task, at)?;
            self.post(node)?;
        }
        Ok(())
    }

    fn finish(self) -> Result<ClusterPrediction, SimError> {
        let stuck = self.engines.iter().find(|e| !e.launches.is_done());
        if let Some(engine) = stuck {
            return Err(engine.stuck());
        }
        let ends = self.engines.iter().map(|e| e.ended());
        let makespan = Seconds(ends.fold(0.0, f64::max));
        let all: Vec<Prediction> = self
            .engines
            .into_iter()
            .map(|e| e.finish(Some(makespan)))
            .collect();
        let steps = all.iter().map(|n| n.launches.len()).max().unwrap_or(0);
        let ended = |step: usize| {
            let ends = all.iter().filter_map(|n| n.launches.get(step));
            Seconds(ends.fold(0.0, |m, l| l.1.0.max(m)))
        };
        let mut links = self.network.lanes.used;
        for (used, link) in links.iter_mut().zip(&self.machine.links) {
            let joules = link.joules_per_byte.unwrap_or(0.0) * used.bytes.0 as f64;
            used.joules = dahl_core::Joules(joules);
        }
        Ok(ClusterPrediction {
            makespan,
            steps: (0..steps).map(ended).collect(),
            links,
            nodes: all,
        })
    }
}

impl Network {
    /// A message asks for its link.
    fn ask(&mut self, moved: Move, now: f64, machine: &Machine) {
        let id = match self.free.pop() {
            Some(id) => {
                self.moves[id as usize] = moved;
                id
            }
            None => {
                self.moves.push(moved);
                self.moves.len() as u32 - 1
            }
        };
        if self.lanes.enter(moved.link, id) {
            self.go(id, now, machine);
        }
    }

    /// A message begins to move.
    fn go(&mut self, id: u32, now: f64, machine: &Machine) {
        let Move { link, bytes, .. } = self.moves[id as usize];
        let seconds = self.lanes.carry(machine, link, 1, Bytes(bytes).0);
        self.agenda.add(now + seconds, Event::Arrived(id));
    }

    /// A message has arrived; those that waited for its way begin.
    fn leave(&mut self, id: u32, now: f64, machine: &Machine) -> Move {
        let moved = self.moves[id as usize];
        self.free.push(id);
        let mut begin = std::mem::take(&mut self.begin);
        self.lanes.leave(moved.link, &mut begin);
        for (id, _) in begin.drain(..) {
            self.go(id, now, machine);
        }
        self.begin = begin;
        moved
    }
}
