//! How much memory a parser holds at once: an allocator that counts.
//!
//! It counts by thread, since parsers work on the one that calls them and tests run side by side. It refuses nothing:
//! the harness that runs an input compares the peak with [`MEMORY`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The most bytes that one input may make a parser hold.
pub const MEMORY: usize = 512 << 20;

thread_local! {
    // Constant and without destructors: reading them allocates nothing.
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator, counting. Programs that fuzz make it theirs with `#[global_allocator]`.
pub struct Counting;

fn add(bytes: usize) {
    // A thread that ends has no counters any more.
    let _ = HELD.try_with(|held| {
        held.set(held.get().wrapping_add(bytes));
        // What was freed here and allocated elsewhere makes the count negative.
        if (held.get() as isize) > MOST.get() as isize {
            MOST.set(held.get());
        }
    });
}

fn remove(bytes: usize) {
    let _ = HELD.try_with(|held| held.set(held.get().wrapping_sub(bytes)));
}

// SAFETY: every call is passed on to the system's allocator as it is; counting allocates nothing and cannot panic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        remove(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new may both be there while bytes are copied.
        add(size);
        remove(layout.size());
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(at, layout, size) }
    }
}

/// From here on, what this thread holds beyond what it held already.
pub(crate) struct Counted(usize);

impl Counted {
    pub(crate) fn begin() -> Counted {
        let held = HELD.get();
        MOST.set(held);
        Counted(held)
    }

    /// The most since the beginning; 0 where nobody counts.
    pub(crate) fn most(&self) -> usize {
        MOST.get().wrapping_sub(self.0)
    }
}
