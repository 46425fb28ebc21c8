//! A CUDA device: its context, two streams, modules and memory.
//!
//! As the OpenCL device, on NVIDIA's driver: one thread computes at a time, copies go by the other
//! stream through pinned memory, and the caller waits for an event.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use cudarc::driver::result as cu;
use cudarc::driver::sys::{CUcontext, CUdevice, CUdevice_attribute as Attribute, CUstream};
use dahl_core::DType;
use dahl_runtime::memory::{Cargo, Direction};

use super::blas::Blas;
use super::library::{blas_present, driver_present};
use super::memory::{Slab, Staging};
use super::module::Module;
use crate::device::{Device, Settings};
use crate::error::GpuError;
use crate::fault::Fault;
use crate::launch::{BLAS, Launch, Steps};
use crate::pool::Usage;
use crate::store::{Count, Stats, Store, lock};
use crate::tensor::Tensor;
use crate::tuning::Tuning;

/// A device, described.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Info {
    /// Its name.
    pub name: String,
    /// Bytes of its memory.
    pub memory: usize,
    /// Its compute capability.
    pub capability: (i32, i32),
    /// Multiprocessors.
    pub units: usize,
    /// Highest clock, in MHz.
    pub clock: usize,
    /// Most items of a group.
    pub group: usize,
    /// Bytes of shared memory of a group.
    pub local: usize,
    pub(super) device: CUdevice,
}

/// Names the device and the call of an error.
pub(super) fn call<T>(
    device: &str,
    what: &str,
    result: Result<T, cu::DriverError>,
) -> Result<T, GpuError> {
    result.map_err(|e| GpuError::Call {
        device: device.into(),
        what: what.into(),
        why: e.to_string(),
    })
}

/// All devices, in the driver's order.
pub(crate) fn devices() -> Result<Vec<Info>, GpuError> {
    driver_present()?;
    call("CUDA", "starting the driver", cu::init())?;
    let count = call("CUDA", "counting devices", cu::device::get_count())?;
    (0..count)
        .map(|i| call(&format!("cuda:{i}"), "describing it", describe(i)))
        .collect()
}

fn describe(number: i32) -> Result<Info, cu::DriverError> {
    let device = cu::device::get(number)?;
    let attribute = |what: Attribute| {
        // SAFETY: a device that exists.
        unsafe { cu::device::get_attribute(device, what) }
    };
    Ok(Info {
        name: cu::device::get_name(device)?,
        // SAFETY: as above.
        memory: unsafe { cu::device::total_mem(device)? },
        capability: (
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        units: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.max(0) as usize,
        clock: attribute(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?.max(0) as usize / 1000,
        group: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?.max(1) as usize,
        local: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?.max(0)
            as usize,
        device,
    })
}

/// The context of a device, kept alive, and current in every thread that uses it.
pub(super) struct Context {
    pub raw: CUcontext,
    device: CUdevice,
}

// SAFETY: contexts and streams may be used by any thread that has made the context current.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Makes it the calling thread's.
    pub(super) fn bind(&self) -> Result<(), cu::DriverError> {
        // SAFETY: retained as long as this value.
        unsafe { cu::ctx::set_current(self.raw) }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once in `CudaDevice::with`.
        let _ = unsafe { cu::primary_ctx::release(self.device) };
    }
}

/// A stream, released when dropped.
struct Stream {
    raw: CUstream,
    context: Arc<Context>,
}

// SAFETY: as for contexts.
unsafe impl Send for Stream {}
// SAFETY: as for contexts.
unsafe impl Sync for Stream {}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.context.bind();
        // SAFETY: created by us, released once.
        let _ = unsafe { cu::stream::destroy(self.raw) };
    }
}

type Modules = HashMap<DType, Module>;

/// A CUDA device. Fields are dropped in order: what uses a stream, before it.
pub(crate) struct CudaDevice {
    info: Info,
    tuning: Tuning,
    settings: Settings,
    /// Locked while a task runs.
    modules: Mutex<Modules>,
    blas: Option<Mutex<Blas>>,
    store: Store<Slab>,
    staging: [Mutex<Staging>; 2],
    compute: Stream,
    copies: Stream,
    context: Arc<Context>,
}

