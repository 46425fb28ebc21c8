//! Layers, models, losses, optimisers, checkpoints and the training loop of DAHL.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod checkpoint;
pub mod init;
pub mod keys;
pub mod layers;
pub mod losses;
pub mod lower;
pub mod model;
pub mod models;
pub mod optim;
mod registry;
pub mod schedule;
pub mod stages;
pub mod step;
#[cfg(test)]
mod testing;
pub mod train;
pub mod weights;

pub use model::Model;
pub use registry::Registry;
pub use step::Step;
