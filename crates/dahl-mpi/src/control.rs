//! Signs of life between nodes, and farewells.
//!
//! Twice a second each node sends every other an empty message. One that computes for minutes between two messages of a
//! graph is so told from one that is gone. A node that gives up sends its reason instead, and a node that gets it gives up,
//! too. A node that is stopped or unplugged says nothing, and its silence is noticed by those that wait for it.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_runtime::network::NodeLost;

use crate::MpiError;
use crate::abi::Abi;
use crate::library::Library;

/// From one sign of life to the next.
const BEAT: Duration = Duration::from_millis(500);

/// How often others' signs are looked for.
const LOOK: Duration = Duration::from_millis(20);

/// The longest reason.
const TEXT: usize = 1000;

/// What a sign of life, a reason and the end of a run are called.
const TAG: c_int = 1;

/// The channels to all other nodes.
pub(crate) struct Control<A: Abi> {
    library: Arc<Library<A>>,
    communicator: A::Handle,
    /// The other nodes; the lists below have a place for each.
    peers: Vec<u16>,
    receiving: Vec<A::Handle>,
    received: Vec<[u8; TEXT]>,
    sending: Vec<A::Handle>,
    /// What is being sent: its bytes stay in place until all of it is.
    text: Box<[u8; TEXT]>,
    places: Vec<c_int>,
    beat: Instant,
    looked: Instant,
}

impl<A: Abi> Control<A> {
    pub(crate) fn new(
        library: Arc<Library<A>>,
        node: u16,
        nodes: u16,
    ) -> Result<Control<A>, MpiError> {
        let peers: Vec<u16> = (0..nodes).filter(|&n| n != node).collect();
        let none = library.abi.no_request();
        let mut control = Control {
            communicator: library.communicator()?,
            receiving: vec![none; peers.len()],
            received: vec![[0; TEXT]; peers.len()],
            sending: vec![none; peers.len()],
            text: Box::new([0; TEXT]),
            places: Vec::new(),
            beat: Instant::now(),
            looked: Instant::now(),
            library,
            peers,
        };
        for place in 0..control.peers.len() {
            control.listen(place)?;
        }
        Ok(control)
    }

    fn listen(&mut self, place: usize) -> Result<(), MpiError> {
        self.received[place].fill(0);
        let bytes = (self.received[place].as_mut_ptr(), TEXT as c_int);
        let peer = (c_int::from(self.peers[place]), TAG);
        // SAFETY: the buffer is owned by this value, in a list that never grows, and not touched until the request has ended; it is dropped after
        // the request was cancelled, or when nobody calls MPI any more.
        let begun = unsafe { self.library.begin(false, bytes, peer, self.communicator) };
        self.receiving[place] = begun?;
        Ok(())
    }

    /// Sends the first bytes of the text to all whom the last message has reached.
    fn send(&mut self, len: usize) {
        let none = self.library.abi.no_request();
        for place in 0..self.peers.len() {
            if self.sending[place] != none {
                continue;
            }
            let bytes = (self.text.as_mut_ptr(), len as c_int);
            let peer = (c_int::from(self.peers[place]), TAG);
            // SAFETY: the text is owned by this value, and is written only where nothing is being sent or once, before
            // everything is given up.
            let begun = unsafe { self.library.begin(true, bytes, peer, self.communicator) };
            // Who cannot be reached is noticed by silence.
            self.sending[place] = begun.unwrap_or(none);
        }
    }

    /// Sends and looks for signs of life, when it is time to.
    pub(crate) fn turn(&mut self, heard: &mut [Instant]) -> Result<(), NodeLost> {
        let now = Instant::now();
        if now.duration_since(self.looked) < LOOK {
            return Ok(());
        }
        self.looked = now;
        // A failure of one request does not matter to the others.
        let _ = self.library.test(&mut self.sending, &mut self.places);
        if now.duration_since(self.beat) >= BEAT {
            self.beat = now;
            self.send(0);
        }
        let _ = self.library.test(&mut self.receiving, &mut self.places);
        while let Some(place) = self.places.pop() {
            let place = place as usize;
            let node = self.peers[place];
            heard[usize::from(node)] = now;
            let text = &self.received[place][..];
            let len = text.iter().position(|&b| b == 0).unwrap_or(TEXT);
            if len > 0 {
                let why = String::from_utf8_lossy(&text[..len]).into_owned();
                return Err(NodeLost { node, why });
            }
            let listening = self.listen(place);
            listening.map_err(|e| NodeLost {
                node,
                why: e.to_string(),
            })?;
        }
        Ok(())
    }

    /// Tells all others why this node leaves.
    pub(crate) fn say_goodbye(&mut self, why: &str) {
        let mut len = why.len().min(TEXT);
        while !why.is_char_boundary(len) {
            len -= 1;
        }
        self.text[..len].copy_from_slice(&why.as_bytes()[..len]);
        let _ = self.library.test(&mut self.sending, &mut self.places);
        self.send(len);
    }

    /// Whether something has not been sent yet.
    pub(crate) fn is_sending(&self) -> bool {
        let none = self.library.abi.no_request();
        self.sending.iter().any(|r| *r != none)
    }

    /// No message will come any more: what was begun is cancelled.
    pub(crate) fn close(&mut self) {
        let none = self.library.abi.no_request();
        for request in self.receiving.iter_mut().filter(|r| **r != none) {
            self.library.cancel(request);
        }
        let until = Instant::now() + BEAT;
        while Instant::now() < until
            && (self.receiving.iter().any(|r| *r != none) || self.is_sending())
        {
            let _ = self.library.test(&mut self.receiving, &mut self.places);
            let _ = self.library.test(&mut self.sending, &mut self.places);
        }
    }
}
