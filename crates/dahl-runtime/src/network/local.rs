//! Nodes in one process: each a runtime, with one port that has a bandwidth and a latency.
//!
//! A message asks for its way when both ends have begun it. It occupies the sender's port out and the receiver's port in
//! for `latency + bytes / bandwidth`, first come first served, by the rule of [`dahl_core::machine::network`], which is
//! the simulator's and the planner's, too. The receiver's thread copies the bytes at its end. For tests, and for trying
//! placements without a second machine.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Bell, End, NodeLost, Transport};
use crate::sync::{Mutex, lock};

/// How fast a port is, and so the link between two of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeed {
    /// Bytes per second, each way.
    pub bandwidth: f64,
    /// What every message takes besides.
    pub latency: Duration,
}

impl LinkSpeed {
    /// As fast as memory.
    pub const UNLIMITED: LinkSpeed = LinkSpeed {
        bandwidth: f64::INFINITY,
        latency: Duration::ZERO,
    };

    /// How long a message is under way.
    fn duration(&self, bytes: usize) -> Duration {
        self.latency + Duration::from_secs_f64(bytes as f64 / self.bandwidth)
    }
}

/// When the ports of all nodes are free, as far as messages have asked for them.
struct Ports {
    out: Vec<Instant>,
    into: Vec<Instant>,
}

impl Ports {
    /// All free.
    fn new(nodes: u16, now: Instant) -> Ports {
        let free = vec![now; usize::from(nodes)];
        Ports {
            out: free.clone(),
            into: free,
        }
    }

    /// A message asks for its way: when it ends.
    fn carry(&mut self, (from, to): (u16, u16), asked: Instant, whole: Duration) -> Instant {
        let out = &mut self.out[usize::from(from)];
        let into = &mut self.into[usize::from(to)];
        let end = asked.max(*out).max(*into) + whole;
        (*out, *into) = (end, end);
        end
    }
}

/// The nodes of a cluster in this process, all connected to each other alike.
pub fn local_cluster(nodes: u16, speed: LinkSpeed) -> Vec<LocalNode> {
    let hub = Arc::new(Hub {
        speed,
        state: Mutex::new(State {
            begun: HashMap::new(),
            ended: vec![Vec::new(); usize::from(nodes)],
            ports: Ports::new(nodes, Instant::now()),
            left: vec![None; usize::from(nodes)],
        }),
        bells: (0..nodes).map(|_| Arc::default()).collect(),
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
    bells: Vec<Arc<Bell>>,
}

struct State {
    /// Ends that wait for their other end, by sender, receiver, launch and transfer.
    begun: HashMap<(u16, u16, u64, u32), (End, usize)>,
    /// Tickets that have ended, and pairs that both ends have begun, by node.
    ended: Vec<Vec<Done>>,
    ports: Ports,
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
    fn wake(&self, node: u16) {
        self.bells[usize::from(node)].ring();
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

    fn bell(&self) -> Arc<Bell> {
        self.hub.bells[usize::from(self.number)].clone()
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
        let whole = hub.speed.duration(end.len);
        let arrives = state.ports.carry((from, to), Instant::now(), whole);
        let done = Done::Matched(arrives, Pair { send, receive });
        state.ended[usize::from(to)].push(done);
        hub.wake(to);
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
            hub.wake(receive.peer);
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

    fn nap(&self, _: bool) -> Duration {
        let next = self.coming.iter().map(|(at, _)| *at).min();
        next.map_or(Duration::MAX, |at| {
            at.saturating_duration_since(Instant::now())
        })
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
            self.hub.wake(node);
        }
    }

    fn close(&mut self) {}
}

impl Drop for LocalNode {
    fn drop(&mut self) {
        self.abandon("it has left the cluster");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When each message ends, in milliseconds: asked for in this order at these times, a byte per millisecond.
    fn ends(messages: &[((u16, u16), u64, usize)]) -> Vec<u128> {
        let start = Instant::now();
        let speed = LinkSpeed {
            bandwidth: 1000.0,
            latency: Duration::from_millis(1),
        };
        let mut ports = Ports::new(4, start);
        let end = |&(way, asked, bytes): &((u16, u16), u64, usize)| {
            let asked = start + Duration::from_millis(asked);
            let end = ports.carry(way, asked, speed.duration(bytes));
            end.duration_since(start).as_millis()
        };
        messages.iter().map(end).collect()
    }

    #[test]
    fn messages_through_one_port_take_the_sum_and_others_overlap() {
        assert_eq!(ends(&[((0, 1), 0, 9), ((0, 2), 0, 9)]), [10, 20], "out");
        assert_eq!(ends(&[((0, 2), 0, 9), ((1, 2), 3, 4)]), [10, 15], "in");
        assert_eq!(ends(&[((0, 1), 0, 9), ((2, 3), 0, 9)]), [10, 10]);
        assert_eq!(ends(&[((0, 1), 0, 9), ((1, 0), 0, 9)]), [10, 10], "duplex");
        assert_eq!(ends(&[((0, 1), 0, 9), ((0, 1), 25, 9)]), [10, 35], "idle");
    }

    /// The case of the simulator's own test: the second waits for its receiver, the third for the second.
    #[test]
    fn who_asked_first_goes_first_and_holds_up_those_behind() {
        let three = [((0, 1), 0, 3), ((2, 1), 1, 3), ((2, 3), 1, 3)];
        assert_eq!(ends(&three), [4, 8, 12]);
    }

    #[test]
    fn unlimited_ports_take_no_time() {
        assert_eq!(LinkSpeed::UNLIMITED.duration(1 << 40), Duration::ZERO);
    }
}
