//! Atomics, locks and threads: the standard library's, or those of the model checker that explores the
//! interleavings of the whole runtime (feature `shuttle`), or ones that helgrind understands (feature `helgrind`).
//!
//! `tests/loom.rs` puts loom's in this place for the primitives alone.

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{self, Thread},
};
#[cfg(not(any(feature = "shuttle", feature = "helgrind")))]
pub(crate) use std::{
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence},
    sync::{Condvar, Mutex, MutexGuard},
    thread::{self, Thread},
};
#[cfg(all(feature = "helgrind", not(feature = "shuttle")))]
pub(crate) use {
    crate::helgrind::sync::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard,
    },
    std::sync::atomic::{Ordering, fence},
    std::thread::{self, Thread},
};

/// Locks, poisoned or not: see [`dahl_sched::lock`].
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
