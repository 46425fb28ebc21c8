//! Every interleaving of the lock-free primitives, and every value that the memory model lets a load return.
//!
//! The primitives use nothing of their crate but `crate::sync`, so this test compiles their files against loom's
//! atomics and threads, which takes no other build of the crate.

#[allow(dead_code)]
#[path = "../src/countdown.rs"]
mod countdown;
#[allow(dead_code)]
#[path = "../src/exit.rs"]
mod exit;
#[allow(dead_code)]
#[path = "../src/sleep.rs"]
mod sleep;

/// What `src/sync.rs` is to the crate.
mod sync {
    pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
    pub use loom::sync::{Mutex, MutexGuard};
    pub use loom::thread::{self, Thread};

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
}

use countdown::Countdown;
use exit::{Exit, Node};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use sleep::Sleep;

/// Three threads are as many as loom explores exhaustively in seconds; more preemptions than this
/// have never been needed to show a bug in structures this small.
fn model(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(body);
}

/// What a task wrote, which others may only read once told: loom reports unordered accesses.
struct Written(UnsafeCell<u32>);

// SAFETY: whether accesses are ordered is what the models below find out.
unsafe impl Sync for Written {}

impl Written {
    fn new() -> Self {
        Written(UnsafeCell::new(0))
    }

    fn write(&self, value: u32) {
        // SAFETY: loom checks that nobody else is accessing it.
        self.0.with_mut(|p| unsafe { *p = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: as above.
        self.0.with(|p| unsafe { *p })
    }
}

#[test]
fn exactly_one_counts_down_last_and_sees_what_all_wrote() {
    model(3, || {
        let state = Arc::new((
            Countdown::new(),
            [Written::new(), Written::new(), Written::new()],
        ));
        state.0.reset(3);
        let lasts = Arc::new(AtomicUsize::new(0));
        let go = |me: usize| {
            let (state, lasts) = (state.clone(), lasts.clone());
            move || {
                state.1[me].write(1);
                if state.0.count_down() {
                    lasts.fetch_add(1, Ordering::Relaxed);
                    assert_eq!(state.1.iter().map(Written::read).sum::<u32>(), 3);
                }
            }
        };
        let others = [thread::spawn(go(0)), thread::spawn(go(1))];
        go(2)();
        others.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(lasts.load(Ordering::Relaxed), 1);
    });
}

/// A launch registers for a task of an earlier one that may end at any moment, then lets go itself.
#[test]
fn a_launch_that_registers_late_is_released_once() {
    model(3, || {
        let state = Arc::new((
            Exit::new(false),
            Countdown::new(),
            Node::default(),
            Written::new(),
        ));
        let released = Arc::new(AtomicUsize::new(0));
        state.1.reset(1);
        let release = {
            let (state, released) = (state.clone(), released.clone());
            move || {
                if state.1.count_down() {
                    assert_eq!(
                        state.3.read(),
                        7,
                        "released before the task it waits for ended"
                    );
                    released.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let earlier = {
            let (state, release) = (state.clone(), release.clone());
            thread::spawn(move || {
                state.3.write(7);
                state.0.close(|_, _| release());
            })
        };
        state.1.add();
        // SAFETY: the node lives in `state` until both threads have ended.
        if !unsafe { state.0.add(&state.2, 1, 1) } {
            state.1.take_back();
        }
        release();
        earlier.join().unwrap();
        assert_eq!(released.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn whoever_registers_is_told_once_or_finds_the_exit_closed() {
    model(3, || {
        let state = Arc::new((
            Exit::new(false),
            [Node::default(), Node::default()],
            Written::new(),
        ));
        let told = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let add = |me: usize| {
            let state = state.clone();
            move || {
                // SAFETY: the node lives in `state` until all threads have ended.
                let added = unsafe { state.0.add(&state.1[me], me, 40 + me as u32) };
                if !added {
                    assert_eq!(
                        state.2.read(),
                        7,
                        "closed, yet the task's writes are not visible"
                    );
                }
                added
            }
        };
        let others = [thread::spawn(add(0)), thread::spawn(add(1))];
        state.2.write(7);
        state.0.close(|who, what| {
            assert_eq!(what, 40 + who as u32, "the message is another's");
            told[who].fetch_add(1, Ordering::Relaxed);
        });
        assert!(state.0.is_closed());
        let added = others.map(|t| t.join().unwrap());
        for (who, added) in added.into_iter().enumerate() {
            assert_eq!(
                told[who].load(Ordering::Relaxed),
                usize::from(added),
                "waiter {who}"
            );
        }
    });
}

/// A node may be used again as soon as its message is out, even for the same kind of exit.
#[test]
fn a_node_told_can_be_used_again() {
    model(3, || {
        let state = Arc::new((
            [Exit::new(false), Exit::new(false)],
            Node::default(),
            AtomicUsize::new(0),
        ));
        let closer = {
            let state = state.clone();
            thread::spawn(move || {
                state.0[0].close(|_, what| {
                    state.2.fetch_add(what as usize, Ordering::Release);
                });
                state.0[1].close(|_, what| {
                    state.2.fetch_add(what as usize, Ordering::Release);
                });
            })
        };
        // SAFETY: the node is used for the second exit only if the first did not take it, or has
        // handed out its message.
        let first = unsafe { state.0[0].add(&state.1, 0, 1) };
        let free = !first || state.2.load(Ordering::Acquire) == 1;
        // SAFETY: as above.
        let second = free && unsafe { state.0[1].add(&state.1, 0, 10) };
        closer.join().unwrap();
        assert_eq!(
            state.2.load(Ordering::Relaxed),
            usize::from(first) + 10 * usize::from(second)
        );
    });
}

/// Loom reports a deadlock if the sleeper parks and nobody wakes it.
#[test]
fn no_wake_up_is_lost() {
    model(4, || {
        let state = Arc::new((Sleep::new(2, 2), AtomicBool::new(false)));
        let sleeper = {
            let state = state.clone();
            thread::spawn(move || {
                while !state.1.load(Ordering::Relaxed) {
                    state
                        .0
                        .sleep(1, || state.1.load(Ordering::Relaxed).then_some(()));
                }
            })
        };
        state.1.store(true, Ordering::Relaxed);
        state.0.wake_any();
        sleeper.join().unwrap();
        assert_eq!(state.0.asleep(), [false, false]);
    });
}

/// Two pieces of work, two sleepers that each take one: one call wakes one thread, and both run.
#[test]
fn as_many_are_woken_as_there_is_work() {
    model(2, || {
        let state = Arc::new((Sleep::new(2, 2), AtomicUsize::new(0)));
        let take = |work: &AtomicUsize| {
            work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                .ok()
        };
        let sleepers = [0, 1].map(|me| {
            let state = state.clone();
            thread::spawn(move || {
                let mut mine = take(&state.1);
                while mine.is_none() {
                    mine = state
                        .0
                        .sleep(me, || take(&state.1))
                        .or_else(|| take(&state.1));
                }
            })
        });
        for _ in 0..2 {
            state.1.fetch_add(1, Ordering::Relaxed);
            state.0.wake_any();
        }
        sleepers.into_iter().for_each(|t| t.join().unwrap());
    });
}

#[test]
fn waking_one_bed_wakes_its_thread() {
    model(4, || {
        let state = Arc::new((Sleep::new(2, 2), AtomicUsize::new(0)));
        let sleeper = {
            let state = state.clone();
            thread::spawn(move || {
                while state.1.load(Ordering::Acquire) < 2 {
                    state
                        .0
                        .sleep(0, || (state.1.load(Ordering::Acquire) >= 2).then_some(()));
                }
            })
        };
        for _ in 0..2 {
            state.1.fetch_add(1, Ordering::Release);
            state.0.wake(0);
        }
        sleeper.join().unwrap();
    });
}
