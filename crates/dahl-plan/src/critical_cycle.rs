//! The critical cycle of a run of many steps: from the task that leaves weights to the next step, by way of the tasks
//! that read them, to itself in that step. No run spends less time on a step, on average.
//!
//! Which memory a task runs in is open, so the cycle is as short as the best placement makes it, transfers included.
//! With `p(t, m)` the least seconds of task `t` in memory `m`, and the weights left in memory `a`, let
//!
//! ```text
//! F(t, m) = p(t, m) + max( delay(a, m, bytes)                                        if t reads the weights
//!                          min over m' of F(b, m') + delay(m', m, bytes from b to t)   for each b that t waits for )
//! ```
//!
//! **`F(t, m)` is never above the time from the end of the writer to the end of `t` where `t` runs in `m`.** By
//! induction: `t` begins after `b` has ended in whatever memory that ran, `m'` say, and after what `b` wrote for it has come
//! from there ([`Delays::least`]); the minimum is over all memories, so it is no more. Each task may take another memory for
//! each task that waits for it, which makes the bound lower, never wrong.
//!
//! So if the writer runs in `a` in one step and in `c` in the next, `D(a, c) = F(writer, c)` seconds are between the two. A run
//! goes from memory to memory, so what its steps take on average is no less than the *minimum cycle mean* of `D`
//! (Karp 1978). Plans have one memory for all steps and pay `D(a, a)`; a policy may change its mind.

use std::rc::Rc;

use super::bound::Cycle;
use super::delays::Delays;
use super::network::{Frame, Network};
use super::problem::Origin;

/// Writers whose cycles are looked at, those with the longest cycles by the tasks alone first.
const WRITERS: usize = 16;

/// Whom a task waits for, and bytes that it needs from there; or readers of something, and bytes that they take of it.
type Waits = Vec<(u32, u64)>;

/// Tasks with what they wait for, and the memories they may run in.
#[derive(Clone)]
pub(crate) struct Placements<'a> {
    net: &'a Network,
    delays: &'a Delays,
    /// For each task, whom it waits for, and bytes that it needs from there.
    before: Rc<[Waits]>,
    /// The least seconds of each task in each memory; without end where it cannot run.
    seconds: Vec<f64>,
}

