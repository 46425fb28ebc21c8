//! Drivers: how a unit executes a task, once its operands are where the unit can reach them.
//!
//! A driver says what it can execute, and executes it. One with kernels of its own lists them
//! ([`Driver::kernels`]); one without runs the codelets' own implementations for its kind of unit. It knows nothing
//! of queues, dependencies or copies. [`NullDriver`] executes nothing, so that scheduling itself can be tested and
//! timed.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dahl_core::access::Access;
use dahl_core::graph::Class;
use dahl_core::operands::Placed;
use dahl_core::{Call, Implementation, KernelSet, Operands, TaskError, UnitKind};

use crate::memory::DeviceLost;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub enum Code<'a> {
    /// A codelet's own implementation, for drivers without kernels.
    Body(&'a Implementation),
    /// The driver's own kernel at this place of its set.
    Kernel(usize),
}

/// A task as a driver sees it.
pub struct Job<'a> {
    /// What to run.
    pub code: Code<'a>,
    /// Shapes, modes, element type and parameters.
    pub call: &'a Call,
    /// What it touches: parts of `arrays`.
    pub accesses: &'a [Access],
    /// Where the arrays are, in this unit's memory.
    pub arrays: &'a [Placed],
    /// Whether some operands must be filled with zeros first.
    pub fresh: bool,
}

/// Why a unit did not execute a task.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// The task is to blame: it would fail anywhere.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// There is no room for the scratch memory that it needs here. Nothing has been written yet.
    #[error("no room for {bytes} bytes of scratch memory: {why}")]
    NoRoom {
        /// What it needs.
        bytes: usize,
        /// What the device says.
        why: String,
    },
    /// The device is out of use.
    #[error(transparent)]
    Lost(#[from] DeviceLost),
}

/// Executes tasks on one kind of unit.
pub trait Driver: Send + Sync {
    /// The kind of unit it drives.
    fn kind(&self) -> UnitKind;

    /// What it can execute, if it has kernels of its own. The same every time, and for all drivers of a kind in a
    /// runtime. Without any, it must run the codelets' own implementations for its kind.
    fn kernels(&self) -> Option<&KernelSet> {
        None
    }

    /// The device's own name, where durations measured on one say nothing of another; else empty.
    fn device(&self) -> &str {
        ""
    }

    /// Whether tasks are really executed, so that their operands must be in place.
    fn executes(&self) -> bool {
        true
    }

    /// What a driver that does not execute tasks does instead of one.
    fn pass(&self, class: &Class) {
        let _ = class;
    }

    /// Executes a task; returns when its results can be used. `scratch` is the host memory that an implementation
    /// asked for; kernels get none.
    ///
    /// # Safety
    /// The contract of [`Operands::new`]: the operands are in place, and no conflicting task runs.
    unsafe fn execute(&self, job: &Job<'_>, scratch: &mut [u8]) -> Result<(), DriverError>;
}

/// Runs implementations on the calling thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuDriver;

impl Driver for CpuDriver {
    fn kind(&self) -> UnitKind {
        UnitKind::CPU
    }

    unsafe fn execute(&self, job: &Job<'_>, scratch: &mut [u8]) -> Result<(), DriverError> {
        let Code::Body(implementation) = job.code else {
            let message = "a kernel was given to a driver that has none";
            return Err(TaskError(message.into()).into());
        };
        let scratch = Cell::new(scratch);
        let params = &job.call.params;
        // SAFETY: passed on to the caller.
        let operands = unsafe { Operands::new(job.accesses, job.arrays, params, &scratch) };
        if job.fresh {
            operands.fill_fresh();
        }
        Ok((implementation.body)(&operands)?)
    }
}

/// Executes nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullDriver;

impl Driver for NullDriver {
    fn kind(&self) -> UnitKind {
        UnitKind::CPU
    }

    fn executes(&self) -> bool {
        false
    }

    unsafe fn execute(&self, _: &Job<'_>, _: &mut [u8]) -> Result<(), DriverError> {
        Ok(())
    }
}

/// Executes nothing, and takes the time that a task would: for networks and schedules that are to be timed without the
/// noise of computing, and on more units than there are cores.
#[derive(Clone)]
pub(crate) struct TimedDriver(pub(crate) TaskTime);

/// How long tasks of a class take.
pub(crate) type TaskTime = Arc<dyn Fn(&Class) -> Duration + Send + Sync>;

/// What a sleep may take longer than it should.
const OVERSLEPT: Duration = Duration::from_micros(100);

/// Tasks of a thread that are no further apart follow each other at once.
const AT_ONCE: Duration = Duration::from_micros(50);

/// The most that a task makes up for.
const MOST_LATE: Duration = Duration::from_millis(2);

thread_local! {
    /// When this thread's last task ended, and how much later than it should have: the next one makes up for it.
    static LATE: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

impl Driver for TimedDriver {
    fn kind(&self) -> UnitKind {
        UnitKind::CPU
    }

    fn executes(&self) -> bool {
        false
    }

    fn pass(&self, class: &Class) {
        let (begin, length) = (Instant::now(), (self.0)(class));
        let late = LATE.take().filter(|(end, _)| begin - *end < AT_ONCE);
        let late = late.map_or(Duration::ZERO, |(_, late)| late);
        let until = begin + length.saturating_sub(late);
        let left = || until.saturating_duration_since(Instant::now());
        if let Some(most) = left().checked_sub(OVERSLEPT) {
            std::thread::sleep(most);
        }
        while !left().is_zero() {
            std::thread::yield_now();
        }
        let end = Instant::now();
        let still = late.saturating_sub(length) + (end - until);
        LATE.set(Some((end, still.min(MOST_LATE))));
    }

    unsafe fn execute(&self, _: &Job<'_>, _: &mut [u8]) -> Result<(), DriverError> {
        Ok(())
    }
}

/// Scratch memory of one worker: grown when a graph that needs more is first met.
#[derive(Debug, Default)]
pub struct Scratch {
    block: Option<dahl_core::arena::Block>,
}

impl Scratch {
    /// At least `bytes`, aligned, content arbitrary; empty if there is no more memory.
    pub fn get(&mut self, bytes: usize) -> &mut [u8] {
        if self.block.as_ref().map_or(0, |b| b.len()) < bytes {
            self.block = None;
            self.block = dahl_core::arena::Block::new(bytes);
        }
        match &self.block {
            // SAFETY: the block's bytes are initialised (zeroed at first) and ours alone.
            Some(b) => unsafe { std::slice::from_raw_parts_mut(b.as_ptr(), b.len()) },
            None => &mut [],
        }
    }
}
