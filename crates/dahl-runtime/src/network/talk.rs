//! Nodes that talk without running a graph: to find out who they are and what joins them.
//!
//! One message at a time, its length known at both ends. Who waits for a silent node gives up after the same time as a
//! run does. Nothing here decides anything: what is said is the callers' business.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Bell, End, NAP, NodeLost, Transport};

/// The longest text that a node may give: what is longer is no text of ours.
const LONGEST: u64 = 1 << 24;

/// A node that talks to the others.
pub struct Talk<'t> {
    transport: &'t mut dyn Transport,
    bell: Arc<Bell>,
    patience: Duration,
    left: bool,
}

impl<'t> Talk<'t> {
    /// Over a transport; a node that is silent for so long while it is waited for is given up.
    pub fn new(transport: &'t mut dyn Transport, patience: Duration) -> Self {
        Talk {
            bell: transport.bell(),
            transport,
            patience,
            left: false,
        }
    }

    /// The number of this node.
    pub fn node(&self) -> u16 {
        self.transport.node()
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> u16 {
        self.transport.nodes()
    }

    pub(super) fn send(&mut self, to: u16, bytes: &[u8]) -> Result<(), NodeLost> {
        self.move_bytes(to, true, bytes.as_ptr().cast_mut(), bytes.len())
    }

    pub(super) fn receive(&mut self, from: u16, bytes: &mut [u8]) -> Result<(), NodeLost> {
        self.move_bytes(from, false, bytes.as_mut_ptr(), bytes.len())
    }

    pub(super) fn receive_number(&mut self, from: u16) -> Result<u64, NodeLost> {
        let mut number = [0; 8];
        self.receive(from, &mut number)?;
        Ok(u64::from_le_bytes(number))
    }

    /// Moves bytes, which are borrowed by the callers, and comes back when they are not touched any more.
    fn move_bytes(
        &mut self,
        peer: u16,
        sends: bool,
        bytes: *mut u8,
        len: usize,
    ) -> Result<(), NodeLost> {
        let end = End {
            peer,
            launch: 0,
            transfer: 0,
            sends,
            bytes,
            len,
        };
        let moved = self.try_to_move(end);
        if let Err(lost) = &moved
            && !self.left
        {
            self.left = true;
            self.transport.abandon(&lost.to_string());
        }
        moved
    }

    fn try_to_move(&mut self, end: End) -> Result<(), NodeLost> {
        if self.left {
            let why = "this node has left the cluster".into();
            let node = self.node();
            return Err(NodeLost { node, why });
        }
        let (peer, since) = (end.peer, Instant::now());
        // SAFETY: the bytes are borrowed until the message has ended, or `move_bytes` has abandoned it.
        unsafe { self.transport.start(end, 0) }?;
        let mut ended = Vec::new();
        loop {
            self.transport.poll(&mut ended)?;
            if !ended.is_empty() {
                return Ok(());
            }
            let heard = self.transport.heard(peer).max(since);
            if heard.elapsed() > self.patience {
                return Err(NodeLost {
                    node: peer,
                    why: format!("no answer for {:.1} s", self.patience.as_secs_f64()),
                });
            }
            self.bell.sleep(self.transport.nap(true).min(NAP));
        }
    }

    /// Every node gives a text; the first gets all of them by number, the others none.
    pub fn gather(&mut self, own: &[u8]) -> Result<Vec<Vec<u8>>, NodeLost> {
        if self.node() != 0 {
            self.send(0, &(own.len() as u64).to_le_bytes())?;
            self.send(0, own)?;
            return Ok(Vec::new());
        }
        let mut all = vec![own.to_vec()];
        for node in 1..self.nodes() {
            let len = self.receive_number(node)?;
            if len > LONGEST {
                let why = format!("it sends {len} bytes: another version of DAHL?");
                return Err(NodeLost { node, why });
            }
            let mut text = vec![0; len as usize];
            self.receive(node, &mut text)?;
            all.push(text);
        }
        Ok(all)
    }

    /// All nodes have said everything and go on with the transport in another way.
    pub fn end(mut self) {
        self.left = true;
    }

    /// All nodes have said everything: none leaves before all have.
    pub fn finish(mut self) -> Result<(), NodeLost> {
        if self.node() == 0 {
            for node in 1..self.nodes() {
                self.receive(node, &mut [0])?;
            }
            for node in 1..self.nodes() {
                self.send(node, &[0])?;
            }
        } else {
            self.send(0, &[0])?;
            self.receive(0, &mut [0])?;
        }
        self.left = true;
        self.transport.close();
        Ok(())
    }
}

/// A node that leaves before the others says so.
impl Drop for Talk<'_> {
    fn drop(&mut self) {
        if !self.left {
            self.transport.abandon("it has left the cluster");
        }
    }
}
