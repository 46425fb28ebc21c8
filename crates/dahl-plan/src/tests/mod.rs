//! The planner against exhaustive search, and what it does with large and impossible problems.

mod bounds;
mod critical_cycle;
mod exact;
mod expected;
mod followed;
mod graphs;
mod policies;
mod ports;
pub(crate) mod random;
mod replays;
mod series;
mod states;
mod steady;
mod training;
mod transfers;
mod warm_starts;
mod whole;
