//! What follows when a task has ended: successors are counted down, those that became ready are handed on, and the
//! launch is told. Workers do this for what they ran, the communication thread for messages.

use dahl_core::UnitId;
use dahl_sched::policy::TaskRef;

use crate::instance::Instance;
use crate::shared::Shared;
use crate::tracer::{Times, TraceWriter};

/// The bookkeeping of one thread that ends tasks.
pub(crate) struct Completion {
    /// The unit that the thread drives, if it is a worker.
    unit: Option<UnitId>,
    /// Tasks that became ready when the last one ended.
    released: Vec<TaskRef>,
    /// Tasks ended and not yet accounted for, all of one instance.
    ended: usize,
    ended_of: usize,
    /// The number of the launch `ended_of`.
    serial: u64,
    writer: Option<TraceWriter>,
}

impl Completion {
    pub(crate) fn new(unit: Option<UnitId>, shared: &Shared) -> Self {
        let tracer = shared.tracer.as_ref();
        Completion {
            unit,
            released: Vec::with_capacity(64),
            ended: 0,
            ended_of: 0,
            serial: 0,
            writer: tracer.and_then(|t| t.writer(unit.map(|u| usize::from(u.0)))),
        }
    }

    /// Where the thread records its tasks, if they are recorded.
    #[inline]
    pub(crate) fn writer(&self) -> Option<&TraceWriter> {
        self.writer.as_ref()
    }

    /// Records when a task was taken, begun and ended, and whether a CPU had to stand in for its unit.
    #[inline]
    pub(crate) fn record(&mut self, instance: &Instance, task: u32, times: Times, fell_back: bool) {
        let Some(writer) = &mut self.writer else {
            return;
        };
        // While tasks of a launch are not accounted for, it is the same launch; its number lies where
        // others count.
        let launch = std::ptr::from_ref(instance).addr();
        if self.ended == 0 || self.ended_of != launch {
            self.serial = instance.serial();
        }
        writer.task(self.serial, task, times, fell_back);
    }

    /// A task has ended: counts down who waits for it and reports those that became ready. May return one for this
    /// thread's unit to run at once.
    pub(crate) fn complete(&mut self, shared: &Shared, task: TaskRef) -> Option<TaskRef> {
        // SAFETY: a task that has not completed belongs to a launch that has not ended.
        let instance = unsafe { Instance::of(task) };
        let number = task.task;
        // An engine keeps count within a graph itself.
        let own = if shared.engine {
            &[]
        } else {
            instance.graph().successors(number)
        };
        for &s in own {
            if instance.release(s) {
                self.released.push(TaskRef {
                    launch: task.launch,
                    task: s,
                });
            }
        }
        if let Some(exit) = instance.exit(number) {
            exit.close(|who, what| {
                let released = &mut self.released;
                shared.tell(who, what, released, |launch| {
                    if let Some(writer) = &mut self.writer {
                        writer.release(launch, what);
                    }
                });
            });
        }
        if shared.timed
            && let Some(unit) = self.unit
        {
            shared.policy.ended(shared, unit, task, shared.now());
        }
        if self.ended_of != task.launch {
            self.settle(shared);
            self.ended_of = task.launch;
        }
        self.ended += 1;
        if self.released.is_empty() {
            return None;
        }
        let next = shared.ready(self.unit, &mut self.released);
        self.released.clear();
        next
    }

    /// Accounts for everything that has ended.
    pub(crate) fn settle(&mut self, shared: &Shared) {
        if self.ended == 0 {
            return;
        }
        if let Some(writer) = &self.writer {
            writer.settle();
        }
        shared.progress(self.ended);
        let any = TaskRef {
            launch: self.ended_of,
            task: 0,
        };
        // SAFETY: these tasks are not accounted for, so the launch has not ended.
        if unsafe { Instance::of(any) }.account(self.ended) {
            shared.launch_ended();
        }
        self.ended = 0;
    }
}
