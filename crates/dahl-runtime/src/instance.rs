//! Instances: a graph made ready to be launched again and again.
//!
//! [`Prepared`] holds what all launches of a graph share; an [`Instance`] is the state of one launch:
//! a counter per task, a block for the temporaries, the exits. A graph has a small ring of instances,
//! so that consecutive launches can overlap; nothing is allocated when one is used again.

use crossbeam_utils::CachePadded;
use dahl_core::access::Access;
use dahl_core::arena::Chunk;
use dahl_core::kernels::CodeId;
use dahl_core::operands::Placed;
use dahl_core::{Cost, DeviceKernels, Graph, Seconds, UnitId, UnitKind};
use dahl_sched::policy::TaskRef;
use dahl_sched::transfers::Transfers;

use crate::countdown::Countdown;
use crate::driver::Code;
use crate::engine::{Launch, Submit};
use crate::error::RunError;
use crate::exit::Exit;
use crate::heap::{Heap, Usage};
use crate::memory::needs::Needs;
use crate::memory::readers::Readers;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};

/// Tasks that nobody outside the graph can wait for have no exit.
pub(crate) const NO_EXIT: u32 = u32::MAX;

/// What all launches of a graph share.
pub(crate) struct Prepared {
    /// The graph.
    pub graph: std::sync::Arc<Graph>,
    /// For every task the number of its exit, or [`NO_EXIT`].
    pub exit_of: Vec<u32>,
    /// Number of exits.
    pub exits: usize,
    /// The chunks its persistent arrays lie in, with an array in each to name in errors.
    pub chunks: Vec<(std::sync::Arc<Chunk>, String)>,
    /// For every storage, how many accesses go to it.
    pub uses: Vec<u32>,
    /// Expected seconds by class and unit, as bits. Facts that policies ask for under their locks: no
    /// ordering hangs on them, so they are not the model checker's atomics.
    estimates: Vec<std::sync::atomic::AtomicU64>,
    /// By class and unit, and after the units for the host's CPU: what tasks run there, and the bytes of host memory
    /// that it needs.
    codes: Vec<Option<(CodeId, usize)>>,
    /// For every storage, an array that is the whole of it under some shape.
    pub view_of: Vec<u32>,
    units: usize,
    /// Whether a schedule says where its tasks run.
    pub is_planned: bool,
    /// When its storages are needed, on a machine with devices.
    pub needs: Needs,
    /// Who reads parts of them, on a machine with devices.
    pub readers: Readers,
    /// What is moved between memories, and in which order, where a schedule says so.
    pub transfers: Option<std::sync::Arc<Transfers>>,
}

impl Prepared {
    /// Prepares a graph for a number of units.
    pub(crate) fn new(
        graph: std::sync::Arc<Graph>,
        (kinds, kernels): (&[UnitKind], &DeviceKernels),
        is_planned: bool,
        (needs, readers): (Needs, Readers),
    ) -> Self {
        let mut exit_of = vec![NO_EXIT; graph.len()];
        let mut exits = 0;
        let mut chunks: Vec<(std::sync::Arc<Chunk>, String)> = Vec::new();
        for (i, s) in graph.storages.iter().enumerate() {
            let Some(place) = s.place() else { continue };
            if !chunks
                .iter()
                .any(|(c, _)| std::sync::Arc::ptr_eq(c, &place.chunk))
            {
                chunks.push((place.chunk.clone(), s.storage.label()));
            }
            for task in graph.boundary.outlets(i as u32) {
                if exit_of[task as usize] == NO_EXIT {
                    exit_of[task as usize] = exits;
                    exits += 1;
                }
            }
        }
        let estimates = graph
            .classes
            .iter()
            .flat_map(|c| {
                kinds
                    .iter()
                    .map(|_| static_estimate(&c.cost).to_bits().into())
            })
            .collect();
        let columns = || kinds.iter().chain([&UnitKind::CPU]);
        let code = |class: u32, kind: UnitKind| {
            let choice = kernels.choice(&graph, class, kind)?;
            let need = match choice {
                CodeId::Kernel(_) => 0,
                CodeId::Own(place) => {
                    let class = &graph.classes[class as usize];
                    let codelet = &graph.codelets[class.codelet as usize];
                    (codelet.implementations[usize::from(place)].scratch)(&class.call)
                }
            };
            Some((choice, need))
        };
        let classes = 0..graph.classes.len() as u32;
        let codes = classes.flat_map(|c| columns().map(move |&k| (c, k)));
        let codes = codes.map(|(class, kind)| code(class, kind)).collect();
        let mut uses = vec![0; graph.storages.len()];
        for access in &graph.accesses {
            uses[graph.arrays[access.array as usize].storage as usize] += 1;
        }
        let mut view_of = vec![0; graph.storages.len()];
        for (i, array) in graph.arrays.iter().enumerate() {
            view_of[array.storage as usize] = i as u32;
        }
        Prepared {
            view_of,
            graph,
            exit_of,
            exits: exits as usize,
            chunks,
            uses,
            estimates,
            codes,
            units: kinds.len(),
            is_planned,
            needs,
            readers,
            transfers: None,
        }
    }

