//! Lines: which planned transfers may go now, by what has happened so far.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Transfers;

/// How far a transfer of a launch has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its values are not made yet.
    Waits,
    /// They are.
    Ready,
    /// It is under way.
    Going,
    /// It has arrived, or will not be made.
    Done,
}

/// A launch.
#[derive(Clone, Debug)]
struct Flight {
    launch: u64,
    /// A bit for every task that has ended, and how many have not.
    ended: Vec<u64>,
    left: usize,
    /// Whether nothing of it begins any more.
    given_up: bool,
    stages: Vec<Stage>,
    /// For every queue, how many of its transfers have begun.
    begun: Vec<usize>,
}

impl Flight {
    fn is_going(&self) -> bool {
        self.stages.contains(&Stage::Going)
    }

    fn has_ended(&self, task: u32) -> bool {
        self.ended[task as usize / 64] & (1 << (task % 64)) != 0
    }

    /// A transfer's values are made.
    fn produced(&mut self, transfer: u32) -> bool {
        let stage = &mut self.stages[transfer as usize];
        let waits = *stage == Stage::Waits;
        if waits {
            *stage = Stage::Ready;
        }
        waits
    }
}

/// The transfers of launches in flight, by the rule of [`transfers`](super).
#[derive(Clone, Debug)]
pub struct TransferQueues {
    transfers: Arc<Transfers>,
    /// The oldest first.
    flights: VecDeque<Flight>,
    /// Launches that are over, to be used again: nothing is allocated per launch.
    spare: Vec<Flight>,
}

