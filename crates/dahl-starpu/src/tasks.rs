//! The tasks of a graph, declared and submitted launch by launch.
//!
//! StarPU destroys a task when it has run, so all tasks of a launch and their dependencies are declared before the first is
//! submitted. A slot per task says which one StarPU hands back; slots are as old as the graph's instance and are read
//! before the task ends, so StarPU may be late in cleaning up.

use std::ffi::{c_int, c_uint};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use dahl_core::hash::StableHasher;
use dahl_core::{Graph, UnitKind};
use dahl_runtime::engine::{Hands, Launch, Submit};

use crate::data::Handles;
use crate::shim::{self, Codelet, Task};

/// A graph as StarPU gets it.
pub(crate) struct Tasks {
    graph: Arc<Graph>,
    hands: Arc<Hands>,
    /// By class: the kind of its tasks, and a number by which their durations are told from others'.
    classes: Vec<(*mut Codelet, u32)>,
    /// For every task, where its predecessors begin; one more for the end.
    starts: Vec<u32>,
    predecessors: Vec<u32>,
    /// What its tasks touch, where StarPU is told.
    handles: Option<Arc<Handles>>,
    /// The same for every launch: launches of one instance.
    launch: OnceLock<Launch>,
    slots: Box<[Slot]>,
}

/// What StarPU hands back.
struct Slot {
    number: u32,
    /// Whose it is.
    tasks: AtomicPtr<Tasks>,
    /// The task of StarPU, until it is submitted.
    task: AtomicPtr<Task>,
}

// SAFETY: codelets are read only, by StarPU, and outlive this value: they go when StarPU has ended.
unsafe impl Send for Tasks {}
// SAFETY: as above.
unsafe impl Sync for Tasks {}

impl Tasks {
    /// `codelets` are the kinds of the graph's codelets.
    pub(crate) fn new(
        graph: &Arc<Graph>,
        codelets: Vec<*mut Codelet>,
        handles: Option<Arc<Handles>>,
        hands: Arc<Hands>,
    ) -> Tasks {
        let mut starts = vec![0; graph.len() + 1];
        for (task, &count) in graph.in_degree.iter().enumerate() {
            starts[task + 1] = starts[task] + count;
        }
        let mut next = starts.clone();
        let mut predecessors = vec![0; starts[graph.len()] as usize];
        for (before, after) in graph.edges() {
            predecessors[next[after as usize] as usize] = before;
            next[after as usize] += 1;
        }
        let slot = |number| Slot {
            number,
            tasks: AtomicPtr::default(),
            task: AtomicPtr::default(),
        };
        let classes = 0..graph.classes.len();
        let class = |c: usize| {
            (
                codelets[graph.classes[c].codelet as usize],
                number(graph, c),
            )
        };
        Tasks {
            classes: classes.map(class).collect(),
            slots: (0..graph.len() as u32).map(slot).collect(),
            graph: graph.clone(),
            hands,
            starts,
            predecessors,
            handles,
            launch: OnceLock::new(),
        }
    }
}

/// Equal for tasks that take equally long: the same operation on as much, by the same code.
fn number(graph: &Graph, class: usize) -> u32 {
    let class = &graph.classes[class];
    let codelet = &graph.codelets[class.codelet as usize];
    let choice = class.choice(UnitKind::CPU).map(usize::from);
    let name = choice.map(|i| codelet.implementations[i].name);
    let mut hasher = StableHasher::default();
    (class.call.footprint(), name).hash(&mut hasher);
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}

impl Submit for Tasks {
    fn declare(&self, launch: Launch) {
        let _ = self.launch.set(launch);
        let mut before: Vec<*mut Task> = Vec::new();
        for (record, slot) in self.graph.tasks.iter().zip(&self.slots) {
            let (codelet, number) = self.classes[record.class as usize];
            slot.tasks
                .store(std::ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
            let place: *const Slot = slot;
            let handles = self.handles.as_ref();
            let (data, modes) =
                handles.map_or_else(Default::default, |h| h.of(slot.number as usize));
            // SAFETY: the codelet lives until StarPU ends, and the slot until the launch has ended: it is read by
            // the task alone. Handles live as long as this, and there is a mode for each.
            let task = unsafe {
                shim::dahl_starpu_task(
                    codelet,
                    place.cast(),
                    record.priority as c_int,
                    number,
                    data.len() as c_uint,
                    data.as_ptr(),
                    modes.as_ptr(),
                )
            };
            slot.task.store(task, Ordering::Relaxed);
            let at = slot.number as usize;
            let (from, to) = (self.starts[at] as usize, self.starts[at + 1] as usize);
            if from == to {
                continue;
            }
            // Predecessors come before in program order: they have been made.
            let made = |&p: &u32| self.slots[p as usize].task.load(Ordering::Relaxed);
            before.clear();
            before.extend(self.predecessors[from..to].iter().map(made));
            // SAFETY: none of them has been submitted yet.
            unsafe { shim::dahl_starpu_after(task, before.len() as c_uint, before.as_ptr()) };
        }
    }

    fn submit(&self, task: u32) {
        // The thread that releases a task has seen the launch begin, and with it this.
        let task = self.slots[task as usize].task.load(Ordering::Relaxed);
        // SAFETY: declared for this launch and submitted once.
        let code = unsafe { shim::dahl_starpu_submit(task) };
        // It refuses tasks that no worker can run, and these are for CPUs, of which there is one at least.
        assert_eq!(code, 0, "starpu_task_submit refused a task for CPUs");
    }
}

/// Executes a task for a worker of StarPU.
///
/// # Safety
/// `slot` was given to StarPU by [`Tasks::declare`], and StarPU runs the task once, when those before it have ended.
#[unsafe(no_mangle)]
unsafe extern "C" fn dahl_starpu_run(worker: c_int, slot: *const Slot) {
    // SAFETY: the launch has not ended, so the slot is there, and so is who owns it.
    let (slot, tasks) = unsafe { (&*slot, &*(*slot).tasks.load(Ordering::Relaxed)) };
    let (number, hands) = (slot.number, Arc::as_ptr(&tasks.hands));
    let Some(&launch) = tasks.launch.get() else {
        return;
    };
    // From here on the launch may end and take the slot with it. SAFETY: the engine keeps the hands until StarPU has
    // ended; StarPU numbers its workers from 0, and keeps the order.
    unsafe { (*hands).run(worker as usize, launch, number) };
}