impl CudaDevice {
    /// Opens device `number` of [`devices`].
    pub(crate) fn open(number: usize, settings: Settings) -> Result<Arc<Self>, GpuError> {
        let mut all = devices()?;
        if number >= all.len() {
            return Err(GpuError::NoDevice {
                asked: number,
                known: all.len(),
            });
        }
        Self::with(all.swap_remove(number), settings)
    }

    fn with(info: Info, settings: Settings) -> Result<Arc<Self>, GpuError> {
        let name = info.name.clone();
        // SAFETY: a device that exists; released when the context is dropped.
        let raw = unsafe { cu::primary_ctx::retain(info.device) };
        let context = Arc::new(Context {
            raw: call(&name, "creating a context", raw)?,
            device: info.device,
        });
        call(&name, "binding the context", context.bind())?;
        let stream = || -> Result<Stream, GpuError> {
            let raw = cu::stream::create(cu::stream::StreamKind::NonBlocking);
            Ok(Stream {
                raw: call(&name, "creating a stream", raw)?,
                context: context.clone(),
            })
        };
        let staging = || -> Result<_, GpuError> {
            let new = Staging::new(context.clone());
            Ok(Mutex::new(call(&name, "pinning memory", new)?))
        };
        let compute = stream()?;
        let blas = match blas_present() {
            true => Some(Mutex::new(Blas::new(&name, compute.raw)?)),
            false => None,
        };
        let limit = settings.limit.unwrap_or(info.memory / 4 * 3);
        let group = settings.group.map_or(info.group, |g| g.min(info.group));
        let mut device = CudaDevice {
            tuning: Tuning::new(group, info.local, true),
            modules: Mutex::default(),
            blas,
            store: Store::new(name.clone(), limit, info.memory),
            staging: [staging()?, staging()?],
            copies: stream()?,
            compute,
            context: context.clone(),
            info,
            settings,
        };
        device.fit()?;
        Ok(Arc::new(device))
    }

    /// Shrinks groups until every kernel can be launched with them.
    fn fit(&mut self) -> Result<(), GpuError> {
        loop {
            let module = self.module(DType::F32)?;
            let (t, limit) = (self.tuning, module.limit);
            if t.group.max(t.side * t.side) <= limit || limit == 0 {
                lock(&self.modules).insert(DType::F32, module);
                return Ok(());
            }
            self.tuning = Tuning::new(limit, self.info.local, true);
        }
    }

    fn module(&self, dtype: DType) -> Result<Module, GpuError> {
        let folder = self.settings.cache.as_deref();
        self.store.count(Count::Programs);
        Module::new(&self.context, &self.info, dtype, &self.tuning, folder)
    }

