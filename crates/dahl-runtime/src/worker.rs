//! Workers: what a unit's thread does, over and over.
//!
//! A worker asks the policy for a task, runs it, counts down the successors and hands those that
//! became ready back to the policy. When there is nothing to do it looks around for a short while and
//! then sleeps; an idle machine uses no power for us.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use dahl_core::{MemoryId, Seconds, UnitId, panic_message};
use dahl_sched::policy::TaskRef;

use crate::completion::Completion;
use crate::driver::{Code, CpuDriver, Driver, DriverError, Job, Scratch};
use crate::error::RunError;
use crate::heap::PlacedOperands;
use crate::instance::Instance;
use crate::memory::{Hold, Memories, Refusal};
use crate::shared::{Sample, Shared};
use crate::tracer::{GapEstimate, Times};

/// How often an idle worker looks for work before it sleeps. About 20 µs: longer than the gaps inside
/// a training step, much shorter than anything a person or a power meter notices.
const LOOKS: u32 = 400;

/// How long a worker looks for messages that are under way before it sleeps, if the last wait was shorter than that.
const SOON: Duration = Duration::from_micros(400);

/// The same if it was longer: a worker that waits for a slower node does not keep its core busy.
const BRIEFLY: Duration = Duration::from_micros(20);

/// Samples kept between two collections; more are dropped, they would say nothing new.
const SAMPLES: usize = 4096;

/// A unit's worker; owned by the one thread that drives the unit.
pub(crate) struct Worker {
    unit: UnitId,
    scratch: Scratch,
    /// Operands of the task that runs, where temporaries are allocated one by one.
    operands: PlacedOperands,
    completion: Completion,
    idle: Idle,
    /// Timings not yet collected.
    samples: Vec<Sample>,
    /// When tasks begin and end, where that is recorded.
    gaps: GapEstimate,
}

impl Worker {
    /// The worker of a unit.
    pub(crate) fn new(unit: UnitId, shared: &Shared) -> Self {
        Worker {
            unit,
            scratch: Scratch::default(),
            operands: PlacedOperands::default(),
            completion: Completion::new(Some(unit), shared),
            idle: Idle::default(),
            samples: Vec::new(),
            gaps: GapEstimate::default(),
        }
    }

    /// Works until the runtime stops: the body of a unit's thread.
    pub(crate) fn run(&mut self, shared: &Shared) {
        while !shared.is_stopping() {
            self.turn(shared, || shared.is_stopping());
        }
        self.settle(shared);
    }

    /// Works until `until` holds or there is nothing to do; in that case sleeps until woken.
    pub(crate) fn turn(&mut self, shared: &Shared, until: impl Fn() -> bool) {
        let mut looks = 0;
        while !until() {
            if let Some(task) = shared.policy.next(shared, self.unit, shared.now()) {
                self.idle.ended();
                self.busy(shared, task, &until);
                looks = 0;
                continue;
            }
            self.settle(shared);
            self.gaps.pause();
            looks += 1;
            if self.idle.goes_on(shared, looks) {
                continue;
            }
            let slot = usize::from(self.unit.0);
            let found = shared.sleep.sleep(slot, || {
                if until() {
                    return Some(None);
                }
                shared
                    .policy
                    .next(shared, self.unit, shared.now())
                    .map(Some)
            });
            match found {
                Some(Some(task)) => {
                    self.idle.ended();
                    self.busy(shared, task, &until);
                    looks = 0;
                }
                Some(None) => {}
                None => looks = 0,
            }
        }
        self.settle(shared);
        // This thread leaves, perhaps woken for a task that it has not taken: let another look.
        shared.sleep.wake_any();
    }

    /// Runs tasks until there is none, and notes how long that took: two looks at the clock for a
    /// busy period, not for a task.
    fn busy(&mut self, shared: &Shared, task: TaskRef, until: &impl Fn() -> bool) {
        let start = std::time::Instant::now();
        let mut next = Some(task);
        while let Some(task) = next {
            self.work(shared, task, until);
            next = match until() {
                true => None,
                false => shared.policy.next(shared, self.unit, shared.now()),
            };
        }
        let unit = &shared.units[usize::from(self.unit.0)];
        let nanos = start.elapsed().as_nanos() as u64;
        unit.busy
            .fetch_add(nanos, std::sync::atomic::Ordering::Relaxed);
    }

