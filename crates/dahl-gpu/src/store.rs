//! What all devices keep the same way: a pool of memory, scratch memory from it, and failures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dahl_runtime::memory::Cargo;

use crate::error::GpuError;
use crate::fault::{Fault, Faults};
use crate::pool::{Pool, Usage};
use crate::tensor::{Base, Tensor};

/// The memory of a device whose buffers are `S`.
pub(crate) struct Store<S> {
    /// The device's name.
    pub name: String,
    pool: Mutex<Pool<S>>,
    /// Scratch memory, grown when a task needs more: address and length.
    scratch: Mutex<Option<(usize, usize)>>,
    /// What went wrong, or is to.
    pub faults: Faults,
    counts: [AtomicU64; 6],
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// See [`Stats::buffers`].
    Buffers,
    /// See [`Stats::programs`].
    Programs,
    /// See [`Stats::launches`].
    Launches,
    /// See [`Stats::waits`].
    Waits,
    /// See [`Stats::copies`].
    Copies,
    /// See [`Stats::batches`].
    Batches,
}

/// What a device has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Buffers that its driver was asked for.
    pub buffers: u64,
    /// Programs compiled or loaded.
    pub programs: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Times somebody waited for kernels: once per task.
    pub waits: u64,
    /// Copies between host and device.
    pub copies: u64,
    /// Times that some were sent on their way, together.
    pub batches: u64,
}

/// Locks; what is behind these locks stays consistent wherever a panic could come from.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S> Store<S> {
    /// At most `limit` bytes in buffers of at most `most`.
    pub(crate) fn new(name: String, limit: usize, most: usize) -> Self {
        Store {
            name,
            pool: Mutex::new(Pool::new(limit, most)),
            scratch: Mutex::new(None),
            faults: Faults::default(),
            counts: [0; 6].map(AtomicU64::new),
        }
    }

    /// Counts one more.
    pub(crate) fn count(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// What was counted.
    pub(crate) fn stats(&self) -> Stats {
        let [buffers, programs, launches, waits, copies, batches] =
            std::array::from_fn(|i| self.counts[i].load(Ordering::Relaxed));
        Stats {
            buffers,
            programs,
            launches,
            waits,
            copies,
            batches,
        }
    }

    /// What the pool holds.
    pub(crate) fn usage(&self) -> Usage {
        lock(&self.pool).usage()
    }

    /// The address of so many bytes; `make` makes a buffer and tells its address.
    pub(crate) fn allocate(
        &self,
        bytes: usize,
        make: impl FnOnce(usize) -> Result<(S, usize), GpuError>,
    ) -> Result<usize, GpuError> {
        let mut pool = lock(&self.pool);
        let usage = pool.usage();
        let found = match self.faults.strikes(Fault::Allocate) {
            true => None,
            false => pool.allocate(bytes, |len| {
                self.count(Count::Buffers);
                make(len)
            })?,
        };
        found.ok_or_else(|| GpuError::OutOfMemory {
            device: self.name.clone(),
            bytes,
            used: usage.used,
            limit: usage.limit,
        })
    }

    /// Takes memory back.
    pub(crate) fn release(&self, address: usize) {
        lock(&self.pool).release(address);
    }

    /// The address of at least so many bytes of scratch memory, the same until more are asked for. One
    /// task at a time may use it.
    pub(crate) fn scratch(
        &self,
        bytes: usize,
        mut make: impl FnMut(usize) -> Result<(S, usize), GpuError>,
    ) -> Result<usize, GpuError> {
        let mut scratch = lock(&self.scratch);
        if let Some((at, len)) = *scratch {
            if len >= bytes {
                return Ok(at);
            }
            *scratch = None;
            self.release(at);
        }
        // Generous, so that a few tasks settle it; exact where memory is short.
        let wish = bytes.next_power_of_two().max(1 << 16);
        let got = self.allocate(wish, &mut make).map(|at| (at, wish));
        let got = got.or_else(|_| self.allocate(bytes, &mut make).map(|at| (at, bytes)))?;
        *scratch = Some(got);
        Ok(got.0)
    }

    /// Calls `see` with the buffer a tensor begins in, and how many bytes in.
    pub(crate) fn find<R>(
        &self,
        t: &Tensor,
        scratch: usize,
        see: impl FnOnce(&S, usize) -> R,
    ) -> Result<R, GpuError> {
        let address = match t.base {
            Base::At(a) => a,
            Base::Scratch(offset) => scratch + offset,
        };
        let pool = lock(&self.pool);
        let found = pool.find(address).map(|(s, o)| see(s, o));
        found.ok_or_else(|| {
            let name = &self.name;
            GpuError::Unsupported(format!("an operand is not in the memory of {name}"))
        })
    }

    /// Begins to copy several arrays: each in the buffer that `see` shows, and how many bytes in. They come
    /// up to the first that must not begin, and with why that is.
    pub(crate) fn begin_copies<R>(
        &self,
        all: &[Cargo<'_>],
        what: &str,
        see: impl Fn(&S, usize) -> R,
    ) -> (Vec<R>, Result<(), GpuError>) {
        let mut places = Vec::with_capacity(all.len());
        for cargo in all {
            let at = Tensor::contiguous(Base::At(cargo.device as usize), [1; 4]);
            let begun = self.begin(Fault::Copy, what);
            match begun.and_then(|()| self.find(&at, 0, &see)) {
                Ok(place) => places.push(place),
                Err(e) => return (places, Err(e)),
            }
            self.count(Count::Copies);
        }
        (places, Ok(()))
    }

    /// Refuses work after a failure, and fails if a test wants it to.
    pub(crate) fn begin(&self, fault: Fault, what: &str) -> Result<(), GpuError> {
        self.faults.check(&self.name)?;
        if self.faults.strikes(fault) {
            return self.faults.lost(Err(GpuError::Call {
                device: self.name.clone(),
                what: what.into(),
                why: "injected by a test".into(),
            }));
        }
        Ok(())
    }
}
