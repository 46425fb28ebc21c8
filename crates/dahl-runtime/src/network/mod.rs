//! Messages between the nodes of a cluster: what a part of a graph sends and receives.
//!
//! Messages are tasks of the graph ([`dahl_core::graph::partition`]), but no unit executes them and no policy hears of
//! them. One thread per runtime starts each when it is ready, asks the [`Transport`] which have ended, and releases
//! their successors; many are under way at once. While nothing happens it sleeps.
//!
//! Both ends know every message beforehand: by the number of the launch and its place in the list of transfers. So all
//! nodes must launch the same graphs with the same placements in the same order ([`Member`] does), and nothing is
//! negotiated.
//!
//! Losing a node is the end of a run, for every node: what was under way is given up, the launch fails with an error that
//! names the node, and nothing waits for ever. A node that ends early says why to the others, if it still can.

mod agree;
mod balance;
mod clocks;
mod exchange;
mod launcher;
mod links;
mod local;
mod member;
mod own_rows;
mod talk;

use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_core::MemoryId;
use dahl_core::operands::Placed;
use dahl_sched::policy::TaskRef;

use crate::completion::Completion;
use crate::error::RunError;
use crate::instance::Instance;
use crate::memory::{Hold, Refusal};
use crate::shared::Shared;
use crate::sync::{Mutex, lock};
use crate::tracer::Times;

pub use clocks::LinkFigures;
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

/// Moves messages. Owned by the one thread that communicates.
pub trait Transport: Send {
    /// The number of this node.
    fn node(&self) -> u16;

    /// How many nodes there are.
    fn nodes(&self) -> u16;

    /// Wakes [`Transport::wait`] from any thread, also if it comes just before the wait.
    fn waker(&self) -> Arc<dyn Fn() + Send + Sync>;

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

    /// Sleeps until a message may have ended, or it is woken, or the time is over.
    fn wait(&mut self, at_most: Duration);

    /// Gives up all messages that have not ended: their bytes are not touched any more. The others hear why, if they
    /// can still be reached.
    fn abandon(&mut self, why: &str);

    /// All nodes have finished: nobody sends anything any more.
    fn close(&mut self);
}

/// What other threads see of the communication thread.
pub(crate) struct Network {
    inbox: Mutex<Vec<TaskRef>>,
    waker: Arc<dyn Fn() + Send + Sync>,
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
            waker: transport.waker(),
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

    /// Notes why this node is about to leave before the others have finished.
    fn leave_because(&self, why: String) {
        lock(&self.ending).why.get_or_insert(why);
    }

    /// Takes the messages out of tasks that became ready.
    pub(crate) fn take_messages(&self, tasks: &mut Vec<TaskRef>) {
        let is_message = |task: &TaskRef| {
            // SAFETY: a ready task belongs to a launch that has not ended.
            let graph = unsafe { Instance::of(*task) }.graph();
            graph.message(task.task).is_some()
        };
        if !tasks.iter().any(is_message) {
            return;
        }
        // Under the lock to the end: a message that the communication thread sees may end, and its launch with it.
        let mut inbox = lock(&self.inbox);
        tasks.retain(|task| {
            let message = is_message(task);
            if message {
                inbox.push(*task);
            }
            !message
        });
        drop(inbox);
        self.wake();
    }

    pub(crate) fn wake(&self) {
        (self.waker)();
    }
}

/// A message under way.
struct UnderWay<'s> {
    task: TaskRef,
    peer: u16,
    since: Instant,
    /// The same in ticks, if it is recorded.
    begun: u64,
    hold: Option<Hold<'s>>,
}

/// The body of the communication thread.
pub(crate) fn serve<'s>(
    shared: &'s Shared,
    network: &'s Network,
    mut transport: Box<dyn Transport>,
) {
    let mut server = Server {
        shared,
        completion: Completion::new(None, shared),
        slots: Vec::new(),
        free: Vec::new(),
        network,
    };
    let (mut ready, mut ended) = (Vec::new(), Vec::new());
    // Why this node has left: what is launched after that fails as well.
    let mut left: Option<RunError> = None;
    while !shared.is_stopping() {
        std::mem::swap(&mut ready, &mut *lock(&network.inbox));
        let busy = !ready.is_empty();
        let turned = match &left {
            Some(error) if busy => Err(error.clone()),
            Some(_) => Ok(()),
            None => server.turn(&mut *transport, &mut ready, &mut ended),
        };
        if let Err(error) = turned {
            shared.fail(error);
        }
        if shared.is_failing() && !network.has_finished() {
            if left.is_none() {
                transport.abandon(&network.farewell(shared));
                left = Some(shared.peek_error());
            }
            server.give_up(&mut ready);
        }
        if !busy && ended.is_empty() {
            server.completion.settle(shared);
            transport.wait(NAP);
        }
        ended.clear();
    }
    match (left, network.has_finished()) {
        (Some(_), _) => {}
        (None, true) => transport.close(),
        (None, false) => transport.abandon(&network.farewell(shared)),
    }
    server.give_up(&mut ready);
    server.completion.settle(shared);
    lock(&network.ending).transport = Some(transport);
}

