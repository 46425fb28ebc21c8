//! The downward-closed sets (*ideals*) of the atoms, numbered from the empty one by growing size, and
//! which atom leads from which to which.
//!
//! All of them, or those inside a *window*: an atom may join only if all atoms that come at least
//! `window` places before it in the order are there. A window of 1 leaves the chain of prefixes, a window as
//! wide as the order leaves everything. The windowed sets are the ideals of the same atoms with more
//! edges, so a placement found among them is a placement.
//!
//! It knows nothing of loads but the sums that the search wants for each ideal.

use std::collections::HashMap;

use super::instance::Instance;

/// Ideals and the steps between them.
#[derive(Debug)]
pub(super) struct Lattice {
    /// Where each ideal's steps start.
    first: Vec<u32>,
    /// The atom that joins, and the ideal that this gives; atoms in rising order.
    steps: Vec<(u32, u32)>,
    /// The ideal and the atom that each was first reached from.
    born: Vec<(u32, u32)>,
    /// What is outside each ideal.
    pub rest: Vec<Rest>,
}

/// What is outside an ideal.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    /// Time on accelerators.
    pub accelerator: u64,
    /// Memory on accelerators.
    pub size: u64,
    /// Cost of the nets that the ideal cuts: devices outside pay it, if they are accelerators.
    pub cut: u64,
    /// Atoms that no accelerator can take.
    pub unsupported: u32,
}

/// Why there is no lattice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoLattice {
    /// More ideals than allowed.
    TooMany,
    /// The caller wants to stop.
    Stopped,
}

/// Steps that a lattice may have, at 8 bytes each.
const MAX_STEPS: usize = 100_000_000;

impl Lattice {
    /// The ideals of `instance` inside a window, if they are at most `limit`.
    ///
    /// # Errors
    /// If there are more, or `go_on` says no.
    pub(super) fn new(
        instance: &Instance,
        window: usize,
        limit: usize,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<Lattice, NoLattice> {
        let n = instance.len();
        let words = n.div_ceil(64);
        let empty: Box<[u64]> = vec![0; words].into();
        // Sets with one atom more than those being processed; no others can come up.
        let mut known = HashMap::new();
        let mut layer_end = 1;
        // For each ideal that is known but not yet processed: the set, the atoms whose predecessors
        // are all there, and the first atom that is not.
        let start: Vec<u32> = (0..n as u32)
            .filter(|&a| instance.predecessors.of(a as usize).is_empty())
            .collect();
        let mut queue = std::collections::VecDeque::from([(empty, start, 0usize)]);
        let mut lattice = Lattice {
            first: vec![0],
            steps: Vec::new(),
            born: vec![(0, 0)],
            rest: vec![all(instance)],
        };
        let mut count = 0usize;
        while let Some((set, open, lowest)) = queue.pop_front() {
            let rest = lattice.rest[count];
            if count == layer_end {
                layer_end = lattice.len();
                known.clear();
            }
            count += 1;
            if count.is_multiple_of(4096) && !go_on() {
                return Err(NoLattice::Stopped);
            }
            for &atom in open
                .iter()
                .filter(|&&a| (a as usize) < lowest.saturating_add(window))
            {
                let v = atom as usize;
                let mut grown = set.clone();
                grown[v / 64] |= 1 << (v % 64);
                if let Some(&id) = known.get(&grown) {
                    lattice.steps.push((atom, id));
                    continue;
                }
                let id = lattice.rest.len();
                if id >= limit || lattice.steps.len() >= MAX_STEPS {
                    return Err(NoLattice::TooMany);
                }
                lattice.steps.push((atom, id as u32));
                lattice.born.push((count as u32 - 1, atom));
                let has = |a: usize| grown[a / 64] >> (a % 64) & 1 == 1;
                let mut cut = rest.cut;
                for &net in instance.nets.of(v) {
                    let (cost, members) = instance.net[net as usize];
                    let all = instance.members.of(net as usize);
                    match all.iter().filter(|&&a| has(a as usize)).count() as u32 {
                        1 => cut += cost,
                        inside if inside == members => cut -= cost,
                        _ => {}
                    }
                }
                lattice.rest.push(Rest {
                    accelerator: rest.accelerator - instance.accelerator[v],
                    size: rest.size - instance.size[v],
                    cut,
                    unsupported: rest.unsupported - u32::from(!instance.supported[v]),
                });
                let ready = |&&b: &&u32| {
                    instance
                        .predecessors
                        .of(b as usize)
                        .iter()
                        .all(|&a| has(a as usize))
                };
                let mut next: Vec<u32> = open.iter().copied().filter(|&a| a != atom).collect();
                next.extend(instance.successors.of(v).iter().filter(ready));
                next.sort_unstable();
                let lowest = (lowest..n).find(|&a| !has(a)).unwrap_or(n);
                known.insert(grown.clone(), id as u32);
                queue.push_back((grown, next, lowest));
            }
            lattice.first.push(lattice.steps.len() as u32);
        }
        Ok(lattice)
    }

    /// How many ideals there are. The last is the set of all atoms.
    pub(super) fn len(&self) -> usize {
        self.rest.len()
    }

    /// The atoms of an ideal, in no order.
    pub(super) fn atoms(&self, mut ideal: u32) -> Vec<u32> {
        let mut atoms = Vec::new();
        while ideal != 0 {
            let (before, atom) = self.born[ideal as usize];
            atoms.push(atom);
            ideal = before;
        }
        atoms
    }

    /// Atoms that may join an ideal, and the ideals that this gives.
    pub(super) fn steps(&self, ideal: u32) -> &[(u32, u32)] {
        let ideal = ideal as usize;
        &self.steps[self.first[ideal] as usize..self.first[ideal + 1] as usize]
    }
}

fn all(instance: &Instance) -> Rest {
    Rest {
        accelerator: instance.accelerator.iter().sum(),
        size: instance.size.iter().sum(),
        cut: 0,
        unsupported: instance.supported.iter().filter(|&&s| !s).count() as u32,
    }
}
