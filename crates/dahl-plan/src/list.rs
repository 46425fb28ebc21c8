//! From choices to a plan: list scheduling on a [`Timeline`].
//!
//! Given the mode of each task and a priority, whenever something ends the most urgent ready activities
//! start on what is free, transfers included. Where memory is tight that may run into a wall (each ready
//! activity waits for room that only another could free); then activities start strictly one after
//! another in a given order, each as soon as it fits, which needs the least room.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::network::{ActivityKind, Frame, Network};
use super::problem::Goal;
use super::quick::Quick;
use super::timeline::{Started, Timeline};

/// What is decided: for each task, the place of its mode among the modes of its class.
pub(crate) type Choice = Vec<u16>;

/// The rank of a plan that just misses its deadline: above all others.
pub(super) const LATE: f64 = 1e300;

/// A plan with what it was made from.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The choice of each task.
    pub choice: Choice,
    /// What was added to each task's urgency; empty if nothing was.
    pub nudge: Vec<f64>,
    /// What it costs; infinite if it misses the deadline.
    pub cost: f64,
    /// By how much it costs or misses, for comparing plans that are too late.
    pub rank: f64,
    /// Each task's memory.
    pub memory: Vec<usize>,
    /// What starts when.
    pub log: Vec<Started>,
}

/// Ready activities, the most urgent first.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Ready(pub f64, pub u32);

impl Eq for Ready {}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Makes plans of choices; keeps the network of the last one, as most choices differ in little.
pub(crate) struct Lister<'a, 'p> {
    frame: &'a Frame<'p>,
    goal: Goal,
    memory: Vec<usize>,
    net: Option<Network>,
    quick: Option<Quick<'a, 'p>>,
}

impl<'a, 'p> Lister<'a, 'p> {
    /// For plans of one problem.
    pub(crate) fn new(frame: &'a Frame<'p>, goal: Goal) -> Self {
        Lister {
            frame,
            goal,
            memory: Vec::new(),
            net: None,
            quick: Quick::new(frame, goal),
        }
    }

    /// As [`Lister::plan`], where possible without each task's memory and unit; `None` also if the plan
    /// would rank worse than `most`.
    pub(crate) fn rough(&mut self, choice: &Choice, nudge: &[f64], most: f64) -> Option<Candidate> {
        let Some(quick) = &mut self.quick else {
            return self.plan(choice, nudge).filter(|c| c.rank <= most);
        };
        let s = quick.sketch(choice, nudge, most)?;
        let made = (choice, nudge);
        Some(Candidate::new(
            &self.goal,
            made,
            s.seconds,
            s.joules,
            Vec::new(),
            s.log,
        ))
    }

    /// The plan of a choice; `nudge` is added to each task's urgency, as a part of the longest path.
    pub(crate) fn plan(&mut self, choice: &Choice, nudge: &[f64]) -> Option<Candidate> {
        let p = self.frame.problem;
        let mode = |t: usize| &self.frame.modes[p.tasks[t] as usize][usize::from(choice[t])];
        let memory: Vec<usize> = (0..choice.len())
            .map(|t| p.groups[usize::from(mode(t).resource)].memory)
            .collect();
        if self.net.is_none() || memory != self.memory {
            self.net = self.frame.network(&memory);
            self.memory.clone_from(&memory);
        }
        let net = self.net.as_ref()?;
        let seconds: Vec<f64> = net
            .activities
            .iter()
            .map(|a| match a.what {
                ActivityKind::Task(t) => mode(t as usize).seconds,
                ActivityKind::Transfer { .. } => a.modes[0].seconds,
            })
            .collect();
        let mut urgency = net.tails(&seconds);
        let longest = urgency
            .iter()
            .zip(&seconds)
            .map(|(u, s)| u + s)
            .fold(0.0, f64::max);
        let by = |i: usize| nudge.get(i).copied().unwrap_or(0.0);
        for (i, u) in urgency.iter_mut().enumerate() {
            // A transfer is as urgent as what waits for it.
            let by = match net.activities[i].what {
                ActivityKind::Task(_) => by(i),
                ActivityKind::Transfer { .. } => {
                    let after = net.activities[i].after.iter();
                    let most = after
                        .map(|&a| by(a as usize))
                        .fold(f64::NEG_INFINITY, f64::max);
                    if most.is_finite() { most } else { 0.0 }
                }
            };
            *u += seconds[i] + by * longest;
        }
        // In the network of a memory, the modes of a task are those of its class that lie there.
        let place = |t: usize| {
            let w = mode(t);
            net.activities[t].modes.iter().position(|x| x == w)
        };
        let modes: Option<Vec<usize>> = (0..net.activities.len())
            .map(|i| if i < net.tasks { place(i) } else { Some(0) })
            .collect();
        let modes = modes?;
        let timeline = match eager(net, &modes, &urgency) {
            Some(t) => t,
            None => in_order(net, &modes, &serial(net))?,
        };
        let (seconds, joules) = (timeline.makespan, timeline.total_joules());
        let made = (choice, nudge);
        Some(Candidate::new(
            &self.goal,
            made,
            seconds,
            joules,
            memory,
            timeline.log,
        ))
    }
}

