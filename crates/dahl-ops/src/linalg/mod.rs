//! Dense linear algebra.

pub mod correlate;
pub mod matmul;
pub mod rearrange;
pub mod small;
pub mod vector;
