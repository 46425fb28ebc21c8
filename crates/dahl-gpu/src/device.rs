//! Devices, and how the runtime drives one.
//!
//! [`Device`] is what OpenCL and CUDA implement: run launches, deal out memory, copy. On top of it,
//! [`GpuDriver`] executes tasks and [`GpuMemory`] keeps copies of arrays, whichever library is below.
//!
//! The driver lists its kernels, one for each recipe. A task's operands are addresses in the device's memory, which
//! its pool knows; they become tensors here and are never followed by the host.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use dahl_core::{Access, Bytes, DType, Kernel, KernelSet, Seconds, TaskError, UnitKind};
use dahl_runtime::driver::{Code, Driver, DriverError, Job};
use dahl_runtime::memory::{Backing, Broken, Buffer, Cargo, DeviceLost, Direction};

use crate::error::GpuError;
use crate::launch::{LIMIT, Steps, Task};
use crate::measure;
use crate::pool::{ALIGN, Usage};
use crate::recipes::{self, Recipe};
use crate::store::Stats;
use crate::tensor::{Base, Tensor};
use crate::tuning::Tuning;

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Most bytes of the device's memory to take; three quarters of it unless set.
    pub limit: Option<usize>,
    /// Where to keep compiled programs; nowhere unless set.
    pub cache: Option<PathBuf>,
    /// Most items of a group, if fewer than the device allows: to try how kernels fare on smaller ones.
    pub group: Option<usize>,
}

/// A device.
pub trait Device: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Its sizes of work-groups.
    fn tuning(&self) -> Tuning;

    /// The name of the library it has for products of matrices, if it has one.
    fn blas(&self) -> Option<&'static str> {
        None
    }

    /// Executes launches in order; returns when their results can be used.
    fn run(&self, steps: &Steps) -> Result<(), GpuError>;

    /// Compiles what tasks of this type need, if that has not happened yet: so that nobody measures it.
    fn prepare(&self, dtype: DType) -> Result<(), GpuError>;

    /// The address of so many bytes of its memory.
    fn allocate(&self, bytes: usize) -> Result<usize, GpuError>;

    /// Takes memory back.
    fn release(&self, address: usize);

    /// Copies byte ranges of arrays between its memory and the host, started together. Returns when they
    /// have arrived; a failure comes with how many arrays have, from the first on.
    ///
    /// # Safety
    /// The ranges are inside both; nothing else writes them, nor reads the destination, meanwhile.
    unsafe fn copy_all(&self, all: &[Cargo<'_>], way: Direction) -> Result<(), (usize, GpuError)>;

    /// Copies byte ranges between memory at `address` and the host, at the same offsets on both sides.
    ///
    /// # Safety
    /// As for [`Device::copy_all`].
    unsafe fn copy(
        &self,
        address: usize,
        host: *mut u8,
        ranges: &[Range<usize>],
        way: Direction,
    ) -> Result<(), GpuError> {
        let device = address as *mut u8;
        let cargo = Cargo {
            device,
            host,
            ranges,
        };
        // SAFETY: passed on to the caller.
        unsafe { self.copy_all(&[cargo], way) }.map_err(|(_, e)| e)
    }

    /// What its pool holds.
    fn usage(&self) -> Usage;

    /// What it has done so far.
    fn stats(&self) -> Stats;

    /// The failure after which it does nothing more, if there was one.
    fn lost(&self) -> Option<String>;
}

/// The kernels of every device: this crate's, or with products of matrices by the library of this name.
pub fn kernels(blas: Option<&'static str>) -> KernelSet {
    let one = |&(codelet, _): &(&'static str, Recipe)| {
        let blas = blas.filter(|_| recipes::PRODUCTS.contains(&codelet));
        Kernel::new(codelet, blas.unwrap_or("gpu"))
    };
    recipes::TABLE.iter().map(one).collect()
}

/// Executes tasks on a device.
pub struct GpuDriver {
    device: Arc<dyn Device>,
    kernels: KernelSet,
    /// Whether products are computed by the device's library.
    blas: bool,
}

impl GpuDriver {
    /// The driver of a device, with products by its library if it has one.
    pub fn new(device: Arc<dyn Device>) -> Self {
        let blas = device.blas();
        GpuDriver {
            kernels: kernels(blas),
            blas: blas.is_some(),
            device,
        }
    }

    /// The driver of a device that uses this crate's kernels only, as beside a device without a library.
    pub(crate) fn without_library(device: Arc<dyn Device>) -> Self {
        GpuDriver {
            kernels: kernels(None),
            blas: false,
            device,
        }
    }

    /// The launches of a task; its error if the kernels cannot express it.
    fn steps(&self, job: &Job<'_>) -> Result<Steps, TaskError> {
        let recipe = match job.code {
            Code::Kernel(place) => recipes::TABLE.get(place).map(|&(name, r)| (name, r)),
            Code::Body(_) => None,
        };
        let Some((codelet, recipe)) = recipe else {
            let message = "a GPU executes its own kernels only";
            return Err(TaskError(message.into()));
        };
        let tensors: Vec<Tensor> = job.accesses.iter().map(|a| tensor(job, a)).collect();
        let modes: Vec<_> = job.accesses.iter().map(|a| a.mode).collect();
        if let Some(t) = tensors.iter().find(|t| t.span() >= LIMIT) {
            let n = t.span();
            return Err(TaskError(format!(
                "an operand spans {n} elements, GPU kernels count to {LIMIT}: split it"
            )));
        }
        let mut steps = Steps::new(job.call.dtype, self.device.tuning());
        if job.fresh {
            // Together with the task's own: to wait for them alone would cost as much again.
            for (access, to) in job.accesses.iter().zip(&tensors) {
                if let Some(merge) = access.fresh {
                    recipes::fill(*to, merge.identity(), &mut steps);
                }
            }
        }
        steps.blas = self.blas && recipes::PRODUCTS.contains(&codelet);
        let start = job.accesses[0].region.start();
        let task = Task {
            tensors: &tensors,
            modes: &modes,
            params: &job.call.params,
            first: (0..4).map(|a| start[a] * tensors[0].strides[a]).sum(),
        };
        recipe(&task, &mut steps);
        Ok(steps)
    }

    /// Whose fault a failure is.
    fn sort(&self, failure: GpuError) -> DriverError {
        let why = failure.to_string();
        match (self.device.lost(), failure) {
            (Some(_), _) => DriverError::Lost(DeviceLost(why)),
            (None, GpuError::OutOfMemory { bytes, .. }) => DriverError::NoRoom { bytes, why },
            // The driver refused something, memory most likely, and works on.
            (None, GpuError::Call { .. }) => DriverError::NoRoom { bytes: 0, why },
            _ => DriverError::Task(TaskError(why)),
        }
    }
}

/// An operand in the device's memory.
fn tensor(job: &Job<'_>, access: &Access) -> Tensor {
    let array = &job.arrays[access.array as usize];
    let strides = array.shape.strides4();
    let start = access.region.start();
    let skip: usize = (0..4).map(|a| start[a] * strides[a]).sum();
    Tensor {
        base: Base::At(array.base.addr() + skip * array.dtype.size()),
        dims: access.region.dims4(),
        strides,
    }
}

impl Driver for GpuDriver {
    fn kind(&self) -> UnitKind {
        UnitKind::GPU
    }

    fn kernels(&self) -> Option<&KernelSet> {
        Some(&self.kernels)
    }

    fn device(&self) -> &str {
        self.device.name()
    }

    unsafe fn execute(&self, job: &Job<'_>, _: &mut [u8]) -> Result<(), DriverError> {
        let steps = self.steps(job)?;
        self.device.run(&steps).map_err(|e| self.sort(e))
    }
}

/// How fast bytes travel between host and device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpeed {
    /// Bytes per second.
    pub bandwidth: f64,
    /// Time before the first byte arrives.
    pub latency: Seconds,
}

