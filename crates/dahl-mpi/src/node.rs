//! A node of a cluster over MPI: the messages of graphs.
//!
//! Messages are told apart by tags: the number of the launch, modulo [`LAUNCHES_APART`], and the place in its list of
//! transfers. Two messages between the same nodes with the same tag are then so far apart that one node begins them in the
//! order of their launches; so does the other, and MPI keeps that order.
//!
//! MPI moves bytes only when it is called, and its own waiting polls. So this node is asked again and again: by workers
//! that pass by or have nothing to do, and by the communication thread, with naps in between that grow with the time
//! since something last happened ([`NAP_PART`]): what takes long costs next to no time of a core.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_runtime::network::{Bell, End, LAUNCHES_APART, NodeLost, Transport};

use crate::MpiError;
use crate::abi::Abi;
use crate::control::Control;
use crate::library::Library;

/// A nap lasts this part of the time since something last happened.
const NAP_PART: u32 = 8;

/// The shortest nap while nobody else asks, the shortest while workers do whenever a task has ended, and the longest:
/// one question takes some microseconds, so that waiting costs less than one part in two hundred of a core.
const NAPS: [Duration; 3] = [
    Duration::from_micros(50),
    Duration::from_millis(1),
    Duration::from_millis(3),
];

/// Most bytes of one request: MPI counts with 31 bits.
const MOST: usize = 1 << 30;

/// How long a node that gives up goes on asking, so that its farewell is sent and its receives are cancelled.
const GOODBYE: Duration = Duration::from_millis(300);

/// This process among those that MPI started.
pub(crate) struct MpiNode<A: Abi> {
    library: Arc<Library<A>>,
    communicator: A::Handle,
    control: Control<A>,
    node: u16,
    nodes: u16,
    /// Tags that one launch can use.
    tags: u32,
    /// Requests under way and, in the same places, what they belong to.
    requests: Vec<A::Handle>,
    owners: Vec<Owner>,
    /// Requests of a ticket that have not ended.
    open: Vec<u32>,
    places: Vec<c_int>,
    heard: Vec<Instant>,
    /// When something last happened.
    last: Instant,
    bell: Arc<Bell>,
    /// Whether all nodes end together, as ending MPI demands.
    together: bool,
}

#[derive(Clone, Copy)]
struct Owner {
    ticket: usize,
    peer: u16,
    sends: bool,
}

impl<A: Abi> MpiNode<A> {
    pub(crate) fn new(
        library: Arc<Library<A>>,
        node: u16,
        nodes: u16,
    ) -> Result<MpiNode<A>, MpiError> {
        let communicator = library.communicator()?;
        let control = Control::new(library.clone(), node, nodes)?;
        let tags = library.largest_tag()? as u32 / LAUNCHES_APART as u32;
        Ok(MpiNode {
            library,
            communicator,
            control,
            node,
            nodes,
            tags,
            requests: Vec::new(),
            owners: Vec::new(),
            open: Vec::new(),
            places: Vec::new(),
            heard: vec![Instant::now(); usize::from(nodes)],
            last: Instant::now(),
            bell: Arc::default(),
            together: false,
        })
    }

    /// Notes which requests have ended.
    fn test(&mut self, ended: &mut Vec<usize>) -> Result<(), MpiError> {
        let tested = self.library.test(&mut self.requests, &mut self.places);
        if self.places.is_empty() {
            return tested;
        }
        self.last = Instant::now();
        // From the last place on, so that what is moved into a hole has been looked at.
        self.places.sort_unstable();
        while let Some(place) = self.places.pop() {
            self.requests.swap_remove(place as usize);
            let owner = self.owners.swap_remove(place as usize);
            if !owner.sends {
                self.heard[usize::from(owner.peer)] = self.last;
            }
            let open = &mut self.open[owner.ticket];
            *open -= 1;
            if *open == 0 {
                ended.push(owner.ticket);
            }
        }
        tested
    }
}

impl<A: Abi> Transport for MpiNode<A> {
    fn node(&self) -> u16 {
        self.node
    }

    fn nodes(&self) -> u16 {
        self.nodes
    }

    fn bell(&self) -> Arc<Bell> {
        self.bell.clone()
    }

    unsafe fn start(&mut self, end: End, ticket: usize) -> Result<(), NodeLost> {
        let lost = |why: String| NodeLost {
            node: end.peer,
            why,
        };
        if end.transfer >= self.tags {
            return Err(lost(format!(
                "message {} of a launch: {} can tell {} apart; use fewer nodes or coarser tasks",
                end.transfer,
                self.library.version(),
                self.tags
            )));
        }
        let launch = (end.launch % LAUNCHES_APART) as u32;
        let tag = (launch * self.tags + end.transfer) as c_int;
        if self.open.len() <= ticket {
            self.open.resize(ticket + 1, 0);
        }
        // A message without bytes is a message.
        let mut at = 0;
        while at < end.len.max(1) {
            let len = (end.len - at).min(MOST);
            let bytes = (end.bytes.wrapping_add(at), len as c_int);
            let peer = (c_int::from(end.peer), tag);
            // SAFETY: by the caller's contract the bytes stay until the ticket is back or everything is abandoned.
            let begun = unsafe {
                self.library
                    .begin(end.sends, bytes, peer, self.communicator)
            };
            self.requests.push(begun.map_err(|e| lost(e.to_string()))?);
            self.owners.push(Owner {
                ticket,
                peer: end.peer,
                sends: end.sends,
            });
            self.open[ticket] += 1;
            at += len.max(1);
        }
        self.last = Instant::now();
        Ok(())
    }

    fn poll(&mut self, ended: &mut Vec<usize>) -> Result<(), NodeLost> {
        let tested = self.test(ended);
        self.control.turn(&mut self.heard)?;
        tested.map_err(|error| {
            let quiet = self.owners.iter().map(|o| o.peer);
            let node = quiet.min_by_key(|&p| self.heard[usize::from(p)]);
            NodeLost {
                node: node.unwrap_or(self.node),
                why: error.to_string(),
            }
        })
    }

    fn heard(&self, node: u16) -> Instant {
        self.heard[usize::from(node)]
    }

    fn nap(&self, soon: bool) -> Duration {
        if self.requests.is_empty() {
            return Duration::MAX;
        }
        let shortest = if soon { NAPS[0] } else { NAPS[1] };
        (self.last.elapsed() / NAP_PART).clamp(shortest, NAPS[2])
    }

    /// What cannot be cancelled in time is left: MPI moves bytes only when it is called, and after this nobody calls it.
    fn abandon(&mut self, why: &str) {
        self.control.say_goodbye(why);
        let until = Instant::now() + GOODBYE;
        for (request, owner) in self.requests.iter_mut().zip(&self.owners) {
            if !owner.sends {
                self.library.cancel(request);
            }
        }
        let mut ended = Vec::new();
        let receives = |owners: &[Owner]| owners.iter().any(|o| !o.sends);
        while Instant::now() < until && (receives(&self.owners) || self.control.is_sending()) {
            // What fails now has failed before.
            let _ = self.test(&mut ended);
            let _ = self.control.turn(&mut self.heard);
            std::thread::sleep(NAPS[1]);
        }
    }

    fn close(&mut self) {
        self.together = true;
    }
}

impl<A: Abi> Drop for MpiNode<A> {
    fn drop(&mut self) {
        // Ending MPI waits for all: a node that leaves alone must not, and its launcher will end the others.
        if self.together {
            self.control.close();
            self.library.finalize();
        }
    }
}
