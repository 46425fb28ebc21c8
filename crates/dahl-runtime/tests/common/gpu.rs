//! A GPU made of host memory: it runs only what is made for GPUs, by the CPU, behind a link of set speed.

use std::time::Duration;

use dahl_core::{Bytes, Seconds, UnitKind};
use dahl_runtime::DeviceSpec;
use dahl_runtime::driver::{CpuDriver, Driver, DriverError, Job};
use dahl_runtime::memory::HostDevice;

struct Gpu;

impl Driver for Gpu {
    fn kind(&self) -> UnitKind {
        UnitKind::GPU
    }

    unsafe fn execute(&self, job: &Job<'_>, scratch: &mut [u8]) -> Result<(), DriverError> {
        // SAFETY: passed on to the caller.
        unsafe { CpuDriver.execute(job, scratch) }
    }
}

/// One of these, with room for a megabyte.
pub fn gpu(bandwidth: f64, latency: Duration) -> DeviceSpec {
    DeviceSpec {
        name: "gpu".into(),
        driver: Box::new(Gpu),
        backing: Box::new(HostDevice::new(bandwidth, latency)),
        capacity: Bytes(1 << 20),
        links: [(bandwidth, Seconds(latency.as_secs_f64())); 2],
    }
}
