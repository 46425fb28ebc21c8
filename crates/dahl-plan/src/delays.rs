//! How long data take at least from one memory to another, whoever moves them and in however many pieces.

use super::problem::Problem;

/// Least delays between memories.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    memories: usize,
    /// Least sum of latencies from each memory to each other one; without end where there is no way.
    latency: Vec<f64>,
    /// Seconds per byte into each memory, over all of its links at once.
    per_byte: Vec<f64>,
}

impl Delays {
    /// Those of a problem's links.
    pub(crate) fn new(problem: &Problem) -> Self {
        let n = problem.memories.len();
        let mut latency = vec![f64::INFINITY; n * n];
        let mut bandwidth = vec![0.0; n];
        for link in &problem.links {
            let at = link.from * n + link.to;
            latency[at] = link.latency.min(latency[at]);
            bandwidth[link.to] += link.bandwidth * link.channels as f64;
        }
        (0..n).for_each(|m| latency[m * n + m] = 0.0);
        for via in 0..n {
            for from in 0..n {
                for to in 0..n {
                    let sum = latency[from * n + via] + latency[via * n + to];
                    latency[from * n + to] = latency[from * n + to].min(sum);
                }
            }
        }
        let per_byte = bandwidth
            .iter()
            .map(|b| if *b > 0.0 { 1.0 / b } else { 0.0 });
        Delays {
            memories: n,
            latency,
            per_byte: per_byte.collect(),
        }
    }

    /// Number of memories.
    pub(crate) fn memories(&self) -> usize {
        self.memories
    }

    /// Seconds from when data of so many bytes were written in a memory to when all of them can be in another.
    ///
    /// Nothing can be moved before it is written, and a write leaves the values nowhere else. A piece that comes into `to` over a
    /// link has paid the latencies of a way there, and only then do its bytes flow. So a time `t` after the write, a
    /// link has brought at most `channels × bandwidth × (t − latency of the shortest way)` bytes, and all links into `to`
    /// together the sum of that. That holds for copies made by way of other memories or for other readers, for pieces
    /// sent at once, and for pieces that share a start with other data.
    #[inline]
    pub(crate) fn least(&self, from: usize, to: usize, bytes: u64) -> f64 {
        if from == to || bytes == 0 {
            return 0.0;
        }
        self.latency[from * self.memories + to] + bytes as f64 * self.per_byte[to]
    }
}
