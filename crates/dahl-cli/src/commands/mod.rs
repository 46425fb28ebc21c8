//! The commands, one file each.

pub mod bench;
pub mod eval;
pub mod graph;
pub mod machine;
mod measure;
pub mod ops;
mod run_options;
pub mod train;
