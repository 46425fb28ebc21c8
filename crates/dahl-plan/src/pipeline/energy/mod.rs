//! The least joules of a pipeline's iteration for every time: which frequency each computation runs at.
//!
//! The problem is that of Chung et al., "Reducing Energy Bloat in Large Model Training" (Perseus, SOSP 2024): stages
//! run forward and backward computations of micro-batches in the order of 1F1B and end with a flush; each computation
//! can be slowed down, and a unit that waits draws power, too. Times are never rounded here, and each point has a
//! lower bound.
//!
//! ```text
//! CSV ─ options ─► OptionTable ─ iteration ─► who waits for whom ─┬─ simplex ─► flow: a lower bound, and times
//!                                                                 └─ round ───► one option each: a point
//!                                                          two points ─ splice ─► a point between them
//! ```

mod dive;
mod frontier;
mod iteration;
mod options;
mod round;
mod rounds;
mod simplex;
mod splice;
#[cfg(test)]
mod tests;

pub use frontier::{EnergyFrontier, EnergyPoint, energy_frontier};
pub use options::{EnergyError, OptionTable};
