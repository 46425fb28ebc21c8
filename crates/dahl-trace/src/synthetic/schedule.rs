//! A list scheduler in virtual time: who runs what when in a made-up trace.
//!
//! Whenever a unit is free it takes the ready task that was submitted first. Durations vary by a few
//! per cent, one task in 500 takes eight times as long, and a unit's first tasks are slow.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use dahl_core::UnitKind;
use dahl_core::random::Random;
use dahl_core::trace::{Launch, Load, NOBODY, Nanos, TaskId, TaskRun, Trace, Transfer};

use super::network::Network;

/// Launches in flight.
const IN_FLIGHT: usize = 2;
/// The GPU is this much faster.
const GPU_SPEED: f64 = 3.0;
/// One in so many tasks is a straggler, and takes so many times as long.
const STRAGGLER: (u64, f64) = (500, 8.0);

/// A launch in flight.
struct Flight {
    launch: u32,
    /// What each task still waits for.
    missing: Vec<u32>,
    /// Tasks of this launch that shall run, and that have ended.
    wanted: usize,
    ended: usize,
    done: Vec<bool>,
}

struct Scheduler<'a> {
    trace: &'a mut Trace,
    network: &'a Network,
    random: Random,
    drawn: u64,
    flights: VecDeque<Flight>,
    ready: BinaryHeap<Reverse<(TaskId, TaskId, Nanos)>>,
    running: BinaryHeap<Reverse<(Nanos, u16, TaskId)>>,
    /// Tasks each unit has run.
    runs: Vec<u32>,
    waiting: Vec<u32>,
}

/// Fills in launches, tasks and transfers.
pub(super) fn run(trace: &mut Trace, network: &Network, tasks: usize, random: Random) {
    let length = network.graph.tasks.len();
    let mut waiting = vec![0; length];
    network
        .graph
        .successors
        .iter()
        .for_each(|&s| waiting[s as usize] += 1);
    let units = trace.units.len();
    let mut s = Scheduler {
        trace,
        network,
        random,
        drawn: 0,
        flights: VecDeque::new(),
        ready: BinaryHeap::new(),
        running: BinaryHeap::new(),
        runs: vec![0; units],
        waiting,
    };
    let mut free: Vec<u16> = (0..units as u16).rev().collect();
    let (mut left, mut now) = (tasks, 0);
    loop {
        while left > 0 && s.flights.len() < IN_FLIGHT {
            let wanted = left.min(length);
            left -= wanted;
            now += 2000;
            s.launch(now, wanted);
        }
        while !free.is_empty()
            && let Some(Reverse((id, by, ready))) = s.ready.pop()
        {
            let unit = free.pop().expect("not empty");
            s.start(id, by, ready, unit, now);
        }
        let Some(Reverse((end, unit, id))) = s.running.pop() else {
            return;
        };
        now = now.max(end);
        free.push(unit);
        s.finish(id, end);
    }
}

impl Scheduler<'_> {
    fn uniform(&mut self) -> f64 {
        self.drawn += 1;
        self.random.uniform(self.drawn)
    }

    fn launch(&mut self, at: Nanos, wanted: usize) {
        let launch = self.trace.launches.len() as u32;
        self.trace.launches.push(Launch {
            step: u64::from(launch) + 1,
            graph: 0,
            at,
            node: 0,
        });
        let mut missing = self.waiting.clone();
        // Weights that the previous step has yet to update; of the ones it will never update, because
        // the trace ends before, there are none: only the last launch is cut short.
        if let Some(previous) = self.flights.back() {
            for &(from, to) in &self.network.next {
                missing[to as usize] += u32::from(!previous.done[from as usize]);
            }
        }
        for t in 0..wanted as u32 {
            if missing[t as usize] == 0 {
                let nobody = TaskId {
                    launch,
                    task: NOBODY,
                };
                self.ready
                    .push(Reverse((TaskId { launch, task: t }, nobody, at)));
            }
        }
        self.flights.push_back(Flight {
            launch,
            missing,
            wanted,
            ended: 0,
            done: vec![false; self.waiting.len()],
        });
    }

    fn start(&mut self, id: TaskId, by: TaskId, ready: Nanos, unit: u16, now: Nanos) {
        let class = self.network.graph.tasks[id.task as usize].class as usize;
        let gpu = self.trace.units[usize::from(unit)].kind == UnitKind::GPU;
        let taken = now + 200 + (600.0 * self.uniform()) as u64;
        let mut start = taken + 50;
        let far = gpu && self.uniform() < 0.4;
        if far {
            let access = self.network.graph.accesses_of(id.task)[0];
            let bytes = access.region.len() as u64 * 4;
            let ahead = self.uniform() < 0.5;
            let begin = if ahead {
                ready.max(taken - 200)
            } else {
                taken + 30
            };
            let end = begin + 2000 + bytes / 8;
            let (from, to) = (0, self.trace.units[usize::from(unit)].memory);
            self.trace.transfers.push(Transfer {
                from,
                to,
                bytes,
                for_task: id,
                ahead,
                load: Load::asked(bytes),
                batch: 1,
                start: begin,
                end,
            });
            start = start.max(end + 100);
        }
        let mut nanos = self.network.nanos[class] * (0.95 + 0.1 * self.uniform());
        if gpu {
            nanos = nanos / GPU_SPEED + 4000.0;
        }
        if self.uniform() * (STRAGGLER.0 as f64) < 1.0 {
            nanos *= STRAGGLER.1;
        }
        self.runs[usize::from(unit)] += 1;
        if self.runs[usize::from(unit)] <= 5 {
            nanos *= 3.0;
        }
        let end = start + nanos as u64;
        self.trace.tasks.push(TaskRun {
            id,
            released_by: by,
            unit,
            ready,
            taken,
            start,
            end,
            fell_back: false,
        });
        self.running.push(Reverse((end, unit, id)));
    }

    fn finish(&mut self, id: TaskId, now: Nanos) {
        let at = self.flights.iter().position(|f| f.launch == id.launch);
        let at = at.expect("a running task's launch is in flight");
        self.flights[at].done[id.task as usize] = true;
        self.flights[at].ended += 1;
        for &s in self.network.graph.successors_of(id.task) {
            self.release(at, s, id, now);
        }
        if at + 1 < self.flights.len() {
            for i in self.network.next.partition_point(|e| e.0 < id.task).. {
                match self.network.next.get(i) {
                    Some(&(from, to)) if from == id.task => self.release(at + 1, to, id, now),
                    _ => break,
                }
            }
        }
        while self.flights.front().is_some_and(|f| f.ended == f.wanted) {
            self.flights.pop_front();
        }
    }

    fn release(&mut self, flight: usize, task: u32, by: TaskId, now: Nanos) {
        let flight = &mut self.flights[flight];
        let missing = &mut flight.missing[task as usize];
        *missing -= 1;
        if *missing == 0 && (task as usize) < flight.wanted {
            let id = TaskId {
                launch: flight.launch,
                task,
            };
            self.ready.push(Reverse((id, by, now)));
        }
    }
}
