//! Kernels of elementwise operations: pure functions over views, on one thread.

pub(crate) mod binary;
pub(crate) mod relu;
pub(crate) mod unary;
