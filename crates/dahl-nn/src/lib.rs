//! Layers, models, losses, optimisers, checkpoints and the training loop of DAHL.

pub mod checkpoint;
pub mod init;
pub mod lower;
pub mod model;
pub mod models;
pub mod optimizer;
pub mod schedule;
#[cfg(test)]
mod testing;
pub mod train;
pub mod weights;
