//! What a task costs on a device beyond what its driver takes: `launch [device] [tasks]`.
//!
//! The same kernel on the same few elements, again and again: by bare calls of OpenCL that set the
//! arguments, enqueue it and wait; and as tasks of a graph that the runtime runs. The difference of the
//! processor time, per task, is our launch path: scheduling, coherence, recipe, arguments. The best of
//! several rounds, alternating, since others use the machine too.

use std::sync::Arc;

use cl3::types::{cl_command_queue, cl_kernel};
use dahl_core::{Arena, Bytes, DType, Recorder, Task};
use dahl_gpu::launch::{Launch, Steps};
use dahl_gpu::opencl::{self, OpenClDevice};
use dahl_gpu::source::{self, Language};
use dahl_gpu::tensor::{Base, Tensor};
use dahl_gpu::{Device, GpuDriver, GpuMemory, Settings, recipes};
use dahl_runtime::{DeviceSpec, Runtime};

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ELEMENTS: usize = 64;

fn failed(code: i32) -> String {
    cl3::error_codes::error_text(code).to_string()
}

/// Seconds of processor time that this process has used, all threads.
fn cpu() -> f64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clock exists everywhere, and the value is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

/// The launch that fills a few elements.
fn fill(device: &dyn Device) -> Launch {
    let mut steps = Steps::new(DType::F32, device.tuning());
    let to = Tensor::contiguous(Base::At(0), [1, 1, 1, ELEMENTS]);
    recipes::fill(to, 1.0, &mut steps);
    steps.launches.remove(0)
}

/// A bare loop's needs.
struct Bare {
    queue: cl_command_queue,
    kernel: cl_kernel,
    buffer: usize,
}

impl Bare {
    /// The same kernel, compiled from the same text. Released when the process ends.
    fn new(number: usize, device: &dyn Device) -> Fallible<Self> {
        let mut ids = Vec::new();
        for platform in cl3::platform::get_platform_ids().map_err(failed)? {
            let all = cl3::device::CL_DEVICE_TYPE_ALL;
            ids.extend(cl3::device::get_device_ids(platform, all).unwrap_or_default());
        }
        let id = *ids.get(number).ok_or("no such device")?;
        let (none, nobody) = (std::ptr::null(), std::ptr::null_mut());
        let context = cl3::context::create_context(&[id], none, None, nobody).map_err(failed)?;
        let text = source::program(Language::OpenCl, DType::F32, &device.tuning());
        let program = cl3::program::create_program_with_source(context, &[&text]);
        let program = program.map_err(failed)?;
        cl3::program::build_program(program, &[id], c"-cl-std=CL1.2", None, nobody)
            .map_err(failed)?;
        let kernel = cl3::kernel::create_kernel(program, c"fill").map_err(failed)?;
        // SAFETY: valid context and device; no host pointer is given.
        let (queue, buffer) = unsafe {
            let flags = cl3::memory::CL_MEM_READ_WRITE;
            (
                cl3::command_queue::create_command_queue(context, id, 0).map_err(failed)?,
                cl3::memory::create_buffer(context, flags, 4 * ELEMENTS, nobody).map_err(failed)?,
            )
        };
        Ok(Bare {
            queue,
            kernel,
            buffer: buffer as usize,
        })
    }

    fn run(&self, launch: &Launch, tasks: usize) -> Fallible<()> {
        let global: [usize; 3] = std::array::from_fn(|a| launch.groups[a] * launch.items[a]);
        let slots = launch.slots(DType::F32, |_| Ok((self.buffer, 0)))?;
        for _ in 0..tasks {
            for (i, slot) in slots.iter().enumerate() {
                let (value, bytes) = slot.bytes();
                // SAFETY: our kernel; the value has so many bytes.
                unsafe { cl3::kernel::set_kernel_arg(self.kernel, i as u32, bytes, value) }
                    .map_err(failed)?;
            }
            // SAFETY: all arguments are set, and the elements lie in the buffer.
            let event = unsafe {
                cl3::command_queue::enqueue_nd_range_kernel(
                    self.queue,
                    self.kernel,
                    3,
                    std::ptr::null(),
                    global.as_ptr(),
                    launch.items.as_ptr(),
                    0,
                    std::ptr::null(),
                )
            };
            let event = event.map_err(failed)?;
            cl3::event::wait_for_events(&[event]).map_err(failed)?;
            // SAFETY: ours, released once.
            unsafe { cl3::event::release_event(event) }.map_err(failed)?;
        }
        Ok(())
    }
}

fn main() -> Fallible<()> {
    let mut args = std::env::args().skip(1);
    let number: usize = args.next().map_or(Ok(0), |a| a.parse())?;
    let tasks: usize = args.next().map_or(Ok(4000), |a| a.parse())?;
    println!("{}", opencl::devices()?[number].name);
    let device: Arc<dyn Device> = OpenClDevice::open(number, Settings::default())?;
    let (bare, launch) = (Bare::new(number, &*device)?, fill(&*device));

    let arena = Arena::new();
    let mut x = arena.zeros::<f32, 1>([ELEMENTS])?;
    let codelet = dahl_ops::codelets::TABLE.iter().find(|c| c.name == "fill");
    let codelet = Arc::new(codelet.ok_or("no codelet fill")?.as_ref().clone());
    let recorder = Recorder::new();
    for _ in 0..tasks {
        let params = [dahl_core::Param::Float(1.0)];
        recorder.submit(Task::new(&codelet, &[x.write()]).params(&params));
    }
    let graph = recorder.finish()?;
    let memory = GpuMemory::measured(device.clone())?;
    let links = memory.links().map(|l| (l.bandwidth, l.latency));
    let mut runtime = Runtime::builder()
        .workers(0)
        .policy("eager")
        .device(DeviceSpec {
            name: "gpu:0".into(),
            driver: Box::new(GpuDriver::new(device)),
            backing: Box::new(memory),
            capacity: Bytes(1 << 20),
            links,
        })
        .build()?;
    let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
    for round in 0..9 {
        let start = cpu();
        bare.run(&launch, tasks)?;
        let middle = cpu();
        runtime.launch(&graph)?;
        runtime.wait()?;
        let end = cpu();
        if round > 0 {
            theirs = theirs.min(middle - start);
            ours = ours.min(end - middle);
        }
    }
    let micros = |seconds: f64| seconds * 1e6 / tasks as f64;
    println!("{:8.2} µs per task by bare calls", micros(theirs));
    println!("{:8.2} µs per task of a graph", micros(ours));
    println!("{:8.2} µs of that are ours", micros(ours - theirs));
    Ok(())
}
