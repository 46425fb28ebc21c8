//! Nodes in one process: each a runtime, with links that have a bandwidth and a latency.
//!
//! A message starts when both ends have begun it and the link from its sender to its receiver is free; it takes
//! `bytes / bandwidth` of the link's time and arrives after the latency, as in the simulator. The receiver's thread
//! copies the bytes then. For tests, and for trying placements without a second machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{End, NodeLost, Transport};
use crate::sync::{Condvar, Mutex, lock};

/// How fast a link is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeed {
    /// Bytes per second.
    pub bandwidth: f64,
    /// From the last byte sent to the last byte received.
    pub latency: Duration,
}

impl LinkSpeed {
    /// As fast as memory.
    pub const UNLIMITED: LinkSpeed = LinkSpeed {
        bandwidth: f64::INFINITY,
        latency: Duration::ZERO,
    };
}

/// The nodes of a cluster in this process, all connected to each other alike.
pub fn local_cluster(nodes: u16, speed: LinkSpeed) -> Vec<LocalNode> {
    let hub = Arc::new(Hub {
        speed,
        state: Mutex::new(State {
            begun: HashMap::new(),
            ended: vec![Vec::new(); usize::from(nodes)],
            links: vec![Instant::now(); usize::from(nodes) * usize::from(nodes)],
            woken: vec![false; usize::from(nodes)],
            left: vec![None; usize::from(nodes)],
        }),
        changed: (0..nodes).map(|_| Condvar::new()).collect(),
    });
    let node = |number| LocalNode {
        hub: hub.clone(),
        number,
        nodes,
        coming: Vec::new(),
        open: vec![0; usize::from(nodes)],
    };
    (0..nodes).map(node).collect()
}

/// The transport of one node of [`local_cluster`].
pub struct LocalNode {
    hub: Arc<Hub>,
    number: u16,
    nodes: u16,
    /// Messages on their way to this node, and when each arrives.
    coming: Vec<(Instant, Pair)>,
    /// Messages that have not ended, by the node at the other end.
    open: Vec<usize>,
}

struct Hub {
    speed: LinkSpeed,
    state: Mutex<State>,
    /// By node.
    changed: Vec<Condvar>,
}

struct State {
    /// Ends that wait for their other end, by sender, receiver, launch and transfer.
    begun: HashMap<(u16, u16, u64, u32), (End, usize)>,
    /// Tickets that have ended, and pairs that both ends have begun, by node.
    ended: Vec<Vec<Done>>,
    /// When the link between two nodes is free.
    links: Vec<Instant>,
    woken: Vec<bool>,
    /// Why nodes are no longer there, if they are not.
    left: Vec<Option<String>>,
}

#[derive(Clone, Copy)]
enum Done {
    /// A send to this node has ended.
    Sent(u16, usize),
    /// A receive can be finished by its node at this time.
    Matched(Instant, Pair),
}

/// Both ends of a message, each with its ticket.
#[derive(Clone, Copy)]
struct Pair {
    send: (End, usize),
    receive: (End, usize),
}

// SAFETY: the addresses in `End` are those of memory that both nodes keep in place, by the contract of
// `Transport::start`, until they hear that the message has ended or have abandoned it; the latter takes the hub's lock
// and removes what this module knows of them.
unsafe impl Send for Hub {}
// SAFETY: as above; all that is shared is behind the lock.
unsafe impl Sync for Hub {}
// SAFETY: as above.
unsafe impl Send for LocalNode {}

impl Hub {
    fn wake(&self, state: &mut State, node: u16) {
        state.woken[usize::from(node)] = true;
        self.changed[usize::from(node)].notify_one();
    }
}

/// That a node has left, if it has.
fn check(state: &State, node: u16) -> Result<(), NodeLost> {
    match state.left[usize::from(node)].clone() {
        None => Ok(()),
        Some(why) => Err(NodeLost { node, why }),
    }
}

impl Transport for LocalNode {
    fn node(&self) -> u16 {
        self.number
    }

    fn nodes(&self) -> u16 {
        self.nodes
    }

    fn waker(&self) -> Arc<dyn Fn() + Send + Sync> {
        let (hub, node) = (self.hub.clone(), self.number);
        Arc::new(move || hub.wake(&mut lock(&hub.state), node))
    }