    /// What a task runs in a column of `codes`.
    #[inline]
    fn code_in(&self, task: u32, column: usize) -> Option<(Code<'_>, usize)> {
        let class = self.graph.tasks[task as usize].class as usize;
        let (choice, scratch) = self.codes[class * (self.units + 1) + column]?;
        let code = match choice {
            CodeId::Kernel(place) => Code::Kernel(place as usize),
            CodeId::Own(place) => {
                let codelet = &self.graph.codelets[self.graph.classes[class].codelet as usize];
                Code::Body(&codelet.implementations[usize::from(place)])
            }
        };
        Some((code, scratch))
    }

    /// What a task runs on a unit, and the bytes of host memory that it needs; none if it cannot run there.
    #[inline]
    pub(crate) fn code(&self, task: u32, unit: UnitId) -> Option<(Code<'_>, usize)> {
        self.code_in(task, usize::from(unit.0))
    }

    /// The same for a CPU of the host, which works for units whose device cannot.
    pub(crate) fn host_code(&self, task: u32) -> Option<(Code<'_>, usize)> {
        self.code_in(task, self.units)
    }

    /// Whether a unit can run a task.
    #[inline]
    pub(crate) fn can_run(&self, task: u32, unit: UnitId) -> bool {
        let class = self.graph.tasks[task as usize].class as usize;
        self.codes[class * (self.units + 1) + usize::from(unit.0)].is_some()
    }

    fn place(&self, class: u32, unit: UnitId) -> &std::sync::atomic::AtomicU64 {
        &self.estimates[class as usize * self.units + usize::from(unit.0)]
    }

    /// How long a task of this class is expected to run on a unit.
    pub(crate) fn estimate(&self, class: u32, unit: UnitId) -> Seconds {
        Seconds(f64::from_bits(
            self.place(class, unit)
                .load(std::sync::atomic::Ordering::Relaxed),
        ))
    }

    /// Sets what [`Prepared::estimate`] returns.
    pub(crate) fn set_estimate(&self, class: u32, unit: UnitId, seconds: Seconds) {
        self.place(class, unit)
            .store(seconds.0.to_bits(), std::sync::atomic::Ordering::Relaxed);
    }
}

/// Seconds for a cost on an unmeasured unit: a guess of the right magnitude, so that large tasks rate
/// above small ones.
fn static_estimate(cost: &Cost) -> f64 {
    1e-6 + (cost.flops / 10e9).max(cost.bytes / 5e9)
}

/// How far a task has got, as memories see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It has not asked for its operands.
    Waits,
    /// It has asked for them, and has not ended.
    Asked,
    /// It has ended.
    Ended,
}