    /// Runs a task, and then whatever the policy hands back at once. A unit with a memory of its own
    /// looks one task ahead, so that its operands travel while this one runs.
    fn work(&mut self, shared: &Shared, task: TaskRef, until: &impl Fn() -> bool) {
        let ahead = shared.memories.is_some() && self.memory(shared) != MemoryId::HOST;
        let mut next = Some(task);
        while let Some(task) = next {
            let mut coming = None;
            if ahead {
                coming = shared.policy.next(shared, self.unit, shared.now());
            }
            self.execute(shared, task, coming);
            next = self.completion.complete(shared, task);
            if let Some(network) = &shared.network {
                network.pass_by(shared);
            }
            if let Some(t) = coming
                && let Some(handed) = next.replace(t)
            {
                shared.policy.ready(shared, None, &[handed], shared.now());
            }
            if let Some(task) = next
                && until()
            {
                // Somebody waits for this thread: leave the task to others.
                if shared.timed {
                    shared.policy.ended(shared, self.unit, task, shared.now());
                }
                shared.policy.ready(shared, None, &[task], shared.now());
                return;
            }
        }
    }

    /// Runs a task that an engine hands over, and accounts for it.
    pub(crate) fn run_for_engine(&mut self, shared: &Shared, task: TaskRef) {
        let start = std::time::Instant::now();
        self.execute(shared, task, None);
        let nanos = start.elapsed().as_nanos() as u64;
        let unit = &shared.units[usize::from(self.unit.0)];
        unit.busy
            .fetch_add(nanos, std::sync::atomic::Ordering::Relaxed);
        // Whom that made ready, the engine has been told.
        self.completion.complete(shared, task);
        self.settle(shared);
    }

    fn memory(&self, shared: &Shared) -> MemoryId {
        shared.memory(self.unit)
    }

    /// The unit's memory, whether it is in use or not.
    fn own_memory(&self, shared: &Shared) -> MemoryId {
        shared.units[usize::from(self.unit.0)].memory
    }

    /// Executes a task. The operands of the one that is `coming` are sent for once this one's are
    /// there, so that it does not take the room this one needs.
    fn execute(&mut self, shared: &Shared, task: TaskRef, coming: Option<TaskRef>) {
        // SAFETY: a task that has not completed belongs to a launch that has not ended.
        let instance = unsafe { Instance::of(task) };
        self.execute_in(shared, instance, task, coming);
        if let Some(heap) = &instance.heap {
            heap.release(task.task);
        }
    }

    fn execute_in(
        &mut self,
        shared: &Shared,
        instance: &Instance,
        task: TaskRef,
        coming: Option<TaskRef>,
    ) {
        if shared.is_failing() {
            if let Some(memories) = &shared.memories {
                memories.abandon(task);
            }
            return;
        }
        let unit = &shared.units[usize::from(self.unit.0)];
        if !unit.driver.executes() {
            let clock = || self.completion.writer().map_or(0, |w| w.clock.ticks());
            let start = clock();
            unit.driver.pass(instance.graph().class_of(task.task));
            let times = (start, start, clock());
            self.trace(instance, task.task, times, false);
            return;
        }
        match self.run_task(shared, instance, task.task, coming) {
            Err(error) => {
                shared.fail(error);
                if let Some(memories) = &shared.memories {
                    memories.abandon(task);
                }
            }
            Ok(Some(seconds)) if shared.timed && self.samples.len() < SAMPLES => {
                let class = instance.graph().tasks[task.task as usize].class;
                let graph = instance.graph().id;
                self.samples.push(Sample {
                    graph,
                    class,
                    unit: self.unit,
                    seconds,
                });
            }
            Ok(_) => {}
        }
    }

