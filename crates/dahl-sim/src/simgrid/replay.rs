//! A simulated run as a list of activities, for SimGrid to perform again.
//!
//! Nothing is left to decide: every task says its unit, its seconds and its frequency state, every transfer its link and
//! its bytes, and each what must have ended before it begins. How long a transfer takes, when things begin and what
//! all of it draws is for SimGrid to find out, on the platform that stands in the same file. `bench/simgrid/replay.py`
//! does so and compares.
//!
//! What an activity waits for: what the graph says, the transfers that were made for it, what occupied the channels of
//! its link before, and, since everything happens when something else ends, what ended at that very moment.

use std::collections::HashMap;

use dahl_core::{Graph, Machine};
use serde::Serialize;

use super::names::Names;
use super::write::platform;
use crate::prediction::{Prediction, TransferSpan};

/// The version of the format.
const VERSION: u32 = 1;

/// A run to be performed again.
#[derive(Clone, Debug, Serialize)]
pub struct Replay {
    /// Of the format.
    version: u32,
    /// The machine's name.
    machine: String,
    /// A SimGrid platform.
    platform: String,
    /// What the simulator says: from the first launch to the end of the last task.
    seconds: f64,
    /// What the simulator says of all joules.
    joules: f64,
    /// Those of links that the replay cannot see, as they carried what nobody waited for.
    unseen_joules: f64,
    /// The host of every unit.
    units: Vec<String>,
    /// Of every link: the hosts at its ends and its joules per byte.
    links: Vec<(String, String, f64)>,
    /// What happens, each after what it waits for.
    activities: Vec<Activity>,
}

/// What happens.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
enum Activity {
    /// A unit computes.
    Task {
        unit: u16,
        /// Its frequency state.
        state: u8,
        /// Seconds from when all is there to when the unit begins.
        delay: f64,
        /// Seconds that it is busy.
        seconds: f64,
        after: Vec<u32>,
    },
    /// Bytes cross a link.
    Transfer {
        link: u16,
        /// Which of those that the link carries at once.
        lane: u32,
        bytes: u64,
        after: Vec<u32>,
    },
}

/// An activity with its times, until all are in order.
struct Timed {
    begin: f64,
    end: f64,
    what: Kind,
}

enum Kind {
    /// Of the prediction's runs.
    Task(usize),
    /// Of the prediction's transfers: from the first to before the last, those of one batch.
    Transfer(usize, usize),
}

/// The run of a graph as activities. `states` are those of the run's options. It must have been recorded.
pub fn replay(graph: &Graph, machine: &Machine, states: &[u8], run: &Prediction) -> Replay {
    let mut all = in_order(run);
    let (mut bytes, mut unseen) = (vec![0; machine.links.len()], 0.0);
    all.retain(|a| a.end <= run.makespan.0);
    for a in &all {
        if let Kind::Transfer(first, last) = a.what {
            for t in &run.transfers[first..last] {
                bytes[usize::from(t.link)] += t.bytes.0;
            }
        }
    }
    let per_byte = |l: usize| machine.links[l].joules_per_byte.unwrap_or(0.0);
    for (l, used) in run.links.iter().enumerate() {
        unseen += used.bytes.0.saturating_sub(bytes[l]) as f64 * per_byte(l);
    }
    let names = Names::new(machine);
    let host = |m| names.at(m).next().unwrap_or_default().to_owned();
    let ends = machine.links.iter().enumerate();
    Replay {
        version: VERSION,
        machine: machine.name.clone(),
        platform: platform(machine),
        seconds: run.makespan.0,
        joules: run.joules().0,
        unseen_joules: unseen,
        units: names.of_units(),
        links: ends
            .map(|(l, link)| (host(link.from), host(link.to), per_byte(l)))
            .collect(),
        activities: Waiting::new(graph, machine, run, &all).activities(states),
    }
}

/// Tasks and transfers, batches as one, by when they begin.
fn in_order(run: &Prediction) -> Vec<Timed> {
    let mut all = Vec::new();
    let mut first = 0;
    while let Some(t) = run.transfers.get(first) {
        let last = first + t.batch.max(1) as usize;
        let last = last.min(run.transfers.len());
        all.push(Timed {
            begin: t.start.0,
            end: run.transfers[last - 1].end.0,
            what: Kind::Transfer(first, last),
        });
        first = last;
    }
    for (i, r) in run.runs.iter().enumerate() {
        all.push(Timed {
            begin: r.begun[0].0,
            end: r.end.0,
            what: Kind::Task(i),
        });
    }
    all.sort_by(|a, b| a.begin.total_cmp(&b.begin).then(a.end.total_cmp(&b.end)));
    all
}

/// Who waits for whom.
struct Waiting<'a> {
    run: &'a Prediction,
    all: &'a [Timed],
    channels: Vec<Vec<u32>>,
    at_once: Vec<u32>,
    /// The activity of every task of every launch.
    of_task: HashMap<(usize, u32), u32>,
    /// Transfers by the task that they were made for.
    made_for: HashMap<(usize, u32), Vec<u32>>,
    /// Activities by when they ended.
    ended: HashMap<u64, Vec<u32>>,
    /// For every task, what its edges say it waits for.
    before: Vec<Vec<u32>>,
}

