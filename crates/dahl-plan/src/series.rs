//! Series decomposition: problems that fall into parts, of which each must end before the next begins.
//!
//! Every task after the loss of a training step waits for every task before it, so each side can be planned by
//! itself, and a proof needs to look at a part of the tasks only. With `T` and `J` the makespans and joules of the
//! parts' plans, the whole takes `Σ T` and needs `Σ J`: what is best for each part is best for the whole, where the
//! objective is a sum of these.
//!
//! Only where nothing moves and memories have room enough: otherwise what a part leaves behind matters to the next.

use super::list::in_order;
use super::network::{ExecMode, Frame};
use super::problem::{Origin, Problem};
use super::timeline::Started;

/// Some tasks of a problem, as a problem of their own.
pub(crate) struct SubProblem {
    pub problem: Problem,
    /// Their numbers in the whole.
    pub tasks: Vec<u32>,
}

/// The parts of a problem, in order; fewer than two if it does not fall apart.
pub(crate) fn parts(frame: &Frame<'_>) -> Vec<SubProblem> {
    if !stays(frame) {
        return Vec::new();
    }
    let stages = stages(frame).into_iter();
    stages.map(|tasks| part(frame, tasks)).collect()
}

/// Whether all tasks run where all data is, and always find room.
fn stays(frame: &Frame<'_>) -> bool {
    let p = frame.problem;
    let Some(here) = p.groups.first().map(|g| g.memory) else {
        return false;
    };
    let elsewhere = |origin: &Origin| matches!(origin, Origin::Memory(m) if *m != here);
    !frame.copies
        && p.groups.iter().all(|g| g.memory == here)
        && !p.data.iter().any(|d| elsewhere(&d.origin))
}

/// Tasks in groups, each of which waits for all of the one before.
///
/// In the order of how many tasks each waits for, all that a task waits for stand before it. So if the one in place
/// `k` waits for `k`, it waits for all before it, and so do all that follow: each of these waits for `k` at least,
/// and if not for others among those that follow, then for just these.
fn stages(frame: &Frame<'_>) -> Vec<Vec<u32>> {
    let count = frame.problem.tasks.len();
    let words = count.div_ceil(64);
    let mut waits = vec![0_u64; count * words];
    let mut before = vec![Vec::new(); count];
    for &(a, b) in &frame.edges {
        before[b as usize].push(a as usize);
    }
    for &t in &frame.topological {
        let t = t as usize;
        for &b in &before[t] {
            for w in 0..words {
                waits[t * words + w] |= waits[b * words + w];
            }
            waits[t * words + b / 64] |= 1 << (b % 64);
        }
    }
    let waited = |t: u32| -> u32 {
        let mine = &waits[t as usize * words..(t as usize + 1) * words];
        mine.iter().map(|w| w.count_ones()).sum()
    };
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.sort_by_key(|&t| (waited(t), t));
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for (k, &t) in order.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if waited(t) as usize != k => group.push(t),
            _ => groups.push(vec![t]),
        }
    }
    groups
}

fn part(frame: &Frame<'_>, tasks: Vec<u32>) -> SubProblem {
    let p = frame.problem;
    let mut place = vec![None; p.tasks.len()];
    for (k, &t) in tasks.iter().enumerate() {
        place[t as usize] = Some(k as u32);
    }
    let edges = frame.edges.iter();
    let edges = edges.filter_map(|&(a, b)| Some((place[a as usize]?, place[b as usize]?)));
    let problem = Problem {
        tasks: tasks.iter().map(|&t| p.tasks[t as usize]).collect(),
        edges: edges.collect(),
        data: Vec::new(),
        links: Vec::new(),
        ..p.clone()
    };
    SubProblem { problem, tasks }
}

/// A plan as the modes that tasks take, and an order in which they can be started.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartOrder {
    pub modes: Vec<ExecMode>,
    pub tasks: Vec<u32>,
}

impl StartOrder {
    /// A plan of a frame in which nothing moves.
    pub(crate) fn new(frame: &Frame<'_>, log: &[Started]) -> Self {
        let ways_of = |t: u32| &frame.modes[frame.problem.tasks[t as usize] as usize];
        let mut log: Vec<&Started> = log.iter().collect();
        log.sort_by(|a, b| a.start.total_cmp(&b.start));
        let mut by_task = log.clone();
        by_task.sort_by_key(|s| s.activity);
        let mode = |s: &&Started| ways_of(s.activity)[usize::from(s.mode)];
        let modes = by_task.iter().map(mode).collect();
        let tasks = log.iter().map(|s| s.activity).collect();
        StartOrder { modes, tasks }
    }

    /// The plan of a frame that starts tasks in this order, each as early as it can.
    pub(crate) fn perform(&self, frame: &Frame<'_>) -> Option<Done> {
        let memory = vec![frame.problem.groups.first()?.memory; self.tasks.len()];
        let net = frame.network(&memory)?;
        let place =
            |(t, mode): (usize, &ExecMode)| net.activities[t].modes.iter().position(|w| w == mode);
        let modes: Option<Vec<usize>> = self.modes.iter().enumerate().map(place).collect();
        let done = in_order(&net, &modes?, &self.tasks)?;
        let (seconds, joules) = (done.makespan, done.total_joules());
        let log = done.log;
        Some(Done {
            memory,
            log,
            seconds,
            joules,
        })
    }
}

/// A performed plan.
pub(crate) struct Done {
    pub memory: Vec<usize>,
    pub log: Vec<Started>,
    pub seconds: f64,
    pub joules: f64,
}

impl SubProblem {
    /// What a plan of the whole does with this part.
    pub(crate) fn of(&self, whole: &StartOrder) -> StartOrder {
        let place = |t: u32| self.tasks.iter().position(|&mine| mine == t);
        StartOrder {
            modes: self
                .tasks
                .iter()
                .map(|&t| whole.modes[t as usize])
                .collect(),
            tasks: whole
                .tasks
                .iter()
                .filter_map(|&t| Some(place(t)? as u32))
                .collect(),
        }
    }
}

/// The plan of the whole that follows a plan for each part.
pub(crate) fn join(parts: &[SubProblem], orders: &[StartOrder]) -> StartOrder {
    let mut modes: Vec<(u32, ExecMode)> = Vec::new();
    let mut tasks = Vec::new();
    for (part, order) in parts.iter().zip(orders) {
        modes.extend(part.tasks.iter().copied().zip(order.modes.iter().copied()));
        tasks.extend(order.tasks.iter().map(|&t| part.tasks[t as usize]));
    }
    modes.sort_by_key(|w| w.0);
    let modes = modes.into_iter().map(|w| w.1).collect();
    StartOrder { modes, tasks }
}
