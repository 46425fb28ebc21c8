//! What joins the nodes of a cluster, measured: latency and bandwidth of every link, and how far clocks are apart.
//!
//! One pair of nodes at a time, so that nobody's figure contains another's messages. The lower number asks, the other
//! serves. A *ping* is a message of a few bytes and its answer; half of the median is the latency. A block of bytes
//! that is sent between a question and its answer takes what a ping takes and `bytes / bandwidth` besides. Blocks
//! grow until one takes long enough to be timed.
//!
//! The other's clock is read in the middle of a ping (Cristian's algorithm): it is off by at most half of the fastest one.

use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::NodeLost;
use super::talk::Talk;

/// Pings of a pair: at least and at most.
const PINGS: (usize, usize) = (5, 200);

/// The first block and the largest, in bytes.
const BLOCKS: (usize, usize) = (1 << 12, 1 << 26);

/// What was measured between two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredLink {
    /// The lower number.
    pub from: u16,
    /// The higher number.
    pub to: u16,
    /// Seconds of a small message one way: half of the median ping.
    pub latency: f64,
    /// Bytes per second from the lower number to the higher.
    pub bandwidth: f64,
    /// Bytes per second the other way.
    pub bandwidth_back: f64,
    /// Seconds that the clock of the higher number is ahead of that of the lower.
    pub clock_ahead: f64,
    /// The most that this may be off: half of the fastest ping.
    pub clock_error: f64,
}

/// What one end asks of the other.
#[derive(Clone, Copy)]
enum Order {
    /// Say what time it is.
    Ping,
    /// Take so many bytes, and say what time it is.
    Take(usize),
    /// Give so many bytes.
    Give(usize),
    /// That was all.
    End,
}

impl Order {
    fn bytes(self) -> [u8; 16] {
        let (kind, len) = match self {
            Order::Ping => (0u64, 0),
            Order::Take(len) => (1, len),
            Order::Give(len) => (2, len),
            Order::End => (3, 0),
        };
        let mut out = [0; 16];
        out[..8].copy_from_slice(&kind.to_le_bytes());
        out[8..].copy_from_slice(&(len as u64).to_le_bytes());
        out
    }
}

