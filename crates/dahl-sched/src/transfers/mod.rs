//! Planned transfers: what crosses which link, in which order, decided beforehand with the tasks.
//!
//! Facts of a plan, found once; [`TransferQueues`] says while a plan is followed which transfers may go now. The
//! simulator and the runtime both drive it, so that what is simulated is what will run. Nothing here moves
//! a byte, waits or knows where data is: the runtime or the simulator does.
//!
//! # The rule
//!
//! Over each link, and on each channel that links share ([`dahl_core::machine::network`]: a port, a switch), the
//! transfers of a launch begin in the plan's order, each once its values are made: by a
//! task of the launch, by one of the launch before, by an earlier transfer, or before the launch. While the
//! first one's are not, a later launch may use the link. A task waits for the transfers that bring what it
//! reads; whatever they did not bring it fetches itself.
//!
//! # Why nobody waits for ever
//!
//! [`Transfers::new`] refuses an order in which tasks and transfers would wait for each other in a circle:
//! tasks for those before them in the graph and on their unit and for what is brought to them, transfers for
//! what makes their values and for those before them on their link and what it shares. So within the oldest launch something
//! can always go on, and it ends; nothing in it waits for a younger one but for a transfer under way, which
//! ends. The runtime or the simulator says of each transfer when it is done, also if it could not be made.

mod queues;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use dahl_core::{Graph, Machine, Region};
use serde::{Deserialize, Serialize};

use crate::edges::Edges;

pub use queues::TransferQueues;

/// What makes the values that a transfer carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Producer {
    /// They are there when a step begins.
    Before,
    /// This task, in the step before.
    LastStep(u32),
    /// This task.
    Task(u32),
}

impl Producer {
    /// The task, of whichever step.
    pub(crate) fn task(self) -> Option<u32> {
        match self {
            Producer::Before => None,
            Producer::LastStep(task) | Producer::Task(task) => Some(task),
        }
    }
}

/// Parts of an array that cross a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTransfer {
    /// The storage, in the graph.
    pub storage: u32,
    /// Which parts of it, under its own shape.
    pub parts: Vec<Region>,
    /// Who makes their values.
    pub producer: Producer,
    /// The memory they leave.
    pub from: u16,
    /// The memory they reach.
    pub to: u16,
    /// Tasks that wait for it.
    pub readers: Vec<u32>,
}

/// Why transfers cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferError {
    /// A transfer names something that is not there, or that it has nothing to do with.
    #[error("transfer {transfer}: {problem}")]
    Transfer {
        /// Its place in the plan.
        transfer: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// It would wait for ever.
    #[error(
        "transfer {0} could never begin: tasks and transfers before it, on links and units, wait for each other in a circle"
    )]
    Circle(usize),
}

/// The transfers of a plan, checked against its graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Transfers {
    tasks: usize,
    all: Vec<PlannedTransfer>,
    /// The memories at the ends of each link.
    ends: Vec<(u16, u16)>,
    /// The order over each link, and after them on each channel that links share.
    queues: Vec<Vec<u32>>,
    /// For every transfer, those it stands in.
    queues_of: Edges,
    /// For every task, transfers of what it makes: in its own launch, and in the next.
    of_task: Edges,
    in_next: Edges,
    /// For every transfer, those that carry its values on.
    onward: Edges,
    is_onward: Vec<bool>,
    /// For every task, what brings what it reads.
    brings: Edges,
    /// The same with what carries that before, and the other way round.
    awaits: Edges,
    awaited: Edges,
}

