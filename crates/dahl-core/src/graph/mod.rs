//! Graphs: what a program submitted, as a value.
//!
//! A [`Recorder`] takes tasks in program order and derives their dependencies; [`Recorder::finish`]
//! makes a [`Graph`] of them, which never changes again. It can be executed any number of times,
//! simulated, planned, exported and compared. Nothing here executes, and nothing here depends on who
//! will.
//!
//! | file | what |
//! |---|---|
//! | `task` | what is submitted: a codelet, arrays and their modes |
//! | `choices` | which implementation calibration chose, call by call |
//! | `recorder` | takes tasks, checks them |
//! | `class` | tasks that are alike, and which implementation they use |
//! | `fragments`, `deps` | facts by region; edges from them |
//! | `runs` | regions under another shape of the same data |
//! | `cells` | arrays cut into boxes that every task touches whole or not at all |
//! | `reduce` | private accumulators and their merging |
//! | `memory` | temporaries packed into one block |
//! | `boundary` | what one launch must wait for in another |
//! | `partition` | one graph on several nodes |
//! | `sequenced` | more edges, and temporaries cut by rows: for programs that know an order |
//! | `export` | DOT and JSON |
//! | `program` | a graph's program as JSON, to read back |

pub mod boundary;
pub mod cells;
mod choices;
mod class;
pub mod deps;
pub mod export;
mod fragments;
pub mod memory;
pub mod partition;
pub mod program;
mod recorder;
mod reduce;
pub mod runs;
mod sequenced;
mod task;

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::access::Access;
use crate::array::{Home, Storage};
use crate::codelet::{Codelet, Implementation};
use crate::hash::StableHasher;
use crate::machine::UnitKind;
use crate::shape::Shape;

pub use boundary::Boundary;
pub use choices::{Choice, Choices};
pub use class::{Chooser, Class};
pub use memory::MemoryPlan;
pub use program::Program;
pub use recorder::{GraphError, Recorder};
pub use reduce::{ACCUMULATORS, larger, smaller};
pub use task::{Operand, Task};

/// A number that no other graph of this process has.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Version of the order in which the graphs of equal steps add: raised when it changes, since last bits then do.
pub const SUMS: u32 = 2;

/// A storage as a graph uses it.
#[derive(Clone, Debug)]
pub struct GraphStorage {
    /// The storage.
    pub storage: Arc<Storage>,
    /// For a temporary, its place in the memory plan.
    pub temporary: Option<u32>,
    /// Whether the program has marked its rows as independent of each other ([`Recorder::by_rows`]).
    pub by_rows: bool,
    /// From which element to which tasks touch a temporary: the rest has no memory.
    pub span: (usize, usize),
}

/// A storage under a shape: what accesses refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GraphArray {
    /// Index into [`Graph::storages`].
    pub storage: u32,
    /// The shape it is seen under.
    pub shape: Shape,
}

/// One task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskRecord {
    /// Index into [`Graph::classes`].
    pub class: u32,
    /// First of its accesses in [`Graph::accesses`].
    pub first_access: u32,
    /// How many accesses it has.
    pub access_count: u16,
    /// Whether an access is a fresh accumulator, to be filled first.
    pub fresh: bool,
    /// Higher is more urgent.
    pub priority: i32,
    /// Index into [`Graph::sections`]: the layer it belongs to.
    pub section: u32,
}

/// A recorded program: tasks, what they touch, who waits for whom, and where temporaries lie.
#[derive(Debug)]
pub struct Graph {
    /// Unique in this process.
    pub id: u64,
    /// The codelets used.
    pub codelets: Vec<Arc<Codelet>>,
    /// The kinds of tasks.
    pub classes: Vec<Class>,
    /// The tasks in program order.
    pub tasks: Vec<TaskRecord>,
    /// All accesses, those of one task next to each other.
    pub accesses: Vec<Access>,
    /// The arrays accesses refer to.
    pub arrays: Vec<GraphArray>,
    /// The data behind the arrays.
    pub storages: Vec<GraphStorage>,
    /// Names of sections; the first is empty.
    pub sections: Vec<String>,
    /// Number of predecessors of each task.
    pub in_degree: Vec<u32>,
    successor_start: Vec<u32>,
    successors: Vec<u32>,
    /// Tasks without predecessors.
    pub roots: Vec<u32>,
    /// Where temporaries lie.
    pub memory: MemoryPlan,
    /// What other launches must wait for.
    pub boundary: Boundary,
    /// Tasks that stand for messages, in the order of the tasks: of a part of a graph ([`partition`]) alone.
    pub messages: Vec<partition::Message>,
    /// Where each task is due, in parts of a launch ([`partition::LAUNCH`]): of a part of a graph with messages; else empty.
    pub due: Vec<i32>,
}

impl Graph {
    /// Number of tasks.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Tasks that wait for `task`.
    #[inline]
    pub fn successors(&self, task: u32) -> &[u32] {
        let t = task as usize;
        &self.successors[self.successor_start[t] as usize..self.successor_start[t + 1] as usize]
    }

