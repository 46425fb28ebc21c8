//! Placement problems of others: which device computes which nodes of a graph, so that the busiest
//! device has as little to do as possible. An outside check of exact planning.
//!
//! The problem and the format are those of Tarnawski et al., "Efficient Algorithms for Device Placement
//! of DNN Graph Operators" (NeurIPS 2020). The forward nodes are divided by a chain of downward-closed
//! sets, each device getting the difference of two; backward nodes follow their colour. An accelerator's
//! load is its compute time plus, once for each node whose output crosses the border of its part, the
//! time to move that output; its memory is limited. A CPU's load is its compute time.
//!
//! ```text
//! text ─ format ─► Problem ─ contract ─► Atoms ─ instance ─► whole numbers ─┬─ bounds ─┐
//!                                                                           └─ lattice ┴─ search ─► Answer
//! ```
//!
//! This module reads no file and no clock: who wants to limit the time says so when asked.

mod answer;
mod bounds;
mod contract;
mod error;
mod format;
mod instance;
mod lattice;
mod reduce;
mod search;
mod solve;
#[cfg(test)]
mod tests;

pub use answer::{DeviceLoad, Placement};
pub use error::PlacementError;
pub use format::{Node, PlacementProblem};
pub use search::DeviceKind;
pub use solve::solve;