impl<'a> Placements<'a> {
    /// Those of a frame.
    pub(crate) fn new(frame: &Frame<'_>, net: &'a Network, delays: &'a Delays) -> Self {
        let problem = frame.problem;
        let (tasks, memories) = (problem.tasks.len(), delays.memories());
        let mut all: Vec<(u32, u32, u64)> = frame.edges.iter().map(|&(a, b)| (b, a, 0)).collect();
        for d in &problem.data {
            if let Origin::Task(writer) = d.origin {
                let others = d.readers.iter().filter(|&&r| r != writer);
                all.extend(others.map(|&r| (r, writer, d.bytes)));
            }
        }
        all.sort_unstable();
        let mut before = vec![Vec::new(); tasks];
        for same in all.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
            let bytes = same.iter().map(|e| e.2).fold(0, u64::saturating_add);
            before[same[0].0 as usize].push((same[0].1, bytes));
        }
        let mut seconds = vec![f64::INFINITY; tasks * memories];
        for (t, activity) in net.activities.iter().enumerate() {
            for mode in &activity.modes {
                let memory = problem.groups[usize::from(mode.resource)].memory;
                let least = &mut seconds[t * memories + memory];
                *least = least.min(mode.seconds);
            }
        }
        Placements {
            net,
            delays,
            before: before.into(),
            seconds,
        }
    }

    /// The least seconds of a task in a memory; without end if it may not run there.
    #[inline]
    pub(crate) fn at(&self, task: usize, memory: usize) -> f64 {
        self.seconds[task * self.delays.memories() + memory]
    }

    /// The same where each task runs in one of the memories of its mask.
    pub(crate) fn within(&self, allowed: &[u64]) -> Self {
        let mut fewer = self.clone();
        let memories = self.delays.memories();
        for (own, mask) in fewer.seconds.chunks_mut(memories).zip(allowed) {
            let refused = own
                .iter_mut()
                .enumerate()
                .filter(|(m, _)| mask & (1 << m) == 0);
            refused.for_each(|(_, seconds)| *seconds = f64::INFINITY);
        }
        fewer
    }

    /// The longest path of a step by itself, wherever its tasks run; what it finds is there.
    pub(crate) fn longest(&self) -> f64 {
        let all = vec![Some(0); self.before.len()];
        let ends = self.ends(&all, &|_| true, 0);
        let soonest = ends.chunks(self.delays.memories().max(1));
        let soonest = soonest.map(|of| of.iter().copied().fold(f64::INFINITY, f64::min));
        soonest.fold(0.0, f64::max)
    }

    /// `F` above: with `first` the bytes that each task reads of the weights, if it does, which were left in memory `from`. Below
    /// zero without end where no path leads; tasks that are not `wanted` are left out.
    fn ends(&self, first: &[Option<u64>], wanted: &dyn Fn(usize) -> bool, from: usize) -> Vec<f64> {
        let memories = self.delays.memories();
        let mut ends = vec![f64::NEG_INFINITY; self.seconds.len()];
        for &t in &self.net.topological {
            let t = t as usize;
            if !wanted(t) {
                continue;
            }
            for m in 0..memories {
                let mut begin = match first[t] {
                    Some(bytes) => self.delays.least(from, m, bytes),
                    None => f64::NEG_INFINITY,
                };
                for &(b, bytes) in &self.before[t] {
                    begin = begin.max(
                        self.soonest(&ends, b as usize, |m_b| self.delays.least(m_b, m, bytes)),
                    );
                }
                ends[t * memories + m] = begin + self.seconds[t * memories + m];
            }
        }
        ends
    }

    /// The least of a task's times with what is added for each memory.
    #[inline]
    fn soonest(&self, times: &[f64], task: usize, add: impl Fn(usize) -> f64) -> f64 {
        let memories = self.delays.memories();
        let own = &times[task * memories..(task + 1) * memories];
        // Nobody waits where no path leads: below zero without end in all memories.
        if own[0] == f64::NEG_INFINITY {
            return own[0];
        }
        let with = own.iter().enumerate().map(|(m, time)| time + add(m));
        with.fold(f64::INFINITY, f64::min)
    }

    /// The least time from the end of each task to the end of `last`, by the same argument backwards.
    fn tails(&self, wanted: &dyn Fn(usize) -> bool, last: usize) -> Vec<f64> {
        let memories = self.delays.memories();
        let mut tails = vec![f64::NEG_INFINITY; self.seconds.len()];
        tails[last * memories..(last + 1) * memories].fill(0.0);
        for &t in self.net.topological.iter().rev() {
            let t = t as usize;
            if !wanted(t) {
                continue;
            }
            let from_begin: Vec<f64> = (0..memories)
                .map(|m| tails[t * memories + m] + self.seconds[t * memories + m])
                .collect();
            for &(b, bytes) in &self.before[t] {
                for m_b in 0..memories {
                    let with = from_begin.iter().enumerate();
                    let with = with.map(|(m, time)| time + self.delays.least(m_b, m, bytes));
                    let after = with.fold(f64::INFINITY, f64::min);
                    let tail = &mut tails[b as usize * memories + m_b];
                    *tail = tail.max(after);
                }
            }
        }
        tails
    }
}

/// The cycles of a run: readers of what a writer leaves to the next step, and all paths between them and the writer.
pub(crate) struct Cycles {
    all: Vec<Round>,
}

/// One of them, with how many bytes of it each reader takes.
struct Round {
    first: Vec<Option<u64>>,
    cycle: Cycle,
}

impl Cycles {
    /// Those that are longest by the tasks alone.
    pub(crate) fn new(frame: &Frame<'_>, net: &Network) -> Cycles {
        let shortest = net.shortest();
        let mut by_length: Vec<(f64, usize, Waits)> = writers(frame)
            .into_iter()
            .map(|(writer, readers)| {
                let to_end = ways(net, &shortest, writer);
                let of = readers.iter().map(|r| to_end[r.0 as usize]);
                (of.fold(f64::NEG_INFINITY, f64::max), writer, readers)
            })
            .filter(|w| w.0 > 0.0)
            .collect();
        by_length.sort_by(|a, b| b.0.total_cmp(&a.0));
        by_length.truncate(WRITERS);
        let round = |(_, writer, readers): &(f64, usize, Waits)| {
            Round::new(net, *writer, readers, &ways(net, &shortest, *writer))
        };
        Cycles {
            all: by_length.iter().map(round).collect(),
        }
    }

    /// The least time of the longest, and its paths.
    pub(crate) fn critical(&self, placements: &Placements<'_>) -> (f64, Cycle) {
        let least = self
            .all
            .iter()
            .map(|round| (round.least(placements), round));
        match least.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((least, round)) => (least, round.timed(placements)),
            None => (0.0, Cycle::none(placements.before.len())),
        }
    }
}

