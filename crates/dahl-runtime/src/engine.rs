//! Engines: who runs the tasks of launches, where that is not the runtime's own workers under a policy.
//!
//! An engine is told the tasks of a launch and the edges between them, and runs them in an order of its own on threads of
//! its own. What stays here: which launch waits for which, memory, leases, values, failures, traces. So a task is
//! submitted to the engine once it waits for nothing in earlier launches, and the engine hands it back to be executed
//! ([`Hands::run`]). Engines work on this computer's CPUs; devices, schedules and messages need the runtime's own workers.

use std::sync::Arc;

use dahl_core::{Graph, Seconds, UnitId};
use dahl_sched::policy::{Policy, TaskRef, World};

use crate::error::RunError;
use crate::shared::Shared;
use crate::sync::{Mutex, lock};
use crate::worker::Worker;

/// Runs tasks in the place of the runtime's workers.
pub trait Engine: Send + Sync {
    /// Starts so many workers, numbered from 0, that hand tasks to `hands`.
    ///
    /// # Errors
    /// Why it cannot start, and what to do about it.
    fn start(&self, workers: usize, hands: Arc<Hands>) -> Result<(), RunError>;

    /// What it keeps of a graph to launch it, one launch at a time.
    ///
    /// # Errors
    /// If there is no room for that.
    fn prepare(&self, graph: &Arc<Graph>) -> Result<Box<dyn Submit>, RunError>;

    /// Ends its workers. All tasks submitted have been handed back before.
    fn stop(&self);
}

/// A graph as an engine keeps it.
pub trait Submit: Send + Sync {
    /// A launch begins: all its tasks and the edges between them. None may run before it is submitted. The launch
    /// before it has ended.
    fn declare(&self, launch: Launch);

    /// A task of the launch waits for nothing outside of it any more: it may run when those before it in its graph have.
    /// Called once for every task, from any thread.
    fn submit(&self, task: u32);
}

/// A launch, for [`Hands::run`] alone.
#[derive(Clone, Copy, Debug)]
pub struct Launch(pub(crate) usize);

/// Executes tasks for an engine.
pub struct Hands {
    shared: Arc<Shared>,
    workers: Vec<Mutex<Worker>>,
}

impl Hands {
    pub(crate) fn new(shared: &Arc<Shared>) -> Arc<Hands> {
        let units = 0..shared.units.len() as u16;
        let worker = |u| Mutex::new(Worker::new(UnitId(u), shared));
        Arc::new(Hands {
            workers: units.map(worker).collect(),
            shared: shared.clone(),
        })
    }

    /// Executes a task on the calling thread, for a worker of the engine. Failures and panics of the task are kept for
    /// who waits; nothing unwinds.
    ///
    /// # Safety
    /// The task was submitted for this launch, all tasks before it in its graph have been run, and it has not.
    pub unsafe fn run(&self, worker: usize, launch: Launch, task: u32) {
        let launch = launch.0;
        let mut worker = lock(&self.workers[worker]);
        worker.run_for_engine(&self.shared, TaskRef { launch, task });
    }
}

/// The policy of a runtime whose engine decides.
pub(crate) struct EngineDecides;

impl Policy for EngineDecides {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn ready(
        &self,
        _: &dyn World,
        _: Option<UnitId>,
        _: &[TaskRef],
        _: Seconds,
    ) -> Option<TaskRef> {
        None
    }

    fn next(&self, _: &dyn World, _: UnitId, _: Seconds) -> Option<TaskRef> {
        None
    }

    fn backlog(&self) -> Vec<(String, usize)> {
        Vec::new()
    }
}
