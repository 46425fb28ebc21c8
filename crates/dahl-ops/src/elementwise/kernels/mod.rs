//! Kernels of elementwise operations: pure functions over views, on one thread.

pub mod binary;
pub mod relu;
pub mod unary;
