//! A problem once it is known in which memory each task runs: what has to be done, on what, after what.
//!
//! Transfers are then known too and become activities like tasks, links become resources like units, and
//! every copy knows who uses it. Which unit of a memory runs a task, in which state and when is open.

use super::problem::{Origin, PlanError, Problem};
use super::sharing::Sharing;

/// An execution mode of an activity, as in multi-mode resource-constrained scheduling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ExecMode {
    /// Index into [`Network::resources`]: groups of units first, then links, then what links share.
    pub resource: u16,
    /// Frequency state.
    pub state: u8,
    /// How long it takes.
    pub seconds: f64,
    /// Joules beyond those that flow anyway.
    pub joules: f64,
}

/// What an activity is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ActivityKind {
    /// The task of this number; activities of tasks come first, in the order of tasks.
    Task(u32),
    /// A datum crosses a link.
    Transfer {
        /// Which datum.
        datum: u32,
        /// Which link.
        link: u32,
    },
}

/// A task or a transfer.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    /// What it is.
    pub what: ActivityKind,
    /// How it can be done; never empty.
    pub modes: Vec<ExecMode>,
    /// What must end before it starts.
    pub before: Vec<u32>,
    /// What waits for it.
    pub after: Vec<u32>,
    /// Copies that begin with it.
    pub makes: Vec<u32>,
    /// Copies that must outlive it, those it makes included.
    pub uses: Vec<u32>,
    /// Copies that end as it starts.
    pub ends: Vec<u32>,
}

/// A datum in a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    /// Where.
    pub memory: u16,
    /// How large.
    pub bytes: u64,
    /// Activities that use it; when all have ended it is dropped.
    pub users: u32,
    /// Whether it exists from the beginning.
    pub initial: bool,
    /// Whether it stays until the end, or until an activity ends it.
    pub stays: bool,
}

/// What has to be done.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    /// Tasks, then transfers.
    pub activities: Vec<Activity>,
    /// Copies of data, if the frame wants them.
    pub copies: Vec<Copy>,
    /// How many activities each resource carries at once.
    pub resources: Vec<usize>,
    /// What links share of them.
    pub sharing: Sharing,
    /// What each memory holds.
    pub capacity: Vec<Option<u64>>,
    /// Watts that flow all the time.
    pub standing_watts: f64,
    /// An order of activities in which each comes after what it waits for.
    pub topological: Vec<u32>,
    /// Number of tasks.
    pub tasks: usize,
}

/// What all networks of one problem share.
#[derive(Clone, Debug)]
pub(crate) struct Frame<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Edges between tasks, those through data included, without duplicates.
    pub edges: Vec<(u32, u32)>,
    /// Links between memories.
    pub routes: Vec<Vec<Option<Vec<u32>>>>,
    /// The modes of each class, without those that are slower and costlier than another on the same group.
    pub modes: Vec<Vec<ExecMode>>,
    /// Whether networks list copies: because some memory is limited, or because peaks are wanted.
    pub copies: bool,
    /// What links share.
    pub sharing: Sharing,
    /// The datum that replaces each datum.
    heirs: Vec<Option<u32>>,
    /// Tasks, each after what it waits for.
    pub topological: Vec<u32>,
}

