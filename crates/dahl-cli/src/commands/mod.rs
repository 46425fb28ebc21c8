//! The commands, one file each.

pub mod bench;
pub mod eval;
pub mod graph;
pub mod machine;
pub mod ops;
mod run_options;
pub mod train;
