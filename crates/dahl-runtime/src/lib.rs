//! Everything in DAHL that executes: workers, memories and transfers, drivers.
//!
//! | file | what |
//! |---|---|
//! | `runtime` | launches graphs, hands out results |
//! | `prepare` | what is kept of a graph, from its first launch on |
//! | `layers` | what a launch waits for in earlier ones |
//! | `builder` | settings |
//! | `instance` | the state of one launch of a graph |
//! | `worker`, `completion` | what a unit's thread does; what follows when a task has ended |
//! | `shared` | what all threads share |
//! | `countdown`, `exit`, `sleep` | the lock-free primitives |
//! | `driver` | how a unit executes a task |
//! | `engine` | somebody else's workers in the place of these |
//! | `heap` | temporaries allocated one by one, instead of in one planned block |
//! | `memory` | copies in other memories, transfers, eviction |
//! | `network` | messages between the nodes of a cluster |
//! | `values`, `guard` | how results are read, and what readers hold |
//! | `tracer`, `clock` | what ran where and when |
//! | `learn` | timings become estimates |
//! | `perf_store` | performance models on disk |
//! | `discover`, `topology`, `pin` | this computer; which worker gets which core |

#![cfg_attr(not(test), warn(unreachable_pub))]

mod builder;
mod clock;
mod completion;
mod countdown;
pub mod discover;
pub mod driver;
pub mod engine;
pub mod error;
mod executor;
mod exit;
mod guard;
mod heap;
#[cfg(all(feature = "helgrind", not(feature = "shuttle")))]
mod helgrind;
mod instance;
mod layers;
mod learn;
pub mod memory;
pub mod network;
pub mod perf_store;
mod pin;
mod prepare;
mod runtime;
mod shared;
mod sleep;
mod sync;
mod topology;
mod tracer;
mod values;
mod watchdog;
mod worker;

pub use builder::{Builder, DeviceSpec, HostDeviceSpec, MakeOrder, Schedule, memory_name};
pub use error::RunError;
pub use guard::{ReadGuard, WriteGuard};
pub use heap::Temporaries;
pub use memory::Traffic;
pub use runtime::{Canceller, Runtime};
pub use shared::Sample;