impl<'a> Frame<'a> {
    /// Checks a problem and prepares what its networks share.
    pub(crate) fn new(problem: &'a Problem) -> Result<Self, PlanError> {
        problem.check()?;
        let mut edges = problem.edges.clone();
        for d in &problem.data {
            if let Origin::Task(writer) = d.origin {
                edges.extend(d.readers.iter().map(|&r| (writer, r)));
                if let Some(old) = d.replaces {
                    let readers = problem.data[old as usize].readers.iter();
                    edges.extend(readers.filter(|&&r| r != writer).map(|&r| (r, writer)));
                }
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let topological = sort(problem.tasks.len(), &edges)?;
        let mut heirs = vec![None; problem.data.len()];
        for (i, d) in problem.data.iter().enumerate() {
            if let Some(old) = d.replaces {
                heirs[old as usize] = Some(i as u32);
            }
        }
        let total: u64 = problem
            .data
            .iter()
            .fold(0, |a, d| a.saturating_add(d.bytes));
        Ok(Frame {
            edges,
            routes: problem.routes(),
            modes: problem
                .classes
                .iter()
                .map(|c| modes(problem, &c.seconds))
                .collect(),
            copies: problem
                .memories
                .iter()
                .any(|m| m.capacity.is_some_and(|c| c < total)),
            sharing: Sharing::new(problem),
            heirs,
            topological,
            problem,
        })
    }

    /// Drops all but the fastest mode on each group: where only time counts, slower states never help.
    pub(crate) fn keep_fastest(&mut self) {
        for modes in &mut self.modes {
            let all = modes.clone();
            modes.retain(|w| {
                !all.iter()
                    .any(|o| o.resource == w.resource && o.seconds < w.seconds)
            });
        }
    }

    /// Memories in which a task can run.
    pub(crate) fn memories_of(&self, task: usize) -> Vec<usize> {
        let modes = &self.modes[self.problem.tasks[task] as usize];
        let mut all: Vec<usize> = modes
            .iter()
            .map(|w| self.problem.groups[usize::from(w.resource)].memory)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The modes of a task in a memory, or with `None` in any.
    pub(crate) fn ways_in(&self, task: usize, memory: Option<usize>) -> Vec<ExecMode> {
        let all = &self.modes[self.problem.tasks[task] as usize];
        let here = |w: &&ExecMode| {
            memory.is_none_or(|m| self.problem.groups[usize::from(w.resource)].memory == m)
        };
        all.iter().filter(here).copied().collect()
    }

    /// The memory a datum comes from, where each task's memory is known.
    pub(crate) fn origin(&self, datum: usize, memory: &[Option<usize>]) -> Option<usize> {
        match self.problem.data[datum].origin {
            Origin::Task(t) => memory[t as usize],
            Origin::Memory(m) => Some(m),
            Origin::LeftBy(d) => self.origin(d as usize, memory),
        }
    }

    /// The task in whose memory a datum begins, if that depends on a task.
    pub(crate) fn writer(&self, datum: usize) -> Option<u32> {
        match self.problem.data[datum].origin {
            Origin::Task(t) => Some(t),
            Origin::Memory(_) => None,
            Origin::LeftBy(d) => self.writer(d as usize),
        }
    }

    /// What remains when data moves at no cost and memories have no limits: less than any plan has to do.
    pub(crate) fn relaxed(&self) -> Network {
        self.build(&vec![None; self.problem.tasks.len()], false)
            .expect("without memories there is no transfer that could lack a link")
    }

    /// The network where each task runs in the memory given. Fails if data cannot get where it is needed.
    pub(crate) fn network(&self, memory: &[usize]) -> Option<Network> {
        let memory: Vec<Option<usize>> = memory.iter().map(|&m| Some(m)).collect();
        self.build(&memory, true)
    }

    fn build(&self, memory: &[Option<usize>], moves: bool) -> Option<Network> {
        let p = self.problem;
        let activity = |what, modes| Activity {
            what,
            modes,
            before: Vec::new(),
            after: Vec::new(),
            makes: Vec::new(),
            uses: Vec::new(),
            ends: Vec::new(),
        };
        let mut net = Network {
            activities: (0..p.tasks.len())
                .map(|t| activity(ActivityKind::Task(t as u32), self.ways_in(t, memory[t])))
                .collect(),
            copies: Vec::new(),
            resources: p.groups.iter().map(|g| g.units).collect(),
            sharing: self.sharing.clone(),
            capacity: p.memories.iter().map(|m| m.capacity).collect(),
            standing_watts: p.standing_watts(),
            topological: self.topological.clone(),
            tasks: p.tasks.len(),
        };
        net.resources.extend(p.resources_of_links());
        if net.activities.iter().any(|a| a.modes.is_empty()) {
            return None;
        }
        let mut edges = self.edges.clone();
        if moves {
            let mut made: Vec<u32> = vec![0; p.memories.len()];
            let mut copies: Vec<[u32; 2]> = Vec::new();
            for (i, d) in p.data.iter().enumerate() {
                let origin = self.origin(i, memory)?;
                // For each memory, one more than the activity that brings the datum there.
                made.fill(0);
                copies.clear();
                let writer = match d.origin {
                    Origin::Task(t) => Some(t),
                    _ => None,
                };
                let home = self.copy(&mut net, i, origin, writer);
                copies.push([origin as u32, home]);
                for &reader in &d.readers {
                    let to = memory[reader as usize]?;
                    for &link in self.routes[origin][to].as_ref()? {
                        let l = &p.links[link as usize];
                        if made[l.to] > 0 {
                            continue;
                        }
                        let id = net.activities.len() as u32;
                        let mode = ExecMode {
                            resource: (p.groups.len() + link as usize) as u16,
                            state: 0,
                            seconds: l.seconds(d.bytes),
                            joules: l.joules_per_byte * d.bytes as f64,
                        };
                        let what = ActivityKind::Transfer {
                            datum: i as u32,
                            link,
                        };
                        net.activities.push(activity(what, vec![mode]));
                        match made[l.from] {
                            0 => edges.extend(writer.map(|w| (w, id))),
                            source => edges.push((source - 1, id)),
                        }
                        made[l.to] = id + 1;
                        use_copy(&mut net, &copies, l.from, id);
                        let copy = self.copy(&mut net, i, l.to, Some(id));
                        copies.push([l.to as u32, copy]);
                    }
                    if made[to] > 0 {
                        edges.push((made[to] - 1, reader));
                    }
                    use_copy(&mut net, &copies, to, reader);
                }
                // A task that replaces the datum drops the copy in its own memory.
                let heir = self.heirs[i].map(|h| p.data[h as usize].origin);
                if let (true, Some(Origin::Task(w))) = (self.copies, heir) {
                    let here = memory[w as usize]? as u32;
                    if let Some(&[_, copy]) = copies.iter().find(|c| c[0] == here) {
                        net.activities[w as usize].ends.push(copy);
                        net.copies[copy as usize].stays = true;
                    }
                }
            }
            edges.sort_unstable();
            edges.dedup();
            net.topological = sort(net.activities.len(), &edges).ok()?;
        }
        for (a, b) in edges {
            net.activities[a as usize].after.push(b);
            net.activities[b as usize].before.push(a);
        }
        Some(net)
    }

    /// Notes a copy, made by `maker` or there from the beginning.
    fn copy(&self, net: &mut Network, datum: usize, memory: usize, maker: Option<u32>) -> u32 {
        if !self.copies {
            return u32::MAX;
        }
        let d = &self.problem.data[datum];
        let id = net.copies.len() as u32;
        let at_home = maker.is_none_or(|m| (m as usize) < net.tasks);
        net.copies.push(Copy {
            memory: memory as u16,
            bytes: d.bytes,
            users: 0,
            initial: maker.is_none(),
            stays: d.kept && at_home,
        });
        if let Some(m) = maker {
            net.activities[m as usize].makes.push(id);
            net.activities[m as usize].uses.push(id);
            net.copies[id as usize].users += 1;
        }
        id
    }
}

fn use_copy(net: &mut Network, copies: &[[u32; 2]], memory: usize, user: u32) {
    if let Some(&[_, copy]) = copies.iter().find(|c| c[0] == memory as u32)
        && copy != u32::MAX
        && !net.activities[user as usize].uses.contains(&copy)
    {
        net.activities[user as usize].uses.push(copy);
        net.copies[copy as usize].users += 1;
    }
}

fn modes(problem: &Problem, seconds: &[Vec<f64>]) -> Vec<ExecMode> {
    let mut all: Vec<ExecMode> = Vec::new();
    for (g, times) in seconds.iter().enumerate() {
        let group = &problem.groups[g];
        let mode = |(state, &seconds): (usize, &f64)| ExecMode {
            resource: g as u16,
            state: state as u8,
            seconds,
            joules: (group.busy_watts[state] - group.idle_watts) * seconds,
        };
        let here: Vec<ExecMode> = times.iter().enumerate().map(mode).collect();
        let beaten = |w: &ExecMode| {
            here.iter().any(|o| {
                let no_worse = o.seconds <= w.seconds && o.joules <= w.joules;
                let better = o.seconds < w.seconds || o.joules < w.joules;
                no_worse && (better || o.state < w.state)
            })
        };
        all.extend(here.iter().filter(|w| !beaten(w)));
    }
    all
}

/// An order in which each comes after what it waits for, lowest numbers first.
fn sort(n: usize, edges: &[(u32, u32)]) -> Result<Vec<u32>, PlanError> {
    use std::cmp::Reverse;
    let mut degree = vec![0_u32; n];
    let mut start = vec![0_usize; n + 1];
    for &(a, b) in edges {
        degree[b as usize] += 1;
        start[a as usize + 1] += 1;
    }
    for i in 0..n {
        start[i + 1] += start[i];
    }
    let mut after = vec![0_u32; edges.len()];
    let mut fill = start.clone();
    for &(a, b) in edges {
        after[fill[a as usize]] = b;
        fill[a as usize] += 1;
    }
    let mut ready: std::collections::BinaryHeap<Reverse<u32>> = (0..n as u32)
        .filter(|&i| degree[i as usize] == 0)
        .map(Reverse)
        .collect();
    let mut order = Vec::with_capacity(n);
    while let Some(Reverse(i)) = ready.pop() {
        order.push(i);
        for &j in &after[start[i as usize]..start[i as usize + 1]] {
            degree[j as usize] -= 1;
            if degree[j as usize] == 0 {
                ready.push(Reverse(j));
            }
        }
    }
    match (0..n).find(|&i| degree[i] > 0) {
        Some(i) => Err(PlanError::Cycle(i as u32)),
        None => Ok(order),
    }
}

impl Network {
    /// Whether memories that hold so many bytes have room for what an activity makes.
    pub(crate) fn fits(&self, used: &[u64], activity: usize) -> bool {
        let a = &self.activities[activity];
        a.makes.iter().all(|&c| {
            let memory = self.copies[c as usize].memory;
            let Some(capacity) = self.capacity[usize::from(memory)] else {
                return true;
            };
            let bytes = |all: &[u32]| -> u64 {
                let here = all.iter().map(|&c| &self.copies[c as usize]);
                here.filter(|c| c.memory == memory).map(|c| c.bytes).sum()
            };
            used[usize::from(memory)] + bytes(&a.makes) <= capacity + bytes(&a.ends)
        })
    }

    /// The shortest time of each activity.
    pub(crate) fn shortest(&self) -> Vec<f64> {
        let least = |a: &Activity| {
            a.modes
                .iter()
                .map(|w| w.seconds)
                .fold(f64::INFINITY, f64::min)
        };
        self.activities.iter().map(least).collect()
    }

    /// The longest path of `seconds` that ends just before each activity.
    pub(crate) fn heads(&self, seconds: &[f64]) -> Vec<f64> {
        let mut head = vec![0.0_f64; self.activities.len()];
        for &i in &self.topological {
            let i = i as usize;
            for &b in &self.activities[i].before {
                head[i] = head[i].max(head[b as usize] + seconds[b as usize]);
            }
        }
        head
    }

    /// The longest path of `seconds` that starts just after each activity.
    pub(crate) fn tails(&self, seconds: &[f64]) -> Vec<f64> {
        let mut tail = vec![0.0_f64; self.activities.len()];
        for &i in self.topological.iter().rev() {
            let i = i as usize;
            for &a in &self.activities[i].after {
                tail[i] = tail[i].max(tail[a as usize] + seconds[a as usize]);
            }
        }
        tail
    }
}
