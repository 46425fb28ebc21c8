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
//! names the node, and nothing waits for ever.

mod local;
mod member;

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

pub use local::{LinkSpeed, LocalNode, local_cluster};
pub use member::{Member, Placer};

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

    /// Sleeps until a message may have ended, or it is woken, or the time is over.
    fn wait(&mut self, at_most: Duration);

    /// Gives up all messages that have not ended: their bytes are not touched any more.
    fn abandon(&mut self);
}

/// What other threads see of the communication thread.
pub(crate) struct Network {
    inbox: Mutex<Vec<TaskRef>>,
    waker: Arc<dyn Fn() + Send + Sync>,
    /// How long a message may be under way while nothing comes from its node.
    patience: Duration,
}

impl Network {
    pub(crate) fn new(transport: &dyn Transport, patience: Duration) -> Self {
        Network {
            inbox: Mutex::new(Vec::new()),
            waker: transport.waker(),
            patience,
        }
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
    hold: Option<Hold<'s>>,
}

/// The body of the communication thread.
pub(crate) fn serve(shared: &Shared, network: &Network, mut transport: Box<dyn Transport>) {
    let mut server = Server {
        shared,
        completion: Completion::new(None, shared),
        slots: Vec::new(),
        free: Vec::new(),
        heard: vec![Instant::now(); usize::from(transport.nodes())],
        patience: network.patience,
    };
    let (mut ready, mut ended) = (Vec::new(), Vec::new());
    while !shared.is_stopping() {
        std::mem::swap(&mut ready, &mut *lock(&network.inbox));
        let busy = !ready.is_empty();
        let result = server.turn(&mut *transport, &mut ready, &mut ended);
        if let Err(error) = result {
            shared.fail(error);
        }
        if shared.is_failing() {
            transport.abandon();
            server.give_up(&mut ready);
        }
        if !busy && ended.is_empty() {
            server.completion.settle(shared);
            transport.wait(NAP);
        }
        ended.clear();
    }
    transport.abandon();
    server.give_up(&mut ready);
    server.completion.settle(shared);
}

struct Server<'s> {
    shared: &'s Shared,
    completion: Completion,
    /// Messages under way, by ticket.
    slots: Vec<Option<UnderWay<'s>>>,
    free: Vec<usize>,
    /// When something last came from each node.
    heard: Vec<Instant>,
    patience: Duration,
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
        transport.poll(ended).map_err(lost)?;
        for &ticket in &*ended {
            let Some(under_way) = self.slots[ticket].take() else {
                continue;
            };
            self.free.push(ticket);
            self.heard[usize::from(under_way.peer)] = Instant::now();
            if let Some(hold) = under_way.hold {
                hold.release(true);
            }
            self.completion.complete(self.shared, under_way.task);
        }
        self.check_patience()
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
            hold,
        });
        // SAFETY: the region is one run of elements (partition packs what is not). The task is ready and does not
        // complete before its ticket is back or everything is abandoned, so all that conflicts with it waits.
        unsafe { transport.start(end, ticket) }.map_err(lost)
    }

    /// A message that has been under way for long, with nothing else from its node since, is given up.
    fn check_patience(&self) -> Result<(), RunError> {
        let now = Instant::now();
        for under_way in self.slots.iter().flatten() {
            let heard = self.heard[usize::from(under_way.peer)].max(under_way.since);
            if now.duration_since(heard) > self.patience {
                // SAFETY: as in `start`.
                let graph = unsafe { Instance::of(under_way.task) }.graph();
                return Err(lost(NodeLost {
                    node: under_way.peer,
                    why: format!(
                        "no answer for {:.1} s, while waiting for {}",
                        self.patience.as_secs_f64(),
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

fn lost(lost: NodeLost) -> RunError {
    RunError::NodeLost(lost.to_string())
}
