//! What a choice comes to, without building its network: for searches that look at many.
//!
//! The same list scheduling as [`list`](super::list), start by start, on flat arrays. Memories are taken to
//! be large, so it serves where none is limited; and it stops early where a plan cannot become as good
//! as it has to be.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::list::{Choice, LATE, Ready};
use super::network::Frame;
use super::problem::{Goal, Objective, Origin};
use super::timeline::{Ending, Started};

/// Where a chain of list elements ends.
const NONE: u32 = u32::MAX;

/// A datum crosses a link.
#[derive(Clone, Copy)]
struct Transfer {
    link: u16,
    seconds: f64,
    /// What waits for it: the first of a list of cells.
    readers: u32,
    /// The next transfer with the same source.
    next: u32,
    /// Transfers that go on from here.
    onward: u32,
}

/// What a choice comes to.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    /// Its makespan.
    pub seconds: f64,
    /// Joules in all.
    pub joules: f64,
    /// What starts when. Activities have the numbers of the network's; units are not told apart.
    pub log: Vec<Started>,
}

/// Sketches of the plans of one problem; keeps its lists from one to the next.
pub(crate) struct Quick<'a, 'p> {
    frame: &'a Frame<'p>,
    goal: Goal,
    resources: Vec<usize>,
    after: Vec<Vec<u32>>,
    waits: Vec<u32>,
    seconds: Vec<f64>,
    resource: Vec<u16>,
    memory: Vec<Option<usize>>,
    transfers: Vec<Transfer>,
    /// Elements of reader lists: the reader, and the next element.
    cells: Vec<(u32, u32)>,
    /// The first transfer from each task; the last entry is for data that exists beforehand.
    first: Vec<u32>,
    tail: Vec<f64>,
    urgency: Vec<f64>,
    left: Vec<u32>,
    queues: Vec<BinaryHeap<Ready>>,
    running: BinaryHeap<Ending>,
    free: Vec<usize>,
}

impl<'a, 'p> Quick<'a, 'p> {
    /// For a problem; `None` where a memory is limited.
    pub(crate) fn new(frame: &'a Frame<'p>, goal: Goal) -> Option<Self> {
        if frame.copies {
            return None;
        }
        let p = frame.problem;
        let n = p.tasks.len();
        let mut resources: Vec<usize> = p.groups.iter().map(|g| g.units).collect();
        resources.extend(p.resources_of_links());
        let mut quick = Quick {
            frame,
            goal,
            after: vec![Vec::new(); n],
            waits: vec![0; n],
            seconds: vec![0.0; n],
            resource: vec![0; n],
            memory: vec![None; n],
            transfers: Vec::new(),
            cells: Vec::new(),
            first: vec![NONE; n + 1],
            tail: Vec::new(),
            urgency: Vec::new(),
            left: Vec::new(),
            queues: vec![BinaryHeap::new(); resources.len()],
            running: BinaryHeap::new(),
            free: resources.clone(),
            resources,
        };
        for &(a, b) in &frame.edges {
            quick.after[a as usize].push(b);
            quick.waits[b as usize] += 1;
        }
        Some(quick)
    }

    /// The sketch of a choice with these nudges, as [`Lister::plan`](super::list::Lister::plan) has them;
    /// `None` if it ranks above `most`, or if data cannot get where it is needed.
    pub(crate) fn sketch(&mut self, choice: &Choice, nudge: &[f64], most: f64) -> Option<Sketch> {
        let p = self.frame.problem;
        let n = choice.len();
        let mut joules = 0.0;
        for (t, &k) in choice.iter().enumerate() {
            let mode = &self.frame.modes[p.tasks[t] as usize][usize::from(k)];
            self.seconds[t] = mode.seconds;
            self.resource[t] = mode.resource;
            self.memory[t] = Some(p.groups[usize::from(mode.resource)].memory);
            joules += mode.joules;
        }
        self.left.clone_from(&self.waits);
        joules += self.carry()?;
        self.rank(nudge);
        // With these joules, later than this is too much.
        let standing = p.standing_watts();
        let latest = match self.goal.objective {
            Objective::Time => most,
            Objective::Energy => (most - joules) / standing.max(f64::MIN_POSITIVE),
            // Where T × (standing × T + joules) is as much.
            Objective::Edp if standing > 0.0 => {
                ((joules * joules + 4.0 * standing * most).sqrt() - joules) / (2.0 * standing)
            }
            Objective::Edp => most / joules.max(f64::MIN_POSITIVE),
        };
        let latest = match self.goal.deadline {
            Some(deadline) if most >= LATE => deadline * (most / LATE),
            Some(deadline) => latest.min(deadline),
            None => latest,
        };
        let (seconds, log) = self.perform(n, latest * (1.0 + 1e-9))?;
        Some(Sketch {
            seconds,
            joules: standing * seconds + joules,
            log,
        })
    }