    fn ready<'m>(&self, modules: &'m mut Modules, dtype: DType) -> Result<&'m Module, GpuError> {
        match modules.entry(dtype) {
            Entry::Occupied(e) => Ok(e.into_mut()),
            Entry::Vacant(e) => Ok(e.insert(self.module(dtype)?)),
        }
    }

    fn slab(&self, len: usize) -> Result<(Slab, usize), GpuError> {
        let slab = Slab::new(&self.context, len);
        let slab = call(&self.store.name, "allocating a buffer", slab)?;
        let base = slab.base();
        Ok((slab, base))
    }

    fn launch(
        &self,
        module: &Module,
        launch: &Launch,
        dtype: DType,
        scratch: usize,
    ) -> Result<(), GpuError> {
        let name = &self.store.name;
        let locate = |t: &Tensor| {
            let see = |s: &Slab, offset: usize| (s.base(), offset);
            self.store.find(t, scratch, see)
        };
        let slots = launch.slots(dtype, locate)?;
        let what = format!("launching {}", launch.kernel);
        self.store.begin(Fault::Launch, &what)?;
        self.store.count(Count::Launches);
        if launch.kernel == BLAS
            && let Some(blas) = &self.blas
        {
            // SAFETY: the operands exist, and conflicting tasks do not run meanwhile.
            return unsafe { lock(blas).product(name, &slots, dtype) };
        }
        let function = module.function(launch.kernel)?;
        let mut values: Vec<*mut c_void> = slots.iter().map(|s| s.bytes().0.cast_mut()).collect();
        let size = |v: [usize; 3]| (v[0] as u32, v[1] as u32, v[2] as u32);
        let (groups, items) = (size(launch.groups), size(launch.items));
        // SAFETY: as many values as the kernel has arguments, of their sizes, by the recipes' agreement
        // with the source; they are read before the call returns. Conflicting tasks do not run.
        let launched =
            unsafe { cu::launch_kernel(function, groups, items, 0, self.compute.raw, &mut values) };
        call(name, &what, launched)
    }

    fn run_all(&self, module: &Module, steps: &Steps, scratch: usize) -> Result<(), GpuError> {
        for launch in &steps.launches {
            self.launch(module, launch, steps.dtype, scratch)?;
        }
        self.store.count(Count::Waits);
        // SAFETY: our stream.
        let waited = unsafe { cu::stream::synchronize(self.compute.raw) };
        call(&self.store.name, "waiting for kernels", waited)?;
        self.store.begin(Fault::Wait, "waiting for kernels")
    }
}

impl Device for CudaDevice {
    fn name(&self) -> &str {
        &self.store.name
    }

    fn tuning(&self) -> Tuning {
        self.tuning
    }

    fn blas(&self) -> Option<&'static str> {
        self.blas.as_ref().map(|_| "cublas")
    }

    fn run(&self, steps: &Steps) -> Result<(), GpuError> {
        let name = &self.store.name;
        self.store.faults.check(name)?;
        call(name, "binding the context", self.context.bind())?;
        let mut modules = lock(&self.modules);
        let scratch = match steps.scratch {
            0 => 0,
            bytes => self.store.scratch(bytes, |len| self.slab(len))?,
        };
        let module = self.ready(&mut modules, steps.dtype)?;
        let done = self.run_all(module, steps, scratch);
        if done.is_err() {
            // Kernels begun before the failure must not outlive this call.
            // SAFETY: our stream.
            let _ = unsafe { cu::stream::synchronize(self.compute.raw) };
        }
        self.store.faults.lost(done)
    }

    fn prepare(&self, dtype: DType) -> Result<(), GpuError> {
        call(&self.store.name, "binding the context", self.context.bind())?;
        self.ready(&mut lock(&self.modules), dtype).map(|_| ())
    }

    fn allocate(&self, bytes: usize) -> Result<usize, GpuError> {
        self.store.allocate(bytes, |len| self.slab(len))
    }

    fn release(&self, address: usize) {
        self.store.release(address);
    }

    unsafe fn copy_all(&self, all: &[Cargo<'_>], way: Direction) -> Result<(), (usize, GpuError)> {
        let what = match way {
            Direction::In => "copying to the device",
            Direction::Out => "copying to the host",
        };
        let (places, refused) = self.store.begin_copies(all, what, |_, _| ());
        if places.is_empty() {
            return refused.map_err(|e| (0, e));
        }
        let all = &all[..places.len()];
        call(&self.store.name, what, self.context.bind()).map_err(|e| (0, e))?;
        let mut staging = lock(&self.staging[way as usize]);
        self.store.count(Count::Batches);
        // SAFETY: passed on to the caller; the addresses are in the pool.
        let copied = unsafe { staging.copy(self.copies.raw, all, way) };
        if let Err((arrived, code)) = copied {
            let failed = call(&self.store.name, what, Err(code));
            return self.store.faults.lost(failed).map_err(|e| (arrived, e));
        }
        refused.map_err(|e| (all.len(), e))
    }

    fn usage(&self) -> Usage {
        self.store.usage()
    }

    fn stats(&self) -> Stats {
        self.store.stats()
    }

    fn lost(&self) -> Option<String> {
        self.store.faults.first()
    }
}
