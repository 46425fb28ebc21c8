//! Temporaries allocated one by one: each when the first task that uses it starts, freed when the last has ended.
//!
//! That is what programs without a memory plan do, here to be compared with the planned block: as many calls of the
//! system's allocator as a step has temporaries, and a peak that depends on the order in which tasks happen to run. What is
//! computed is the same. Only for tasks on CPUs of this computer: copies on devices and messages are of planned blocks.
//!
//! A lock for each temporary guards whether it is there; tasks that use it at the same time may begin in any order.

use std::alloc::{Layout, alloc, dealloc};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dahl_core::Graph;
use dahl_core::access::Access;
use dahl_core::arena::ALIGNMENT;
use dahl_core::operands::Placed;

use crate::error::RunError;
use crate::sync::{Mutex, lock};

/// Where the temporaries of graphs lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Temporaries {
    /// All of a launch in one block, planned when the graph is recorded.
    #[default]
    Planned,
    /// Each by itself, from the system's allocator and back, launch by launch.
    Malloc,
}

impl std::str::FromStr for Temporaries {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "planned" => Ok(Temporaries::Planned),
            "malloc" => Ok(Temporaries::Malloc),
            _ => Err("use planned or malloc".into()),
        }
    }
}

impl std::fmt::Display for Temporaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Temporaries::Planned => "planned",
            Temporaries::Malloc => "malloc",
        })
    }
}

/// Bytes that all launches of a runtime have allocated: now, and at most so far. Figures on which no ordering hangs, so
/// they are not the model checker's atomics.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Usage {
    fn add(&self, bytes: usize) {
        let now = self.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most.fetch_max(now, Ordering::Relaxed);
    }

    fn sub(&self, bytes: usize) {
        self.now.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

/// The temporaries of one launch at a time.
pub(crate) struct Heap {
    arrays: Box<[Temporary]>,
    /// For every task, where its temporaries begin in `used`; one more for the end.
    starts: Vec<u32>,
    used: Vec<u32>,
    usage: Arc<Usage>,
}

struct Temporary {
    layout: Layout,
    /// Bytes of the array that lie before its memory, as nobody touches them.
    skipped: usize,
    /// Tasks that use it.
    users: u32,
    state: Mutex<State>,
}

struct State {
    memory: *mut u8,
    /// Users that have not ended.
    left: u32,
}

// SAFETY: a state is an address, used by the tasks that it was placed for, and a count.
unsafe impl Send for State {}

/// The operands of a task as it runs, kept for the next one.
#[derive(Default)]
pub(crate) struct PlacedOperands {
    pub accesses: Vec<Access>,
    pub arrays: Vec<Placed>,
}

impl Heap {
    pub(crate) fn new(graph: &Graph, usage: Arc<Usage>) -> Result<Heap, RunError> {
        let mut arrays = Vec::new();
        for s in graph.storages.iter().filter(|s| s.temporary.is_some()) {
            let bytes = (s.planned_bytes() as usize).max(1);
            let layout = Layout::from_size_align(bytes, ALIGNMENT);
            arrays.push(Temporary {
                layout: layout.map_err(|e| RunError::OutOfMemory(e.to_string()))?,
                skipped: s.skipped_bytes(),
                users: 0,
                state: Mutex::new(State {
                    memory: std::ptr::null_mut(),
                    left: 0,
                }),
            });
        }
        let (mut starts, mut used) = (vec![0], Vec::new());
        for task in 0..graph.len() as u32 {
            let first = used.len();
            for access in graph.accesses_of(task) {
                let storage = graph.arrays[access.array as usize].storage;
                if let Some(t) = graph.storages[storage as usize].temporary
                    && !used[first..].contains(&t)
                {
                    used.push(t);
                    arrays[t as usize].users += 1;
                }
            }
            starts.push(used.len() as u32);
        }
        Ok(Heap {
            arrays: arrays.into(),
            starts,
            used,
            usage,
        })
    }

    /// Gives a task its operands, allocating temporaries that no task has used yet. `placed` is where the arrays are,
    /// without temporaries.
    pub(crate) fn place(
        &self,
        graph: &Graph,
        task: u32,
        placed: &[Placed],
        operands: &mut PlacedOperands,
    ) -> Result<(), RunError> {
        operands.accesses.clear();
        operands.arrays.clear();
        for (i, access) in graph.accesses_of(task).iter().enumerate() {
            let mut array = placed[access.array as usize];
            let storage = graph.arrays[access.array as usize].storage;
            if let Some(t) = graph.storages[storage as usize].temporary {
                let temporary = &self.arrays[t as usize];
                let memory = temporary.get(&self.usage).ok_or_else(|| {
                    let (bytes, task) = (temporary.layout.size(), graph.describe(task));
                    RunError::OutOfMemory(format!("{bytes} bytes for a temporary of {task}"))
                })?;
                array.base = memory.wrapping_sub(temporary.skipped);
            }
            operands.accesses.push(Access {
                array: i as u32,
                ..*access
            });
            operands.arrays.push(array);
        }
        Ok(())
    }

    /// A task has ended, or will not run: what nobody else uses is freed.
    pub(crate) fn release(&self, task: u32) {
        let at = task as usize;
        let (from, to) = (self.starts[at] as usize, self.starts[at + 1] as usize);
        for &t in &self.used[from..to] {
            self.arrays[t as usize].put(&self.usage);
        }
    }
}

impl Temporary {
    /// Its memory; none if there is no more.
    fn get(&self, usage: &Usage) -> Option<*mut u8> {
        let mut state = lock(&self.state);
        if state.memory.is_null() {
            // SAFETY: the layout's size is not zero.
            state.memory = unsafe { alloc(self.layout) };
            if state.memory.is_null() {
                return None;
            }
            initialised(state.memory);
            usage.add(self.layout.size());
        }
        Some(state.memory)
    }

    /// One user less.
    fn put(&self, usage: &Usage) {
        let mut state = lock(&self.state);
        if state.left == 0 {
            state.left = self.users;
        }
        state.left -= 1;
        if state.left == 0 {
            state.free(self.layout, usage);
        }
    }
}

impl State {
    fn free(&mut self, layout: Layout, usage: &Usage) {
        if !self.memory.is_null() {
            // SAFETY: allocated with this layout; all that use it have ended.
            unsafe { dealloc(self.memory, layout) };
            self.memory = std::ptr::null_mut();
            usage.sub(layout.size());
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        for temporary in &self.arrays {
            lock(&temporary.state).free(temporary.layout, &self.usage);
        }
    }
}

/// Takes fresh memory as it is: any bytes are numbers. A task that reads what none has written finds some numbers, as it
/// does in a planned block, and the compiler must not conclude more from it.
fn initialised(memory: *mut u8) {
    // SAFETY: it does nothing. To the compiler it may have written anything where `memory` leads.
    unsafe { std::arch::asm!("/* {0} */", in(reg) memory, options(nostack, preserves_flags)) };
}
