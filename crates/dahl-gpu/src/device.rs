//! Devices, and how the runtime drives one.
//!
//! [`Device`] is what OpenCL and CUDA implement: run launches, deal out memory, copy. On top of it,
//! [`GpuDriver`] executes tasks and [`GpuMemory`] keeps copies of arrays, whichever library is below.
//!
//! An operand reaches an implementation as an address that the host must not follow: the device's pool
//! knows which buffer it means. An implementation of kind `gpu` asks [`current`] for the device, which
//! the driver sets while a task runs on its thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use dahl_core::{Bytes, DType, Implementation, Operands, Seconds, TaskError, UnitKind};
use dahl_runtime::driver::{Driver, DriverError, Job};
use dahl_runtime::memory::{Backing, Broken, Buffer, Cargo, DeviceLost, Direction};

use crate::error::GpuError;
use crate::launch::{LIMIT, Launch, Steps, Task};
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

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Device>>> = const { RefCell::new(None) };
    /// Launches that go before those of the task.
    static FIRST: RefCell<Vec<Launch>> = const { RefCell::new(Vec::new()) };
    /// What went wrong on the current device, in more detail than a task's error has.
    static FAILURE: RefCell<Option<GpuError>> = const { RefCell::new(None) };
}

/// Calls `f` with the device whose driver runs a task on this thread.
pub fn current<R>(f: impl FnOnce(&dyn Device) -> R) -> Option<R> {
    CURRENT.with_borrow(|d| d.as_deref().map(f))
}

/// Sets the thread's device until dropped.
struct Bound;

impl Bound {
    fn new(device: &Arc<dyn Device>) -> Self {
        CURRENT.set(Some(device.clone()));
        FAILURE.set(None);
        FIRST.set(Vec::new());
        Bound
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        CURRENT.set(None);
    }
}

fn tensor(ops: &Operands<'_>, i: usize) -> Tensor {
    // The views are asked where they are and never looked into.
    let (at, dims, strides) = match ops.dtype(i) {
        DType::F32 => {
            let v = ops.read::<f32>(i);
            (v.as_ptr() as usize, v.dims(), v.strides())
        }
        DType::F64 => {
            let v = ops.read::<f64>(i);
            (v.as_ptr() as usize, v.dims(), v.strides())
        }
    };
    Tensor {
        base: Base::At(at),
        dims,
        strides,
    }
}

/// Executes a recipe on the current device.
fn execute(recipe: Recipe, blas: bool, ops: &Operands<'_>) -> Result<(), TaskError> {
    let tensors: Vec<Tensor> = (0..ops.len()).map(|i| tensor(ops, i)).collect();
    let modes: Vec<_> = (0..ops.len()).map(|i| ops.mode(i)).collect();
    if let Some(t) = tensors.iter().find(|t| t.span() >= LIMIT) {
        let n = t.span();
        return Err(TaskError(format!(
            "an operand spans {n} elements, GPU kernels count to {LIMIT}: split it"
        )));
    }
    let (start, _) = ops.origin(0);
    let task = Task {
        tensors: &tensors,
        modes: &modes,
        params: ops.params(),
        first: (0..4).map(|a| start[a] * tensors[0].strides[a]).sum(),
    };
    current(|device| {
        let mut steps = Steps::new(ops.dtype(0), device.tuning());
        steps.blas = blas;
        recipe(&task, &mut steps);
        steps.launches.splice(0..0, FIRST.take());
        device.run(&steps)
    })
    .unwrap_or_else(|| {
        Err(GpuError::Unsupported(
            "a GPU implementation was run outside its driver".into(),
        ))
    })
    .map_err(|e| {
        let said = TaskError(e.to_string());
        FAILURE.set(Some(e));
        said
    })
}

/// The GPU implementation of a codelet, if there is one: by this crate's kernels, or with products by
/// the library of this name.
pub fn implementation(codelet: &str, blas: Option<&'static str>) -> Option<Implementation> {
    let recipe = recipes::by_name(codelet)?;
    let blas = blas.filter(|_| recipes::PRODUCTS.contains(&codelet));
    let with_blas = blas.is_some();
    Some(Implementation {
        name: blas.unwrap_or("gpu"),
        kind: UnitKind::GPU,
        supports: |_| true,
        weight: |_| 1.0,
        scratch: |_| 0,
        body: Arc::new(move |ops| execute(recipe, with_blas, ops)),
    })
}

/// Executes tasks on a device.
pub struct GpuDriver {
    device: Arc<dyn Device>,
    implementations: HashMap<&'static str, Implementation>,
}

impl GpuDriver {
    /// The driver of a device.
    pub fn new(device: Arc<dyn Device>) -> Self {
        let blas = device.blas();
        let all = recipes::TABLE.iter();
        let all = all.filter_map(|(name, _)| Some((*name, implementation(name, blas)?)));
        GpuDriver {
            implementations: all.collect(),
            device,
        }
    }

    /// Whose fault a failure is.
    fn sort(&self, said: TaskError, failure: Option<GpuError>) -> DriverError {
        let why = said.0.clone();
        match (self.device.lost(), failure) {
            (Some(_), _) => DriverError::Lost(DeviceLost(why)),
            (None, Some(GpuError::OutOfMemory { bytes, .. })) => DriverError::NoRoom { bytes, why },
            // The driver refused something, memory most likely, and works on.
            (None, Some(GpuError::Call { .. })) => DriverError::NoRoom { bytes: 0, why },
            _ => DriverError::Task(said),
        }
    }

    /// How this unit executes a codelet.
    pub fn implementation(&self, codelet: &str) -> Option<&Implementation> {
        self.implementations.get(codelet)
    }
}

impl Driver for GpuDriver {
    fn kind(&self) -> UnitKind {
        UnitKind::GPU
    }

    fn device(&self) -> &str {
        self.device.name()
    }

    unsafe fn execute(&self, job: &Job<'_>, scratch: &mut [u8]) -> Result<(), DriverError> {
        let _bound = Bound::new(&self.device);
        let scratch = std::cell::Cell::new(scratch);
        // SAFETY: passed on to the caller. No element is touched from the host.
        let operands = unsafe { Operands::new(job.accesses, job.arrays, job.params, &scratch) };
        if job.fresh {
            let mut steps = Steps::new(operands.dtype(0), self.device.tuning());
            for (i, access) in job.accesses.iter().enumerate() {
                if let Some(merge) = access.fresh {
                    recipes::fill(tensor(&operands, i), merge.identity(), &mut steps);
                }
            }
            // Together with the task's own: to wait for them alone would cost as much again.
            FIRST.set(steps.launches);
        }
        let done = (job.implementation.body)(&operands);
        done.map_err(|said| self.sort(said, FAILURE.take()))
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
