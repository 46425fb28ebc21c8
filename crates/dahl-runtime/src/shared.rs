//! What all threads of a runtime share: the policy, the units, who sleeps, what failed.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::{Machine, MemoryId, Seconds, UnitId};
use dahl_sched::policy::{Policy, TaskRef, World};

use crate::driver::Driver;
use crate::error::RunError;
use crate::instance::Instance;
use crate::memory::Memories;
use crate::network::Network;
use crate::sleep::Sleep;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, lock};
use crate::tracer::Tracer;

/// A unit, as it is driven.
pub(crate) struct UnitState {
    /// How it executes tasks.
    pub driver: Box<dyn Driver>,
    /// The memory its operands must be in.
    pub memory: MemoryId,
    /// Nanoseconds that its worker has worked. A figure, not a signal: no ordering hangs on it.
    pub busy: std::sync::atomic::AtomicU64,
}

/// How long a task took.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The graph's id.
    pub graph: u64,
    /// The class of the task.
    pub class: u32,
    /// Where it ran.
    pub unit: UnitId,
    /// How long.
    pub seconds: Seconds,
}

/// A thread that waits for single tasks; told through their exits.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Tasks that have not ended.
    pub left: AtomicU32,
}

/// A message whose `what` is this is for a [`Waiter`], not for an instance.
pub(crate) const FOR_WAITER: u32 = u32::MAX;

pub(crate) struct Shared {
    /// The machine.
    pub machine: Machine,
    /// Its units.
    pub units: Vec<UnitState>,
    /// Who decides.
    pub policy: Box<dyn Policy>,
    /// Memories other than the host's, if there are any.
    pub memories: Option<Memories>,
    /// Connections to other nodes, if there are any.
    pub network: Option<Network>,
    /// Where idle threads sleep. One slot per unit; the last is for a main thread that is not a unit.
    pub sleep: Arc<Sleep>,
    /// The slot of the main thread.
    pub main_slot: usize,
    /// Whether tasks are timed.
    pub timed: bool,
    /// Where tasks are recorded, if they are.
    pub tracer: Option<Arc<Tracer>>,
    /// Whether an engine runs tasks, not the workers.
    pub engine: bool,
    uniform: bool,
    start: Instant,
    stopping: AtomicBool,
    failing: AtomicBool,
    error: Mutex<Option<RunError>>,
    samples: Mutex<Vec<Sample>>,
    ended: AtomicU64,
}

impl Shared {
    /// For a machine.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        machine: Machine,
        units: Vec<UnitState>,
        policy: Box<dyn Policy>,
        memories: Option<Memories>,
        network: Option<Network>,
        tracer: Option<Arc<Tracer>>,
        main_is_unit: bool,
    ) -> Self {
        let n = units.len();
        let kind = units[0].driver.kind();
        let sleep = Arc::new(Sleep::new(n + 1, n));
        Shared {
            main_slot: if main_is_unit { 0 } else { n },
            timed: policy.needs_time(),
            uniform: units.iter().all(|u| u.driver.kind() == kind),
            tracer,
            engine: false,
            machine,
            units,
            policy,
            memories: memories.map(|m| m.waking(sleep.clone())),
            network,
            sleep,
            start: Instant::now(),
            stopping: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            error: Mutex::new(None),
            samples: Mutex::new(Vec::new()),
            ended: AtomicU64::new(0),
        }
    }

    /// Whether a unit's device is out of use.
    fn is_lost(&self, unit: &UnitState) -> bool {
        let memories = self.memories.as_ref();
        memories.is_some_and(|m| m.lost(unit.memory).is_some())
    }

    fn lost_none(&self) -> bool {
        let memories = self.memories.as_ref();
        memories.is_none_or(|m| m.losses().next().is_none())
    }

    /// The memory that a unit works in: its device's, or the host's if that is out of use.
    pub(crate) fn memory(&self, unit: UnitId) -> MemoryId {
        let unit = &self.units[usize::from(unit.0)];
        match self.is_lost(unit) {
            true => MemoryId::HOST,
            false => unit.memory,
        }
    }

    /// Time since the runtime started, where anybody wants to know.
    #[inline]
    pub(crate) fn now(&self) -> Seconds {
        if self.timed {
            Seconds(self.start.elapsed().as_secs_f64())
        } else {
            Seconds(0.0)
        }
    }

    /// How often to look for work before sleeping.
    pub(crate) fn looks(&self, usual: u32) -> u32 {
        // Under a model checker spinning only makes schedules longer.
        if cfg!(feature = "shuttle") { 1 } else { usual }
    }

    /// Whether workers should end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Lets workers end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.sleep.wake_all();
        if let Some(network) = &self.network {
            network.wake();
        }
    }

    /// Whether a task has failed and those in flight are only drained.
    #[inline]
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Notes the first error; tasks in flight are drained from now on.
    pub(crate) fn fail(&self, error: RunError) {
        lock(&self.error).get_or_insert(error);
        self.failing.store(true, Ordering::Release);
        if let Some(network) = &self.network {
            network.wake();
        }
    }

    /// Stops what is in flight. Safe to call in a signal handler: it only writes a flag.
    pub(crate) fn cancel(&self) {
        self.failing.store(true, Ordering::Release);
    }

    /// The error that stopped the launches in flight, which have all been drained.
    pub(crate) fn take_error(&self) -> Option<RunError> {
        if !self.failing.swap(false, Ordering::AcqRel) {
            return None;
        }
        Some(lock(&self.error).take().unwrap_or(RunError::Cancelled))
    }

    /// The error, left in place.
    pub(crate) fn peek_error(&self) -> RunError {
        lock(&self.error).clone().unwrap_or(RunError::Cancelled)
    }

    /// Hands over a message from an exit. If it makes a task ready, `note` hears the number of that task's launch.
    pub(crate) fn tell(
        &self,
        who: usize,
        what: u32,
        released: &mut Vec<TaskRef>,
        note: impl FnOnce(u64),
    ) {
        if what == FOR_WAITER {
            // SAFETY: the waiter stays in place until it has been told of every task.
            let waiter = unsafe { &*std::ptr::with_exposed_provenance::<Waiter>(who) };
            if waiter.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.sleep.wake(self.main_slot);
            }
            return;
        }
        let task = TaskRef {
            launch: who,
            task: what,
        };
        // SAFETY: the launch waits for this message, so it has not ended.
        let instance = unsafe { Instance::of(task) };
        if instance.release(what) {
            note(instance.serial());
            released.push(task);
        }
    }

    /// Tasks became ready, in this order, because one on unit `by` ended or because a graph was launched: messages are the
    /// network's business, the rest is the policy's, which may return one for `by` to run at once, or an engine's.
    pub(crate) fn ready(&self, by: Option<UnitId>, tasks: &mut Vec<TaskRef>) -> Option<TaskRef> {
        if self.engine {
            for task in tasks.iter() {
                // SAFETY: the task has not run, so its launch has not ended.
                unsafe { Instance::of(*task) }.submit(task.task);
            }
            return None;
        }
        if let Some(network) = &self.network {
            network.take_messages(self, tasks);
            if tasks.is_empty() {
                return None;
            }
        }
        self.policy.ready(self, by, tasks, self.now())
    }

    /// A launch has ended: the main thread may be waiting for it.
    pub(crate) fn launch_ended(&self) {
        self.sleep.wake(self.main_slot);
    }

    /// Counts ended tasks, for the watchdog.
    pub(crate) fn progress(&self, ended: usize) {
        self.ended.fetch_add(ended as u64, Ordering::Relaxed);
    }

    /// How many tasks have ended since the start.
    pub(crate) fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Takes a worker's samples.
    pub(crate) fn collect(&self, samples: &mut Vec<Sample>) {
        let mut all = lock(&self.samples);
        if all.len() < 1 << 16 {
            all.append(samples);
        } else {
            samples.clear();
        }
    }

    /// Hands all samples collected since the last call to `take`, and forgets them.
    pub(crate) fn hand_samples(&self, take: impl FnOnce(&[Sample])) {
        // Workers collect under the same lock: leave it soon, and leave them the memory.
        let mut samples = std::mem::take(&mut *lock(&self.samples));
        take(&samples);
        samples.clear();
        let mut all = lock(&self.samples);
        if all.is_empty() {
            *all = samples;
        }
    }
}

