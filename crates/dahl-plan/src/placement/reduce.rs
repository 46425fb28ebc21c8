//! Atoms that weigh nothing need no search of their own. Two rules, each of which keeps an optimum:
//!
//! 1. *Free*: in no net. It is set aside and put, in the end, where the last of its predecessors is. Its
//!    predecessors are tied to its successors, so that such a place exists.
//! 2. *Tied*: all its predecessors, or all its successors, are one atom m, and the nets {it, m} cost at
//!    least as much as its nets without m. Then it goes where m is. For suppose it were elsewhere: moving
//!    it to m's part breaks no order; both parts stop paying for the nets {it, m}, start paying at most
//!    for its nets without m, and pay no more than before for the others, of which m is a member.
//!    No third part notices.
//!
//! "Weighs nothing" means no time on either kind of device, no memory, and supported on both.

use std::collections::BTreeSet;

use super::contract::Atoms;

/// Nodes that are placed when all others are.
#[derive(Clone, Debug)]
pub(super) struct Aside {
    /// Indices of the nodes.
    pub nodes: Vec<usize>,
    /// A node of each atom that they may not precede.
    pub after: Vec<usize>,
}

/// Setting aside may add this many edges for each that it removes.
const MAX_EDGES: usize = 64;

/// Applies both rules until neither does anything.
pub(super) fn reduce(mut atoms: Atoms) -> Atoms {
    // Each round handles all atoms that qualify at the same time; the number of rounds is the length of
    // the longest run of weightless atoms, which a hostile file can make long.
    for _ in 0..100 {
        let before = atoms.atoms.len();
        atoms = set_aside(atoms);
        if let Some(group) = tied(&atoms) {
            atoms = atoms.merge(&group);
        }
        if atoms.atoms.len() == before {
            break;
        }
    }
    atoms
}

fn weightless(atoms: &Atoms, a: usize) -> bool {
    let atom = &atoms.atoms[a];
    atom.cpu == 0.0 && atom.accelerator == 0.0 && atom.size == 0.0 && atom.supported
}

/// Predecessors and successors of each atom.
fn neighbours(atoms: &Atoms) -> [Vec<BTreeSet<usize>>; 2] {
    let blank = vec![BTreeSet::new(); atoms.atoms.len()];
    let [mut before, mut after] = [blank.clone(), blank];
    for &(a, b) in &atoms.edges {
        before[b].insert(a);
        after[a].insert(b);
    }
    [before, after]
}

/// The first rule.
fn set_aside(mut atoms: Atoms) -> Atoms {
    let n = atoms.atoms.len();
    let mut in_net = vec![false; n];
    for &a in atoms.nets.iter().flat_map(|net| &net.0) {
        in_net[a] = true;
    }
    let [mut before, mut after] = neighbours(&atoms);
    let mut left = n;
    let mut gone = vec![false; n];
    for a in 0..n {
        let (p, s) = (before[a].len(), after[a].len());
        // One atom must stay, so that there is a device to go to.
        if in_net[a] || !weightless(&atoms, a) || left == 1 || p * s > (p + s) * MAX_EDGES {
            continue;
        }
        gone[a] = true;
        left -= 1;
        let (predecessors, successors) = (
            std::mem::take(&mut before[a]),
            std::mem::take(&mut after[a]),
        );
        for &p in &predecessors {
            after[p].remove(&a);
            after[p].extend(&successors);
        }
        for &s in &successors {
            before[s].remove(&a);
            before[s].extend(&predecessors);
        }
        atoms.aside.push(Aside {
            nodes: atoms.atoms[a].nodes.clone(),
            after: predecessors
                .iter()
                .map(|&p| atoms.atoms[p].nodes[0])
                .collect(),
        });
    }
    if left == n {
        return atoms;
    }
    let mut number = vec![0; n];
    let mut kept = 0..n;
    for a in (0..n).filter(|&a| !gone[a]) {
        number[a] = kept.next().unwrap_or(n);
    }
    let edges = (0..n).flat_map(|a| after[a].iter().map(move |&b| (a, b)));
    atoms.edges = edges.map(|(a, b)| (number[a], number[b])).collect();
    for net in &mut atoms.nets {
        net.0.iter_mut().for_each(|a| *a = number[*a]);
    }
    let mut gone = gone.into_iter();
    atoms.atoms.retain(|_| gone.next() == Some(false));
    atoms
}

/// The second rule: for each atom, the atom that it shall be one with.
fn tied(atoms: &Atoms) -> Option<Vec<usize>> {
    let n = atoms.atoms.len();
    let [before, after] = neighbours(atoms);
    let mut nets = vec![Vec::new(); n];
    for (net, (members, _)) in atoms.nets.iter().enumerate() {
        for &a in members {
            nets[a].push(net);
        }
    }
    // Cost of an atom's nets that consist of it and m, and of those without m.
    let costs = |a: usize, m: usize| {
        let (mut shared, mut own) = (0.0, 0.0);
        for (members, cost) in nets[a].iter().map(|&net| &atoms.nets[net]) {
            match members.binary_search(&m) {
                Ok(_) if members.len() == 2 => shared += cost,
                Ok(_) => {}
                Err(_) => own += cost,
            }
        }
        (shared, own)
    };
    let mut group: Vec<usize> = (0..n).collect();
    // What has been merged has other nets than those seen here, so its neighbours wait for the next
    // round; except atoms without nets of their own, for which the rule holds whatever else happens.
    let mut touched = vec![false; n];
    let mut any = false;
    for a in (0..n).filter(|&a| weightless(atoms, a)) {
        let only = |set: &BTreeSet<usize>| set.first().copied().filter(|_| set.len() == 1);
        let calm = |m: usize| {
            let mut around = nets[a].iter().flat_map(|&net| &atoms.nets[net].0);
            !touched[a] && !touched[m] && !around.any(|&b| touched[b])
        };
        let good = |&m: &usize| {
            let (shared, own) = costs(a, m);
            own == 0.0 || shared >= own && calm(m)
        };
        let targets = [only(&before[a]), only(&after[a])];
        let target = targets
            .into_iter()
            .flatten()
            .find(good)
            .map(|m| (m, root(&group, m)));
        if let Some((m, top)) = target
            && top != a
        {
            group[a] = top;
            touched[a] = true;
            touched[m] = true;
            touched[top] = true;
            any = true;
        }
    }
    let group = (0..n).map(|a| root(&group, a)).collect();
    any.then_some(group)
}

fn root(group: &[usize], mut a: usize) -> usize {
    while group[a] != a {
        a = group[a];
    }
    a
}
