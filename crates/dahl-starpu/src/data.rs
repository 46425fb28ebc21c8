//! What StarPU sees of a graph's data, where it is asked to: a handle for every cell.
//!
//! A cell is a box that every task touches whole or not at all ([`Cells`]), so the handles of a task are exactly what it
//! reads and writes. They inform; they do not order: who waits for whom is said by edges, which follow regions across
//! launches too. Each instance of a graph has handles of its own, as it has temporaries of its own. For arrays that
//! outlive a launch that is one handle too many for the same bytes, which would matter if StarPU moved them: its CPU
//! workers share one memory.

use std::sync::{Mutex, PoisonError};

use dahl_core::Graph;
use dahl_core::graph::cells::Cells;

use crate::shim;

/// A handle of StarPU's.
type Handle = *mut shim::Data;

/// The handles of an instance, from its making to its end or StarPU's, whichever is first.
pub(crate) struct Handles {
    /// For every task, where its handles begin; one more for the end.
    starts: Vec<u32>,
    /// The handles of tasks, each once by task.
    used: Vec<Handle>,
    /// Whether a task reads (1), writes (2) or does both (3).
    modes: Vec<u8>,
    /// All of them, until they are forgotten.
    all: Mutex<Vec<Handle>>,
}

// SAFETY: handles are names that StarPU's functions take from any thread.
unsafe impl Send for Handles {}
// SAFETY: as above.
unsafe impl Sync for Handles {}

impl Handles {
    /// Of all cells that tasks of a graph touch. StarPU runs, and no other thread does this at the same time.
    pub(crate) fn new(graph: &Graph) -> Handles {
        let cells = Cells::new(graph);
        let mut of_cell: Vec<Handle> = vec![std::ptr::null_mut(); cells.bytes.len()];
        let mut all = Vec::new();
        let (mut starts, mut used, mut modes) = (vec![0], Vec::new(), Vec::new());
        let mut own: Vec<(u32, u8)> = Vec::new();
        for task in &graph.tasks {
            own.clear();
            let first = task.first_access as usize;
            for at in first..first + usize::from(task.access_count) {
                let mode = graph.accesses[at].mode;
                let mode = u8::from(mode.reads()) + 2 * u8::from(mode.writes());
                own.extend(cells.of(at).iter().map(|&cell| (cell, mode)));
            }
            own.sort_unstable();
            for same in own.chunk_by(|a, b| a.0 == b.0) {
                let cell = same[0].0 as usize;
                if of_cell[cell].is_null() {
                    // SAFETY: StarPU runs, and the caller is the only one.
                    of_cell[cell] = unsafe { shim::dahl_starpu_data(cells.bytes[cell] as usize) };
                    all.push(of_cell[cell]);
                }
                used.push(of_cell[cell]);
                modes.push(same.iter().fold(0, |sum, (_, mode)| sum | mode));
            }
            starts.push(used.len() as u32);
        }
        Handles {
            starts,
            used,
            modes,
            all: Mutex::new(all),
        }
    }

    /// The handles of a task, and how it uses them.
    pub(crate) fn of(&self, task: usize) -> (&[Handle], &[u8]) {
        let range = self.starts[task] as usize..self.starts[task + 1] as usize;
        (&self.used[range.clone()], &self.modes[range])
    }

    /// StarPU forgets them: before it ends, and when all launches have ended.
    pub(crate) fn forget(&self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        for handle in all.drain(..) {
            // SAFETY: registered above and forgotten once. It waits for tasks that StarPU has yet to clean up after.
            unsafe { shim::dahl_starpu_forget(handle) };
        }
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.forget();
    }
}