impl Talk<'_> {
    /// Measures the links between all nodes, in about so many seconds altogether; the first node gets the figures, the
    /// others none. All nodes must ask.
    pub fn measure_links(&mut self, seconds: f64) -> Result<Vec<MeasuredLink>, NodeLost> {
        let nodes = self.nodes();
        let pairs = usize::from(nodes) * usize::from(nodes.saturating_sub(1)) / 2;
        self.measure_from(0..nodes, seconds / pairs.max(1) as f64)
    }

    /// The same between the first node and each other one, in about so many seconds for each.
    pub fn measure_first_links(&mut self, each: f64) -> Result<Vec<MeasuredLink>, NodeLost> {
        self.measure_from(0..1, each)
    }

    fn measure_from(
        &mut self,
        asking: Range<u16>,
        each: f64,
    ) -> Result<Vec<MeasuredLink>, NodeLost> {
        let (node, nodes) = (self.node(), self.nodes());
        let each = Duration::from_secs_f64(each.clamp(0.005, 1.0));
        let mut all = Vec::new();
        for from in asking {
            for to in from + 1..nodes {
                if node == 0 && from != 0 {
                    // One pair at a time: the first node says when.
                    self.send(from, &[0])?;
                    all.push(self.receive_link(from, to)?);
                } else if node == from {
                    if node != 0 {
                        self.receive(0, &mut [0])?;
                    }
                    let link = self.measure(to, each)?;
                    match node {
                        0 => all.push(link),
                        _ => self.send_link(&link)?,
                    }
                } else if node == to {
                    self.serve(from)?;
                }
            }
        }
        Ok(all)
    }

    fn send_link(&mut self, link: &MeasuredLink) -> Result<(), NodeLost> {
        let figures = [
            link.latency,
            link.bandwidth,
            link.bandwidth_back,
            link.clock_ahead,
            link.clock_error,
        ];
        let bytes: Vec<u8> = figures.iter().flat_map(|f| f.to_le_bytes()).collect();
        self.send(0, &bytes)
    }

    fn receive_link(&mut self, from: u16, to: u16) -> Result<MeasuredLink, NodeLost> {
        let mut bytes = [0; 40];
        self.receive(from, &mut bytes)?;
        let figure = |i: usize| {
            let word: [u8; 8] = bytes[8 * i..8 * i + 8].try_into().unwrap_or_default();
            f64::from_le_bytes(word)
        };
        Ok(MeasuredLink {
            from,
            to,
            latency: figure(0),
            bandwidth: figure(1),
            bandwidth_back: figure(2),
            clock_ahead: figure(3),
            clock_error: figure(4),
        })
    }

    /// The end that asks.
    fn measure(&mut self, peer: u16, at_most: Duration) -> Result<MeasuredLink, NodeLost> {
        let began = Instant::now();
        let (mut trips, mut best, mut ahead) = (Vec::new(), f64::INFINITY, 0.0);
        // The first one opens the connection.
        let _ = self.ping(peer)?;
        while trips.len() < PINGS.0 || (trips.len() < PINGS.1 && began.elapsed() < at_most / 4) {
            let (seconds, clock) = self.ping(peer)?;
            if seconds < best {
                (best, ahead) = (seconds, clock);
            }
            trips.push(seconds);
        }
        trips.sort_by(f64::total_cmp);
        let trip = trips[trips.len() / 2];
        let bandwidth = self.bandwidth(peer, trip, at_most / 16, true)?;
        let bandwidth_back = self.bandwidth(peer, trip, at_most / 16, false)?;
        self.send(peer, &Order::End.bytes())?;
        Ok(MeasuredLink {
            from: self.node(),
            to: peer,
            latency: trip / 2.0,
            bandwidth,
            bandwidth_back,
            clock_ahead: ahead,
            clock_error: best / 2.0,
        })
    }

    /// Seconds of a ping, and how far the other's clock is ahead.
    fn ping(&mut self, peer: u16) -> Result<(f64, f64), NodeLost> {
        let (began, before) = (Instant::now(), wall_clock());
        self.send(peer, &Order::Ping.bytes())?;
        let theirs = self.receive_number(peer)?;
        let seconds = began.elapsed().as_secs_f64();
        let ahead = (theirs as i64).wrapping_sub(before as i64);
        Ok((seconds, ahead as f64 * 1e-9 - seconds / 2.0))
    }

    /// Bytes per second, by the first block that takes long enough, timed twice.
    fn bandwidth(
        &mut self,
        peer: u16,
        trip: f64,
        long_enough: Duration,
        there: bool,
    ) -> Result<f64, NodeLost> {
        let mut len = BLOCKS.0;
        loop {
            let first = self.block(peer, len, there)?;
            if first >= long_enough.as_secs_f64() || len >= BLOCKS.1 {
                // A block so slow is not sent again.
                let again = match first < 4.0 * long_enough.as_secs_f64() {
                    true => self.block(peer, len, there)?,
                    false => first,
                };
                // A ping may have been slower than a block where both were disturbed.
                let seconds = (first.min(again) - trip).max(first.min(again) / 10.0);
                return Ok(len as f64 / seconds.max(1e-9));
            }
            len *= 4;
        }
    }

    /// Seconds from asking for a block to the end of its answer.
    fn block(&mut self, peer: u16, len: usize, there: bool) -> Result<f64, NodeLost> {
        let mut bytes = vec![0; len];
        let began = Instant::now();
        match there {
            true => {
                self.send(peer, &Order::Take(len).bytes())?;
                self.send(peer, &bytes)?;
                let _ = self.receive_number(peer)?;
            }
            false => {
                self.send(peer, &Order::Give(len).bytes())?;
                self.receive(peer, &mut bytes)?;
            }
        }
        Ok(began.elapsed().as_secs_f64())
    }

    /// The end that answers.
    fn serve(&mut self, peer: u16) -> Result<(), NodeLost> {
        let mut block = Vec::new();
        loop {
            let mut order = [0; 16];
            self.receive(peer, &mut order)?;
            let word = |at: usize| {
                let word: [u8; 8] = order[at..at + 8].try_into().unwrap_or_default();
                u64::from_le_bytes(word)
            };
            let (kind, len) = (word(0), word(8) as usize);
            if len > BLOCKS.1 {
                let why = format!("it asks for {len} bytes: another version of DAHL?");
                return Err(NodeLost { node: peer, why });
            }
            block.resize(len, 0);
            match kind {
                1 => self.receive(peer, &mut block)?,
                2 => {
                    self.send(peer, &block)?;
                    continue;
                }
                3 => return Ok(()),
                _ => {}
            }
            self.send(peer, &wall_clock().to_le_bytes())?;
        }
    }
}