    /// Executes a task where its unit is or, if that has no room for it or is out of use, in the host's
    /// memory. Says how long its body took if that was the unit's own doing.
    fn run_task(
        &mut self,
        shared: &Shared,
        instance: &Instance,
        task: u32,
        coming: Option<TaskRef>,
    ) -> Result<Option<Seconds>, RunError> {
        let unit = &shared.units[usize::from(self.unit.0)];
        let memory = self.memory(shared);
        let mut cannot = None;
        let (graph, none) = (instance.graph(), RunError::NoImplementation);
        if memory == unit.memory {
            let code = instance.prepared.code(task, self.unit);
            let code = code.ok_or_else(|| none(graph.describe(task)))?;
            let here = (&*unit.driver, memory, code);
            match self.try_execute(shared, instance, task, coming, here) {
                Ok(seconds) => return Ok(Some(seconds)),
                Err(Refusal::Failed(error)) => return Err(error),
                Err(Refusal::Elsewhere(error)) => cannot = Some(error),
            }
        }
        if let Some(memories) = &shared.memories {
            let error = cannot.as_ref();
            memories.went_elsewhere(instance, task, unit.memory, error);
        }
        let Some(code) = instance.prepared.host_code(task) else {
            let unable = |m: &Memories| m.unable(unit.memory, graph.describe(task), None);
            let unable = shared.memories.as_ref().map(unable);
            return Err(cannot
                .or(unable)
                .unwrap_or_else(|| none(graph.describe(task))));
        };
        let host: (&dyn Driver, _, _) = (&CpuDriver, MemoryId::HOST, code);
        match self.try_execute(shared, instance, task, None, host) {
            Ok(_) => Ok(None),
            Err(Refusal::Failed(error) | Refusal::Elsewhere(error)) => Err(error),
        }
    }