/// The state of one launch.
pub(crate) struct Instance {
    /// What it shares with others.
    pub prepared: std::sync::Arc<Prepared>,
    /// For every task, how many it still waits for.
    pub pending: Box<[Countdown]>,
    exits: Box<[Exit]>,
    /// Where every array of the graph is, in the host's memory.
    pub placed: Box<[Placed]>,
    /// Its tasks as an engine has them, where one runs them.
    engine: Option<Box<dyn Submit>>,
    /// Its temporaries, where they are allocated one by one.
    pub heap: Option<Heap>,
    /// Bytes set apart for temporaries.
    pub block_bytes: usize,
    _block: Option<dahl_core::arena::Block>,
    /// Tasks not accounted for yet; on a line of its own, since all workers count here and read the rest.
    remaining: CachePadded<AtomicUsize>,
    /// The number of the launch under way, or of the last one.
    /// Of the standard library also under the model checker: policies ask for it under their locks, where a checker must
    /// not let others run, and it does not change while a launch is under way.
    serial: std::sync::atomic::AtomicU64,
    /// The number of the last launch that ended.
    finished: AtomicU64,
    /// Identifies storages in the coherence directory: persistent ones by their own id, temporaries by
    /// one that only this instance has.
    pub keys: Box<[u64]>,
    /// On a machine with devices, the [`Stage`] of every task: a hint, changed and looked at under the
    /// memories' lock. No ordering hangs on it, so it is not the model checker's.
    stages: Box<[std::sync::atomic::AtomicU8]>,
}

impl Instance {
    /// A new instance, with its own memory for temporaries.
    pub(crate) fn new(
        prepared: std::sync::Arc<Prepared>,
        engine: Option<Box<dyn Submit>>,
        heap: Option<&std::sync::Arc<Usage>>,
    ) -> Result<Self, RunError> {
        let graph = prepared.graph.clone();
        let heap = heap.map(|usage| Heap::new(&graph, usage.clone()));
        let heap = heap.transpose()?;
        let block_bytes = match heap {
            None => graph.memory.bytes as usize,
            Some(_) => 0,
        };
        let block = match block_bytes {
            0 => None,
            n => Some(dahl_core::arena::Block::new(n).ok_or_else(|| {
                RunError::OutOfMemory(format!("{n} bytes for the temporaries of a graph"))
            })?),
        };
        let base = |storage: u32| {
            let s = &graph.storages[storage as usize];
            match (s.place(), s.temporary, &block) {
                (Some(place), ..) => place.base(),
                (None, Some(t), Some(block)) => {
                    let offset = graph.memory.offsets[t as usize] as usize;
                    // Where the whole array would begin, of which only what tasks touch is in the block.
                    block
                        .as_ptr()
                        .wrapping_add(offset)
                        .wrapping_sub(s.skipped_bytes())
                }
                _ => std::ptr::null_mut(),
            }
        };
        let placed = graph.arrays.iter().map(|a| Placed {
            base: base(a.storage),
            shape: a.shape,
            dtype: graph.storages[a.storage as usize].storage.dtype,
        });
        let key = |s: &dahl_core::graph::GraphStorage| match s.temporary {
            None => s.storage.id,
            Some(_) => {
                let (shape, dtype) = (s.storage.shape, s.storage.dtype);
                let home = dahl_core::array::Home::Temporary { recorder: 0 };
                dahl_core::Storage::new(None, shape, dtype, home).id
            }
        };
        let stages = match prepared.readers.is_empty() {
            true => 0,
            false => graph.len(),
        };
        Ok(Instance {
            pending: (0..graph.len()).map(|_| Countdown::new()).collect(),
            exits: (0..prepared.exits).map(|_| Exit::new(true)).collect(),
            placed: placed.collect(),
            engine,
            heap,
            block_bytes,
            remaining: CachePadded::new(AtomicUsize::new(0)),
            serial: std::sync::atomic::AtomicU64::new(0),
            finished: AtomicU64::new(0),
            keys: graph.storages.iter().map(key).collect(),
            stages: (0..stages).map(|_| Default::default()).collect(),
            _block: block,
            prepared,
        })
    }

    /// The graph.
    #[inline]
    pub(crate) fn graph(&self) -> &Graph {
        &self.prepared.graph
    }

    /// The reference by which policies know a task of this launch.
    #[inline]
    pub(crate) fn task(&self, task: u32) -> TaskRef {
        TaskRef {
            launch: std::ptr::from_ref(self).expose_provenance(),
            task,
        }
    }

