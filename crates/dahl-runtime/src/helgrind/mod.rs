//! Annotations for helgrind: who happens before whom, in builds made for it (feature `helgrind`).
//!
//! Helgrind knows the locks of pthreads only. Rust's are made of atomics and system calls, so without
//! help every access under a lock looks like a race. These are the two requests by which a program
//! states an order, and one that exempts an atomic variable itself. A request is a sequence of
//! instructions without effect, which valgrind recognises; elsewhere it does nothing at all.

pub(crate) mod sync;

use std::ops::{Deref, DerefMut};

use dahl_core::{Seconds, UnitId};
use dahl_sched::policy::{Policy, TaskRef, World};

/// What was done before this by the same thread comes before what follows [`received`] of the tag.
pub(crate) fn sending(tag: usize) {
    request(0x4847_0000 + 256 + 33, tag, 0);
}

/// See [`sending`].
pub(crate) fn received(tag: usize) {
    request(0x4847_0000 + 256 + 34, tag, 0);
}

/// Accesses to these bytes are atomic: unordered ones are no races.
pub(crate) fn atomic(address: usize, bytes: usize) {
    request(0x4847_0000 + 256 + 39, address, bytes);
}

#[cfg(target_arch = "x86_64")]
fn request(code: usize, first: usize, second: usize) {
    let arguments = [code, first, second, 0, 0, 0];
    // SAFETY: rotations that add up to whole turns, and an exchange of a register with itself:
    // nothing changes but `rdx`, which is declared. Valgrind reads the arguments.
    unsafe {
        std::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") 0usize => _,
            options(nostack),
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: usize, _: usize, _: usize) {}

/// A lock's guard that annotates the lock.
pub(crate) struct Annotated<G> {
    guard: Option<G>,
    tag: usize,
}

impl<G> Annotated<G> {
    /// For a lock, just taken, that goes by this tag.
    pub(crate) fn new(guard: G, tag: usize) -> Self {
        received(tag);
        Annotated {
            guard: Some(guard),
            tag,
        }
    }

    /// The guard itself, as if the lock were given up, and its tag.
    pub(crate) fn part(mut self) -> (Option<G>, usize) {
        sending(self.tag);
        (self.guard.take(), self.tag)
    }
}

impl<G> Drop for Annotated<G> {
    fn drop(&mut self) {
        if self.guard.is_some() {
            sending(self.tag);
        }
    }
}

impl<G: Deref> Deref for Annotated<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        self.guard.as_ref().expect("present until parted from")
    }
}

impl<G: DerefMut> DerefMut for Annotated<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        self.guard.as_mut().expect("present until parted from")
    }
}

/// A policy whose calls are annotated as one lock would order them: what was done before a call comes before what
/// follows any later one. The policy's own locks are the standard library's, which helgrind cannot see; its crate
/// forbids unsafe code, so what they guard needs no checking (`scripts/helgrind.supp`).
pub(crate) struct Handover(pub(crate) Box<dyn Policy>);

impl Handover {
    fn call<R>(&self, call: impl FnOnce(&dyn Policy) -> R) -> R {
        let tag = std::ptr::from_ref(self).addr();
        sending(tag);
        let result = call(&*self.0);
        received(tag);
        result
    }
}

impl Policy for Handover {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn needs_time(&self) -> bool {
        self.0.needs_time()
    }

    fn ready(
        &self,
        world: &dyn World,
        by: Option<UnitId>,
        tasks: &[TaskRef],
        now: Seconds,
    ) -> Option<TaskRef> {
        self.call(|policy| policy.ready(world, by, tasks, now))
    }

    fn next(&self, world: &dyn World, unit: UnitId, now: Seconds) -> Option<TaskRef> {
        self.call(|policy| policy.next(world, unit, now))
    }

    fn ended(&self, world: &dyn World, unit: UnitId, task: TaskRef, now: Seconds) {
        self.call(|policy| policy.ended(world, unit, task, now));
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        self.call(|policy| policy.backlog())
    }
}