impl TransferQueues {
    /// Nothing is in flight.
    pub fn new(transfers: Arc<Transfers>) -> TransferQueues {
        TransferQueues {
            transfers,
            flights: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// What is followed.
    pub fn transfers(&self) -> &Arc<Transfers> {
        &self.transfers
    }

    /// A launch begins, later than all others so far.
    pub fn begin(&mut self, launch: u64) {
        let t = &*self.transfers;
        let mut flight = self.spare.pop().unwrap_or_else(|| Flight {
            launch,
            ended: vec![0; t.tasks.div_ceil(64)],
            left: 0,
            given_up: false,
            stages: vec![Stage::Waits; t.all.len()],
            begun: vec![0; t.queues.len()],
        });
        (flight.launch, flight.left, flight.given_up) = (launch, t.tasks, false);
        flight.ended.fill(0);
        flight.begun.fill(0);
        let before = self.flights.back();
        for (i, stage) in flight.stages.iter_mut().enumerate() {
            let is_made = match t.all[i].producer {
                _ if t.is_onward[i] => false,
                super::Producer::Before => true,
                super::Producer::LastStep(task) => {
                    before.is_none_or(|b| b.given_up || b.has_ended(task))
                }
                super::Producer::Task(_) => false,
            };
            *stage = if is_made { Stage::Ready } else { Stage::Waits };
        }
        self.flights.push_back(flight);
    }

    fn find(&self, launch: u64) -> Option<usize> {
        self.flights.iter().position(|f| f.launch == launch)
    }

    /// A task has ended. True if that made values that are to move.
    pub fn ended(&mut self, launch: u64, task: u32) -> bool {
        let Some(at) = self.find(launch) else {
            return false;
        };
        let flight = &mut self.flights[at];
        if flight.has_ended(task) {
            return false;
        }
        flight.ended[task as usize / 64] |= 1 << (task % 64);
        flight.left -= 1;
        let mut any = false;
        for &i in self.transfers.of_task.of(task) {
            any |= flight.produced(i);
        }
        // What is under way without readers is waited for.
        let is_over = flight.left == 0 && !flight.is_going();
        if let Some(next) = self.flights.get_mut(at + 1) {
            for &i in self.transfers.in_next.of(task) {
                any |= next.produced(i);
            }
        }
        if is_over {
            self.remove(at);
        }
        any
    }

    /// A launch will not be followed any further: what is not under way will not be.
    pub fn give_up(&mut self, launch: u64) {
        if let Some(at) = self.find(launch) {
            let flight = &mut self.flights[at];
            flight.given_up = true;
            for stage in flight.stages.iter_mut().filter(|s| **s != Stage::Going) {
                *stage = Stage::Done;
            }
            let is_over = !flight.is_going();
            // What waits for its values waits for nothing else.
            if let Some(next) = self.flights.get_mut(at + 1) {
                for task in 0..self.transfers.tasks as u32 {
                    let all = self.transfers.in_next.of(task);
                    all.iter().for_each(|&i| _ = next.produced(i));
                }
            }
            if is_over {
                self.remove(at);
            }
        }
    }

    /// Whether a launch is followed, or something of it is under way.
    pub fn knows(&self, launch: u64) -> bool {
        self.find(launch).is_some()
    }

    fn remove(&mut self, at: usize) {
        self.spare.extend(self.flights.remove(at));
    }

    /// The next transfer over a link, numbered as in [`Transfers::links`], and its launch: it is under way
    /// from now on, until [`TransferQueues::done`].
    pub fn next(&mut self, link: usize) -> Option<(u64, u32)> {
        let t = &*self.transfers;
        for flight in &mut self.flights {
            let Some(&first) = t.queues[link].get(flight.begun[link]) else {
                continue;
            };
            let queues = t.queues_of.of(first).iter().map(|&q| q as usize);
            let is_first = |q: usize| t.queues[q].get(flight.begun[q]) == Some(&first);
            if flight.stages[first as usize] == Stage::Ready && queues.clone().all(is_first) {
                flight.stages[first as usize] = Stage::Going;
                queues.for_each(|q| flight.begun[q] += 1);
                return Some((flight.launch, first));
            }
        }
        None
    }

    /// A transfer has arrived, or will not be made.
    pub fn done(&mut self, launch: u64, transfer: u32) {
        let Some(at) = self.find(launch) else {
            return;
        };
        let flight = &mut self.flights[at];
        flight.stages[transfer as usize] = Stage::Done;
        for &i in self.transfers.onward.of(transfer) {
            flight.produced(i);
        }
        if (flight.given_up || flight.left == 0) && !flight.is_going() {
            self.remove(at);
        }
    }

    /// Whether nothing that a task reads in a memory is still to come there.
    pub fn is_brought(&self, launch: u64, task: u32, memory: u16) -> bool {
        let brings = self.transfers.brings.of(task).iter();
        let here = brings.filter(|&&i| self.transfers.all[i as usize].to == memory);
        self.all_are(launch, here, |stage| stage == Stage::Done)
    }

    /// Whether something that a task reads is under way, be it to where it reads it or on a way there.
    pub fn is_under_way(&self, launch: u64, task: u32) -> bool {
        let awaits = self.transfers.awaits.of(task).iter();
        !self.all_are(launch, awaits, |stage| stage != Stage::Going)
    }

    fn all_are<'a>(
        &self,
        launch: u64,
        transfers: impl Iterator<Item = &'a u32>,
        is: impl Fn(Stage) -> bool,
    ) -> bool {
        let mut transfers = transfers.peekable();
        transfers.peek().is_none()
            || self.find(launch).is_none_or(|at| {
                let stages = &self.flights[at].stages;
                transfers.all(|&i| is(stages[i as usize]))
            })
    }

    /// What is still to go in each launch, for people: how many, and the first over each link.
    pub fn backlog(&self) -> impl Iterator<Item = (u64, usize, Vec<u32>)> + '_ {
        self.flights.iter().map(|f| {
            let left = f.stages.iter().filter(|s| **s != Stage::Done).count();
            let links = self.transfers.queues.iter().zip(&f.begun);
            let links = links.take(self.transfers.ends.len());
            let first = links.filter_map(|(order, &b)| order.get(b).copied());
            (f.launch, left, first.collect())
        })
    }
}
