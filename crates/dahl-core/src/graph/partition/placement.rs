//! Which nodes run which task.

/// For every task of a graph the nodes that run it: one, or several where each computes for itself what would
/// else travel. The same kernel on the same input gives the same bits, so those that run a task all hold its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where the nodes of each task begin, and where the last one's end.
    start: Vec<u32>,
    nodes: Vec<u16>,
}

impl Placement {
    /// From the nodes of each task in program order; an empty list places a task nowhere, which [`super::Holders::exchange`]
    /// refuses.
    pub fn new<N: AsRef<[u16]>>(tasks: impl IntoIterator<Item = N>) -> Self {
        let (mut start, mut nodes) = (vec![0], Vec::new());
        for task in tasks {
            nodes.extend_from_slice(task.as_ref());
            start.push(nodes.len() as u32);
        }
        Placement { start, nodes }
    }

    /// For how many tasks it is.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.start.len() - 1
    }

    /// The nodes that run a task.
    pub fn of(&self, task: u32) -> &[u16] {
        let t = task as usize;
        &self.nodes[self.start[t] as usize..self.start[t + 1] as usize]
    }

    /// Whether a node runs a task.
    pub fn runs(&self, task: u32, node: u16) -> bool {
        self.of(task).contains(&node)
    }
}

/// One node for each task.
impl FromIterator<u16> for Placement {
    fn from_iter<I: IntoIterator<Item = u16>>(nodes: I) -> Self {
        Placement::from(Vec::from_iter(nodes))
    }
}

/// One node for each task.
impl From<Vec<u16>> for Placement {
    fn from(node_of: Vec<u16>) -> Self {
        Placement {
            start: (0..=node_of.len() as u32).collect(),
            nodes: node_of,
        }
    }
}
