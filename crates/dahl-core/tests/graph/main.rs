//! Properties of graphs, against brute force: random programs, element by element and order by order. Nothing here
//! executes a task; the runtime's tests do.

mod cells;
mod edges;
mod interpreter;
mod memory;
mod partition;
mod reductions;
