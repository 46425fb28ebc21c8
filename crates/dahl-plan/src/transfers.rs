//! A plan's transfers in the graph's terms: which parts of which array, made by whom, awaited by whom.
//!
//! In a problem a transfer moves a datum, which means nothing outside of it. Here it gets a name that a
//! file can keep, and a name becomes what can be followed. Whether and when it is followed is decided by
//! [`transfers`].

use dahl_core::graph::cells::Cells;
use dahl_core::{Bytes, Graph, Machine, Region, Seconds};
use serde::{Deserialize, Serialize};

use super::file::PlanFile;
use super::graph_problem::GraphProblem;
use super::problem::{Origin, Problem};
use super::schedule::{Schedule, ScheduledTransfer};
use dahl_sched::transfers::{PlannedTransfer, Producer, TransferError, Transfers};

/// One transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransferEntry {
    /// Memory it leaves.
    pub from: String,
    /// Memory it reaches.
    pub to: String,
    /// What it carries parts of, for people.
    pub array: String,
    /// The same: its place among the graph's storages.
    pub storage: u32,
    /// Which parts, under the storage's own shape: where each starts and ends along each of four axes.
    pub parts: Vec<Corners>,
    /// Who makes the values.
    pub producer: Producer,
    /// Tasks that read them where it goes.
    pub readers: Vec<u32>,
    /// How much.
    pub bytes: Bytes,
    /// Start, by the plan's equations.
    pub start: Seconds,
    /// End, by the same.
    pub end: Seconds,
}

/// Where a part of an array starts and ends.
pub(crate) type Corners = [[usize; 4]; 2];

/// The transfers of a schedule, in its order.
pub(super) fn named(
    graph: &Graph,
    graph_problem: &GraphProblem,
    schedule: &Schedule,
) -> Vec<TransferEntry> {
    if schedule.moves.is_empty() {
        return Vec::new();
    }
    let (p, cells) = (&graph_problem.problem, Cells::new(graph));
    let memory = |t: u32| p.groups[usize::from(schedule.runs[t as usize].group)].memory;
    let one = |m: &ScheduledTransfer| {
        let (datum, link) = (&p.data[m.datum as usize], &p.links[m.link as usize]);
        let atom = &graph_problem.atoms[graph_problem.atom_of[m.datum as usize] as usize];
        let storage = atom.storage as usize;
        let boxes = atom.cells.iter();
        let boxes = boxes.filter_map(|&c| cells.region(storage, c)).collect();
        let readers = datum.readers.iter().copied();
        TransferEntry {
            from: p.memories[link.from].name.clone(),
            to: p.memories[link.to].name.clone(),
            array: graph.storages[storage].storage.label(),
            storage: atom.storage,
            parts: joined(boxes).iter().map(|r| [r.start(), r.end()]).collect(),
            producer: producer(p, m.datum),
            readers: readers.filter(|&r| memory(r) == link.to).collect(),
            bytes: Bytes(datum.bytes),
            start: Seconds(m.start),
            end: Seconds(m.end),
        }
    };
    schedule.moves.iter().map(one).collect()
}

fn producer(problem: &Problem, datum: u32) -> Producer {
    match problem.data[datum as usize].origin {
        Origin::Task(task) => Producer::Task(task),
        Origin::Memory(_) => Producer::Before,
        Origin::LeftBy(last) => match producer(problem, last) {
            Producer::Task(task) => Producer::LastStep(task),
            other => other,
        },
    }
}

/// Boxes that share a side as one, axis by axis.
fn joined(mut boxes: Vec<Region>) -> Vec<Region> {
    for axis in (0..4).rev() {
        let across = |r: &Region| {
            let (mut start, mut end) = (r.start(), r.end());
            (start[axis], end[axis]) = (0, 0);
            (start, end)
        };
        boxes.sort_unstable_by_key(|r| (across(r), r.start()[axis]));
        let mut out: Vec<Region> = Vec::with_capacity(boxes.len());
        for r in boxes {
            let joins = |last: &&mut Region| {
                across(last) == across(&r) && last.end()[axis] == r.start()[axis]
            };
            let both = out.last_mut().filter(joins);
            match both.and_then(|last| Some((Region::new(last.start(), r.end())?, last))) {
                Some((whole, last)) => *last = whole,
                None => out.push(r),
            }
        }
        boxes = out;
    }
    boxes
}

impl PlanFile {
    /// The transfers as the plan's own numbers, which fit its graph if nobody changed them.
    pub fn planned_transfers(&self) -> Result<Vec<PlannedTransfer>, TransferError> {
        let one = |(i, t): (usize, &TransferEntry)| {
            let wrong = |problem: String| TransferError::Transfer {
                transfer: i,
                problem,
            };
            let memory = |name: &str| {
                let none = || wrong(format!("there is no memory {name:?} in the plan"));
                self.memory(name).ok_or_else(none)
            };
            let part = |&[start, end]: &Corners| {
                let none = || wrong(format!("{start:?} to {end:?} is no part of {}", t.array));
                Region::new(start, end).ok_or_else(none)
            };
            Ok(PlannedTransfer {
                storage: t.storage,
                parts: t.parts.iter().map(part).collect::<Result<_, _>>()?,
                producer: t.producer,
                from: memory(&t.from)?,
                to: memory(&t.to)?,
                readers: t.readers.clone(),
            })
        };
        self.transfers.iter().enumerate().map(one).collect()
    }

    /// The transfers, to be followed on the machine that they were planned for.
    pub fn checked_transfers(
        &self,
        graph: &Graph,
        machine: &Machine,
    ) -> Result<Transfers, TransferError> {
        let all = self.planned_transfers()?;
        let all = Transfers::new(graph, &self.orders(), all, machine)?;
        for (transfer, (t, said)) in all.all().iter().zip(&self.transfers).enumerate() {
            let elements: usize = t.parts.iter().map(Region::len).sum();
            let dtype = graph.storages[t.storage as usize].storage.dtype;
            let bytes = Bytes((elements * dtype.size()) as u64);
            if bytes != said.bytes {
                let problem = format!("parts of {bytes} are said to be {}", said.bytes);
                return Err(TransferError::Transfer { transfer, problem });
            }
        }
        Ok(all)
    }
}
