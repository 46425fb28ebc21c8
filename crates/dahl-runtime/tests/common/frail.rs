//! A device made of host memory that fails when told to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use dahl_core::{Bytes, Seconds, UnitKind};
use dahl_runtime::DeviceSpec;
use dahl_runtime::driver::{CpuDriver, Driver, DriverError, Job};
use dahl_runtime::memory::{Backing, Buffer, Cargo, DeviceLost, Direction, HostDevice};

/// What is made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A task, after it has written its results; the device with it.
    Execute,
    /// A copy either way, which leaves rubbish where it was going; the device with it.
    Copy,
    /// An allocation, and the device with it.
    Allocate,
    /// An allocation, for want of room.
    Full,
    /// A task, for want of scratch memory.
    NoScratch,
}

/// When a device fails, and whether it has.
pub struct Fate {
    fault: Fault,
    /// How many more go well; negative if all do, or if one has failed.
    pub left: AtomicI64,
    pub lost: AtomicBool,
}

impl Fate {
    /// After so many went well; never if that is negative.
    pub fn new(fault: Fault, after: i64) -> Arc<Fate> {
        Arc::new(Fate {
            fault,
            left: AtomicI64::new(after),
            lost: AtomicBool::new(false),
        })
    }

    fn strikes(&self, fault: Fault) -> bool {
        self.fault == fault && self.left.fetch_sub(1, Ordering::Relaxed) == 0
    }

    fn lose(&self) -> DeviceLost {
        self.lost.store(true, Ordering::Relaxed);
        DeviceLost(format!("{:?}, as told", self.fault))
    }

    fn check(&self) -> Result<(), DeviceLost> {
        match self.lost.load(Ordering::Relaxed) {
            true => Err(DeviceLost(format!("{:?} before, as told", self.fault))),
            false => Ok(()),
        }
    }
}

pub struct Frail(Arc<Fate>, HostDevice);

impl Driver for Frail {
    fn kind(&self) -> UnitKind {
        UnitKind::CPU
    }

    unsafe fn execute(&self, job: &Job<'_>, scratch: &mut [u8]) -> Result<(), DriverError> {
        self.0.check()?;
        if self.0.strikes(Fault::NoScratch) {
            let why = "as told".into();
            return Err(DriverError::NoRoom { bytes: 8, why });
        }
        // SAFETY: passed on to the caller.
        unsafe { CpuDriver.execute(job, scratch)? };
        match self.0.strikes(Fault::Execute) {
            true => Err(self.0.lose().into()),
            false => Ok(self.0.check()?),
        }
    }
}

impl Backing for Frail {
    fn allocate(&self, bytes: usize) -> Result<Option<Box<dyn Buffer>>, DeviceLost> {
        self.0.check()?;
        if self.0.strikes(Fault::Allocate) {
            return Err(self.0.lose());
        }
        match self.0.strikes(Fault::Full) {
            true => Ok(None),
            false => self.1.allocate(bytes),
        }
    }

    unsafe fn copy(&self, cargo: &Cargo<'_>, way: Direction) -> Result<(), DeviceLost> {
        self.0.check()?;
        if self.0.strikes(Fault::Copy) {
            let to = match way {
                Direction::In => cargo.device,
                Direction::Out => cargo.host,
            };
            for r in cargo.ranges {
                // SAFETY: the destination of a copy, ours alone.
                unsafe { to.add(r.start).write_bytes(0xA5, r.len()) };
            }
            return Err(self.0.lose());
        }
        // SAFETY: passed on to the caller.
        unsafe { self.1.copy(cargo, way) }
    }

    fn duration(&self, bytes: Bytes, way: Direction) -> Seconds {
        self.1.duration(bytes, way)
    }
}

/// Copies that travel together are made one after another, so each may be the one that fails.
pub fn device(name: &str, fate: &Arc<Fate>, capacity: u64, latency: Duration) -> DeviceSpec {
    let host = || HostDevice::new(1e12, latency);
    DeviceSpec {
        name: name.into(),
        driver: Box::new(Frail(fate.clone(), host())),
        backing: Box::new(Frail(fate.clone(), host())),
        capacity: Bytes(capacity),
        links: [(1e12, Seconds(latency.as_secs_f64())); 2],
    }
}
