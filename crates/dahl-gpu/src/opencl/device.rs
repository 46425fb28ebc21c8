//! An OpenCL device: its context, its two queues, its programs and its memory.
//!
//! One thread computes at a time (the unit's worker); copies come from other threads and go by the
//! other queue. The caller waits for the event of the last command, so nothing is ever read before
//! it has arrived.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex};

use cl3::command_queue as queue;
use cl3::kernel::set_kernel_arg;
use cl3::memory::CL_MEM_READ_WRITE;
use cl3::types::{cl_command_queue, cl_context, cl_event, cl_mem, cl_uint};
use dahl_core::DType;
use dahl_runtime::memory::{Cargo, Direction};

use super::copies::Staging;
use super::handle::{Owned, call, event};
use super::info::{Info, devices};
use super::program::Program;
use super::reserve::Reserved;
use crate::device::{Device, Settings};
use crate::error::GpuError;
use crate::fault::Fault;
use crate::launch::{Launch, Steps};
use crate::pool::Usage;
use crate::store::{Count, Stats, Store, lock};
use crate::tensor::Tensor;
use crate::tuning::Tuning;

struct Slab {
    memory: Owned<cl_mem>,
    _addresses: Reserved,
}

type Programs = HashMap<DType, Program>;

/// An OpenCL device. Fields are dropped in order: what uses a queue or the context, before it.
pub struct OpenClDevice {
    info: Info,
    tuning: Tuning,
    settings: Settings,
    /// Locked while a task runs: kernels' arguments are theirs.
    programs: Mutex<Programs>,
    store: Store<Slab>,
    staging: [Mutex<Staging>; 2],
    queue: Owned<cl_command_queue>,
    _copies: Owned<cl_command_queue>,
    context: Owned<cl_context>,
}

impl OpenClDevice {
    /// Opens device `number` of [`devices`].
    pub fn open(number: usize, settings: Settings) -> Result<Arc<Self>, GpuError> {
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
        let (name, id) = (info.name.clone(), info.id.0);
        let raw = cl3::context::create_context(&[id], std::ptr::null(), None, std::ptr::null_mut());
        let raw = call(&name, "creating a context", raw)?;
        // SAFETY: created just now.
        let context = unsafe { Owned::new(raw, cl3::context::release_context) };
        let open = || {
            // SAFETY: the device is the context's; what was created just now is ours.
            unsafe {
                let raw = queue::create_command_queue(context.raw(), id, 0);
                let raw = call(&name, "creating a queue", raw)?;
                Ok(Owned::new(raw, queue::release_command_queue))
            }
        };
        let (compute, copies) = (open()?, open()?);
        let staging = || -> Result<_, GpuError> {
            let new = Staging::new(context.raw(), copies.raw());
            Ok(Mutex::new(call(&name, "pinning memory", new)?))
        };
        let limit = settings.limit.unwrap_or(info.memory[0] / 4 * 3);
        let group = settings.group.map_or(info.group, |g| g.min(info.group));
        let mut device = OpenClDevice {
            tuning: Tuning::new(group, info.local, info.doubles),
            programs: Mutex::default(),
            store: Store::new(name.clone(), limit, info.memory[1]),
            staging: [staging()?, staging()?],
            queue: compute,
            _copies: copies,
            context,
            info,
            settings,
        };
        device.fit()?;
        Ok(Arc::new(device))
    }

    /// Shrinks groups until every kernel can be launched with them: some need more registers than the
    /// device has for the largest group it allows.
    fn fit(&mut self) -> Result<(), GpuError> {
        loop {
            let program = self.program(DType::F32)?;
            let (t, limit) = (self.tuning, program.limit);
            if t.group.max(t.side * t.side) <= limit || limit == 0 {
                lock(&self.programs).insert(DType::F32, program);
                return Ok(());
            }
            self.tuning = Tuning::new(limit, self.info.local, self.info.doubles);
        }
    }

    fn program(&self, dtype: DType) -> Result<Program, GpuError> {
        if dtype == DType::F64 && !self.info.doubles {
            let name = &self.info.name;
            return Err(GpuError::Unsupported(format!(
                "{name} does not compute in double precision: use f32, or another unit"
            )));
        }
        let folder = self.settings.cache.as_deref();
        self.store.count(Count::Programs);
        Program::new(self.context.raw(), &self.info, dtype, &self.tuning, folder)
    }

    /// Makes something fail, for tests.
    pub fn inject(&self, fault: Fault, after: u32) {
        self.store.faults.inject(fault, after);
    }