    /// The instance that a reference names.
    ///
    /// # Safety
    /// The reference was made by [`Instance::task`] of an instance that still exists: the runtime keeps
    /// instances until their launches have ended.
    #[inline]
    pub(crate) unsafe fn of<'a>(task: TaskRef) -> &'a Instance {
        // SAFETY: by contract the address is that of a live instance, which was exposed.
        unsafe { &*std::ptr::with_exposed_provenance(task.launch) }
    }

    /// Prepares for launch number `serial`. Nobody may be using the instance.
    pub(crate) fn arm(&self, serial: u64) {
        for (pending, &degree) in self.pending.iter().zip(&self.graph().in_degree) {
            // Tasks without predecessors wait for the launch itself, which releases them last. Where an engine keeps
            // count of predecessors, all do.
            pending.reset(match self.engine {
                None => degree.max(1),
                Some(_) => 1,
            });
        }
        if let Some(engine) = &self.engine {
            engine.declare(Launch(self.task(0).launch));
        }
        self.exits.iter().for_each(Exit::reopen);
        for stage in &self.stages {
            stage.store(Stage::Waits as u8, std::sync::atomic::Ordering::Relaxed);
        }
        self.remaining.store(self.graph().len(), Ordering::Relaxed);
        self.serial.store(serial, Ordering::Relaxed);
    }

    /// Gives a task to the engine, which exists.
    pub(crate) fn submit(&self, task: u32) {
        if let Some(engine) = &self.engine {
            engine.submit(task);
        }
    }

    /// The number of the launch under way, or of the last one.
    #[inline]
    pub(crate) fn serial(&self) -> u64 {
        self.serial.load(Ordering::Relaxed)
    }

    /// One thing that a task waited for has happened; true if it was the last.
    #[inline]
    pub(crate) fn release(&self, task: u32) -> bool {
        self.pending[task as usize].count_down()
    }

    /// The exit of a task, if it has one.
    #[inline]
    pub(crate) fn exit(&self, task: u32) -> Option<&Exit> {
        match self.prepared.exit_of[task as usize] {
            NO_EXIT => None,
            i => Some(&self.exits[i as usize]),
        }
    }

    /// Accounts for tasks that have ended. If they were the last, the launch has ended, and the
    /// instance must not be used any more: true is returned.
    pub(crate) fn account(&self, ended: usize) -> bool {
        if self.remaining.fetch_sub(ended, Ordering::AcqRel) != ended {
            return false;
        }
        self.prepared.chunks.iter().for_each(|(c, _)| c.release());
        self.finished
            .store(self.serial.load(Ordering::Relaxed), Ordering::Release);
        true
    }

    /// How many tasks have not been accounted for.
    pub(crate) fn remaining(&self) -> usize {
        self.remaining.load(Ordering::Relaxed)
    }

    /// Whether launch number `serial` has ended.
    #[inline]
    pub(crate) fn has_ended(&self, serial: u64) -> bool {
        self.finished.load(Ordering::Acquire) >= serial
    }

    /// Whether nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.has_ended(self.serial.load(Ordering::Relaxed))
    }

    /// A task has got to a stage.
    pub(crate) fn advance(&self, task: u32, stage: Stage) {
        self.stages[task as usize].store(stage as u8, std::sync::atomic::Ordering::Relaxed);
    }

    /// How far a task has got.
    pub(crate) fn stage(&self, task: u32) -> Stage {
        match self.stages[task as usize].load(std::sync::atomic::Ordering::Relaxed) {
            0 => Stage::Waits,
            1 => Stage::Asked,
            _ => Stage::Ended,
        }
    }

    /// The storage that an access goes to, in the graph.
    pub(crate) fn storage_of(&self, access: &Access) -> u32 {
        self.graph().arrays[access.array as usize].storage
    }

    /// The accesses of a task.
    pub(crate) fn accesses(&self, task: u32) -> &[Access] {
        self.graph().accesses_of(task)
    }
}
