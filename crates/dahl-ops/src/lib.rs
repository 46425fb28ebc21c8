//! DAHL's operations: one file each, with shape rule, cost, gradient and CPU implementations.

pub mod window;
