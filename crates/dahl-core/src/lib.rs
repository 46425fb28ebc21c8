//! The words of DAHL: arrays, regions, tasks, graphs, machines. No threads, no clock; of I/O
//! only the atomic file writer that all crates share.

#![cfg_attr(not(test), warn(unreachable_pub))]

pub mod access;
pub mod arena;
pub mod array;
pub mod codelet;
pub mod declare;
pub mod dtype;
pub mod exec;
pub mod file;
pub mod graph;
pub mod hash;
pub mod kernels;
pub mod machine;
pub mod operands;
mod panics;
pub mod random;
pub mod region;
pub mod region_set;
pub mod report;
pub mod shape;
pub mod split;
pub mod stop;
pub mod text;
pub mod trace;
pub mod units;
pub mod view;

pub use access::{Access, Merge, Mode};
pub use arena::{Arena, ArenaError};
pub use array::{Array, Block, Handle, Matrix, Part, Scalar, Storage, Tensor, Vector};
pub use codelet::{Body, Call, Codelet, Cost, Implementation, Param, TaskError};
pub use declare::{Declaration, OperandDecl, ParamDecl, ParamKind};
pub use dtype::{DType, Element};
pub use exec::{ExecError, Executor, Shown, Values, ValuesMut};
pub use graph::{Graph, GraphError, Operand, Program, Recorder, Task};
pub use kernels::{DeviceKernels, Kernel, KernelSet};
pub use machine::{
    FrequencyState, Link, Machine, MachineError, Memory, MemoryId, Node, NodeId, Power, Rated,
};
pub use machine::{Port, Switch, Unit, UnitId, UnitKind};
pub use operands::Operands;
pub use panics::panic_message;
pub use region::Region;
pub use region_set::RegionSet;
pub use shape::{Shape, ShapeError};
pub use split::{By, Split, SplitError};
pub use stop::Stop;
pub use units::{Bytes, Joules, Seconds, Watts, several};
pub use view::{View, ViewMut};
