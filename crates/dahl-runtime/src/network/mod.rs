//! Messages between the nodes of a cluster: what a part of a graph sends and receives.
//!
//! Messages are tasks of the graph ([`dahl_core::graph::partition`]), but no unit executes them and no policy hears of
//! them. The thread that has the *progress engine* starts those that are ready, asks the [`Transport`] which have ended, and
//! releases their successors; many are under way at once. Workers take it for a moment when a task of theirs has ended, and
//! again and again while they have nothing to do: what arrives is found within microseconds and runs on the thread that
//! found it. One thread per runtime, which sleeps most of the time, sees to it when they are busy for long or asleep.
//!
//! Both ends know every message beforehand: by the number of the launch and its place in the list of transfers. So all
//! nodes must launch the same graphs with the same placements in the same order ([`Member`] does), and nothing is
//! negotiated.
//!
//! Losing a node is the end of a run, for every node: what was under way is given up, the launch fails with an error that
//! names the node, and nothing waits for ever. A node that ends early says why to the others, if it still can.

mod agree;
mod balance;
mod bell;
mod clocks;
mod exchange;
mod launcher;
mod links;
mod local;
mod member;
mod own_rows;
mod progress;
mod talk;

use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_sched::policy::TaskRef;

use crate::error::RunError;
use crate::instance::Instance;
use crate::shared::Shared;
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use progress::Progress;

pub use bell::Bell;
pub use launcher::{Launched, launched};
pub use links::MeasuredLink;
pub use local::{LinkSpeed, LocalNode, local_cluster};
pub use member::{Member, OnShares, Placer, Staged, Stager};
pub use talk::Talk;

/// Of launches this far apart no two are in flight at once: a transport may name messages by the launch's number modulo
/// this. [`Member`] sees to it.
pub const LAUNCHES_APART: u64 = 64;

/// How long the communication thread sleeps at most: a run that is cancelled by a signal is noticed this soon.
const NAP: Duration = Duration::from_millis(50);

/// A worker that comes by looks for messages if nobody has for so long.
const LOOK_EVERY: Duration = Duration::from_micros(30);

/// One end of a message.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The node at the other end.
    pub peer: u16,
    /// The launch that it belongs to; the same number on all nodes.
    pub launch: u64,
    /// Its place in the launch's list of transfers.
    pub transfer: u32,
    /// Whether it is sent from here.
    pub sends: bool,
    /// The first byte to send, or where the first byte goes.
    pub bytes: *mut u8,
    /// How many bytes.
    pub len: usize,
}

/// A node can no longer be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("node {node}: {why}")]
pub struct NodeLost {
    /// The node.
    pub node: u16,
    /// What was noticed.
    pub why: String,
}

/// Moves messages. One thread at a time calls it.
pub trait Transport: Send {
    /// The number of this node.
    fn node(&self) -> u16;

    /// How many nodes there are.
    fn nodes(&self) -> u16;

    /// What its communication thread sleeps by: rung when a message may have ended, where the transport can tell.
    fn bell(&self) -> Arc<Bell>;

    /// Begins a message; [`Transport::poll`] gives `ticket` back when it has ended.
    ///
    /// # Safety
    /// The bytes stay in place until then, or until [`Transport::abandon`] returns; nobody writes those that are sent,
    /// and nobody touches those that are received.
    unsafe fn start(&mut self, end: End, ticket: usize) -> Result<(), NodeLost>;

    /// Adds the tickets of messages that have ended.
    fn poll(&mut self, ended: &mut Vec<usize>) -> Result<(), NodeLost>;

    /// When a node last showed that it is there, by a message or otherwise.
    fn heard(&self, node: u16) -> Instant;

    /// How long nobody need ask whether a message has ended, unless the bell rings; `soon` if one is waited for with
    /// nothing else to do.
    fn nap(&self, soon: bool) -> Duration;

    /// Gives up all messages that have not ended: their bytes are not touched any more. The others hear why, if they
    /// can still be reached.
    fn abandon(&mut self, why: &str);

    /// All nodes have finished: nobody sends anything any more.
    fn close(&mut self);
}

/// What threads see of the network.
pub(crate) struct Network {
    inbox: Mutex<Vec<TaskRef>>,
    bell: Arc<Bell>,
    /// Messages under way; nobody's before the communication thread begins and after it has ended.
    progress: Mutex<Option<Progress>>,
    /// Messages under way: a figure to decide by how to wait, no signal.
    under_way: AtomicUsize,
    /// Whether the communication thread sleeps because there are none.
    dozes: AtomicBool,
    /// When somebody last had the progress engine, in nanoseconds since the start.
    looked: AtomicU64,
    start: Instant,
    /// How long a message may be under way while nothing comes from its node.
    patience: Duration,
    /// What the nodes are called, once they have said so.
    names: Mutex<Vec<String>>,
    ending: Mutex<Ending>,
}

/// How this node leaves the cluster.
#[derive(Default)]
struct Ending {
    /// Whether all nodes have finished.
    together: bool,
    /// What the others are told otherwise.
    why: Option<String>,
    /// The transport, when its thread has ended: it is closed by the thread that opened it.
    transport: Option<Box<dyn Transport>>,
}