    unsafe fn start(&mut self, end: End, ticket: usize) -> Result<(), NodeLost> {
        let (from, to) = match end.sends {
            true => (self.number, end.peer),
            false => (end.peer, self.number),
        };
        let key = (from, to, end.launch, end.transfer);
        let hub = self.hub.clone();
        let mut state = lock(&hub.state);
        check(&state, end.peer)?;
        self.open[usize::from(end.peer)] += 1;
        let Some(other) = state.begun.remove(&key) else {
            state.begun.insert(key, (end, ticket));
            return Ok(());
        };
        let own = (end, ticket);
        let (send, receive) = if end.sends {
            (own, other)
        } else {
            (other, own)
        };
        let link = usize::from(from) * usize::from(self.nodes) + usize::from(to);
        let begin = state.links[link].max(Instant::now());
        let sent = begin + Duration::from_secs_f64(end.len as f64 / hub.speed.bandwidth);
        state.links[link] = sent;
        let done = Done::Matched(sent + hub.speed.latency, Pair { send, receive });
        state.ended[usize::from(to)].push(done);
        hub.wake(&mut state, to);
        Ok(())
    }

    fn poll(&mut self, ended: &mut Vec<usize>) -> Result<(), NodeLost> {
        let hub = self.hub.clone();
        let mut state = lock(&hub.state);
        for done in std::mem::take(&mut state.ended[usize::from(self.number)]) {
            match done {
                Done::Sent(to, ticket) => {
                    self.open[usize::from(to)] -= 1;
                    ended.push(ticket);
                }
                Done::Matched(at, pair) => self.coming.push((at, pair)),
            }
        }
        let now = Instant::now();
        let due = |(at, _): &mut (Instant, Pair)| *at <= now;
        for (_, pair) in self.coming.extract_if(.., due) {
            let (send, receive) = (pair.send.0, pair.receive.0);
            check(&state, receive.peer)?;
            // Under the lock, so that the sender, which is still there, cannot abandon its bytes meanwhile.
            // SAFETY: neither end has ended, so both ranges are in place, and they are not the same memory.
            unsafe { std::ptr::copy_nonoverlapping(send.bytes, receive.bytes, receive.len) };
            self.open[usize::from(receive.peer)] -= 1;
            ended.push(pair.receive.1);
            let sent = Done::Sent(self.number, pair.send.1);
            state.ended[usize::from(receive.peer)].push(sent);
            hub.wake(&mut state, receive.peer);
        }
        let waits_for = |&n: &u16| self.open[usize::from(n)] > 0;
        (0..self.nodes)
            .filter(waits_for)
            .try_for_each(|n| check(&state, n))
    }

    fn heard(&self, _: u16) -> Instant {
        // One process: a node that is gone has said so.
        Instant::now()
    }

    fn wait(&mut self, at_most: Duration) {
        let next = self.coming.iter().map(|(at, _)| *at).min();
        let until = Instant::now() + at_most;
        let until = next.map_or(until, |at| at.min(until));
        let me = usize::from(self.number);
        let mut state = lock(&self.hub.state);
        while !std::mem::replace(&mut state.woken[me], false) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.hub.changed[me].wait_timeout(state, left);
            state = waited.unwrap_or_else(|e| e.into_inner()).0;
        }
    }

    fn abandon(&mut self, why: &str) {
        let mut state = lock(&self.hub.state);
        let me = self.number;
        state
            .begun
            .retain(|(from, to, ..), _| *from != me && *to != me);
        state.ended[usize::from(me)].clear();
        self.coming.clear();
        self.open.fill(0);
        // What others were about to copy from here.
        let of_mine = |done: &Done| matches!(done, Done::Matched(_, p) if p.receive.0.peer == me);
        for node in 0..self.nodes {
            state.ended[usize::from(node)].retain(|d| !of_mine(d));
        }
        state.left[usize::from(me)].get_or_insert(why.into());
        for node in 0..self.nodes {
            self.hub.wake(&mut state, node);
        }
    }

    fn close(&mut self) {}
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        self.abandon("it has left the cluster");
    }
}
