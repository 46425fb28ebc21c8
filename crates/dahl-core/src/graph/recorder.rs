//! The recorder: takes tasks in program order, checks them, and makes a graph.
//!
//! Mistakes do not surface as a `Result` on every submission. The recorder keeps the first one, with
//! the place in the program that made it, ignores what follows, and [`Recorder::finish`] returns it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::access::Access;
use crate::array::{Array, Handle, Home, Storage};
use crate::codelet::{Call, Codelet};
use crate::dtype::{DType, Element};
use crate::hash::FastBuild;
use crate::machine::UnitKind;
use crate::operands::MAX_OPERANDS;
use crate::shape::{Shape, ShapeError};

use super::boundary::Boundary;
use super::deps::Tracker;
use super::memory::MemoryPlan;
use super::reduce::Groups;
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

/// Chooses among implementations that can execute a call: given codelet, call and the candidates'
/// names, returns the place of one, or `None` to leave it to static costs. Must be a pure function.
pub type Chooser = Arc<dyn Fn(&Codelet, &Call, UnitKind, &[&str]) -> Option<usize> + Send + Sync>;

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

/// One more implementation of the codelet of this name, if there is one.
pub type Extra = fn(&str) -> Option<crate::codelet::Implementation>;

/// What has been recorded so far.
pub(super) struct Recording {
    pub(super) codelets: Vec<Arc<Codelet>>,
    /// The same as tasks name them: without the implementations that `extra` added.
    named: Vec<Arc<Codelet>>,
    extra: Option<Extra>,
    pub(super) classes: Vec<Class>,
    class_of: HashMap<u64, Vec<u32>, FastBuild>,
    last_class: u32,
    pub(super) tasks: Vec<TaskRecord>,
    pub(super) accesses: Vec<Access>,
    pub(super) arrays: Vec<GraphArray>,
    pub(super) storages: Vec<GraphStorage>,
    storage_of: HashMap<u64, u32, FastBuild>,
    /// For every storage, the arrays that are views of it.
    views: Vec<Vec<u32>>,
    sections: Vec<String>,
    pub(super) section: u32,
    pub(super) tracker: Tracker,
    pub(super) edges: Vec<(u32, u32)>,
    pub(super) boundary: Boundary,
    pub(super) groups: Groups,
    temporaries: u32,
    chooser: Option<Chooser>,
    error: Option<GraphError>,
}

