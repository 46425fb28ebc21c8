//! One graph on several nodes: from a placement to what each node runs, sends and receives.
//!
//! A [`Placement`] says for every task which node runs it, or which nodes do. [`Holders::exchange`] walks the tasks in program order,
//! keeps for every element which nodes hold its newest value, and lists a [`Transfer`] where a task reads what
//! its node lacks. [`part`] makes of that list a node's own graph: its tasks, and a task for every message that
//! it sends or receives. Edges and memory plan follow as for any other graph, since a message reads or writes a
//! region like any task: a receive waits for those who still read the old values, a send for those who make
//! the new ones.
//!
//! Everything here is a pure function. All nodes call it with equal graphs and equal placements, so all know the same
//! list, and a message is named by its place in it: nothing is agreed upon at run time, and no bit of a result
//! depends on the placement. Who moves the bytes, and when, is not known here; what should go first is: tasks and messages
//! of a part are *due* in an order that lets messages leave while there is much left to compute (`due`), and large sums and
//! updates are cut into pieces for nodes to share (`pieces`).
//!
//! **Nobody waits in a circle**, even if a send ends only when its receive has begun. Both ends of a transfer stand at
//! the same place of the program order, before the task that asked for it; all other edges of all parts lead
//! forward in that order. So the first thing in it that has not ended can always go on.

mod due;
mod holders;
mod pairwise;
mod part;
mod pieces;
mod place;
mod placement;
mod traffic;
mod trim;

pub use due::LAUNCH;
pub use holders::{Holders, Transfer};
pub use pairwise::{for_shares, pairwise};
pub use part::{Message, Part, part};
pub use place::{place_by_rows, place_by_stages, rows_of};
pub use placement::Placement;
pub use traffic::{Load, loads, ring_bytes, steady_loads};
pub(super) use trim::interval;

/// Why a placement cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlacementError {
    /// Nobody gets anything, or something that is no share.
    #[error("shares {0:?}: use one number of at least 0 for each node, not all of them 0")]
    Shares(Vec<f64>),
    /// Not one share for every node.
    #[error("shares for {shares} of {nodes} nodes: give one number for each node, as in 3:1")]
    Nodes {
        /// How many shares.
        shares: usize,
        /// How many nodes.
        nodes: u16,
    },
    /// It is for another graph.
    #[error("the placement is for {placed} tasks, the graph has {tasks}")]
    Length {
        /// Tasks of the placement.
        placed: usize,
        /// Tasks of the graph.
        tasks: usize,
    },
    /// A task belongs to no stage.
    #[error("task {task} is of stage {stage}: there are {stages} stages, numbered from 0")]
    Stage {
        /// The task.
        task: usize,
        /// Its stage.
        stage: u16,
        /// How many stages there are.
        stages: usize,
    },
    /// A task is not placed.
    #[error("task {0} is placed on no node: each task needs one")]
    Nowhere(usize),
    /// A task is placed where there is nothing.
    #[error("task {task} is placed on node {node}: there are {nodes} nodes, numbered from 0")]
    Node {
        /// The task.
        task: usize,
        /// Its node.
        node: u16,
        /// How many nodes there are.
        nodes: u16,
    },
}