/// A device's memory, as the runtime sees it.
pub struct GpuMemory {
    device: Arc<dyn Device>,
    /// To the device, and back.
    links: [LinkSpeed; 2],
}

struct Piece {
    device: Arc<dyn Device>,
    address: usize,
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.device.release(self.address);
    }
}

impl Buffer for Piece {
    fn base(&self) -> *mut u8 {
        self.address as *mut u8
    }
}

impl GpuMemory {
    /// The memory of a device behind links of these speeds, to the device and back.
    pub fn new(device: Arc<dyn Device>, links: [LinkSpeed; 2]) -> Self {
        GpuMemory { device, links }
    }

    /// The memory of a device, its links measured: a small and a large copy each way, the best of a few.
    pub fn measured(device: Arc<dyn Device>) -> Result<Self, GpuError> {
        let links = [
            measure::link(&*device, Direction::In)?,
            measure::link(&*device, Direction::Out)?,
        ];
        Ok(GpuMemory { device, links })
    }

    /// The links, to the device and back.
    pub fn links(&self) -> [LinkSpeed; 2] {
        self.links
    }
}

impl Backing for GpuMemory {
    fn allocate(&self, bytes: usize) -> Result<Option<Box<dyn Buffer>>, DeviceLost> {
        if let Some(why) = self.device.lost() {
            return Err(DeviceLost(why));
        }
        // Whatever the reason, there is no room just now.
        let Ok(address) = self.device.allocate(bytes) else {
            return Ok(None);
        };
        Ok(Some(Box::new(Piece {
            device: self.device.clone(),
            address,
        })))
    }

    fn footprint(&self, bytes: usize) -> usize {
        bytes.max(1).next_multiple_of(ALIGN)
    }

    fn total(&self) -> Option<u64> {
        Some(self.device.usage().limit as u64)
    }

    unsafe fn copy(&self, cargo: &Cargo<'_>, way: Direction) -> Result<(), DeviceLost> {
        // SAFETY: passed on to the caller.
        let copied = unsafe { self.copy_all(std::slice::from_ref(cargo), way) };
        copied.map_err(|broken| broken.lost)
    }

    unsafe fn copy_all(&self, all: &[Cargo<'_>], way: Direction) -> Result<(), Broken> {
        // SAFETY: passed on to the caller.
        let copied = unsafe { self.device.copy_all(all, way) };
        copied.map_err(|(arrived, e)| Broken {
            arrived,
            lost: DeviceLost(e.to_string()),
        })
    }

    fn duration(&self, bytes: Bytes, way: Direction) -> Seconds {
        let link = &self.links[way as usize];
        Seconds(link.latency.0 + bytes.0 as f64 / link.bandwidth)
    }
}