impl<'a> Waiting<'a> {
    fn new(graph: &'a Graph, machine: &Machine, run: &'a Prediction, all: &'a [Timed]) -> Self {
        let channels = machine.channels();
        let mut w = Waiting {
            run,
            all,
            at_once: channels.all.iter().map(|c| c.at_once).collect(),
            channels: channels.of_link,
            of_task: HashMap::new(),
            made_for: HashMap::new(),
            ended: HashMap::new(),
            before: vec![Vec::new(); graph.len()],
        };
        for (a, b) in graph.edges() {
            w.before[b as usize].push(a);
        }
        for (i, a) in all.iter().enumerate() {
            let i = i as u32;
            w.ended.entry(a.end.to_bits()).or_default().push(i);
            match a.what {
                Kind::Task(r) => {
                    let task = run.runs[r].task;
                    w.of_task.insert((task.launch, task.task), i);
                }
                Kind::Transfer(first, last) => {
                    for task in run.transfers[first..last].iter().filter_map(|t| t.for_task) {
                        let key = (task.launch, task.task);
                        w.made_for.entry(key).or_default().push(i);
                    }
                }
            }
        }
        w
    }

    /// What of a list has ended when something begins, and stands before it.
    fn settled(&self, i: usize, list: impl Iterator<Item = u32>) -> Vec<u32> {
        let begin = self.all[i].begin;
        let mut after: Vec<u32> = list
            .filter(|&b| (b as usize) < i && self.all[b as usize].end <= begin)
            .collect();
        let now = self.ended.get(&begin.to_bits()).into_iter().flatten();
        after.extend(now.copied().find(|&b| (b as usize) < i));
        after.sort_unstable();
        after.dedup();
        after
    }

    fn activities(&self, states: &[u8]) -> Vec<Activity> {
        // Of every channel the transfers so far, by when they end.
        let mut carried: Vec<Vec<u32>> = vec![Vec::new(); self.at_once.len()];
        let mut lanes: Vec<Vec<f64>> = vec![Vec::new(); self.channels.len()];
        let one = |(i, a): (usize, &Timed)| match a.what {
            Kind::Task(r) => self.task(i, r, states),
            Kind::Transfer(first, last) => {
                let transfers = &self.run.transfers[first..last];
                let link = transfers[0].link;
                let lane = free_lane(&mut lanes[usize::from(link)], a);
                let after = self.carried_before(i, link, &mut carried);
                Activity::Transfer {
                    link,
                    lane,
                    bytes: transfers.iter().map(|t: &TransferSpan| t.bytes.0).sum(),
                    after,
                }
            }
        };
        self.all.iter().enumerate().map(one).collect()
    }

    fn task(&self, i: usize, r: usize, states: &[u8]) -> Activity {
        let run = &self.run.runs[r];
        let launch = run.task.launch;
        let edges = self.before[run.task.task as usize].iter();
        let edges = edges.filter_map(|t| self.of_task.get(&(launch, *t)));
        let released = run.released_by.map(|t| (t.launch, t.task));
        let released = released.and_then(|key| self.of_task.get(&key));
        let brought = self.made_for.get(&(launch, run.task.task));
        let list = edges.chain(released).chain(brought.into_iter().flatten());
        let after = self.settled(i, list.copied());
        let ends = after.iter().map(|&b| self.all[b as usize].end);
        let known = ends.fold(0.0, f64::max);
        let [there, begun] = run.begun.map(|s| s.0);
        Activity::Task {
            unit: run.unit,
            state: states.get(run.task.task as usize).copied().unwrap_or(0),
            delay: (begun - there) + (there - known.min(there)),
            seconds: run.end.0 - begun,
            after,
        }
    }

    /// A transfer waits for those that occupied its channels last.
    fn carried_before(&self, i: usize, link: u16, carried: &mut [Vec<u32>]) -> Vec<u32> {
        let mut list = Vec::new();
        for &c in &self.channels[usize::from(link)] {
            let so_far = &mut carried[c as usize];
            let most = self.at_once[c as usize] as usize;
            let mut ended: Vec<u32> = so_far.clone();
            ended.retain(|&b| self.all[b as usize].end <= self.all[i].begin);
            let end = |b: &u32| self.all[*b as usize].end;
            ended.sort_by(|a, b| end(b).total_cmp(&end(a)));
            list.extend(ended.iter().take(most));
            // Of those that have ended, only the last may matter again.
            so_far
                .retain(|b| end(b) > self.all[i].begin || ended.iter().take(most).any(|e| e == b));
            so_far.push(i as u32);
        }
        self.settled(i, list.into_iter())
    }
}

/// The first lane that is free when a transfer begins.
fn free_lane(lanes: &mut Vec<f64>, a: &Timed) -> u32 {
    let free = lanes.iter().position(|until| *until <= a.begin);
    let lane = free.unwrap_or(lanes.len());
    match lanes.get_mut(lane) {
        Some(until) => *until = a.end,
        None => lanes.push(a.end),
    }
    lane as u32
}