impl Network {
    pub(crate) fn new(transport: &dyn Transport, patience: Duration) -> Self {
        Network {
            inbox: Mutex::new(Vec::new()),
            bell: transport.bell(),
            progress: Mutex::new(None),
            under_way: AtomicUsize::new(0),
            dozes: AtomicBool::new(false),
            looked: AtomicU64::new(0),
            start: Instant::now(),
            patience,
            names: Mutex::default(),
            ending: Mutex::default(),
        }
    }

    /// Notes what the nodes are called.
    fn call_nodes(&self, names: Vec<String>) {
        *lock(&self.names) = names;
    }

    fn all_names(&self) -> Vec<String> {
        lock(&self.names).clone()
    }

    /// A node, in words.
    fn name(&self, node: u16) -> String {
        match lock(&self.names).get(usize::from(node)) {
            Some(name) => format!("node {node} ({name})"),
            None => format!("node {node}"),
        }
    }

    fn lost(&self, lost: NodeLost) -> RunError {
        RunError::NodeLost(format!("{}: {}", self.name(lost.node), lost.why))
    }

    /// All nodes have finished: leaving now loses nothing.
    fn all_finished(&self) {
        lock(&self.ending).together = true;
    }

    fn has_finished(&self) -> bool {
        lock(&self.ending).together
    }

    /// What the others hear when this node leaves before they have finished.
    fn farewell(&self, shared: &Shared) -> String {
        let why = lock(&self.ending).why.clone();
        why.unwrap_or_else(|| match shared.peek_error() {
            RunError::Cancelled => "it has left the cluster".into(),
            error => error.to_string(),
        })
    }

    /// Closes the transport, when its thread has ended; by the thread that opened it.
    pub(crate) fn leave(&self) {
        let transport = lock(&self.ending).transport.take();
        drop(transport);
    }

    /// Notes why this node is about to leave before the others have finished.
    fn leave_because(&self, why: String) {
        lock(&self.ending).why.get_or_insert(why);
    }

    /// Takes the messages out of tasks that became ready, and begins them.
    pub(crate) fn take_messages(&self, shared: &Shared, tasks: &mut Vec<TaskRef>) {
        let is_message = |task: &TaskRef| {
            // SAFETY: a ready task belongs to a launch that has not ended.
            let graph = unsafe { Instance::of(*task) }.graph();
            graph.message(task.task).is_some()
        };
        if !tasks.iter().any(is_message) {
            return;
        }
        // Under the lock to the end: a message that somebody else sees may end, and its launch with it.
        let mut inbox = lock(&self.inbox);
        tasks.retain(|task| {
            let message = is_message(task);
            if message {
                inbox.push(*task);
            }
            !message
        });
        drop(inbox);
        if !self.help(shared) {
            self.bell.ring();
        }
    }

    /// Takes the progress engine for a moment, if nobody has it; false if only the communication thread may.
    ///
    /// What others put into the inbox meanwhile is not left there: who finds the engine taken has put it there before, and
    /// who leaves the engine looks again afterwards.
    pub(crate) fn help(&self, shared: &Shared) -> bool {
        // Operands in other memories are brought by a thread that may wait for it.
        if shared.memories.is_some() || shared.is_failing() {
            return false;
        }
        loop {
            let Ok(mut taken) = self.progress.try_lock() else {
                return true;
            };
            let Some(progress) = taken.as_mut().filter(|d| d.left.is_none()) else {
                return false;
            };
            if let Err(error) = progress.turn(shared, self, &mut Vec::new()) {
                shared.fail(error);
                return false;
            }
            drop(taken);
            if self.is_waiting() && self.dozes.load(Ordering::Relaxed) {
                self.bell.ring();
            }
            if lock(&self.inbox).is_empty() {
                let now = self.start.elapsed().as_nanos() as u64;
                self.looked.store(now, Ordering::Relaxed);
                return true;
            }
        }
    }

    /// A worker comes by between two tasks: it looks for messages if nobody has for a while.
    pub(crate) fn pass_by(&self, shared: &Shared) {
        if !self.is_waiting() {
            return;
        }
        let now = self.start.elapsed().as_nanos() as u64;
        if now.saturating_sub(self.looked.load(Ordering::Relaxed)) > LOOK_EVERY.as_nanos() as u64 {
            self.help(shared);
        }
    }

    /// Whether messages are under way.
    pub(crate) fn is_waiting(&self) -> bool {
        self.under_way.load(Ordering::Relaxed) > 0
    }

    /// Wakes the communication thread.
    pub(crate) fn wake(&self) {
        self.bell.ring();
    }
}

/// The body of the communication thread.
pub(crate) fn serve(shared: &Shared, network: &Network, transport: Box<dyn Transport>) {
    *lock(&network.progress) = Some(Progress::new(shared, transport));
    // Operands of messages in other memories, by ticket.
    let mut holds = Vec::new();
    while !shared.is_stopping() {
        let nap = {
            let mut progress = lock(&network.progress);
            let Some(progress) = progress.as_mut() else {
                break;
            };
            progress.serve(shared, network, &mut holds)
        };
        // As in `help`: what was put into the inbox while the progress engine was taken is not left there.
        if let Some(nap) = nap.filter(|_| lock(&network.inbox).is_empty()) {
            network.bell.sleep(nap);
            network.dozes.store(false, Ordering::Relaxed);
        }
    }
    let Some(progress) = lock(&network.progress).take() else {
        return;
    };
    let transport = progress.close(shared, network, &mut holds);
    lock(&network.ending).transport = Some(transport);
}
