//! StarPU as an engine: the same graphs, kernels and memory under StarPU's workers and schedulers.
//!
//! `StarPu` takes the place of the runtime's workers and policy (`Runtime::builder().engine(StarPu::new("dmdas")?)`).
//! StarPU gets a task for each of a graph's, with its priority, and the edges between them as task dependencies; which
//! worker runs what and when is its decision alone. What a task computes is not, so the bits are those of any other run.
//! `StarPu::with_data` also gives it a data handle for every cell of the graph's arrays.
//!
//! Only CPUs: StarPU's own drivers for GPUs would need kernels of their own, and data at addresses that StarPU may change. Dependencies on earlier
//! launches are counted by the runtime, as values and memory are, and a task is submitted when they are met: StarPU never
//! sees a task of which it could not have known more. StarPU is one for a process: a second engine waits for the end of
//! the first, or is refused.
//!
//! | file | what |
//! |---|---|
//! | `shim.c`, `shim` | StarPU's structures as plain functions, compiled against its headers |
//! | `engine` | starting and ending it, policies, kinds of tasks |
//! | `tasks` | the tasks of a graph, declared and submitted launch by launch |
//! | `data` | what StarPU sees of a graph's data |

#![cfg(feature = "link")]
#![cfg_attr(not(test), warn(unreachable_pub))]

mod data;
mod engine;
mod shim;
mod tasks;

pub use engine::StarPu;