/// For every task that leaves something to the next step, the readers of that, each with how many bytes it takes.
fn writers(frame: &Frame<'_>) -> Vec<(usize, Waits)> {
    let problem = frame.problem;
    let mut all: Vec<(u32, u32, u64)> = Vec::new();
    for datum in &problem.data {
        if let Origin::LeftBy(last) = datum.origin
            && let Origin::Task(writer) = problem.data[last as usize].origin
        {
            all.extend(datum.readers.iter().map(|&r| (writer, r, datum.bytes)));
        }
    }
    all.sort_unstable();
    let of_one = |of_writer: &[(u32, u32, u64)]| {
        let readers = of_writer.chunk_by(|a, b| a.1 == b.1).map(|same| {
            let bytes = same.iter().map(|e| e.2).fold(0, u64::saturating_add);
            (same[0].1, bytes)
        });
        (of_writer[0].0 as usize, readers.collect())
    };
    all.chunk_by(|a, b| a.0 == b.0).map(of_one).collect()
}

impl Round {
    fn new(net: &Network, writer: usize, readers: &[(u32, u64)], to_end: &[f64]) -> Round {
        let leads = |t: usize| to_end[t].is_finite();
        let mut cycle = Cycle::none(net.activities.len());
        cycle.last = writer;
        let mut first = vec![None; net.activities.len()];
        for &(reader, bytes) in readers {
            let reader = reader as usize;
            first[reader] = leads(reader).then_some(bytes);
            cycle.first[reader] = leads(reader);
        }
        for &task in &net.topological {
            let task = task as usize;
            let reached = |&b: &u32| cycle.inside[b as usize];
            let begun = cycle.first[task] || net.activities[task].before.iter().any(reached);
            cycle.inside[task] = begun && leads(task);
        }
        Round { first, cycle }
    }

    /// Least times of all tasks in all memories, for each memory that the writer may run in.
    fn ends<'a>(&'a self, of: &'a Placements<'_>) -> impl Iterator<Item = (usize, Vec<f64>)> + 'a {
        let memories = 0..of.delays.memories();
        let able = memories.filter(|&m| of.at(self.cycle.last, m).is_finite());
        able.map(|from| (from, of.ends(&self.first, &|t| self.cycle.inside[t], from)))
    }

    /// The least time of the cycle.
    fn least(&self, of: &Placements<'_>) -> f64 {
        let memories = of.delays.memories();
        let mut between = vec![f64::INFINITY; memories * memories];
        for (from, ends) in self.ends(of) {
            let to = &ends[self.cycle.last * memories..(self.cycle.last + 1) * memories];
            between[from * memories..(from + 1) * memories].copy_from_slice(to);
        }
        least_cycle_mean(&between, memories)
    }

    /// Its paths, with the least time from its end to each task and from each task to its next end.
    fn timed(&self, of: &Placements<'_>) -> Cycle {
        let memories = of.delays.memories();
        let mut cycle = self.cycle.clone();
        let inside = |t: usize| self.cycle.inside[t];
        let able = |t: usize| (0..memories).filter(move |&m| of.at(t, m).is_finite());
        let all = 0..cycle.inside.len();
        let all: Vec<usize> = all.filter(|&t| inside(t)).collect();
        all.iter().for_each(|&t| cycle.head[t] = f64::INFINITY);
        for (_, ends) in self.ends(of) {
            for &t in &all {
                let begins = able(t).map(|m| ends[t * memories + m] - of.at(t, m));
                cycle.head[t] = begins.fold(cycle.head[t], f64::min);
            }
        }
        let tails = of.tails(&inside, cycle.last);
        for &t in &all {
            let own = able(t).map(|m| tails[t * memories + m]);
            cycle.tail[t] = own.fold(f64::INFINITY, f64::min);
        }
        cycle
    }
}

/// The least mean weight of the cycles of a graph that is given by a matrix, by Karp's algorithm; zero if there is none.
pub(crate) fn least_cycle_mean(weights: &[f64], n: usize) -> f64 {
    // The least weight of walks of each number of edges to each node, from anywhere.
    let mut walks = vec![vec![0.0; n]];
    for k in 0..n {
        let next = |to: usize| {
            let ways = (0..n).map(|from| walks[k][from] + weights[from * n + to]);
            ways.fold(f64::INFINITY, f64::min)
        };
        walks.push((0..n).map(next).collect());
    }
    let mean = |to: usize| {
        let slopes = (0..n).map(|k| (walks[n][to] - walks[k][to]) / (n - k) as f64);
        slopes.fold(f64::NEG_INFINITY, f64::max)
    };
    let ends = (0..n).filter(|&to| walks[n][to].is_finite());
    let least = ends.map(mean).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}

/// The longest way from the begin of each task to the end of one; without end below zero where none leads there.
fn ways(net: &Network, seconds: &[f64], to: usize) -> Vec<f64> {
    let mut to_end = vec![f64::NEG_INFINITY; seconds.len()];
    to_end[to] = seconds[to];
    for &task in net.topological.iter().rev() {
        let task = task as usize;
        for &after in &net.activities[task].after {
            to_end[task] = to_end[task].max(seconds[task] + to_end[after as usize]);
        }
    }
    to_end
}
