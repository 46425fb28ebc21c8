//! Parts of a graph that can change places: the samples of a batch, mostly.
//!
//! Nodes are coloured by their label and, again and again, by the colours around them. Nodes whose colour
//! is unique tie the rest together; without them the graph falls into pieces. Pieces with the same
//! colours, each once, are *columns*, aligned by colour; that exchanging two of them changes nothing is
//! then checked edge by edge, so a clash of colours can cost a symmetry but never invent one.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::network::Frame;
use crate::problem::Origin;

/// A graph with labels.
pub(super) struct Labelled {
    pub labels: Vec<u64>,
    pub before: Vec<Vec<u32>>,
    pub after: Vec<Vec<u32>>,
}

/// Interchangeable columns: each a list of nodes, those of one row alike.
pub(super) type Columns = Vec<Vec<u32>>;

/// Equal for equal values; different for different ones but for a chance of one in 2⁶⁴.
pub(super) fn hash(value: impl Hash) -> u64 {
    let mut h = DefaultHasher::new();
    value.hash(&mut h);
    h.finish()
}

/// Interchangeable columns of a problem: tasks, and after them data.
pub(super) fn columns_of(frame: &Frame<'_>) -> Vec<Columns> {
    let p = frame.problem;
    let n = p.tasks.len() + p.data.len();
    let mut graph = Labelled {
        labels: p.tasks.iter().map(|&c| u64::from(c)).collect(),
        before: vec![Vec::new(); n],
        after: vec![Vec::new(); n],
    };
    let mut edges: Vec<(u32, u32)> = frame.edges.clone();
    for (i, d) in p.data.iter().enumerate() {
        let node = (p.tasks.len() + i) as u32;
        let kind = match d.origin {
            Origin::Task(t) => {
                edges.push((t, node));
                0
            }
            Origin::Memory(m) => 1 + m as u64,
            Origin::LeftBy(o) => {
                edges.push((p.tasks.len() as u32 + o, node));
                u64::from(u32::MAX)
            }
        };
        graph.labels.push(hash(("datum", d.bytes, kind, d.kept)));
        edges.extend(d.readers.iter().map(|&r| (node, r)));
        edges.extend(d.replaces.map(|old| (p.tasks.len() as u32 + old, node)));
    }
    for (a, b) in edges {
        graph.after[a as usize].push(b);
        graph.before[b as usize].push(a);
    }
    columns(&graph)
}

/// Groups of interchangeable columns; each node is in at most one.
pub(super) fn columns(graph: &Labelled) -> Vec<Columns> {
    let n = graph.labels.len();
    let mut colour = graph.labels.clone();
    for _ in 0..n.min(40) {
        let around = |list: &[u32]| {
            let mut all: Vec<u64> = list.iter().map(|&j| colour[j as usize]).collect();
            all.sort_unstable();
            all
        };
        colour = (0..n)
            .map(|i| hash((colour[i], around(&graph.before[i]), around(&graph.after[i]))))
            .collect();
    }
    let mut count: HashMap<u64, u32> = HashMap::new();
    for &c in &colour {
        *count.entry(c).or_default() += 1;
    }
    let is_hub = |i: usize| count[&colour[i]] == 1;
    // Pieces, and the order of their nodes by colour.
    let mut seen = vec![false; n];
    let mut pieces: Vec<(Vec<u64>, Vec<u32>)> = Vec::new();
    for start in 0..n {
        if seen[start] || is_hub(start) {
            continue;
        }
        seen[start] = true;
        let mut piece = vec![start as u32];
        let mut next = 0;
        while next < piece.len() {
            let i = piece[next] as usize;
            next += 1;
            for &j in graph.before[i].iter().chain(&graph.after[i]) {
                if !seen[j as usize] && !is_hub(j as usize) {
                    seen[j as usize] = true;
                    piece.push(j);
                }
            }
        }
        piece.sort_by_key(|&i| colour[i as usize]);
        let colours: Vec<u64> = piece.iter().map(|&i| colour[i as usize]).collect();
        if colours.windows(2).all(|w| w[0] < w[1]) {
            pieces.push((colours, piece));
        }
    }
    let mut groups: Vec<(Vec<u64>, Columns)> = Vec::new();
    for (colours, piece) in pieces {
        let twin = groups
            .iter_mut()
            .find(|(c, all)| *c == colours && can_swap(graph, &all[0], &piece));
        match twin {
            Some((_, all)) => all.push(piece),
            None => groups.push((colours, vec![piece])),
        }
    }
    groups
        .into_iter()
        .map(|g| g.1)
        .filter(|all| all.len() > 1)
        .collect()
}

/// Whether exchanging two columns, row by row, leaves labels and edges as they are.
fn can_swap(graph: &Labelled, a: &[u32], b: &[u32]) -> bool {
    let mut image: HashMap<u32, u32> = HashMap::new();
    for (&x, &y) in a.iter().zip(b) {
        image.insert(x, y);
        image.insert(y, x);
    }
    let same = |x: u32, y: u32| {
        let maps = |from: &[u32], to: &[u32]| {
            let mut from: Vec<u32> = from.iter().map(|j| *image.get(j).unwrap_or(j)).collect();
            let mut to = to.to_vec();
            from.sort_unstable();
            to.sort_unstable();
            from == to
        };
        let (x, y) = (x as usize, y as usize);
        graph.labels[x] == graph.labels[y]
            && maps(&graph.before[x], &graph.before[y])
            && maps(&graph.after[x], &graph.after[y])
    };
    a.iter().zip(b).all(|(&x, &y)| same(x, y) && same(y, x))
}
