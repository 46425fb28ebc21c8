//! Layers, models, losses, optimisers, datasets, checkpoints and the training loop of DAHL.

pub mod checkpoint;
pub mod data;
pub mod init;
pub mod lower;
pub mod model;
pub mod optimizer;
mod replace;
pub mod schedule;
#[cfg(test)]
mod testing;
pub mod train;
pub mod weights;