impl Transfers {
    /// Of a graph whose tasks run in these orders, one for every unit; transfers in the order of the plan. Where links
    /// of the machine share channels, all that goes through them keeps to that order, too.
    pub fn new(
        graph: &Graph,
        orders: &[Vec<u32>],
        all: Vec<PlannedTransfer>,
        machine: &Machine,
    ) -> Result<Self, TransferError> {
        for (i, transfer) in all.iter().enumerate() {
            if let Some(problem) = misfit(graph, transfer) {
                let transfer = i;
                return Err(TransferError::Transfer { transfer, problem });
            }
        }
        let (mut ends, mut links) = (Vec::new(), Vec::<Vec<u32>>::new());
        let (channels, mut carried) = (machine.channels(), HashMap::new());
        let (mut through, mut shared) = (Vec::new(), vec![Vec::new(); channels.all.len()]);
        let (mut of_task, mut in_next) = (Vec::new(), Vec::new());
        let (mut onward, mut brings) = (Vec::new(), Vec::new());
        for (i, t) in all.iter().enumerate() {
            let (own, i) = ((t.from, t.to), i as u32);
            let link = ends.iter().position(|e| *e == own).unwrap_or(links.len());
            if link == links.len() {
                ends.push(own);
                links.push(Vec::new());
                let mut known = machine.links.iter();
                let number = known.position(|l| (l.from.0, l.to.0) == own);
                through.push(number.map_or(&[][..], |l| &channels.of_link[l][1..]));
            }
            links[link].push(i);
            for &c in through[link] {
                shared[c as usize].push(i);
            }
            // What came here by an earlier transfer leaves again after it.
            let what = (t.storage, t.producer, &t.parts);
            match (carried.get(&(what, t.from)), t.producer) {
                (Some(&before), _) => onward.push((before, i)),
                (None, Producer::Task(task)) => of_task.push((task, i)),
                (None, Producer::LastStep(task)) => in_next.push((task, i)),
                (None, Producer::Before) => {}
            }
            carried.insert((what, t.to), i);
            brings.extend(t.readers.iter().map(|&r| (r, i)));
        }
        let mut is_onward = vec![false; all.len()];
        onward.iter().for_each(|o| is_onward[o.1 as usize] = true);
        let onward = Edges::new(all.len(), onward);
        // Later ones first: a task that waits for one waits for what it carries on.
        let mut waiters: Vec<Vec<u32>> = all.iter().map(|t| t.readers.clone()).collect();
        for i in (0..all.len()).rev() {
            for &next in onward.of(i as u32) {
                let (before, after) = waiters.split_at_mut(next as usize);
                before[i].extend_from_slice(&after[0]);
            }
        }
        let pairs = || {
            let each = waiters.iter().enumerate();
            each.flat_map(|(i, tasks)| tasks.iter().map(move |&t| (t, i as u32)))
        };
        let queues: Vec<Vec<u32>> = links.into_iter().chain(shared).collect();
        let places = queues.iter().enumerate();
        let places = places.flat_map(|(q, of)| of.iter().map(move |&i| (i, q as u32)));
        let transfers = Transfers {
            queues_of: Edges::new(all.len(), places.collect()),
            awaits: Edges::new(graph.len(), pairs().collect()),
            awaited: Edges::new(all.len(), pairs().map(|(t, i)| (i, t)).collect()),
            tasks: graph.len(),
            of_task: Edges::new(graph.len(), of_task),
            in_next: Edges::new(graph.len(), in_next),
            onward,
            is_onward,
            brings: Edges::new(graph.len(), brings),
            ends,
            queues,
            all,
        };
        match transfers.circle(graph, orders) {
            Some(transfer) => Err(TransferError::Circle(transfer)),
            None => Ok(transfers),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether they could be those of a graph on a machine of so many memories.
    pub fn fit(&self, graph: &Graph, memories: usize) -> bool {
        let fits = |t: &PlannedTransfer| {
            (t.storage as usize) < graph.storages.len() && usize::from(t.from.max(t.to)) < memories
        };
        self.tasks == graph.len() && self.all.iter().all(fits)
    }

    /// All of them, in the order of the plan.
    pub fn all(&self) -> &[PlannedTransfer] {
        &self.all
    }

    /// The tasks that wait for a transfer, or for what carries its values on.
    pub fn awaited_by(&self, transfer: u32) -> &[u32] {
        self.awaited.of(transfer)
    }

    /// The links that are used, by the memories at their ends.
    pub fn links(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.ends.iter().copied()
    }

    /// A transfer that could never begin, if there is one. Tasks are the first nodes, then come transfers.
    fn circle(&self, graph: &Graph, orders: &[Vec<u32>]) -> Option<usize> {
        let tasks = self.tasks as u32;
        let nodes = self.tasks + self.all.len();
        let mut pairs: Vec<(u32, u32)> = graph.edges().collect();
        for order in orders {
            pairs.extend(order.windows(2).map(|w| (w[0], w[1])));
        }
        for order in &self.queues {
            let next = order.windows(2);
            pairs.extend(next.map(|w| (tasks + w[0], tasks + w[1])));
        }
        for task in 0..tasks {
            pairs.extend(self.of_task.of(task).iter().map(|&i| (task, tasks + i)));
            pairs.extend(self.brings.of(task).iter().map(|&i| (tasks + i, task)));
        }
        for i in 0..self.all.len() as u32 {
            let onward = self.onward.of(i).iter();
            pairs.extend(onward.map(|&j| (tasks + i, tasks + j)));
        }
        let mut waits = vec![0_u32; nodes];
        let edges = Edges::new(nodes, pairs);
        let all = 0..nodes as u32;
        let to = all.clone().flat_map(|n| edges.of(n));
        to.for_each(|&n| waits[n as usize] += 1);
        let mut free: Vec<u32> = all.filter(|&n| waits[n as usize] == 0).collect();
        while let Some(node) = free.pop() {
            for &next in edges.of(node) {
                waits[next as usize] -= 1;
                if waits[next as usize] == 0 {
                    free.push(next);
                }
            }
        }
        waits[self.tasks..].iter().position(|&w| w > 0)
    }
}

/// What a transfer names that the graph has not.
fn misfit(graph: &Graph, t: &PlannedTransfer) -> Option<String> {
    let Some(storage) = graph.storages.get(t.storage as usize) else {
        let has = graph.storages.len();
        return Some(format!("array {} of {has}", t.storage));
    };
    let name = storage.storage.label();
    let whole = Region::whole(&storage.storage.shape);
    if t.parts.is_empty() {
        return Some(format!("no part of {name}"));
    }
    if let Some(part) = t.parts.iter().find(|p| !whole.contains(p)) {
        return Some(format!(
            "{part:?} is not in {name}, which is {:?}",
            storage.storage.shape
        ));
    }
    if t.from == t.to {
        return Some(format!("{name} stays where it is"));
    }
    let uses = |task: u32, how: fn(dahl_core::Mode) -> bool| {
        (task as usize) < graph.len()
            && graph
                .accesses_of(task)
                .iter()
                .any(|a| graph.arrays[a.array as usize].storage == t.storage && how(a.mode))
    };
    let maker = t
        .producer
        .task()
        .filter(|&w| !uses(w, |mode| mode.writes()));
    if let Some(task) = maker {
        return Some(format!(
            "task {task}, which is to make it, does not write {name}"
        ));
    }
    let reader = t.readers.iter().find(|&&r| !uses(r, |mode| mode.reads()));
    reader.map(|task| format!("task {task}, which is to wait for it, does not read {name}"))
}
