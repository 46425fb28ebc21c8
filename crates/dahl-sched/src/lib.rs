//! Everything in DAHL that decides or predicts: policies, performance models, simulator, planner.

pub mod batch;
mod edges;
pub mod lock;
pub mod model;
pub mod plan;
pub mod policy;
pub mod sim;
#[cfg(helgrind)]
pub mod told;
pub mod transfers;