impl Candidate {
    fn new(
        goal: &Goal,
        (choice, nudge): (&Choice, &[f64]),
        seconds: f64,
        joules: f64,
        memory: Vec<usize>,
        log: Vec<Started>,
    ) -> Self {
        let rank = goal.cost(seconds, joules);
        let in_time = goal.in_time(seconds);
        let late = seconds / goal.deadline.unwrap_or(f64::INFINITY);
        Candidate {
            choice: choice.clone(),
            nudge: nudge.to_vec(),
            cost: if in_time { rank } else { f64::INFINITY },
            rank: if in_time { rank } else { LATE * late.min(1e6) },
            memory,
            log,
        }
    }
}

/// Nudges by which tasks are the more urgent the earlier they are to start.
pub(crate) fn by_start(starts: &[f64]) -> Vec<f64> {
    // Ten times the longest path: beside that, what follows a task is nothing.
    let latest = starts.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    starts.iter().map(|s| 10.0 * (1.0 - s / latest)).collect()
}

/// The most urgent first, on whatever is free. `None` if memory runs into a wall.
fn eager<'n>(net: &'n Network, modes: &[usize], urgency: &[f64]) -> Option<Timeline<'n>> {
    let mut t = Timeline::new(net)?;
    let mut queues: Vec<BinaryHeap<Ready>> = vec![BinaryHeap::new(); net.resources.len()];
    let resource =
        |i: u32| usize::from(net.activities[i as usize].modes[modes[i as usize]].resource);
    let mut freed: Vec<u32> = (0..net.activities.len() as u32)
        .filter(|&i| t.is_ready(i))
        .collect();
    let mut waiting: Vec<Ready> = Vec::new();
    loop {
        for i in freed.drain(..) {
            queues[resource(i)].push(Ready(urgency[i as usize], i));
        }
        for line in &net.sharing.lines {
            let first = |queues: &[BinaryHeap<Ready>], r: u16| {
                let queue: &BinaryHeap<Ready> = &queues[usize::from(r)];
                queue.peek().copied()
            };
            while let Some(r) = net
                .sharing
                .next(line, |r| t.is_free(r), |r| first(&queues, r))
                && let Some(next) = queues[usize::from(r)].pop()
            {
                if t.fits(next.1) {
                    t.start(next.1, modes[next.1 as usize]);
                } else {
                    waiting.push(next);
                }
            }
            for next in waiting.drain(..) {
                queues[resource(next.1)].push(next);
            }
        }
        if !t.advance(&mut freed) {
            return t.is_complete().then_some(t);
        }
    }
}

/// Strictly in this order, each as early as possible after the one before.
pub(super) fn in_order<'n>(
    net: &'n Network,
    modes: &[usize],
    order: &[u32],
) -> Option<Timeline<'n>> {
    let mut t = Timeline::new(net)?;
    let mut freed = Vec::new();
    for &i in order {
        while !(t.is_ready(i) && t.is_free_for(i, modes[i as usize]) && t.fits(i)) {
            if !t.advance(&mut freed) {
                return None;
            }
        }
        t.start(i, modes[i as usize]);
    }
    Some(t)
}

/// An order that keeps few copies alive: whatever a task was the last to wait for comes right after it,
/// and a transfer right before its first reader.
fn serial(net: &Network) -> Vec<u32> {
    let mut waits: Vec<usize> = net.activities.iter().map(|a| a.before.len()).collect();
    let mut stack: Vec<u32> = (0..net.activities.len() as u32)
        .rev()
        .filter(|&i| waits[i as usize] == 0)
        .collect();
    let mut tasks = Vec::new();
    while let Some(i) = stack.pop() {
        tasks.push(i);
        for &n in net.activities[i as usize].after.iter().rev() {
            waits[n as usize] -= 1;
            if waits[n as usize] == 0 {
                stack.push(n);
            }
        }
    }
    let mut order = Vec::with_capacity(tasks.len());
    let mut placed = vec![false; tasks.len()];
    for &i in tasks.iter().filter(|&&i| (i as usize) < net.tasks) {
        place_with_transfers(net, i, &mut placed, &mut order);
    }
    order
}

/// Places an activity, and before it the transfers it waits for.
fn place_with_transfers(net: &Network, i: u32, placed: &mut [bool], order: &mut Vec<u32>) {
    for &b in &net.activities[i as usize].before {
        if b as usize >= net.tasks && !placed[b as usize] {
            place_with_transfers(net, b, placed, order);
        }
    }
    placed[i as usize] = true;
    order.push(i);
}
