//! Atomics, locks and threads: the standard library's, or those of the model checker that explores
//! their interleavings (`--cfg loom` for the primitives, `--cfg shuttle` for the whole runtime), or ones
//! that helgrind understands (`--cfg helgrind`).

#[cfg(loom)]
pub use loom::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{self, Thread},
};
#[cfg(shuttle)]
pub use shuttle::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{self, Thread},
};
#[cfg(not(any(loom, shuttle, helgrind)))]
pub use std::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{self, Thread},
};
#[cfg(helgrind)]
pub use {
    crate::helgrind::sync::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard,
    },
    std::sync::atomic::{Ordering, fence},
    std::thread::{self, Thread},
};

/// Locks, poisoned or not: see [`dahl_sched::lock`].
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