struct Server<'s> {
    shared: &'s Shared,
    completion: Completion,
    /// Messages under way, by ticket.
    slots: Vec<Option<UnderWay<'s>>>,
    free: Vec<usize>,
    network: &'s Network,
}

impl<'s> Server<'s> {
    fn turn(
        &mut self,
        transport: &mut dyn Transport,
        ready: &mut Vec<TaskRef>,
        ended: &mut Vec<usize>,
    ) -> Result<(), RunError> {
        while let Some(task) = ready.pop() {
            if self.shared.is_failing() {
                ready.push(task);
                return Ok(());
            }
            self.start(transport, task)?;
        }
        let polled = transport.poll(ended);
        polled.map_err(|e| self.network.lost(e))?;
        for &ticket in &*ended {
            let Some(under_way) = self.slots[ticket].take() else {
                continue;
            };
            self.free.push(ticket);
            if let Some(hold) = under_way.hold {
                hold.release(true);
            }
            self.record(under_way.task, under_way.begun);
            self.completion.complete(self.shared, under_way.task);
        }
        self.check_patience(transport)
    }

    fn ticks(&self) -> u64 {
        let writer = self.completion.writer();
        writer.map_or(0, |w| w.clock.ticks())
    }

    /// Records a message that has ended.
    fn record(&mut self, task: TaskRef, begun: u64) {
        let times = Times {
            taken: begun,
            start: begun,
            end: self.ticks(),
        };
        // SAFETY: the task has not completed, so its launch has not ended.
        let instance = unsafe { Instance::of(task) };
        self.completion.record(instance, task.task, times, false);
    }

    fn start(&mut self, transport: &mut dyn Transport, task: TaskRef) -> Result<(), RunError> {
        // SAFETY: the task has not ended, so neither has its launch.
        let instance = unsafe { Instance::of(task) };
        let graph = instance.graph();
        let message = graph.message(task.task).expect("only messages come here");
        let memories = self.shared.memories.as_ref();
        let hold = memories.map(|m| m.acquire(instance, task.task, MemoryId::HOST));
        let hold = hold.transpose().map_err(|refusal| match refusal {
            Refusal::Failed(error) | Refusal::Elsewhere(error) => error,
        });
        let hold = match hold {
            Ok(hold) => hold,
            Err(error) => {
                self.completion.complete(self.shared, task);
                return Err(error);
            }
        };
        let (accesses, placed): (_, &[Placed]) = match &hold {
            Some(hold) => (hold.accesses(), hold.placed()),
            None => (graph.accesses_of(task.task), &instance.placed),
        };
        let access = &accesses[0];
        let array = &placed[access.array as usize];
        let (strides, start) = (array.shape.strides4(), access.region.start());
        let offset: usize = (0..4).map(|a| start[a] * strides[a]).sum();
        let size = array.dtype.size();
        let end = End {
            peer: message.peer,
            launch: instance.serial(),
            transfer: message.transfer,
            sends: message.sends,
            bytes: array.base.wrapping_add(offset * size),
            len: access.region.len() * size,
        };
        let ticket = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[ticket] = Some(UnderWay {
            task,
            peer: message.peer,
            since: Instant::now(),
            begun: self.ticks(),
            hold,
        });
        // SAFETY: the region is one run of elements (partition packs what is not). The task is ready and does not
        // complete before its ticket is back or everything is abandoned, so all that conflicts with it waits.
        unsafe { transport.start(end, ticket) }.map_err(|e| self.network.lost(e))
    }

    /// A message that has been under way for long, with no sign of life from its node since, is given up.
    fn check_patience(&self, transport: &dyn Transport) -> Result<(), RunError> {
        let now = Instant::now();
        for under_way in self.slots.iter().flatten() {
            let heard = transport.heard(under_way.peer).max(under_way.since);
            if now.saturating_duration_since(heard) > self.network.patience {
                // SAFETY: as in `start`.
                let graph = unsafe { Instance::of(under_way.task) }.graph();
                return Err(self.network.lost(NodeLost {
                    node: under_way.peer,
                    why: format!(
                        "no answer for {:.1} s, while waiting for {}",
                        self.network.patience.as_secs_f64(),
                        graph.describe(under_way.task.task)
                    ),
                }));
            }
        }
        Ok(())
    }

    /// After a failure: lets what waits for messages run out.
    fn give_up(&mut self, ready: &mut Vec<TaskRef>) {
        for slot in 0..self.slots.len() {
            if let Some(under_way) = self.slots[slot].take() {
                self.free.push(slot);
                if let Some(hold) = under_way.hold {
                    hold.release(false);
                }
                self.completion.complete(self.shared, under_way.task);
            }
        }
        for task in ready.drain(..) {
            self.completion.complete(self.shared, task);
        }
        self.completion.settle(self.shared);
    }
}
