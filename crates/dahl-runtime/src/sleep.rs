//! Sleep: how idle threads stop using the processor, and how none of them misses its work.
//!
//! A thread that found nothing to do announces that it sleeps, *looks once more*, and only then parks.
//! A thread that makes work available does so first and *then* looks for sleepers. Both put a sequentially
//! consistent fence between the two steps, so that at least one of them sees the other:
//!
//! ```text
//!     sleeper: announce; fence; look for work        waker: publish work; fence; look for sleepers
//! ```
//!
//! If the sleeper misses the work, its announcement came first in the fences' total order, so the
//! waker sees it. Waking takes the announcement back with a swap; the one who gets it unparks, so a
//! thread is unparked once per sleep.
//!
//! A thread that finds work in its last look may have been chosen by a waker at the same moment, for
//! other work. It then wakes the next one in its place, or that work would wait for it.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, Thread, fence, lock, thread};

/// Where threads sleep; each has a slot of its own.
#[derive(Debug)]
pub(crate) struct Sleep {
    /// The first so many slots are for threads that take any work.
    workers: usize,
    asleep: CachePadded<AtomicUsize>,
    slots: Vec<CachePadded<ParkSlot>>,
}

#[derive(Debug)]
struct ParkSlot {
    taken: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Sleep {
    /// Beds for so many threads, of which the first `workers` take any work.
    pub(crate) fn new(threads: usize, workers: usize) -> Self {
        let slot = || {
            CachePadded::new(ParkSlot {
                taken: AtomicBool::new(false),
                thread: Mutex::new(None),
            })
        };
        Sleep {
            workers,
            asleep: CachePadded::new(AtomicUsize::new(0)),
            slots: (0..threads).map(|_| slot()).collect(),
        }
    }

    /// Sleeps in slot `me` until woken, unless `look` finds something to do after all; what it finds is
    /// returned. One thread per slot.
    pub(crate) fn sleep<T>(&self, me: usize, look: impl FnOnce() -> Option<T>) -> Option<T> {
        let slot = &self.slots[me];
        *lock(&slot.thread) = Some(thread::current());
        slot.taken.store(true, Ordering::Relaxed);
        self.asleep.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let found = look();
        if found.is_some() {
            if !self.rouse(me) {
                self.wake_any();
            }
            return found;
        }
        while slot.taken.load(Ordering::Acquire) {
            thread::park();
        }
        None
    }

    /// Takes back the announcement of slot `i`; true if this call did.
    fn rouse(&self, i: usize) -> bool {
        let mine = self.slots[i].taken.swap(false, Ordering::AcqRel);
        if mine {
            self.asleep.fetch_sub(1, Ordering::Relaxed);
        }
        mine
    }

    fn wake_bed(&self, i: usize) -> bool {
        if !self.slots[i].taken.load(Ordering::Relaxed) || !self.rouse(i) {
            return false;
        }
        if let Some(thread) = &*lock(&self.slots[i].thread) {
            thread.unpark();
        }
        true
    }

    /// Wakes the thread of one slot, if it sleeps; true if it did. What it should find must be there
    /// already.
    pub(crate) fn wake(&self, i: usize) -> bool {
        fence(Ordering::SeqCst);
        self.wake_bed(i)
    }

    /// Wakes one worker, if any sleeps; true if one did.
    pub(crate) fn wake_any(&self) -> bool {
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed) > 0 && (0..self.workers).any(|i| self.wake_bed(i))
    }

    /// Wakes everybody.
    pub(crate) fn wake_all(&self) {
        fence(Ordering::SeqCst);
        (0..self.slots.len()).for_each(|i| {
            self.wake_bed(i);
        });
    }

    /// Whether as many threads sleep as there are workers: a guess by which others decide how to wait.
    pub(crate) fn nobody_works(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) >= self.workers
    }

    /// Which slots are taken.
    pub(crate) fn asleep(&self) -> Vec<bool> {
        self.slots
            .iter()
            .map(|b| b.taken.load(Ordering::Relaxed))
            .collect()
    }
}
