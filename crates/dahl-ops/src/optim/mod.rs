//! Optimiser updates of tiles of parameters, with PyTorch's formulas in PyTorch's order.
//!
//! What changes between launches (learning rate, step) is read from a small view by the caller.

pub mod adam;
pub mod clip;
pub mod sgd;