    fn ready<'p>(&self, programs: &'p mut Programs, dtype: DType) -> Result<&'p Program, GpuError> {
        match programs.entry(dtype) {
            Entry::Occupied(e) => Ok(e.into_mut()),
            Entry::Vacant(e) => Ok(e.insert(self.program(dtype)?)),
        }
    }

    /// Makes a buffer and reserves addresses for it.
    fn slab(&self, len: usize) -> Result<(Slab, usize), GpuError> {
        let addresses = Reserved::new(len);
        let addresses = addresses.ok_or_else(|| GpuError::Call {
            device: self.store.name.clone(),
            what: "reserving addresses".into(),
            why: format!("the system refuses {len} of them"),
        })?;
        // SAFETY: a valid context; no host pointer is given, so none must be valid.
        let raw = unsafe {
            let none = std::ptr::null_mut();
            cl3::memory::create_buffer(self.context.raw(), CL_MEM_READ_WRITE, len, none)
        };
        let raw = call(&self.store.name, "allocating a buffer", raw)?;
        // SAFETY: created just now.
        let memory = unsafe { Owned::new(raw, cl3::memory::release_mem_object) };
        let base = addresses.base();
        let slab = Slab {
            memory,
            _addresses: addresses,
        };
        Ok((slab, base))
    }

    fn launch(
        &self,
        program: &Program,
        launch: &Launch,
        dtype: DType,
        scratch: usize,
    ) -> Result<Owned<cl_event>, GpuError> {
        let name = &self.store.name;
        let kernel = program.kernel(launch.kernel).ok_or_else(|| {
            GpuError::Unsupported(format!("there is no kernel {:?}", launch.kernel))
        })?;
        let locate = |t: &Tensor| {
            let see = |s: &Slab, offset: usize| (s.memory.raw() as usize, offset);
            self.store.find(t, scratch, see)
        };
        for (i, slot) in launch.slots(dtype, locate)?.iter().enumerate() {
            let (value, bytes) = slot.bytes();
            // SAFETY: a valid kernel, locked; the value has so many bytes, which the library checks
            // against the kernel's argument.
            let set = unsafe { set_kernel_arg(kernel, i as cl_uint, bytes, value) };
            call(name, &format!("argument {i} of {}", launch.kernel), set)?;
        }
        let what = format!("launching {}", launch.kernel);
        self.store.begin(Fault::Launch, &what)?;
        self.store.count(Count::Launches);
        let global: [usize; 3] = std::array::from_fn(|a| launch.groups[a] * launch.items[a]);
        // SAFETY: all arguments are set; recipes and kernels agree on extents, which lie inside the
        // operands. Conflicting tasks do not run meanwhile, by the contract of the caller.
        let enqueued = unsafe {
            queue::enqueue_nd_range_kernel(
                self.queue.raw(),
                kernel,
                3,
                std::ptr::null(),
                global.as_ptr(),
                launch.items.as_ptr(),
                0,
                std::ptr::null(),
            )
        };
        Ok(event(call(name, &what, enqueued)?))
    }

    fn run_all(&self, program: &Program, steps: &Steps, scratch: usize) -> Result<(), GpuError> {
        let mut last = None;
        for launch in &steps.launches {
            last = Some(self.launch(program, launch, steps.dtype, scratch)?);
        }
        let Some(last) = last else { return Ok(()) };
        self.store.count(Count::Waits);
        let waited = cl3::event::wait_for_events(&[last.raw()]);
        call(&self.store.name, "waiting for kernels", waited)?;
        self.store.begin(Fault::Wait, "waiting for kernels")
    }
}

impl Device for OpenClDevice {
    fn name(&self) -> &str {
        &self.store.name
    }

    fn tuning(&self) -> Tuning {
        self.tuning
    }

    fn run(&self, steps: &Steps) -> Result<(), GpuError> {
        self.store.faults.check(&self.store.name)?;
        let mut programs = lock(&self.programs);
        let scratch = match steps.scratch {
            0 => 0,
            bytes => self.store.scratch(bytes, |len| self.slab(len))?,
        };
        let program = self.ready(&mut programs, steps.dtype)?;
        let done = self.run_all(program, steps, scratch);
        if done.is_err() {
            // Kernels begun before the failure must not outlive this call.
            let _ = queue::finish(self.queue.raw());
        }
        self.store.faults.lost(done)
    }

    fn prepare(&self, dtype: DType) -> Result<(), GpuError> {
        self.ready(&mut lock(&self.programs), dtype).map(|_| ())
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
        let see = |s: &Slab, offset: usize| (s.memory.raw(), offset);
        let (places, refused) = self.store.begin_copies(all, what, see);
        if places.is_empty() {
            return refused.map_err(|e| (0, e));
        }
        let all = &all[..places.len()];
        let mut staging = lock(&self.staging[way as usize]);
        self.store.count(Count::Batches);
        // SAFETY: passed on to the caller; the addresses lie in these buffers.
        let copied = unsafe { staging.copy(&places, all, way) };
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
