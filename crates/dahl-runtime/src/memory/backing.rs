//! Backings: where copies of arrays outside the host's RAM are kept, and how bytes get there.
//!
//! A GPU's backing allocates device memory and starts its copy engine. [`HostDevice`] behaves like
//! one and needs none: a separate allocation, reached only by explicit copies that take as long as the
//! bandwidth and latency it was given; those that travel together pay the latency once.

use std::ops::Range;
use std::time::{Duration, Instant};

use dahl_core::{Bytes, Link, MemoryId, Seconds};

use crate::sync::{Mutex, lock};

/// Memory that a backing allocated.
pub trait Buffer: Send + Sync {
    /// The address by which units of this memory know it.
    fn base(&self) -> *mut u8;
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the host to the device.
    In,
    /// From the device to the host.
    Out,
}

/// A device that takes no more work, and why. What its memory held is not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DeviceLost(pub String);

/// Byte ranges of one array to copy, at the same offsets on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Cargo<'a> {
    /// The address of the array on the device, see [`Buffer::base`].
    pub device: *mut u8,
    /// Its address in the host.
    pub host: *mut u8,
    /// The bytes.
    pub ranges: &'a [Range<usize>],
}

impl Cargo<'_> {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        self.ranges.iter().map(Range::len).sum::<usize>() as u64
    }
}

/// A device that was lost while it copied several arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// How many have arrived: so many from the first on, and no other.
    pub arrived: usize,
    /// Why not all.
    pub lost: DeviceLost,
}

/// A memory that is not the host's.
///
/// An error of any of its functions is the device's last word: it is taken out, and asked for nothing
/// more but to release its buffers.
pub trait Backing: Send + Sync {
    /// Room for so many bytes, or `None` if there is none just now.
    fn allocate(&self, bytes: usize) -> Result<Option<Box<dyn Buffer>>, DeviceLost>;

    /// Bytes that room for so many takes, alignment included: what a capacity counts.
    fn footprint(&self, bytes: usize) -> usize {
        bytes
    }

    /// Bytes that the device deals out in all, copies and scratch memory of tasks together; `None` if its
    /// capacity is for copies alone.
    fn total(&self) -> Option<u64> {
        None
    }

    /// Copies byte ranges. Returns when they have arrived, or when none of them travels any more.
    ///
    /// # Safety
    /// The ranges are inside a buffer of this backing and inside the host's array; nothing else writes
    /// them, nor reads the destination, meanwhile.
    unsafe fn copy(&self, cargo: &Cargo<'_>, way: Direction) -> Result<(), DeviceLost>;

    /// Copies byte ranges of several arrays, as if one array after another. A device that can start them
    /// all at once, and wait once, saves the latency of all but one.
    ///
    /// # Safety
    /// As for [`Backing::copy`], of each.
    unsafe fn copy_all(&self, all: &[Cargo<'_>], way: Direction) -> Result<(), Broken> {
        for (arrived, cargo) in all.iter().enumerate() {
            // SAFETY: passed on to the caller.
            let copied = unsafe { self.copy(cargo, way) };
            copied.map_err(|lost| Broken { arrived, lost })?;
        }
        Ok(())
    }

    /// How long a copy is expected to take.
    fn duration(&self, bytes: Bytes, way: Direction) -> Seconds;
}

/// A device made of host memory.
#[derive(Debug)]
pub struct HostDevice {
    /// Bytes per second, each way.
    pub bandwidth: f64,
    /// Time before the first byte.
    pub latency: Duration,
    /// One copy at a time and direction, as on a real link.
    busy: [Mutex<()>; 2],
}

impl HostDevice {
    /// A device behind a link of this speed.
    pub fn new(bandwidth: f64, latency: Duration) -> Self {
        HostDevice {
            bandwidth,
            latency,
            busy: [Mutex::new(()), Mutex::new(())],
        }
    }

    /// Its links, for the machine's description.
    pub(crate) fn links(&self, device: MemoryId) -> [Link; 2] {
        let latency = Seconds(self.latency.as_secs_f64());
        let link = |from, to| Link::new(from, to, self.bandwidth, latency);
        [link(MemoryId::HOST, device), link(device, MemoryId::HOST)]
    }
}

impl Buffer for dahl_core::arena::Block {
    fn base(&self) -> *mut u8 {
        self.as_ptr()
    }
}

impl Backing for HostDevice {
    fn allocate(&self, bytes: usize) -> Result<Option<Box<dyn Buffer>>, DeviceLost> {
        let block = dahl_core::arena::Block::new(bytes);
        Ok(block.map(|b| Box::new(b) as Box<dyn Buffer>))
    }

    unsafe fn copy(&self, cargo: &Cargo<'_>, way: Direction) -> Result<(), DeviceLost> {
        // SAFETY: passed on to the caller.
        let copied = unsafe { self.copy_all(std::slice::from_ref(cargo), way) };
        copied.map_err(|broken| broken.lost)
    }

    unsafe fn copy_all(&self, all: &[Cargo<'_>], way: Direction) -> Result<(), Broken> {
        let _one_at_a_time = lock(&self.busy[way as usize]);
        let start = Instant::now();
        for cargo in all {
            for r in cargo.ranges {
                // SAFETY: by contract the range is valid on both sides and ours alone.
                unsafe {
                    let (device, host) = (cargo.device.add(r.start), cargo.host.add(r.start));
                    match way {
                        Direction::In => std::ptr::copy_nonoverlapping(host, device, r.len()),
                        Direction::Out => std::ptr::copy_nonoverlapping(device, host, r.len()),
                    }
                }
            }
        }
        let bytes = all.iter().map(Cargo::bytes).sum();
        let due = Duration::from_secs_f64(self.duration(Bytes(bytes), way).0);
        if let Some(rest) = due.checked_sub(start.elapsed())
            && !cfg!(feature = "shuttle")
        {
            std::thread::sleep(rest);
        }
        Ok(())
    }

    fn duration(&self, bytes: Bytes, _: Direction) -> Seconds {
        Seconds(self.latency.as_secs_f64() + bytes.0 as f64 / self.bandwidth)
    }
}
