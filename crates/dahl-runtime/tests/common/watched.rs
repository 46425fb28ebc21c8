//! A device made of host memory whose copies are noted, so that tasks can wait for them: what happens beside a
//! task is then certain, however busy the machine is.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use dahl_core::{Bytes, Seconds};
use dahl_runtime::DeviceSpec;
use dahl_runtime::driver::CpuDriver;
use dahl_runtime::memory::{Backing, Broken, Buffer, Cargo, DeviceLost, Direction, HostDevice};

/// The batches that were copied, with their sizes, in their order.
#[derive(Default)]
pub struct Notes {
    made: Mutex<Vec<(Direction, usize)>>,
    more: Condvar,
}

impl Notes {
    pub fn all(&self) -> Vec<(Direction, usize)> {
        self.made.lock().unwrap().clone()
    }

    /// Waits until so many copies were made this way.
    pub fn wait(&self, way: Direction, copies: usize) {
        let few = |made: &mut Vec<(Direction, usize)>| {
            let there = made.iter().filter(|m| m.0 == way);
            there.map(|m| m.1).sum::<usize>() < copies
        };
        drop(
            self.more
                .wait_while(self.made.lock().unwrap(), few)
                .unwrap(),
        );
    }
}

struct Watched(HostDevice, Arc<Notes>);

impl Backing for Watched {
    fn allocate(&self, bytes: usize) -> Result<Option<Box<dyn Buffer>>, DeviceLost> {
        self.0.allocate(bytes)
    }

    unsafe fn copy(&self, _: &Cargo<'_>, _: Direction) -> Result<(), DeviceLost> {
        unreachable!("a single copy is a batch of one")
    }

    unsafe fn copy_all(&self, all: &[Cargo<'_>], way: Direction) -> Result<(), Broken> {
        // SAFETY: passed on to the caller.
        unsafe { self.0.copy_all(all, way)? };
        self.1.made.lock().unwrap().push((way, all.len()));
        self.1.more.notify_all();
        Ok(())
    }

    fn duration(&self, bytes: Bytes, way: Direction) -> Seconds {
        self.0.duration(bytes, way)
    }
}

pub fn device(notes: &Arc<Notes>, capacity: u64, bandwidth: f64, latency: Duration) -> DeviceSpec {
    DeviceSpec {
        name: "watched".into(),
        driver: Box::new(CpuDriver),
        backing: Box::new(Watched(HostDevice::new(bandwidth, latency), notes.clone())),
        capacity: Bytes(capacity),
        links: [(bandwidth, Seconds(latency.as_secs_f64())); 2],
    }
}