/// Nanoseconds since 1970.
fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |s| s.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::{LinkSpeed, local_cluster};
    use super::*;

    fn on_nodes<R: Send>(nodes: u16, speed: LinkSpeed, work: fn(Talk<'_>) -> R) -> Vec<R> {
        std::thread::scope(|scope| {
            let started: Vec<_> = local_cluster(nodes, speed)
                .into_iter()
                .map(|mut node| {
                    scope.spawn(move || work(Talk::new(&mut node, Duration::from_secs(60))))
                })
                .collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, R>| thread.join().unwrap();
            started.into_iter().map(join).collect()
        })
    }

    /// A link's set figures are bounds: a machine that is busy with other things only makes it slower.
    #[test]
    fn links_are_measured_by_pairs() {
        let speed = LinkSpeed {
            bandwidth: 1e8,
            latency: Duration::from_millis(1),
        };
        let measured = on_nodes(3, speed, |mut talk| {
            let links = talk.measure_links(0.3).unwrap();
            let first = talk.measure_first_links(0.1).unwrap();
            talk.finish().unwrap();
            (links, first)
        });
        let (links, first) = &measured[0];
        let pairs: Vec<_> = links.iter().map(|l| (l.from, l.to)).collect();
        assert_eq!(pairs, [(0, 1), (0, 2), (1, 2)]);
        let pairs: Vec<_> = first.iter().map(|l| (l.from, l.to)).collect();
        assert_eq!(pairs, [(0, 1), (0, 2)]);
        for link in links.iter().chain(first) {
            assert!(link.latency >= 1e-3, "{link:?}");
            for bandwidth in [link.bandwidth, link.bandwidth_back] {
                assert!(bandwidth > 0.0 && bandwidth < 1.2e9, "{link:?}");
            }
            // All clocks are one.
            assert!(link.clock_ahead.abs() <= 2.0 * link.clock_error, "{link:?}");
        }
        let mut others = measured[1..].iter();
        assert!(others.all(|(a, b)| a.is_empty() && b.is_empty()));
    }

    #[test]
    fn texts_are_gathered_by_the_first() {
        let all = on_nodes(3, LinkSpeed::UNLIMITED, |mut talk| {
            let own = vec![b'x'; usize::from(talk.node()) * 3];
            let all = talk.gather(&own).unwrap();
            talk.finish().unwrap();
            all
        });
        let lengths: Vec<usize> = all[0].iter().map(Vec::len).collect();
        assert_eq!(lengths, [0, 3, 6]);
        assert!(all[1].is_empty() && all[2].is_empty());
    }

    #[test]
    fn a_node_that_leaves_is_named() {
        let lost = on_nodes(2, LinkSpeed::UNLIMITED, |mut talk| match talk.node() {
            0 => talk.gather(b"").err(),
            _ => None,
        });
        let lost = lost[0].clone().expect("node 1 has left");
        assert_eq!((lost.node, &lost.why[..]), (1, "it has left the cluster"));
    }
}