impl World for Shared {
    fn can_run(&self, task: TaskRef, unit: UnitId) -> bool {
        // SAFETY: policies hold tasks of launches that have not ended.
        let prepared = &unsafe { Instance::of(task) }.prepared;
        if !self.is_lost(&self.units[usize::from(unit.0)]) {
            return prepared.can_run(task.task, unit);
        }
        // In the host's memory, if nobody else can.
        let mut others = (0..).zip(&self.units).filter(|(_, u)| !self.is_lost(u));
        !others.any(|(i, _)| prepared.can_run(task.task, UnitId(i)))
            && prepared.host_code(task.task).is_some()
    }

    fn is_uniform(&self) -> bool {
        self.uniform && self.lost_none()
    }

    fn duration(&self, task: TaskRef, unit: UnitId) -> Seconds {
        // SAFETY: as above.
        let instance = unsafe { Instance::of(task) };
        instance
            .prepared
            .estimate(instance.graph().tasks[task.task as usize].class, unit)
    }

    fn transfer(&self, task: TaskRef, unit: UnitId) -> Seconds {
        let Some(memories) = &self.memories else {
            return Seconds(0.0);
        };
        // SAFETY: as above.
        let instance = unsafe { Instance::of(task) };
        memories.transfer_time(instance, task.task, self.memory(unit))
    }

    fn is_planned(&self, task: TaskRef) -> bool {
        // SAFETY: as above.
        unsafe { Instance::of(task) }.prepared.is_planned
    }

    fn origin(&self, task: TaskRef) -> (u64, u64) {
        // SAFETY: as above.
        let instance = unsafe { Instance::of(task) };
        (instance.graph().id, instance.serial())
    }

    fn has_dues(&self) -> bool {
        self.network.is_some()
    }

    fn due(&self, task: TaskRef) -> i64 {
        // SAFETY: as above.
        let instance = unsafe { Instance::of(task) };
        instance.graph().due_of(task.task, instance.serial())
    }

    fn priority(&self, task: TaskRef) -> i32 {
        // SAFETY: as above.
        unsafe { Instance::of(task) }.graph().tasks[task.task as usize].priority
    }

    fn wake(&self, unit: Option<UnitId>) -> bool {
        match unit {
            Some(unit) => self.sleep.wake(usize::from(unit.0)),
            None if self.is_uniform() => self.sleep.wake_any(),
            // The one that is woken might not be able to run it.
            None => {
                self.sleep.wake_all();
                true
            }
        }
    }
}

/// A short pause between two looks for work, longer as they go on in vain.
pub(crate) fn relax(looks: u32) {
    if cfg!(feature = "shuttle") {
        crate::sync::thread::yield_now();
        return;
    }
    for _ in 0..looks.min(32) {
        std::hint::spin_loop();
    }
}
