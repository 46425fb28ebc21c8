//! The recorder: takes tasks in program order, checks them, and makes a graph.
//!
//! Mistakes do not surface as a `Result` on every submission. The recorder keeps the first one, with
//! the place in the program that made it, ignores what follows, and [`Recorder::finish`] returns it.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::access::Access;
use crate::array::{Array, Handle, Home, Storage};
use crate::codelet::Codelet;
use crate::dtype::{DType, Element};
use crate::hash::FastBuild;
use crate::operands::MAX_OPERANDS;
use crate::shape::{Shape, ShapeError};

use super::boundary::Boundary;
use super::class::{Chooser, NO_CLASS};
use super::deps::Tracker;
use super::memory::MemoryPlan;
use super::next_id;
use super::partition::Message;
use super::reduce::Groups;
use super::sequenced::adjacency;
use super::task::Task;
use super::{Class, Graph, GraphArray, GraphStorage, TaskRecord, runs};

/// Why a program is not a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{codelet}{section}: {problem} ({place})")]
pub struct GraphError {
    /// The codelet of the offending task.
    pub codelet: String,
    /// The section it is in, quoted and preceded by a space, or nothing.
    pub section: String,
    /// What is wrong, with operands and shapes.
    pub problem: String,
    /// File and line of the submission.
    pub place: String,
}

/// Records tasks.
///
/// ```
/// use std::sync::Arc;
/// use dahl_core::{Arena, Codelet, Recorder, Task};
///
/// let arena = Arena::new();
/// let x = arena.full([4], 2.0f32)?;
/// let mut y = arena.zeros::<f32, 1>([4])?;
/// let copy = Arc::new(Codelet::new("copy"));
///
/// let recorder = Recorder::new();
/// let mut between = recorder.temporary::<f32, 1>([4]);
/// recorder.submit(Task::new(&copy, &[x.read(), between.write()]));
/// recorder.submit(Task::new(&copy, &[between.read(), y.write()]));
/// let graph = recorder.finish()?;
/// assert_eq!(graph.edges().collect::<Vec<_>>(), [(0, 1)]);
/// assert_eq!(graph.memory.bytes, 64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Recorder {
    id: u64,
    inner: RefCell<Recording>,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Recorder({} tasks)", self.inner.borrow().tasks.len())
    }
}

