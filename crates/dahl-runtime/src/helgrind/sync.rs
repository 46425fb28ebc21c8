//! The atomics, locks and condition variables of [`crate::sync`] in builds made for helgrind: the
//! standard library's, annotated with the order they make.
//!
//! Orders are annotated as they are asked for, so an operation that ought to be a release or an acquire and
//! is not shows as a race.

#![allow(dead_code)] // Every type has all operations, used or not.

use std::sync::atomic::{self, Ordering};
use std::sync::{LockResult, TryLockError, TryLockResult};

use super::{Annotated, received, sending};

fn releases(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Release | Ordering::AcqRel | Ordering::SeqCst
    )
}

fn acquires(order: Ordering) -> bool {
    matches!(
        order,
        Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst
    )
}

/// An atomic variable.
#[derive(Debug, Default)]
pub(crate) struct Atomic<A>(A);

impl<A> Atomic<A> {
    /// Performs an operation of this order on the variable.
    fn tell<R>(&self, order: Ordering, operation: impl FnOnce(&A) -> R) -> R {
        let tag = std::ptr::from_ref(&self.0).addr();
        super::atomic(tag, size_of::<A>());
        if releases(order) {
            sending(tag);
        }
        let result = operation(&self.0);
        if acquires(order) {
            received(tag);
        }
        result
    }
}

macro_rules! atomics {
    ($($name:ident $(<$t:ident>)? = $inner:ty, $value:ty;)*) => {$(
        /// The standard library's, annotated.
        pub(crate) type $name $(<$t>)? = Atomic<$inner>;

        impl $(<$t>)? Atomic<$inner> {
            pub(crate) fn new(value: $value) -> Self {
                Atomic(<$inner>::new(value))
            }

            pub(crate) fn load(&self, order: Ordering) -> $value {
                self.tell(order, |a| a.load(order))
            }

            pub(crate) fn store(&self, value: $value, order: Ordering) {
                self.tell(order, |a| a.store(value, order));
            }

            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                self.tell(order, |a| a.swap(value, order))
            }

            pub(crate) fn compare_exchange_weak(
                &self, current: $value, new: $value, order: Ordering, failure: Ordering,
            ) -> Result<$value, $value> {
                self.tell(order, |a| a.compare_exchange_weak(current, new, order, failure))
            }
        }
    )*};
}

atomics! {
    AtomicBool = atomic::AtomicBool, bool;
    AtomicU32 = atomic::AtomicU32, u32;
    AtomicU64 = atomic::AtomicU64, u64;
    AtomicUsize = atomic::AtomicUsize, usize;
    AtomicPtr<T> = atomic::AtomicPtr<T>, *mut T;
}

macro_rules! counters {
    ($($inner:ty, $value:ty;)*) => {$(
        impl Atomic<$inner> {
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.tell(order, |a| a.fetch_add(value, order))
            }

            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.tell(order, |a| a.fetch_sub(value, order))
            }

            pub(crate) fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                self.tell(order, |a| a.fetch_max(value, order))
            }
        }
    )*};
}

counters! {
    atomic::AtomicU32, u32;
    atomic::AtomicU64, u64;
    atomic::AtomicUsize, usize;
}

/// A lock.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

/// A lock's guard.
pub(crate) type MutexGuard<'a, T> = Annotated<std::sync::MutexGuard<'a, T>>;

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(Annotated::new(guard, std::ptr::from_ref(&self.0).addr()))
    }

    pub(crate) fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let guard = match self.0.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(TryLockError::WouldBlock),
        };
        Ok(Annotated::new(guard, std::ptr::from_ref(&self.0).addr()))
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub(crate) struct Condvar(std::sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (guard, tag) = guard.part();
        let guard = self.0.wait(guard.expect("just taken"));
        Ok(Annotated::new(
            guard.unwrap_or_else(std::sync::PoisonError::into_inner),
            tag,
        ))
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        at_most: std::time::Duration,
    ) -> LockResult<(MutexGuard<'a, T>, std::sync::WaitTimeoutResult)> {
        let (guard, tag) = guard.part();
        let waited = self.0.wait_timeout(guard.expect("just taken"), at_most);
        let (guard, over) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok((Annotated::new(guard, tag), over))
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
