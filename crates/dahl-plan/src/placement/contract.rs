//! From nodes to *atoms*, the sets of nodes that no placement can separate.
//!
//! An atom is a union of colour classes. Classes merge when the forward edges between them form a
//! cycle: no downward-closed set could hold one without the other. A class without forward nodes gets
//! its place in the order from its backward edges, reversed, as the authors of the format do it.
//!
//! Communication becomes *nets*: the node that produces an output and all that consume it, as a set of
//! atoms. A part of the atoms pays for a net exactly if it holds some of the net's atoms but not all,
//! whichever side the producer is on: "once for each node whose output crosses".

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::format::{Node, PlacementProblem};
use super::reduce::{Aside, reduce};

/// Nodes that stay together, and what they cost.
#[derive(Clone, Debug)]
pub(super) struct Atom {
    /// Indices of its nodes.
    pub nodes: Vec<usize>,
    /// Time on a CPU.
    pub cpu: f64,
    /// Time on an accelerator.
    pub accelerator: f64,
    /// Memory on an accelerator; 0 if one accelerator has room for everything.
    pub size: f64,
    /// Whether accelerators run all of it.
    pub supported: bool,
}

/// The contracted problem.
#[derive(Clone, Debug)]
pub(super) struct Atoms {
    /// The atoms, numbered so that edges go from lower to higher numbers.
    pub atoms: Vec<Atom>,
    /// Which atom must not come later than which.
    pub edges: BTreeSet<(usize, usize)>,
    /// Sets of at least two atoms, and what a part that cuts one pays.
    pub nets: Vec<(Vec<usize>, f64)>,
    /// Nodes that may be placed afterwards.
    pub aside: Vec<Aside>,
}

/// Contracts a problem.
pub(super) fn contract(problem: &PlacementProblem) -> Atoms {
    let (class, count) = classes(problem);
    let blank = Atom {
        nodes: Vec::new(),
        cpu: 0.0,
        accelerator: 0.0,
        size: 0.0,
        supported: true,
    };
    let mut atoms = vec![blank; count];
    for (n, node) in problem.nodes.iter().enumerate() {
        let atom = &mut atoms[class[n]];
        atom.nodes.push(n);
        atom.cpu += node.cpu_time;
        atom.accelerator += node.accelerator_time;
        atom.size += node.size;
        atom.supported &= node.on_accelerator;
    }
    if atoms.iter().map(|a| a.size).sum::<f64>() <= problem.size_limit {
        atoms.iter_mut().for_each(|atom| atom.size = 0.0);
    }
    let mut nets: Vec<Vec<usize>> = class.iter().map(|&c| vec![c]).collect();
    for &(source, target) in &problem.edges {
        nets[source].push(class[target]);
    }
    let classes = Atoms {
        atoms,
        edges: order(problem, &class, count),
        nets: nets
            .into_iter()
            .zip(problem.output_cost.iter().copied())
            .collect(),
        aside: Vec::new(),
    };
    let apart: Vec<usize> = (0..count).collect();
    reduce(classes.merge(&apart))
}

/// A number for each node, the same for nodes of the same colour; and how many numbers there are.
fn classes(problem: &PlacementProblem) -> (Vec<usize>, usize) {
    let mut colours = HashMap::new();
    let mut count = 0;
    let mut fresh = || {
        count += 1;
        count - 1
    };
    let class_of = |node: &Node| match node.colour {
        Some(colour) => *colours.entry(colour).or_insert_with(&mut fresh),
        None => fresh(),
    };
    let class = problem.nodes.iter().map(class_of).collect();
    (class, count)
}

/// Which class must not come later than which.
fn order(problem: &PlacementProblem, class: &[usize], count: usize) -> BTreeSet<(usize, usize)> {
    let mut has_forward = vec![false; count];
    for (n, node) in problem.nodes.iter().enumerate() {
        has_forward[class[n]] |= !node.backward;
    }
    let mut edges = BTreeSet::new();
    for &(source, target) in &problem.edges {
        let (a, b) = (class[source], class[target]);
        if !problem.nodes[target].backward {
            edges.insert((a, b));
        } else if problem.nodes[source].backward && !(has_forward[a] && has_forward[b]) {
            edges.insert((b, a));
        }
    }
    edges
}

impl Atoms {
    /// The atoms with those of equal group merged, and those that a cycle of groups ties together.
    pub(super) fn merge(&self, group: &[usize]) -> Atoms {
        let groups = group.iter().max().map_or(0, |m| m + 1);
        let mut successors = vec![Vec::new(); groups];
        for &(a, b) in &self.edges {
            successors[group[a]].push(group[b]);
        }
        let (component, components) = strong_components(&successors);
        let mut used = vec![false; components];
        for &g in group {
            used[component[g]] = true;
        }
        // Components come out last first: numbered backwards, edges rise.
        let mut number = vec![0; components];
        let mut count = 0;
        for c in (0..components).rev().filter(|&c| used[c]) {
            number[c] = count;
            count += 1;
        }
        let place = |atom: usize| number[component[group[atom]]];
        let mut atoms: Vec<Option<Atom>> = vec![None; count];
        for (a, atom) in self.atoms.iter().enumerate() {
            match &mut atoms[place(a)] {
                Some(whole) => {
                    whole.nodes.extend(&atom.nodes);
                    whole.cpu += atom.cpu;
                    whole.accelerator += atom.accelerator;
                    whole.size += atom.size;
                    whole.supported &= atom.supported;
                }
                empty => *empty = Some(atom.clone()),
            }
        }
        let mut nets: BTreeMap<Vec<usize>, f64> = BTreeMap::new();
        for (members, cost) in &self.nets {
            let mut net: Vec<usize> = members.iter().map(|&a| place(a)).collect();
            net.sort_unstable();
            net.dedup();
            if net.len() > 1 && *cost > 0.0 {
                *nets.entry(net).or_default() += cost;
            }
        }
        let edges = self.edges.iter().map(|&(a, b)| (place(a), place(b)));
        Atoms {
            atoms: atoms.into_iter().flatten().collect(),
            edges: edges.filter(|(a, b)| a != b).collect(),
            nets: nets.into_iter().collect(),
            aside: self.aside.clone(),
        }
    }
}

/// Tarjan's strongly connected components, without recursion: the component of each vertex, and how
/// many there are. A component is numbered after all that can be reached from it.
fn strong_components(successors: &[Vec<usize>]) -> (Vec<usize>, usize) {
    const NEW: usize = usize::MAX;
    let n = successors.len();
    let (mut index, mut low) = (vec![NEW; n], vec![0; n]);
    let mut component = vec![NEW; n];
    let (mut count, mut clock) = (0, 0);
    let (mut open, mut path) = (Vec::new(), Vec::new());
    for root in 0..n {
        if index[root] != NEW {
            continue;
        }
        path.push((root, 0));
        while let Some((v, cursor)) = path.pop() {
            if cursor == 0 {
                index[v] = clock;
                low[v] = clock;
                clock += 1;
                open.push(v);
            }
            if let Some(&w) = successors[v].get(cursor) {
                path.push((v, cursor + 1));
                if index[w] == NEW {
                    path.push((w, 0));
                } else if component[w] == NEW {
                    low[v] = low[v].min(index[w]);
                }
                continue;
            }
            if low[v] == index[v] {
                while let Some(w) = open.pop() {
                    component[w] = count;
                    if w == v {
                        break;
                    }
                }
                count += 1;
            }
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[v]);
            }
        }
    }
    (component, count)
}
