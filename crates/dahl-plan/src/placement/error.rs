//! What can be wrong with a placement problem.

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// Not JSON, or not this format.
    #[error("not a placement problem: {0}")]
    Json(serde_json::Error),
    /// A time or size that is none.
    #[error("{what} is {value}; it must be a number that is not negative")]
    BadNumber {
        /// Which field of what.
        what: String,
        /// Its value.
        value: f64,
    },
    /// Numbers whose sum is none.
    #[error("the sum of {0} over all nodes is beyond the range of numbers; use a larger unit")]
    TooLarge(&'static str),
    /// Two nodes of one name.
    #[error("node {0} appears twice; give each node an id of its own")]
    DuplicateNode(i64),
    /// An edge to nowhere.
    #[error("{edge}: there is no node {id}")]
    UnknownNode {
        /// Which edge.
        edge: String,
        /// The end that does not exist.
        id: i64,
    },
    /// A backward node before a forward one.
    #[error(
        "edge {0} -> {1} leads from a backward to a forward node; \
         the forward pass cannot wait for the backward pass: check isBackwardNode of both"
    )]
    BackwardToForward(i64, i64),
    /// A node whose output has two prices.
    #[error(
        "edges out of node {node} have different costs, {} and {}; \
         an output is moved as a whole, so they must agree", .costs[0], .costs[1]
    )]
    TwoCosts {
        /// The node.
        node: i64,
        /// Two of its costs.
        costs: [f64; 2],
    },
    /// Nodes that wait for each other.
    #[error("the nodes {} wait for each other in a cycle; remove one of its edges", list(.0))]
    Cycle(Vec<i64>),
    /// Nowhere to go.
    #[error("maxFPGAs and maxCPUs are both 0, and {0} nodes need a device")]
    NoDevice(usize),
    /// Nodes that must share a device which does not exist.
    #[error(
        "nodes {} must share a device (same colorClass or a cycle between classes) and \
         {} cannot run on an accelerator, but maxCPUs is 0", list(.nodes), list(.unsupported)
    )]
    NeedsCpu {
        /// Nodes that stay together.
        nodes: Vec<i64>,
        /// Those that no accelerator supports.
        unsupported: Vec<i64>,
    },
    /// Nodes that must share a device and are too large for it.
    #[error(
        "nodes {} must share a device and take {size}: {} more than maxSizePerFPGA ({limit}), \
         and maxCPUs is 0", list(.nodes), .size - .limit
    )]
    AtomTooLarge {
        /// Nodes that stay together.
        nodes: Vec<i64>,
        /// Their size.
        size: f64,
        /// The limit.
        limit: f64,
    },
    /// More than all accelerators hold.
    #[error(
        "all nodes together take {size}: {} more than {accelerators} accelerators of \
         maxSizePerFPGA {limit} hold, and maxCPUs is 0", .size - .limit * *.accelerators as f64
    )]
    AllTooLarge {
        /// Size of all nodes.
        size: f64,
        /// How many accelerators.
        accelerators: usize,
        /// Memory of one.
        limit: f64,
    },
    /// They would fit, but not in an order that the graph allows.
    #[error(
        "no division into contiguous parts fits: {accelerators} accelerators would need at least \
         {needed} each, {} more than maxSizePerFPGA ({limit}), and maxCPUs is 0", .needed - .limit
    )]
    PartsTooLarge {
        /// Least size of the largest part.
        needed: f64,
        /// How many accelerators.
        accelerators: usize,
        /// Memory of one.
        limit: f64,
    },
    /// The search ended before it found anything.
    #[error(
        "found no placement within maxSizePerFPGA ({limit}) in the time given, \
         and did not prove that there is none; allow more time or memory"
    )]
    NothingFound {
        /// Memory of one accelerator.
        limit: f64,
    },
}

/// At most this many ids are worth reading.
const SHOWN: usize = 8;

fn list(ids: &[i64]) -> String {
    let mut shown: Vec<String> = ids.iter().take(SHOWN).map(i64::to_string).collect();
    if ids.len() > SHOWN {
        shown.push(format!("and {} more", ids.len() - SHOWN));
    }
    shown.join(", ")
}
