//! Which nodes hold what, and what must move so that tasks find it.

use std::collections::{BTreeMap, HashMap};

use crate::array::Handle;
use crate::hash::FastBuild;
use crate::region::Region;
use crate::shape::{MAX_RANK, Shape};

use super::{Placement, PlacementError};
use crate::graph::Graph;
use crate::graph::fragments::{Cut, Fragments};

/// Values that go from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transfer {
    /// The task that asked for it: both ends stand before this one in program order. The number of tasks if it is
    /// for what comes after the graph.
    pub before: u32,
    /// Index into [`Graph::arrays`].
    pub array: u32,
    /// Which part of it.
    pub region: Region,
    /// The node that sends.
    pub from: u16,
    /// The node that receives.
    pub to: u16,
}

/// For every persistent array, which nodes hold the newest values of which part; the same on every node.
///
/// Values that the program writes from outside, such as first weights and batches, are written by all nodes alike, so
/// arrays start out held by all.
#[derive(Clone, Debug)]
pub struct Holders {
    sets: Sets,
    /// By the storage's id. Those that no graph has written are held by all.
    arrays: HashMap<u64, Fragments<u32>, FastBuild>,
}

/// Where a part begins and ends, and who holds it.
type HeldPart = ([usize; 4], [usize; 4], Vec<u16>);