    /// All edges, by their first task.
    pub fn edges(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0..self.len() as u32).flat_map(|t| self.successors(t).iter().map(move |&s| (t, s)))
    }

    /// The accesses of a task.
    #[inline]
    pub fn accesses_of(&self, task: u32) -> &[Access] {
        let t = &self.tasks[task as usize];
        &self.accesses[t.first_access as usize..][..usize::from(t.access_count)]
    }

    /// The class of a task.
    #[inline]
    pub fn class_of(&self, task: u32) -> &Class {
        &self.classes[self.tasks[task as usize].class as usize]
    }

    /// The codelet of a task.
    pub fn codelet_of(&self, task: u32) -> &Codelet {
        &self.codelets[self.class_of(task).codelet as usize]
    }

    /// The implementation that a task uses on a kind of unit.
    #[inline]
    pub fn implementation(&self, task: u32, kind: UnitKind) -> Option<&Implementation> {
        let class = self.class_of(task);
        self.chosen(class, kind)
    }

    /// The implementation that tasks of a class use on a kind of unit.
    fn chosen(&self, class: &Class, kind: UnitKind) -> Option<&Implementation> {
        let i = class.choice(kind)?;
        Some(&self.codelets[class.codelet as usize].implementations[usize::from(i)])
    }

    /// The message that a task stands for, if it is one.
    #[inline]
    pub fn message(&self, task: u32) -> Option<&partition::Message> {
        let place = self.messages.binary_search_by_key(&task, |m| m.task);
        place.ok().map(|i| &self.messages[i])
    }

    /// Where a task of the launch with this number is due, to compare it with tasks of other launches; 0 if that does not matter in
    /// this graph.
    #[inline]
    pub fn due_of(&self, task: u32, launch: u64) -> i64 {
        match self.due.get(task as usize) {
            Some(&due) => i64::from(due) + launch as i64 * i64::from(partition::LAUNCH) + 1,
            None => 0,
        }
    }

    /// What a task is, for people: `task 12, add(x[0..4], y[0..4])`.
    pub fn describe(&self, task: u32) -> String {
        let operands: Vec<String> = self
            .accesses_of(task)
            .iter()
            .map(|a| self.describe_access(a))
            .collect();
        let section = &self.sections[self.tasks[task as usize].section as usize];
        let section = if section.is_empty() {
            String::new()
        } else {
            format!(" in {section}")
        };
        format!(
            "task {task}{section}, {}({})",
            self.codelet_of(task).name,
            operands.join(", ")
        )
    }

    fn describe_access(&self, access: &Access) -> String {
        let array = &self.arrays[access.array as usize];
        format!(
            "{}{}",
            self.storages[array.storage as usize].storage.label(),
            access.region
        )
    }

    /// A number that is equal for equal graphs, in every process.
    pub fn fingerprint(&self) -> u64 {
        let mut h = StableHasher::default();
        self.canonical_hash(&mut h);
        h.finish()
    }

    fn canonical_hash(&self, h: &mut StableHasher) {
        for storage in &self.storages {
            (
                storage.storage.shape,
                storage.storage.dtype,
                storage.temporary,
            )
                .hash(h);
        }
        self.arrays.hash(h);
        for class in &self.classes {
            self.codelets[class.codelet as usize].name.hash(h);
            class.call.hash(h);
            let name = |kind| self.chosen(class, kind).map(|i| i.name);
            [name(UnitKind::CPU), name(UnitKind::GPU)].hash(h);
            let usual = [UnitKind::CPU, UnitKind::GPU];
            for (kind, _) in class.choices.iter().filter(|(k, _)| !usual.contains(k)) {
                (kind, name(*kind)).hash(h);
            }
        }
        self.tasks.hash(h);
        self.accesses.hash(h);
        self.sections.hash(h);
        if !self.messages.is_empty() {
            self.messages.hash(h);
        }
    }
}

/// Equal: the same tasks in the same order, on arrays of the same shapes used in the same way. Which
/// arrays they are is not compared, and edges need not be: they follow.
impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        let storage = |s: &GraphStorage| (s.storage.shape, s.storage.dtype, s.temporary);
        let class = |g: &Graph, c: &Class| {
            let name = |(kind, _): &(UnitKind, u8)| (*kind, g.chosen(c, *kind).map(|i| i.name));
            let names: Vec<_> = c.choices.iter().map(name).collect();
            let codelet = &g.codelets[c.codelet as usize];
            (codelet.name.clone(), c.call.clone(), names)
        };
        self.tasks == other.tasks
            && self.accesses == other.accesses
            && self.arrays == other.arrays
            && self.sections == other.sections
            && self.messages == other.messages
            && self
                .storages
                .iter()
                .map(storage)
                .eq(other.storages.iter().map(storage))
            && self
                .classes
                .iter()
                .map(|c| class(self, c))
                .eq(other.classes.iter().map(|c| class(other, c)))
    }
}

impl GraphStorage {
    /// Bytes of its place in the memory plan, for a temporary: those of its span, from an aligned one on.
    pub fn planned_bytes(&self) -> u64 {
        let size = self.storage.dtype.size();
        (self.span.1 * size - self.skipped_bytes()) as u64
    }

    /// Bytes of a temporary that lie before its place in the memory plan.
    pub fn skipped_bytes(&self) -> usize {
        let start = self.span.0 * self.storage.dtype.size();
        start / crate::arena::ALIGNMENT * crate::arena::ALIGNMENT
    }

    /// Where the storage lives if it is persistent.
    pub fn place(&self) -> Option<&crate::arena::Place> {
        match &self.storage.home {
            Home::Arena(place) => Some(place),
            Home::Temporary { .. } => None,
        }
    }
}