    /// Lists the transfers that the memories make necessary, in the order of the network's; their joules.
    fn carry(&mut self) -> Option<f64> {
        let p = self.frame.problem;
        let n = self.waits.len();
        self.transfers.clear();
        self.cells.clear();
        self.first.fill(NONE);
        let mut joules = 0.0;
        let mut made = vec![NONE; p.memories.len()];
        for (i, d) in p.data.iter().enumerate() {
            let origin = self.frame.origin(i, &self.memory)?;
            let here = |r: &u32| self.memory[*r as usize] == Some(origin);
            if d.readers.iter().all(here) {
                continue;
            }
            made.fill(NONE);
            let writer = match d.origin {
                Origin::Task(t) => t as usize,
                _ => n,
            };
            for &reader in &d.readers {
                let to = self.memory[reader as usize]?;
                let mut source = NONE;
                for &link in self.frame.routes[origin][to].as_ref()? {
                    let l = &p.links[link as usize];
                    if made[l.to] == NONE {
                        let id = self.transfers.len() as u32;
                        let list = match self.transfers.get_mut(source as usize) {
                            Some(t) => &mut t.onward,
                            None => &mut self.first[writer],
                        };
                        let next = std::mem::replace(list, id);
                        self.transfers.push(Transfer {
                            link: (p.groups.len() + link as usize) as u16,
                            seconds: l.seconds(d.bytes),
                            readers: NONE,
                            next,
                            onward: NONE,
                        });
                        joules += l.joules_per_byte * d.bytes as f64;
                        made[l.to] = id;
                    }
                    source = made[l.to];
                }
                if let Some(t) = self.transfers.get_mut(source as usize) {
                    let cell = self.cells.len() as u32;
                    self.cells
                        .push((reader, std::mem::replace(&mut t.readers, cell)));
                    self.left[reader as usize] += 1;
                }
            }
        }
        Some(joules)
    }

    /// The longest path after each activity, and from it and the nudges how urgent each is.
    fn rank(&mut self, nudge: &[f64]) {
        let n = self.waits.len();
        let all = n + self.transfers.len();
        self.tail.clear();
        self.tail.resize(all, 0.0);
        self.urgency.clear();
        self.urgency.resize(all, f64::NEG_INFINITY);
        let by = |t: usize| nudge.get(t).copied().unwrap_or(0.0);
        let frame = self.frame;
        let tasks = frame.topological.iter().rev().map(|&t| t as usize);
        for t in tasks.chain([n]) {
            let mut tail = 0.0_f64;
            let mut next = self.first[t];
            while next != NONE {
                self.rank_transfer(next, nudge);
                let k = n + next as usize;
                tail = tail.max(self.tail[k] + self.transfers[next as usize].seconds);
                next = self.transfers[next as usize].next;
            }
            if t < n {
                for &a in &self.after[t] {
                    tail = tail.max(self.tail[a as usize] + self.seconds[a as usize]);
                }
                self.tail[t] = tail;
            }
        }
        let length = |i: usize| match i.checked_sub(n) {
            None => self.seconds[i],
            Some(k) => self.transfers[k].seconds,
        };
        let longest = (0..all)
            .map(|i| self.tail[i] + length(i))
            .fold(0.0, f64::max);
        for i in 0..all {
            let nudge = match i {
                _ if i < n => by(i),
                _ if self.urgency[i].is_finite() => self.urgency[i],
                _ => 0.0,
            };
            self.urgency[i] = self.tail[i] + length(i) + nudge * longest;
        }
    }

