//! Layers: what a launch must wait for in earlier ones.
//!
//! For every persistent array there is a list of the launches in flight that touch it, newest last. A
//! new launch registers at the exits of the tasks below that it conflicts with, and joins the list. A
//! pair of graphs is compared once; a launch that overwrites the whole array hides those below it.

use std::collections::HashMap;
use std::sync::Arc;

use dahl_core::graph::boundary::edges_between;
use dahl_core::hash::FastBuild;

use crate::exit::Node;
use crate::instance::{Instance, Prepared};

/// Pairs of a task of an earlier launch and one of a later launch that waits for it.
pub(crate) type Edges = Arc<[(u32, u32)]>;

/// What the runtime keeps of a graph it has launched.
pub(crate) struct Entry {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) ring: Vec<Slot>,
    pub(crate) next: usize,
    /// The last launch's number.
    pub(crate) launched: u64,
    /// Edges from another graph's launches, by that graph's id and the storage's number in this one.
    pub(crate) from: HashMap<(u64, u32), Edges, FastBuild>,
}

/// One of a graph's instances.
pub(crate) struct Slot {
    pub(crate) instance: Arc<Instance>,
    /// Registrations at the exits of earlier launches; as many as were ever needed.
    pub(crate) nodes: Box<[Node]>,
}

/// A launch that touches an array.
pub(crate) struct Layer {
    pub(crate) instance: Arc<Instance>,
    pub(crate) serial: u64,
    pub(crate) storage: u32,
}

/// Makes a launch wait for what it must in earlier ones, and adds it to the layers of its arrays.
pub(crate) fn register(
    entry: &mut Entry,
    place: usize,
    layers: &mut HashMap<u64, Vec<Layer>, FastBuild>,
    serial: u64,
) {
    let graph = entry.prepared.graph.clone();
    let Slot { instance, nodes } = &mut entry.ring[place];
    let mut total = 0;
    let persistent = graph
        .storages
        .iter()
        .enumerate()
        .filter(|(_, s)| s.temporary.is_none());
    for (i, s) in persistent.clone() {
        let below = layers.entry(s.storage.id).or_default();
        below.retain(|l| !l.instance.has_ended(l.serial));
        for layer in below.iter() {
            let earlier = &layer.instance.prepared.graph;
            let key = (earlier.id, i as u32);
            total += match entry.from.get(&key) {
                Some(edges) => edges.len(),
                None => {
                    let edges = edges_between(earlier, layer.storage, &graph, i as u32);
                    let n = edges.len();
                    entry.from.insert(key, edges.into());
                    n
                }
            };
        }
    }
    if nodes.len() < total {
        *nodes = (0..total).map(|_| Node::default()).collect();
    }
    let mut free = nodes.iter();
    for (i, s) in persistent {
        let below = layers.get_mut(&s.storage.id).expect("made above");
        for layer in below.iter() {
            let edges = entry.from[&(layer.instance.prepared.graph.id, i as u32)].clone();
            for &(from, to) in edges.iter() {
                let exit = layer.instance.exit(from).expect("outlets have exits");
                let node = free.next().expect("counted above");
                let pending = &instance.pending[to as usize];
                pending.add();
                let who = instance.task(to).launch;
                // SAFETY: the slot keeps its nodes while the launch is in flight, and the launch cannot
                // end before `to` has, which waits for this message.
                if !unsafe { exit.add(node, who, to) } {
                    pending.take_back();
                }
            }
        }
        if graph.boundary.overwrites(i as u32) {
            below.clear();
        }
        below.push(Layer {
            instance: instance.clone(),
            serial,
            storage: i as u32,
        });
    }
}