    /// Executes a task by a driver, with its operands in a memory, and says how long its body took,
    /// transfers not counted. Where that cannot be, the task is as if it had not been tried.
    fn try_execute(
        &mut self,
        shared: &Shared,
        instance: &Instance,
        task: u32,
        coming: Option<TaskRef>,
        (driver, memory, (code, need)): (&dyn Driver, MemoryId, (Code<'_>, usize)),
    ) -> Result<Seconds, Refusal> {
        let graph = instance.graph();
        // Where operands need not be brought, a unit turns to a task when it begins.
        let turned = shared.memories.as_ref().and(self.completion.writer());
        let taken = turned.map(|p| p.clock.ticks());
        let record = &graph.tasks[task as usize];
        let hold = match &shared.memories {
            Some(memories) => Some(memories.acquire(instance, task, memory)?),
            None => None,
        };
        if let (Some(memories), Some(next)) = (&shared.memories, coming) {
            // SAFETY: the task has not run, so its launch has not ended.
            memories.prefetch(unsafe { Instance::of(next) }, next.task, memory);
        }
        let (accesses, arrays) = match (&hold, &instance.heap) {
            (Some(hold), _) => (hold.accesses(), hold.placed()),
            (None, None) => (graph.accesses_of(task), &*instance.placed),
            (None, Some(heap)) => {
                let placed = heap.place(graph, task, &instance.placed, &mut self.operands);
                placed.map_err(Refusal::Failed)?;
                (&*self.operands.accesses, &*self.operands.arrays)
            }
        };
        let job = Job {
            code,
            call: &graph.class_of(task).call,
            accesses,
            arrays,
            fresh: record.fresh,
        };
        let scratch = self.scratch.get(need);
        let mut run = || {
            // SAFETY: the task is ready, so all tasks it conflicts with have ended or wait for it; its
            // operands are in this memory, and `hold` keeps them there.
            unsafe { driver.execute(&job, scratch) }
        };
        if taken.is_some() {
            self.gaps.pause(); // Operands were brought: no steady gap in that.
        }
        let mut start = shared.now();
        let begun = shared
            .tracer
            .as_ref()
            .map_or(0, |t| self.gaps.start(&t.clock));
        let mut caught = std::panic::catch_unwind(AssertUnwindSafe(&mut run));
        if let (Ok(Err(DriverError::NoRoom { bytes, .. })), Some(memories)) =
            (&caught, &shared.memories)
            && memories.leave_room(memory, *bytes, &instance.prepared.needs)
        {
            start = shared.now();
            caught = std::panic::catch_unwind(AssertUnwindSafe(&mut run));
        }
        let end = self.completion.writer().map_or(0, |p| p.clock.ticks());
        let seconds = Seconds(shared.now().0 - start.0);
        let message = match caught {
            Ok(Ok(())) => None,
            Ok(Err(DriverError::Task(error))) => Some(error.to_string()),
            Ok(Err(error)) => {
                return Err(give_back(shared, hold, memory, error, graph.describe(task)));
            }
            Err(panic) => Some(format!("panicked: {}", panic_message(&*panic))),
        };
        if let Some(hold) = hold
            && !hold.release(message.is_none())
        {
            let lost = DriverError::Lost(crate::memory::DeviceLost(String::new()));
            return Err(give_back(shared, None, memory, lost, graph.describe(task)));
        }
        let fell_back = memory == MemoryId::HOST && memory != self.own_memory(shared);
        let times = (taken.unwrap_or(begun), begun, end);
        self.trace(instance, task, times, fell_back);
        match message {
            None => Ok(seconds),
            Some(message) => Err(Refusal::Failed(RunError::Task {
                task: graph.describe(task),
                message,
            })),
        }
    }

    /// Records a task that has ended, if anybody wants to know: when it was taken, begun and ended.
    #[inline]
    fn trace(
        &mut self,
        instance: &Instance,
        task: u32,
        (taken, start, end): (u64, u64, u64),
        fell_back: bool,
    ) {
        if self.completion.writer().is_some() {
            self.gaps.end = end;
            let times = Times { taken, start, end };
            self.completion.record(instance, task, times, fell_back);
        }
    }

    /// Accounts for everything done so far, before looking for work elsewhere.
    pub(crate) fn settle(&mut self, shared: &Shared) {
        self.completion.settle(shared);
        if !self.samples.is_empty() {
            shared.collect(&mut self.samples);
        }
    }
}

/// How a worker without a task passes its time.
#[derive(Default)]
struct Idle {
    since: Option<Instant>,
    /// Whether the last wait was short, and so the next one is expected to be.
    soon: bool,
}

impl Idle {
    /// Whether to look for a task again, after a moment; if not, it is time to sleep.
    fn goes_on(&mut self, shared: &Shared, looks: u32) -> bool {
        let Some(network) = &shared.network else {
            let again = looks < shared.looks(LOOKS);
            if again {
                crate::shared::relax(looks);
            }
            return again;
        };
        let since = *self.since.get_or_insert_with(Instant::now);
        network.help(shared);
        // What has just arrived may have made a task ready.
        if looks < shared.looks(2) {
            return true;
        }
        let most = match self.soon && network.is_waiting() {
            true => SOON,
            false => BRIEFLY,
        };
        let again = shared.looks(LOOKS) > 1 && since.elapsed() < most;
        match again {
            // Others may need this core meanwhile: those who load batches, say.
            true => crate::sync::thread::yield_now(),
            // From now on the communication thread alone sees to it.
            false if network.is_waiting() => network.wake(),
            false => {}
        }
        again
    }

    /// There is a task.
    fn ended(&mut self) {
        if let Some(since) = self.since.take() {
            self.soon = since.elapsed() < SOON;
        }
    }
}

/// A device could not execute a task: lets go of its operands, and takes the device out if it failed.
fn give_back(
    shared: &Shared,
    hold: Option<Hold<'_>>,
    memory: MemoryId,
    error: DriverError,
    task: String,
) -> Refusal {
    let Some(memories) = &shared.memories else {
        let message = error.to_string();
        return Refusal::Failed(RunError::Task { task, message });
    };
    // First the loss: what the task half wrote must not look current for a moment.
    if let DriverError::Lost(lost) = &error {
        memories.lose(memory, &lost.0);
    }
    if let Some(hold) = hold {
        hold.abandon();
    }
    Refusal::Elsewhere(memories.unable(memory, task, Some(&error)))
}
