//! GPUs as units of a run: found, opened once, measured once, added to runtimes and machines.
//!
//! Devices stay open as long as the process, whoever makes another runtime: opening one compiles its
//! kernels. The kernels are kept on disk beside the measurements.

use std::io::IsTerminal;

use anyhow::{Context, bail};
use dahl_check::Subject;
use dahl_core::{Bytes, DType, KernelSet, Machine, Rated};
use dahl_gpu::device::LinkSpeed;
use dahl_gpu::devices::{self, Found};
use dahl_gpu::{GpuDriver, GpuMemory, Opened, Opening, measure};
use dahl_runtime::Builder;

use super::machine::gpus::{Gpu, Measured, State, Way};
use super::profile;
use super::units::Gpus;

/// All devices, by number.
pub fn found() -> &'static [Found] {
    &devices::list().devices
}

/// Why there are not more of them: libraries that are missing, and what to do.
pub fn missing() -> Vec<String> {
    let all = devices::list().missing.iter();
    all.map(ToString::to_string).collect()
}

/// All numbers.
pub fn all() -> Vec<usize> {
    (0..found().len()).collect()
}

/// The numbers of those that are not the processor under another name.
pub fn accelerators() -> Vec<usize> {
    let real = |n: &usize| found()[*n].accelerator;
    (0..found().len()).filter(real).collect()
}

/// The numbers of the devices asked for, all of which exist.
pub fn numbers(gpus: &Gpus) -> anyhow::Result<Vec<usize>> {
    let all = found();
    let numbers = match gpus {
        Gpus::These(numbers) => numbers.clone(),
        // A processor that is offered as a device competes with the CPU workers: only where there is
        // nothing else.
        Gpus::All if accelerators().is_empty() => self::all(),
        Gpus::All => accelerators(),
    };
    if let (Gpus::All, true) = (gpus, numbers.is_empty()) {
        bail!("gpu: {}", none());
    }
    if let Some(n) = numbers.iter().find(|n| **n >= all.len()) {
        if all.is_empty() {
            bail!("gpu:{n}: {}", none());
        }
        let known = all.iter().enumerate();
        let known: Vec<String> = known
            .map(|(i, d)| format!("gpu:{i} ({})", d.name))
            .collect();
        bail!("there is no gpu:{n}; there are: {}", known.join(", "));
    }
    Ok(numbers)
}

/// That there is no device, and why.
fn none() -> String {
    format!("there is no GPU here: {}", missing().join("; "))
}

fn opening(limit: Option<Bytes>, dtype: DType) -> Opening {
    Opening {
        dtype,
        limit,
        cache: profile::folder().ok().map(|f| f.join("kernels")),
    }
}

/// Opens a device and measures its links, once.
fn open(number: usize, limit: Option<Bytes>, dtype: DType) -> anyhow::Result<Opened> {
    let opening = opening(limit, dtype);
    let known = opening.cache.as_ref().is_some_and(|f| f.exists());
    if !known && std::io::stderr().is_terminal() {
        let name = &found()[number].name;
        eprintln!("compiling the kernels of gpu:{number} ({name}), this once…");
    }
    dahl_gpu::open(number, &opening).with_context(|| format!("cannot open gpu:{number}"))
}

/// Calls `f` with a device as conformance checks see it.
pub fn subject<R>(
    number: usize,
    dtype: DType,
    f: impl FnOnce(Subject<'_>) -> R,
) -> anyhow::Result<R> {
    let Opened { device, links } = open(number, None, dtype)?;
    Ok(f(Subject {
        driver: &GpuDriver::new(device.clone()),
        memory: &GpuMemory::new(device, links),
    }))
}

/// Adds devices to a runtime that is being built.
pub fn add(
    builder: Builder,
    numbers: &[usize],
    limit: Option<Bytes>,
    dtype: DType,
) -> anyhow::Result<Builder> {
    for &n in numbers {
        open(n, limit, dtype)?;
    }
    Ok(dahl_gpu::attach(builder, numbers, &opening(limit, dtype))?)
}

/// The kernels that every device has.
pub fn kernels() -> KernelSet {
    dahl_gpu::kernels(None)
}

/// Tells a described machine, which may be this one, what its GPUs can execute.
pub fn equip(machine: &mut Machine, here: bool) {
    dahl_gpu::equip(machine, here);
}

/// Describes devices, with quick figures of each, and on request the highest rates that they reach.
pub fn look(numbers: &[usize], rated: bool) -> Vec<Gpu> {
    let one = |&n: &usize| {
        let d = &found()[n];
        Gpu {
            unit: format!("gpu:{n}"),
            name: d.name.clone(),
            library: d.library.to_string(),
            driver: d.driver.clone(),
            accelerator: d.accelerator,
            memory_bytes: d.memory as u64,
            shared_memory: d.shared,
            compute_units: d.units,
            clock_mhz: d.clock,
            f64: d.doubles,
            state: match figures(n, rated) {
                Ok(figures) => State::Measured(Box::new(figures)),
                Err(e) => State::Failure(format!("{e:#}")),
            },
        }
    };
    numbers.iter().map(one).collect()
}

fn figures(number: usize, rated: bool) -> anyhow::Result<Measured> {
    let opened = open(number, None, DType::F32)?;
    let device = &*opened.device;
    let way = |l: LinkSpeed| Way {
        bytes_per_second: l.bandwidth,
        latency_seconds: l.latency,
    };
    let [to_device, from_device] = opened.links.map(way);
    let flops = |dtype| measure::product(device, dtype);
    Ok(Measured {
        to_device,
        from_device,
        launch_seconds: measure::launch(device)?,
        capacity_bytes: opened.capacity(),
        rated: match rated {
            false => None,
            true => Some(Rated {
                flops: flops(DType::F32)?,
                flops_f64: match found()[number].doubles {
                    true => flops(DType::F64)?,
                    // A rate must be positive; nothing will be asked to run at it.
                    false => 1.0,
                },
                bandwidth: measure::copying(device)?,
            }),
        },
    })
}