/// What has been recorded so far.
pub(super) struct Recording {
    pub(super) codelets: Vec<Arc<Codelet>>,
    pub(super) classes: Vec<Class>,
    pub(super) class_of: HashMap<u64, Vec<u32>, FastBuild>,
    pub(super) last_class: u32,
    pub(super) tasks: Vec<TaskRecord>,
    pub(super) accesses: Vec<Access>,
    pub(super) arrays: Vec<GraphArray>,
    pub(super) storages: Vec<GraphStorage>,
    storage_of: HashMap<u64, u32, FastBuild>,
    /// For every storage, the arrays that are views of it.
    views: Vec<Vec<u32>>,
    pub(super) sections: Vec<String>,
    /// Their places, by name.
    section_of: HashMap<String, u32>,
    pub(super) section: u32,
    pub(super) tracker: Tracker,
    pub(super) edges: Vec<(u32, u32)>,
    pub(super) boundary: Boundary,
    pub(super) groups: Groups,
    temporaries: u32,
    /// Storages whose rows are independent of each other.
    pub(super) by_rows: HashSet<u64, FastBuild>,
    pub(super) chooser: Option<Chooser>,
    error: Option<GraphError>,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl Recorder {
    /// An empty recorder.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Recorder {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            inner: RefCell::new(Recording::new()),
        }
    }

    /// Lets a profile choose implementations instead of static costs.
    pub fn with_chooser(self, chooser: Chooser) -> Self {
        self.inner.borrow_mut().chooser = Some(chooser);
        self
    }

    /// At most this many private accumulators per reduced region ([`ACCUMULATORS`](super::ACCUMULATORS) unless set). Part of what the
    /// graph computes: the order of additions follows from it.
    pub fn with_accumulators(self, most: usize) -> Self {
        self.inner.borrow_mut().groups.most = most.clamp(1, MAX_OPERANDS);
        self
    }

    /// Reductions that begin with the tasks that `record` submits have one accumulator: their tasks run in order.
    pub fn in_order(&self, record: impl FnOnce()) {
        let set = |most| std::mem::replace(&mut self.inner.borrow_mut().groups.most, most);
        let before = set(1);
        record();
        set(before);
    }

    /// Tasks submitted from now on belong to this section (a layer, a phase); traces and errors say it.
    pub fn section(&self, name: &str) {
        let mut r = self.inner.borrow_mut();
        r.section = match r.section_of.get(name) {
            Some(&i) => i,
            None => {
                let i = r.sections.len() as u32;
                r.sections.push(name.to_string());
                r.section_of.insert(name.to_string(), i);
                i
            }
        };
    }

    /// An array that lives only while the graph runs.
    #[track_caller]
    pub fn temporary<T: Element, const R: usize>(&self, extents: [usize; R]) -> Array<'_, T, R> {
        let handle = self.temporary_handle("", &extents, T::DTYPE);
        Array::from_handle(handle).expect("made with this rank and type")
    }

    /// An array without types that lives only while the graph runs. Impossible extents are reported
    /// when the recorder finishes.
    #[track_caller]
    pub fn temporary_handle(&self, name: &str, extents: &[usize], dtype: DType) -> Handle {
        let shape = Shape::new(extents).and_then(|s| {
            let fits = s.dims4().iter().all(|&d| u32::try_from(d).is_ok());
            if fits {
                Ok(s)
            } else {
                Err(ShapeError::TooLarge(extents.to_vec()))
            }
        });
        let shape = shape.unwrap_or_else(|error| {
            self.fail("temporary", error.to_string(), Location::caller());
            Shape::new(&[1; 4][..extents.len().min(4)]).expect("ones are a shape")
        });
        let name = (!name.is_empty()).then(|| name.to_string());
        Handle::of(Storage::new(
            name,
            shape,
            dtype,
            Home::Temporary { recorder: self.id },
        ))
    }

    /// Says that the rows of an array (places on its first axis, such as samples of a batch) are computed independently of
    /// each other: a hint for placing tasks on nodes, with no influence on what is computed.
    pub fn by_rows(&self, array: &Handle) {
        self.inner.borrow_mut().by_rows.insert(array.storage.id);
    }

    /// Says of the first mistake, if there was one and no such place is known yet, where it was in a program that is
    /// data: lines of ours mean nothing to its author.
    pub(crate) fn locate(&self, before: bool, place: impl FnOnce() -> String) -> bool {
        let error = &mut self.inner.borrow_mut().error;
        if let Some(error) = error.as_mut().filter(|_| !before) {
            error.place = place();
        }
        error.is_some()
    }

    fn fail(&self, codelet: &str, problem: String, place: &Location<'_>) {
        self.inner.borrow_mut().fail(codelet, problem, place);
    }

    /// Adds a task behind all others and returns its number.
    #[track_caller]
    pub fn submit(&self, task: Task<'_>) -> u32 {
        let mut r = self.inner.borrow_mut();
        if r.error.is_none()
            && let Err(problem) = r.submit(self.id, &task)
        {
            r.fail(&task.codelet.name, problem, Location::caller());
        }
        (r.tasks.len() as u32).saturating_sub(1)
    }

    /// The graph of all tasks submitted, or the first mistake.
    #[track_caller]
    pub fn finish(self) -> Result<Arc<Graph>, GraphError> {
        let mut r = self.inner.into_inner();
        if r.error.is_none()
            && let Err(problem) = super::reduce::close_all(&mut r)
        {
            r.fail("reduce", problem, Location::caller());
        }
        if let Some(error) = r.error {
            return Err(error);
        }
        Ok(Arc::new(r.into_graph(Vec::new(), Vec::new())))
    }
}

impl Recording {
    /// Nothing recorded.
    pub(super) fn new() -> Self {
        Recording {
            codelets: Vec::new(),
            classes: Vec::new(),
            class_of: HashMap::default(),
            last_class: NO_CLASS,
            tasks: Vec::new(),
            accesses: Vec::new(),
            arrays: Vec::new(),
            storages: Vec::new(),
            storage_of: HashMap::default(),
            views: Vec::new(),
            sections: vec![String::new()],
            section_of: HashMap::from([(String::new(), 0)]),
            section: 0,
            tracker: Tracker::default(),
            edges: Vec::new(),
            boundary: Boundary::default(),
            groups: Groups::default(),
            temporaries: 0,
            by_rows: HashSet::default(),
            chooser: None,
            error: None,
        }
    }

    /// The graph of what has been recorded, with its edges, boundary and memory plan.
    pub(super) fn into_graph(self, messages: Vec<Message>, due: Vec<i32>) -> Graph {
        let mut r = self;
        if r.groups.closed {
            r.edges.sort_unstable();
            r.edges.dedup();
        }
        for s in &mut r.storages {
            s.by_rows = r.by_rows.contains(&s.storage.id);
        }
        let n = r.tasks.len();
        let (in_degree, successor_start, successors) = adjacency(n, &r.edges);
        let roots = (0..n as u32)
            .filter(|&t| in_degree[t as usize] == 0)
            .collect();
        for (i, s) in r.storages.iter().enumerate() {
            if s.temporary.is_none() {
                r.boundary.close(i as u32, &r.tracker, s.storage.shape);
            }
        }
        let mut graph = Graph {
            id: next_id(),
            codelets: r.codelets,
            classes: r.classes,
            tasks: r.tasks,
            accesses: r.accesses,
            arrays: r.arrays,
            storages: r.storages,
            sections: r.sections,
            in_degree,
            successor_start,
            successors,
            roots,
            memory: MemoryPlan::default(),
            boundary: r.boundary,
            messages,
            due,
        };
        graph.memory = MemoryPlan::pack(&graph);
        graph
    }

