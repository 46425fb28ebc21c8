//! The words of DAHL: arrays, regions, tasks, graphs, machines. No threads, no clock, no I/O.

pub mod dtype;
pub mod region;
pub mod shape;
pub mod view;

pub use dtype::{DType, Element};
pub use region::Region;
pub use shape::{Shape, ShapeError};
pub use view::{View, ViewMut};
