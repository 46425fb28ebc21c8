//! Exits: who must be told when a task ends, beyond the successors its graph knows.
//!
//! A launch may have to wait for single tasks of earlier launches, and a reader for single tasks of
//! any. Both register at the task's exit; when the task ends it closes the exit and tells all who
//! registered. A later waiter finds it closed and need not wait.
//!
//! The exit is a stack that is only pushed to, and taken as a whole, once:
//!
//! - `add` publishes a node with a compare-and-swap; *release*, so that `close` sees its content.
//! - `close` swaps in the mark of a closed exit; *acquire* for those contents, *release* so that
//!   a thread that finds the exit closed (`add`'s acquire) also sees what the task wrote.
//!
//! Nodes are never popped singly, so there is no ABA problem. They belong to the waiter; `close`
//! reads a node's successor before it tells the waiter, who may reuse the node from then on.

use crate::sync::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// One registration. The content is atomic only so that it can be rewritten for the next launch
/// without a mutable borrow; ordering comes from the exit.
#[derive(Debug)]
pub(crate) struct Node {
    next: AtomicPtr<Node>,
    who: AtomicUsize,
    what: AtomicU32,
}

impl Default for Node {
    fn default() -> Self {
        Node {
            next: AtomicPtr::new(std::ptr::null_mut()),
            who: AtomicUsize::new(0),
            what: AtomicU32::new(0),
        }
    }
}

/// Where waiters register for the end of one task.
#[derive(Debug)]
pub(crate) struct Exit {
    head: AtomicPtr<Node>,
}

/// The mark of a closed exit: an address no node has.
const CLOSED: *mut Node = std::ptr::without_provenance_mut(1);

impl Exit {
    /// An open exit of a task that has not ended, or a closed one of a task that has nothing to wait
    /// for yet.
    pub(crate) fn new(closed: bool) -> Self {
        Exit {
            head: AtomicPtr::new(if closed { CLOSED } else { std::ptr::null_mut() }),
        }
    }

    /// Opens the exit for the next launch. Nobody may be using it.
    pub(crate) fn reopen(&self) {
        self.head.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    /// Whether the task has ended: for the model checker.
    #[allow(dead_code)]
    pub(crate) fn is_closed(&self) -> bool {
        self.head.load(Ordering::Acquire) == CLOSED
    }

    /// Registers `node` with the message `(who, what)`. False if the task has ended already.
    ///
    /// # Safety
    /// If this returns true, the node stays where it is and is not used again until `close` has handed
    /// out its message.
    pub(crate) unsafe fn add(&self, node: &Node, who: usize, what: u32) -> bool {
        node.who.store(who, Ordering::Relaxed);
        node.what.store(what, Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Acquire);
        while head != CLOSED {
            node.next.store(head, Ordering::Relaxed);
            let node = std::ptr::from_ref(node).cast_mut();
            match self
                .head
                .compare_exchange_weak(head, node, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
        false
    }

    /// The task has ended: closes the exit and hands out the messages of all who registered.
    pub(crate) fn close(&self, mut tell: impl FnMut(usize, u32)) {
        let mut node = self.head.swap(CLOSED, Ordering::AcqRel);
        debug_assert!(node != CLOSED, "a task ends once");
        while !node.is_null() {
            // SAFETY: `add` was promised that the node stays until its message is handed out, which
            // is below, after the last use of the node.
            let (next, who, what) = unsafe {
                let node = &*node;
                (
                    node.next.load(Ordering::Relaxed),
                    node.who.load(Ordering::Relaxed),
                    node.what.load(Ordering::Relaxed),
                )
            };
            tell(who, what);
            node = next;
        }
    }
}