const NO_CLASS: u32 = u32::MAX;

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
            inner: RefCell::new(Recording {
                codelets: Vec::new(),
                named: Vec::new(),
                extra: None,
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
                section: 0,
                tracker: Tracker::default(),
                edges: Vec::new(),
                boundary: Boundary::default(),
                groups: Groups::default(),
                temporaries: 0,
                chooser: None,
                error: None,
            }),
        }
    }

    /// Lets a profile choose implementations instead of static costs.
    pub fn with_chooser(self, chooser: Chooser) -> Self {
        self.inner.borrow_mut().chooser = Some(chooser);
        self
    }

    /// Adds implementations to the codelets that tasks name, the graph's own included: how a crate that
    /// drives another kind of unit takes part in graphs of operations it does not own.
    pub fn with_extra(self, extra: Extra) -> Self {
        self.inner.borrow_mut().extra = Some(extra);
        self
    }

    /// At most this many private accumulators per reduced region (four unless set). Part of what the
    /// graph computes: the order of additions follows from it.
    pub fn with_accumulators(self, most: usize) -> Self {
        self.inner.borrow_mut().groups.most = most.max(1);
        self
    }

    /// Tasks submitted from now on belong to this section (a layer, a phase); traces and errors say it.
    pub fn section(&self, name: &str) {
        let mut r = self.inner.borrow_mut();
        r.section = match r.sections.iter().position(|s| s == name) {
            Some(i) => i as u32,
            None => {
                r.sections.push(name.to_string());
                r.sections.len() as u32 - 1
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
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut r = self.inner.into_inner();
        if r.error.is_none()
            && let Err(problem) = super::reduce::close_all(&mut r)
        {
            r.fail("reduce", problem, Location::caller());
        }
        if let Some(error) = r.error {
            return Err(error);
        }
        if r.groups.closed {
            r.edges.sort_unstable();
            r.edges.dedup();
        }
        let n = r.tasks.len();
        let mut in_degree = vec![0u32; n];
        let mut start = vec![0u32; n + 1];
        for &(from, to) in &r.edges {
            start[from as usize + 1] += 1;
            in_degree[to as usize] += 1;
        }
        for i in 0..n {
            start[i + 1] += start[i];
        }
        let mut next = start.clone();
        let mut successors = vec![0u32; r.edges.len()];
        for &(from, to) in &r.edges {
            successors[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
        let roots = (0..n as u32)
            .filter(|&t| in_degree[t as usize] == 0)
            .collect();
        for (i, s) in r.storages.iter().enumerate() {
            if s.temporary.is_none() {
                r.boundary.close(i as u32, &r.tracker, s.storage.shape);
            }
        }
        let mut graph = Graph {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            codelets: r.codelets,
            classes: r.classes,
            tasks: r.tasks,
            accesses: r.accesses,
            arrays: r.arrays,
            storages: r.storages,
            sections: r.sections,
            in_degree,
            successor_start: start,
            successors,
            roots,
            memory: MemoryPlan::default(),
            boundary: r.boundary,
        };
        graph.memory = MemoryPlan::pack(&graph);
        Ok(Arc::new(graph))
    }
}

impl Recording {
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

    fn add_view(&mut self, storage: u32, shape: Shape) -> u32 {
        self.arrays.push(GraphArray { storage, shape });
        let view = self.arrays.len() as u32 - 1;
        self.views[storage as usize].push(view);
        view
    }

    fn add_storage(&mut self, storage: Arc<Storage>) -> u32 {
        let temporary = matches!(storage.home, Home::Temporary { .. }).then(|| {
            self.temporaries += 1;
            self.temporaries - 1
        });
        let number = self.storages.len() as u32;
        self.storage_of.insert(storage.id, number);
        self.tracker.add_array(storage.shape);
        self.boundary.add_storage();
        self.groups.add_storage();
        self.storages.push(GraphStorage { storage, temporary });
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

    /// The class of a task, made if it is the first of its kind.
    fn class(&mut self, task: &Task<'_>) -> Result<u32, String> {
        if self.last_class != NO_CLASS && self.is_of(self.last_class, task) {
            return Ok(self.last_class);
        }
        let hash = {
            use std::hash::{Hash, Hasher};
            let mut h = crate::hash::FastHasher::default();
            (Arc::as_ptr(task.codelet) as usize, task.params, task.pin).hash(&mut h);
            task.operands
                .iter()
                .for_each(|o| (o.handle.shape, o.mode).hash(&mut h));
            h.finish()
        };
        let known = self.class_of.get(&hash).into_iter().flatten();
        if let Some(&c) = known
            .copied()
            .collect::<Vec<_>>()
            .iter()
            .find(|&&c| self.is_of(c, task))
        {
            self.last_class = c;
            return Ok(c);
        }
        let call = task.call();
        if let Some(i) = task
            .operands
            .iter()
            .position(|o| o.handle.dtype() != call.dtype)
        {
            let other = task.operands[i].handle.dtype();
            return Err(format!(
                "{} holds {other}, {} holds {}",
                task.operand_name(i),
                task.operand_name(0),
                call.dtype
            ));
        }
        task.codelet.check(&call, false)?;
        let codelet = self.intern(task.codelet);
        let whole = &self.codelets[codelet as usize];
        let choices = choices(whole, &call, task.pin, self.chooser.as_ref());
        if let Some(pin) = task.pin
            && choices.is_empty()
        {
            return Err(format!("no implementation {pin:?} can execute this call"));
        }
        let cost = (task.codelet.cost)(&call);
        self.classes.push(Class {
            codelet,
            call,
            cost,
            choices,
        });
        self.last_class = self.classes.len() as u32 - 1;
        self.class_of.entry(hash).or_default().push(self.last_class);
        Ok(self.last_class)
    }

    /// The index of a codelet, with what `extra` adds to it.
    pub(super) fn intern(&mut self, codelet: &Arc<Codelet>) -> u32 {
        if let Some(i) = self.named.iter().position(|c| Arc::ptr_eq(c, codelet)) {
            return i as u32;
        }
        self.named.push(codelet.clone());
        let more = self.extra.and_then(|extra| extra(&codelet.name));
        self.codelets.push(match more {
            Some(more) => Arc::new(Codelet::clone(codelet).with(more)),
            None => codelet.clone(),
        });
        self.codelets.len() as u32 - 1
    }

    fn is_of(&self, class: u32, task: &Task<'_>) -> bool {
        let class = &self.classes[class as usize];
        let codelet = &self.codelets[class.codelet as usize];
        let pinned = |pin: &str| {
            let mut chosen = class.choices.iter();
            chosen.any(|&(_, i)| codelet.implementations[usize::from(i)].name == pin)
        };
        Arc::ptr_eq(&self.named[class.codelet as usize], task.codelet)
            && task.pin.is_none_or(pinned)
            && class.call.params == task.params
            && class.call.operands.len() == task.operands.len()
            && class
                .call
                .operands
                .iter()
                .zip(task.operands)
                .all(|(&(shape, mode), o)| {
                    shape == o.handle.shape
                        && mode == o.mode
                        && o.handle.dtype() == class.call.dtype
                })
    }
}

/// For every kind of unit that can execute a call, its implementation.
fn choices(
    codelet: &Codelet,
    call: &Call,
    pin: Option<&str>,
    chooser: Option<&Chooser>,
) -> Vec<(UnitKind, u8)> {
    let mut kinds: Vec<UnitKind> = codelet.implementations.iter().map(|i| i.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let one = |kind| Some((kind, choose(codelet, call, kind, pin, chooser)?));
    kinds.into_iter().filter_map(one).collect()
}

/// The implementation for a kind of unit: the pinned one, else the chooser's, else the lightest.
fn choose(
    codelet: &Codelet,
    call: &Call,
    kind: UnitKind,
    pin: Option<&str>,
    chooser: Option<&Chooser>,
) -> Option<u8> {
    let able: Vec<usize> = codelet
        .implementations
        .iter()
        .enumerate()
        .filter(|(_, i)| i.kind == kind && (i.supports)(call) && pin.is_none_or(|p| p == i.name))
        .map(|(i, _)| i)
        .collect();
    let names: Vec<&str> = able
        .iter()
        .map(|&i| codelet.implementations[i].name)
        .collect();
    let chosen = chooser
        .and_then(|c| c(codelet, call, kind, &names))
        .and_then(|i| able.get(i));
    let weight = |i: &&usize| (codelet.implementations[**i].weight)(call);
    let lightest = || able.iter().min_by(|a, b| weight(a).total_cmp(&weight(b)));
    chosen.or_else(lightest).map(|&i| i as u8)
}
