//! The commands, one file each.

pub mod bench;
pub mod graph;
pub mod machine;