    /// The tail of a transfer, and in place of its urgency the largest nudge of those that wait for it.
    fn rank_transfer(&mut self, transfer: u32, nudge: &[f64]) {
        let n = self.waits.len();
        let (mut tail, mut most) = (0.0_f64, f64::NEG_INFINITY);
        let mut cell = self.transfers[transfer as usize].readers;
        while cell != NONE {
            let (reader, next) = self.cells[cell as usize];
            let r = reader as usize;
            tail = tail.max(self.tail[r] + self.seconds[r]);
            most = most.max(nudge.get(r).copied().unwrap_or(0.0));
            cell = next;
        }
        let mut onward = self.transfers[transfer as usize].onward;
        while onward != NONE {
            self.rank_transfer(onward, nudge);
            let t = self.transfers[onward as usize];
            tail = tail.max(self.tail[n + onward as usize] + t.seconds);
            // As far as the list goes: transfers have no nudge of their own.
            most = most.max(0.0);
            onward = t.next;
        }
        self.tail[n + transfer as usize] = tail;
        self.urgency[n + transfer as usize] = most;
    }

    /// The most urgent first, on whatever is free; `None` as soon as something must end after `latest`.
    fn perform(&mut self, n: usize, latest: f64) -> Option<(f64, Vec<Started>)> {
        let all = n + self.transfers.len();
        self.queues.iter_mut().for_each(BinaryHeap::clear);
        self.running.clear();
        self.free.clone_from(&self.resources);
        let mut log = Vec::with_capacity(all);
        let (mut now, mut makespan) = (0.0_f64, 0.0_f64);
        for t in 0..n {
            if self.left[t] == 0 {
                self.push(t as u32);
            }
        }
        self.push_transfers(self.first[n]);
        let sharing = &self.frame.sharing;
        loop {
            for line in &sharing.lines {
                let is_free = |free: &[usize], r: u16| free[usize::from(r)] > 0;
                let first = |queues: &[BinaryHeap<Ready>], r: u16| {
                    let queue: &BinaryHeap<Ready> = &queues[usize::from(r)];
                    queue.peek().copied()
                };
                while let Some(r) =
                    sharing.next(line, |r| is_free(&self.free, r), |r| first(&self.queues, r))
                    && let Some(Ready(_, i)) = self.queues[usize::from(r)].pop()
                {
                    self.free[usize::from(r)] -= 1;
                    for &s in sharing.also(r) {
                        self.free[usize::from(s)] -= 1;
                    }
                    let k = i as usize;
                    let end = now + self.length(k);
                    if end + self.tail[k] > latest {
                        return None;
                    }
                    makespan = makespan.max(end);
                    self.running.push(Ending(end, i));
                    log.push(Started {
                        activity: i,
                        mode: 0,
                        unit: 0,
                        start: now,
                        end,
                    });
                }
            }
            let Some(&Ending(next, _)) = self.running.peek() else {
                break;
            };
            now = next;
            while let Some(&Ending(end, i)) = self.running.peek() {
                if end.total_cmp(&now) == Ordering::Greater {
                    break;
                }
                self.running.pop();
                self.finish(i as usize);
            }
        }
        (log.len() == all).then_some((makespan, log))
    }

    fn length(&self, i: usize) -> f64 {
        match i.checked_sub(self.waits.len()) {
            None => self.seconds[i],
            Some(k) => self.transfers[k].seconds,
        }
    }

    fn push(&mut self, i: u32) {
        let resource = match (i as usize).checked_sub(self.waits.len()) {
            None => self.resource[i as usize],
            Some(k) => self.transfers[k].link,
        };
        self.queues[usize::from(resource)].push(Ready(self.urgency[i as usize], i));
    }

    fn push_transfers(&mut self, first: u32) {
        let mut next = first;
        while next != NONE {
            self.push(self.waits.len() as u32 + next);
            next = self.transfers[next as usize].next;
        }
    }

    fn arrive(&mut self, task: u32) {
        self.left[task as usize] -= 1;
        if self.left[task as usize] == 0 {
            self.push(task);
        }
    }

    fn finish(&mut self, i: usize) {
        if let Some(k) = i.checked_sub(self.waits.len()) {
            let t = self.transfers[k];
            self.free[usize::from(t.link)] += 1;
            for &s in self.frame.sharing.also(t.link) {
                self.free[usize::from(s)] += 1;
            }
            let mut cell = t.readers;
            while cell != NONE {
                let (reader, next) = self.cells[cell as usize];
                self.arrive(reader);
                cell = next;
            }
            self.push_transfers(t.onward);
            return;
        }
        self.free[usize::from(self.resource[i])] += 1;
        for k in 0..self.after[i].len() {
            self.arrive(self.after[i][k]);
        }
        self.push_transfers(self.first[i]);
    }
}
