//! Taking a lock whose holder may have panicked.
//!
//! The values behind our locks are consistent between any two statements that can panic, so a
//! poisoned lock carries no danger, and one failed task must not take the others with it.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, poisoned or not.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