    fn fail(&mut self, codelet: &str, problem: String, place: &Location<'_>) {
        let section = &self.sections[self.section as usize];
        let error = GraphError {
            codelet: codelet.to_string(),
            section: if section.is_empty() {
                String::new()
            } else {
                format!(" {section:?}")
            },
            problem,
            place: format!("{}:{}", place.file(), place.line()),
        };
        self.error.get_or_insert(error);
    }

    fn submit(&mut self, recorder: u64, task: &Task<'_>) -> Result<(), String> {
        let n = task.operands.len();
        if n > MAX_OPERANDS {
            return Err(format!("{n} operands, at most {MAX_OPERANDS} are possible"));
        }
        let class = self.class(task)?;
        if task.whole {
            // Per task: a class may have been made by a tile of the same extents.
            (task.codelet.whole)(&self.classes[class as usize].call)?;
        }
        let first_access = self.accesses.len() as u32;
        for (i, op) in task.operands.iter().enumerate() {
            let array = self
                .array(recorder, op.handle)
                .map_err(|e| format!("{}: {e}", task.operand_name(i)))?;
            let (region, mode) = (op.handle.region, op.mode);
            self.accesses.push(Access {
                array,
                mode,
                fresh: None,
                region,
            });
        }
        self.check_overlap(task, first_access as usize)?;
        // Merges that this task waits for come before it in program order too.
        let codelet = self.classes[class as usize].codelet;
        let merge = self.codelets[codelet as usize].merge;
        super::reduce::make_way(self, merge, first_access..first_access + n as u32)?;
        let number = self.tasks.len() as u32;
        self.tasks.push(TaskRecord {
            class,
            first_access,
            access_count: n as u16,
            fresh: false,
            priority: task.priority,
            section: self.section,
        });
        for i in first_access..first_access + n as u32 {
            super::reduce::enter(self, number, i)?;
        }
        Ok(())
    }

    /// What a task writes must not be another of its operands.
    fn check_overlap(&self, task: &Task<'_>, first: usize) -> Result<(), String> {
        let mine = &self.accesses[first..];
        for (i, a) in mine.iter().enumerate() {
            for (j, b) in mine.iter().enumerate().skip(i + 1) {
                let (va, vb) = (
                    &self.arrays[a.array as usize],
                    &self.arrays[b.array as usize],
                );
                if (a.mode.writes() || b.mode.writes())
                    && va.storage == vb.storage
                    && runs::overlap((&va.shape, &a.region), (&vb.shape, &b.region))
                {
                    let name = self.storages[va.storage as usize].storage.label();
                    return Err(format!(
                        "{} and {} overlap in {name} ({} and {}), and one is written",
                        task.operand_name(i),
                        task.operand_name(j),
                        a.region,
                        b.region
                    ));
                }
            }
        }
        Ok(())
    }

    /// The number of an array in this graph's table.
    fn array(&mut self, recorder: u64, handle: &Handle) -> Result<u32, String> {
        if let Some(&storage) = self.storage_of.get(&handle.storage.id) {
            let views = &self.views[storage as usize];
            if let Some(&v) = views
                .iter()
                .find(|&&v| self.arrays[v as usize].shape == handle.whole)
            {
                return Ok(v);
            }
            return Ok(self.add_view(storage, handle.whole));
        }
        let storage = &handle.storage;
        match &storage.home {
            Home::Arena(place) if !place.is_live() => {
                return Err(format!(
                    "{} was in an arena that has been reset",
                    storage.label()
                ));
            }
            Home::Temporary { recorder: r } if *r != recorder => {
                return Err(format!(
                    "{} is a temporary of another graph",
                    storage.label()
                ));
            }
            _ => {}
        }
        let number = self.add_storage(storage.clone());
        Ok(self.add_view(number, handle.whole))
    }

    pub(super) fn add_view(&mut self, storage: u32, shape: Shape) -> u32 {
        self.arrays.push(GraphArray { storage, shape });
        let view = self.arrays.len() as u32 - 1;
        self.views[storage as usize].push(view);
        view
    }

    pub(super) fn add_storage(&mut self, storage: Arc<Storage>) -> u32 {
        let temporary = matches!(storage.home, Home::Temporary { .. }).then(|| {
            self.temporaries += 1;
            self.temporaries - 1
        });
        let number = self.storages.len() as u32;
        self.storage_of.insert(storage.id, number);
        self.tracker.add_array(storage.shape);
        self.boundary.add_storage();
        self.groups.add_storage();
        let span = (0, storage.shape.len());
        self.storages.push(GraphStorage {
            storage,
            temporary,
            by_rows: false,
            span,
        });
        self.views.push(Vec::new());
        number
    }

    /// A fresh temporary, and the array that is the whole of it: a private accumulator.
    pub(super) fn add_temporary(&mut self, shape: Shape, dtype: DType) -> u32 {
        let home = Home::Temporary { recorder: 0 };
        let storage =
            self.add_storage(Storage::new(Some("accumulator".into()), shape, dtype, home));
        self.add_view(storage, shape)
    }
}
