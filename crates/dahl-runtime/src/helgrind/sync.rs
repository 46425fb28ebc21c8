//! The atomics, locks and condition variables of [`crate::sync`] in builds made for helgrind: the
//! standard library's, annotated with the order they make.
//!
//! Orders are annotated as they are asked for, so an operation that ought to be a release or an acquire and
//! is not shows as a race.

#![allow(dead_code)] // Every type has all operations, whoever uses them.

use std::sync::LockResult;
use std::sync::atomic::{self, Ordering};

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
pub struct Atomic<A>(A);

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
        pub type $name $(<$t>)? = Atomic<$inner>;

        impl $(<$t>)? Atomic<$inner> {
            pub fn new(value: $value) -> Self {
                Atomic(<$inner>::new(value))
            }

            pub fn load(&self, order: Ordering) -> $value {
                self.tell(order, |a| a.load(order))
            }

            pub fn store(&self, value: $value, order: Ordering) {
                self.tell(order, |a| a.store(value, order));
            }

            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.tell(order, |a| a.swap(value, order))
            }

            pub fn compare_exchange_weak(
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
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.tell(order, |a| a.fetch_add(value, order))
            }

            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.tell(order, |a| a.fetch_sub(value, order))
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
pub struct Mutex<T>(std::sync::Mutex<T>);

/// A lock's guard.
pub type MutexGuard<'a, T> = Annotated<std::sync::MutexGuard<'a, T>>;

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Mutex(std::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let guard = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(Annotated::new(guard, std::ptr::from_ref(&self.0).addr()))
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(std::sync::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (guard, tag) = guard.part();
        let guard = self.0.wait(guard.expect("just taken"));
        Ok(Annotated::new(
            guard.unwrap_or_else(std::sync::PoisonError::into_inner),
            tag,
        ))
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
