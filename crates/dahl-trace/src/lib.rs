//! What one does with a trace: keep it in a file, sum it up, hand it to other tools, look at it.
//!
//! The events themselves are [`dahl_core::trace`]; who records them is the runtime or the simulator.
//! Everything here is a pure function of a trace: no clock, no thread, no terminal.

#![cfg_attr(not(test), warn(unreachable_pub))]

mod check;
mod compare;
pub mod export;
mod file;
mod index;
mod merge;
pub mod network;
mod renumber;
pub mod summary;
mod synthetic;
pub mod view;

pub use check::check;
pub use compare::{Change, Comparison, compare};
pub use file::{TraceError, load, read, save, write};
pub use index::Index;
pub use merge::merge;
pub use renumber::renumber;
pub use summary::Summary;
pub use synthetic::synthetic;