impl Holders {
    /// All nodes hold everything.
    pub fn new(nodes: u16) -> Self {
        Holders {
            sets: Sets::new(nodes),
            arrays: HashMap::default(),
        }
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u16 {
        self.sets.nodes
    }

    /// For every array that not all nodes hold whole, who holds which part.
    fn parts(&self) -> BTreeMap<u64, Vec<HeldPart>> {
        let members = |set: u32| self.sets.members(set).collect::<Vec<u16>>();
        let is_partial = |held: &&(Region, u32)| members(held.1).len() < usize::from(self.nodes());
        let parts = |(id, held): (&u64, &Fragments<u32>)| {
            let part = |(r, set): &(Region, u32)| (r.start(), r.end(), members(*set));
            let mut parts: Vec<_> = held.iter().filter(is_partial).map(part).collect();
            parts.sort_unstable();
            (!parts.is_empty()).then_some((*id, parts))
        };
        self.arrays.iter().filter_map(parts).collect()
    }

    /// All nodes have written the same values into an array.
    pub fn written(&mut self, handle: &Handle) {
        let all = self.sets.all();
        let Some(held) = self.arrays.get_mut(&handle.storage.id) else {
            return;
        };
        held.see_as(&handle.whole);
        held.change(&handle.region, Some(all), &mut Cut::new(), |&set, _| set);
    }

    /// Which parts of an array a node lacks, each with the nodes that hold it.
    pub fn missing(&self, handle: &Handle, node: u16) -> Vec<(Shape, Region, Vec<u16>)> {
        let Some(held) = self.arrays.get(&handle.storage.id) else {
            return Vec::new();
        };
        let mut held = held.clone();
        held.see_as(&handle.whole);
        let lacks = held.iter().filter(|(_, set)| !self.sets.has(*set, node));
        let part = |(region, set): &(Region, u32)| {
            let region = region.intersection(&handle.region)?;
            Some((handle.whole, region, self.sets.members(*set).collect()))
        };
        lacks.filter_map(part).collect()
    }

    /// What must move for one launch of a graph whose tasks are placed so, in program order. Afterwards the
    /// nodes hold what that launch leaves them.
    ///
    /// Each value is sent once to each node that reads it, by one that has its newest version: the one that has
    /// sent the fewest bytes so far. Small neighbours that one task reads travel together.
    pub fn exchange(
        &mut self,
        graph: &Graph,
        placement: &Placement,
    ) -> Result<Vec<Transfer>, PlacementError> {
        self.check(graph, placement)?;
        let all = self.sets.all();
        let mut before = |s: &crate::graph::GraphStorage| match s.temporary {
            Some(_) => None,
            None => self.arrays.remove(&s.storage.id),
        };
        let mut held: Vec<Fragments<u32>> = graph
            .storages
            .iter()
            .map(|s| before(s).unwrap_or_else(|| Fragments::new(s.storage.shape, all)))
            .collect();
        let mut transfers = Vec::new();
        let mut sent = vec![0u64; usize::from(self.sets.nodes)];
        let mut cut = Cut::new();
        for task in 0..graph.len() as u32 {
            let nodes = placement.of(task);
            for access in graph.accesses_of(task) {
                let first = transfers.len();
                let array = &graph.arrays[access.array as usize];
                let held = &mut held[array.storage as usize];
                held.see_as(&array.shape);
                let size = graph.storages[array.storage as usize].storage.dtype.size();
                let reads = access.mode.reads() && access.fresh.is_none();
                let sets = &mut self.sets;
                let own = access.mode.writes().then(|| sets.of(nodes.iter().copied()));
                held.change(&access.region, own, &mut cut, |&set, region| {
                    let mut now = set;
                    for &node in nodes {
                        if !reads || sets.has(now, node) {
                            continue;
                        }
                        let from = sets.members(now).min_by_key(|&n| (sent[usize::from(n)], n));
                        let from = from.expect("somebody wrote it last");
                        sent[usize::from(from)] += (region.len() * size) as u64;
                        transfers.push(Transfer {
                            before: task,
                            array: access.array,
                            region,
                            from,
                            to: node,
                        });
                        now = sets.with(now, node);
                    }
                    now
                });
                join(&mut transfers, first, size);
            }
        }
        for (storage, held) in graph.storages.iter().zip(held) {
            if storage.temporary.is_none() {
                self.arrays.insert(storage.storage.id, held);
            }
        }
        Ok(transfers)
    }

    /// Adds what must move so that all nodes hold a launch's results: small persistent arrays that tasks write and none
    /// reads. They are there for the program, which is the same on all nodes and reads them everywhere.
    pub fn publish(&mut self, graph: &Graph, transfers: &mut Vec<Transfer>) {
        let mut results = results(graph);
        let mut cut = Cut::new();
        for (index, array) in graph.arrays.iter().enumerate() {
            if !std::mem::take(&mut results[array.storage as usize]) {
                continue;
            }
            let storage = &graph.storages[array.storage as usize].storage;
            let Some(held) = self.arrays.get_mut(&storage.id) else {
                continue;
            };
            held.see_as(&array.shape);
            for to in 0..self.sets.nodes {
                let (first, sets) = (transfers.len(), &mut self.sets);
                let whole = Region::whole(&array.shape);
                held.change(&whole, None, &mut cut, |&set, region| {
                    if sets.has(set, to) {
                        return set;
                    }
                    let from = sets.members(set).next();
                    transfers.push(Transfer {
                        before: graph.len() as u32,
                        array: index as u32,
                        region,
                        from: from.expect("somebody wrote it last"),
                        to,
                    });
                    sets.with(set, to)
                });
                join(transfers, first, storage.dtype.size());
            }
        }
    }

    fn check(&self, graph: &Graph, placement: &Placement) -> Result<(), PlacementError> {
        let (placed, tasks) = (placement.len(), graph.len());
        if placed != tasks {
            return Err(PlacementError::Length { placed, tasks });
        }
        let nodes = self.sets.nodes;
        for task in 0..tasks {
            let own = placement.of(task as u32);
            if own.is_empty() {
                return Err(PlacementError::Nowhere(task));
            }
            if let Some(&node) = own.iter().find(|&&n| n >= nodes) {
                return Err(PlacementError::Node { task, node, nodes });
            }
        }
        Ok(())
    }
}

/// Which storages are results ([`Holders::publish`]).
fn results(graph: &Graph) -> Vec<bool> {
    let small = |s: &crate::graph::GraphStorage| {
        let bytes = s.storage.shape.len() * s.storage.dtype.size();
        s.temporary.is_none() && bytes <= SMALL
    };
    let (mut written, mut read) = (vec![false; graph.storages.len()], Vec::new());
    read.clone_from(&written);
    for access in (0..graph.len() as u32).flat_map(|t| graph.accesses_of(t)) {
        let storage = graph.arrays[access.array as usize].storage as usize;
        written[storage] |= access.mode.writes();
        read[storage] |= access.mode.reads() && access.fresh.is_none();
    }
    let all = graph.storages.iter().zip(written.iter().zip(&read));
    all.map(|(s, (w, r))| *w && !r && small(s)).collect()
}

/// Bytes up to which a message takes about as long as one without any.
const SMALL: usize = 32 << 10;

/// Joins what moves from the first of these on, all of it of one array and for one task: boxes that are one box together
/// and go the same way. What a node passes on must stay behind what it gets.
fn join(transfers: &mut Vec<Transfer>, first: usize, size: usize) {
    let own = &transfers[first..];
    let passed_on = || own.iter().any(|t| own.iter().any(|got| got.to == t.from));
    if own.len() < 2 || passed_on() {
        return;
    }
    let way = |t: &Transfer| (t.from, t.to, t.region.start());
    transfers[first..].sort_unstable_by_key(way);
    let mut kept = first;
    for next in first + 1..transfers.len() {
        let (last, this) = (transfers[kept], transfers[next]);
        let joined = joined(&last.region, &this.region)
            .filter(|r| (last.from, last.to) == (this.from, this.to) && r.len() * size <= SMALL);
        match joined {
            Some(region) => transfers[kept].region = region,
            None => {
                kept += 1;
                transfers[kept] = this;
            }
        }
    }
    transfers.truncate(kept + 1);
}

/// Two boxes as one, if the second continues the first along one axis.
fn joined(a: &Region, b: &Region) -> Option<Region> {
    let mut differ =
        (0..MAX_RANK).filter(|&i| a.start()[i] != b.start()[i] || a.end()[i] != b.end()[i]);
    let axis = differ.next()?;
    let one = differ.next().is_none() && a.end()[axis] == b.start()[axis];
    one.then(|| Region::new(a.start(), b.end())).flatten()
}

/// Equal: the same nodes hold the same parts. Those that are cut in another way, or seen under another shape, may count as
/// unequal.
impl PartialEq for Holders {
    fn eq(&self, other: &Holders) -> bool {
        self.parts() == other.parts()
    }
}

/// Sets of nodes, each kept once and known by its number.
#[derive(Clone, Debug)]
struct Sets {
    nodes: u16,
    bits: Vec<Box<[u64]>>,
    number: HashMap<Box<[u64]>, u32, FastBuild>,
}

impl Sets {
    fn new(nodes: u16) -> Self {
        Sets {
            nodes,
            bits: Vec::new(),
            number: HashMap::default(),
        }
    }

    fn intern(&mut self, bits: Box<[u64]>) -> u32 {
        if let Some(&number) = self.number.get(&bits) {
            return number;
        }
        self.bits.push(bits.clone());
        let number = self.bits.len() as u32 - 1;
        self.number.insert(bits, number);
        number
    }

    fn of(&mut self, members: impl Iterator<Item = u16>) -> u32 {
        let mut bits = vec![0u64; usize::from(self.nodes).div_ceil(64)];
        members.for_each(|n| bits[usize::from(n) / 64] |= 1 << (n % 64));
        self.intern(bits.into())
    }

    fn all(&mut self) -> u32 {
        self.of(0..self.nodes)
    }

    fn with(&mut self, set: u32, node: u16) -> u32 {
        let mut bits = self.bits[set as usize].clone();
        bits[usize::from(node) / 64] |= 1 << (node % 64);
        self.intern(bits)
    }

    fn has(&self, set: u32, node: u16) -> bool {
        self.bits[set as usize][usize::from(node) / 64] & (1 << (node % 64)) != 0
    }

    fn members(&self, set: u32) -> impl Iterator<Item = u16> + '_ {
        (0..self.nodes).filter(move |&n| self.has(set, n))
    }
}
