//! Edges of a graph by where they begin: flat, made once, and looked up without a search.

/// Edges by the node that they begin at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edges {
    start: Vec<u32>,
    to: Vec<u32>,
}

impl Edges {
    /// These edges between so many nodes; equal ones count once.
    pub fn new(nodes: usize, mut pairs: Vec<(u32, u32)>) -> Edges {
        pairs.sort_unstable();
        pairs.dedup();
        let mut start = vec![0u32; nodes + 1];
        for (from, _) in &pairs {
            start[*from as usize + 1] += 1;
        }
        for i in 0..nodes {
            start[i + 1] += start[i];
        }
        Edges {
            start,
            to: pairs.into_iter().map(|p| p.1).collect(),
        }
    }

    /// Where the edges of a node lead to.
    #[inline]
    pub fn of(&self, node: u32) -> &[u32] {
        let n = node as usize;
        &self.to[self.start[n] as usize..self.start[n + 1] as usize]
    }
}
