//! The contracted problem in whole numbers.
//!
//! Loads are sums of hundreds of fractions, added and subtracted in any order by the search. Floating
//! point would make equal loads differ. So every time becomes a whole multiple of a quantum, a power of
//! two far below what the input can mean; sums are then exact and two loads compare as they should.
//! Times above the largest load of interest are cut to just above it: they only have to stay too long.

use super::contract::Atoms;
use super::format::PlacementProblem;

/// Lists of small numbers, one per index, in one piece of memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    start: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    /// The lists of the second members by first member.
    pub(super) fn new(count: usize, pairs: impl Iterator<Item = (u32, u32)> + Clone) -> Lists {
        let mut start = vec![0u32; count + 1];
        for (a, _) in pairs.clone() {
            start[a as usize + 1] += 1;
        }
        for i in 0..count {
            start[i + 1] += start[i];
        }
        let mut cursor = start.clone();
        let mut items = vec![0; start[count] as usize];
        for (a, b) in pairs {
            items[cursor[a as usize] as usize] = b;
            cursor[a as usize] += 1;
        }
        Lists { start, items }
    }

    /// One list.
    pub(super) fn of(&self, index: usize) -> &[u32] {
        &self.items[self.start[index] as usize..self.start[index + 1] as usize]
    }
}

/// A problem for the search: atoms in an order that respects their edges.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    /// Which atom of the contracted problem each one is.
    pub origin: Vec<usize>,
    /// Time on an accelerator; 0 where none can take the atom.
    pub accelerator: Vec<u64>,
    /// Time on a CPU.
    pub cpu: Vec<u64>,
    /// Memory on an accelerator.
    pub size: Vec<u64>,
    /// Whether the atom, alone, can be on an accelerator.
    pub supported: Vec<bool>,
    /// Atoms directly after each.
    pub successors: Lists,
    /// Atoms directly before each.
    pub predecessors: Lists,
    /// Nets of each atom.
    pub nets: Lists,
    /// Members of each net.
    pub members: Lists,
    /// Cost of each net and number of its members.
    pub net: Vec<(u64, u32)>,
    /// How many accelerators; never more than atoms.
    pub accelerators: usize,
    /// How many CPUs; never more than atoms.
    pub cpus: usize,
    /// Memory of one accelerator.
    pub size_limit: u64,
    /// Number of quanta that no load of interest exceeds.
    pub ceiling: u64,
    /// What a quantum of time is.
    pub quantum: Quantum,
}

/// A power of two, kept as its exponent, so that it cannot under- or overflow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantum(i32);

impl Quantum {
    /// The smallest quantum of which `value` has at most 2^`bits`.
    pub(super) fn new(value: f64, bits: i32) -> Quantum {
        // The exponent field; numbers too small to have one of their own count as the smallest.
        let exponent = ((value.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        Quantum(exponent + 1 - bits)
    }

    /// The nearest number of quanta.
    pub(super) fn count(self, value: f64) -> u64 {
        (shift(value, -self.0)).round() as u64
    }

    /// What a number of quanta is.
    pub(super) fn value(self, count: u64) -> f64 {
        shift(count as f64, self.0)
    }
}

/// `value` times two to the power of `by`, in steps that stay inside the range of exponents.
fn shift(mut value: f64, mut by: i32) -> f64 {
    while by != 0 {
        let step = by.clamp(-1000, 1000);
        value *= 2f64.powi(step);
        by -= step;
    }
    value
}

impl Instance {
    /// The instance with its atoms in the given order, for placements whose largest load is at most
    /// `largest`.
    pub(super) fn new(
        problem: &PlacementProblem,
        atoms: &Atoms,
        order: &[usize],
        largest: f64,
    ) -> Instance {
        let n = atoms.atoms.len();
        // A sum of all items, each at most twice the ceiling, must fit.
        let items = n + atoms.nets.len() + 2;
        let bits = 60 - (usize::BITS - items.leading_zeros()) as i32;
        let ceiling = 1u64 << bits;
        let quantum = Quantum::new(largest, bits);
        let time = |value: f64| quantum.count(value).min(2 * ceiling);
        let byte = Quantum::new(problem.size_limit, bits);
        let size_limit = byte.count(problem.size_limit);
        let size = |value: f64| byte.count(value).min(2 * ceiling);
        let mut place = vec![0u32; n];
        for (position, &atom) in order.iter().enumerate() {
            place[atom] = position as u32;
        }
        let sorted = || order.iter().map(|&a| &atoms.atoms[a]);
        let sizes: Vec<u64> = sorted().map(|a| size(a.size)).collect();
        let supported: Vec<bool> = sorted()
            .zip(&sizes)
            .map(|(a, &s)| a.supported && s <= size_limit)
            .collect();
        let edges = atoms.edges.iter().map(|&(a, b)| (place[a], place[b]));
        let members = atoms
            .nets
            .iter()
            .enumerate()
            .flat_map(|(net, (members, _))| {
                let place = &place;
                members.iter().map(move |&a| (place[a], net as u32))
            });
        Instance {
            origin: order.to_vec(),
            accelerator: sorted()
                .zip(&supported)
                .map(|(a, &s)| if s { time(a.accelerator) } else { 0 })
                .collect(),
            cpu: sorted().map(|a| time(a.cpu)).collect(),
            size: sizes,
            supported,
            successors: Lists::new(n, edges.clone()),
            predecessors: Lists::new(n, edges.map(|(a, b)| (b, a))),
            nets: Lists::new(n, members.clone()),
            members: Lists::new(atoms.nets.len(), members.map(|(a, net)| (net, a))),
            net: atoms
                .nets
                .iter()
                .map(|(m, cost)| (time(*cost), m.len() as u32))
                .collect(),
            accelerators: problem.accelerators.min(n),
            cpus: problem.cpus.min(n),
            size_limit,
            ceiling,
            quantum,
        }
    }

    /// How many atoms there are.
    pub(super) fn len(&self) -> usize {
        self.cpu.len()
    }

    /// How far a load in quanta may be from the load that it stands for.
    pub(super) fn rounding(&self) -> u64 {
        (self.len() + self.net.len()) as u64
    }
}

/// Orders of the atoms to try as chains: depth first, which finishes a branch before it starts the
/// next, and breadth first, which advances all branches together.
pub(super) fn orders(atoms: &Atoms) -> [Vec<usize>; 2] {
    let n = atoms.atoms.len();
    let mut successors = vec![Vec::new(); n];
    let mut waits = vec![0; n];
    for &(a, b) in &atoms.edges {
        successors[a].push(b);
        waits[b] += 1;
    }
    let order = |deep: bool| {
        let mut waits = waits.clone();
        let mut ready: std::collections::VecDeque<usize> =
            (0..n).filter(|&a| waits[a] == 0).collect();
        let mut order = Vec::with_capacity(n);
        while let Some(a) = if deep {
            ready.pop_back()
        } else {
            ready.pop_front()
        } {
            order.push(a);
            for &b in &successors[a] {
                waits[b] -= 1;
                if waits[b] == 0 {
                    ready.push_back(b);
                }
            }
        }
        order
    };
    [order(true), order(false)]
}
