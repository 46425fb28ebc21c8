//! GPUs as units of a run: found, opened once, measured once, added to runtimes and machines.
//!
//! Devices stay open as long as the process, whoever makes another runtime: opening one compiles its
//! kernels. The kernels are kept on disk beside the measurements.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use dahl_core::graph::Extra;
use dahl_core::{Bytes, DType, Machine, Rated, UnitKind};
use dahl_gpu::device::{LinkSpeed, implementation};
use dahl_gpu::devices::{self, Found};
use dahl_gpu::{Device, GpuDriver, GpuMemory, Settings, measure};
use dahl_runtime::{Builder, DeviceSpec};

use super::machine::gpus::{Gpu, Measured, State, Way};
use super::profile;
use super::units::Gpus;

/// A device in use.
#[derive(Clone)]
pub struct Opened {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its links, to the device and back.
    pub links: [LinkSpeed; 2],
}

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

/// Opens a device and measures its links, once.
pub fn open(number: usize, limit: Option<Bytes>, dtype: DType) -> anyhow::Result<Opened> {
    static OPEN: Mutex<BTreeMap<(usize, Option<u64>), Opened>> = Mutex::new(BTreeMap::new());
    let found = &found()[number];
    if dtype == DType::F64 && !found.doubles {
        let name = &found.name;
        bail!(
            "gpu:{number} ({name}) does not compute in double precision: use --dtype f32, or other units"
        );
    }
    if let Some(limit) = limit
        && limit.0 > found.memory as u64
    {
        let (name, memory) = (&found.name, Bytes(found.memory as u64));
        bail!("--gpu-memory {limit}: gpu:{number} ({name}) has {memory}");
    }
    let mut all = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (number, limit.map(|l| l.0));
    let opened = match all.get(&key) {
        Some(opened) => opened.clone(),
        None => {
            let kernels = profile::folder().ok().map(|f| f.join("kernels"));
            let known = kernels.as_ref().is_some_and(|f| f.exists());
            if !known && std::io::stderr().is_terminal() {
                let name = &found.name;
                eprintln!("compiling the kernels of gpu:{number} ({name}), this once…");
            }
            let settings = Settings {
                limit: limit.map(|l| l.0 as usize),
                cache: kernels,
                ..Settings::default()
            };
            let device = found.open(settings);
            let device = device.with_context(|| format!("cannot open gpu:{number}"))?;
            let links = GpuMemory::measured(device.clone());
            let links = links.with_context(|| format!("cannot measure gpu:{number}"))?;
            let opened = Opened {
                links: links.links(),
                device,
            };
            all.insert(key, opened.clone());
            opened
        }
    };
    // Compiled now, so that no task's duration contains it.
    let prepared = opened.device.prepare(dtype);
    prepared.with_context(|| format!("cannot compile the kernels of gpu:{number}"))?;
    Ok(opened)
}

/// Most bytes of arrays on a device: its limit less what kernels need for themselves.
pub fn capacity(device: &dyn Device) -> Bytes {
    const SCRATCH: usize = 256 << 20;
    let limit = device.usage().limit;
    Bytes((limit - (limit / 8).min(SCRATCH)) as u64)
}

/// Adds devices to a runtime that is being built.
pub fn add(
    mut builder: Builder,
    numbers: &[usize],
    limit: Option<Bytes>,
    dtype: DType,
) -> anyhow::Result<Builder> {
    for &n in numbers {
        let Opened { device, links } = open(n, limit, dtype)?;
        builder = builder.device(DeviceSpec {
            name: format!("gpu:{n}"),
            driver: Box::new(GpuDriver::new(device.clone())),
            capacity: capacity(&*device),
            backing: Box::new(GpuMemory::new(device, links)),
            links: links.map(|l| (l.bandwidth, l.latency)),
        });
    }
    Ok(builder)
}

/// What adds the implementations of these devices to the codelets of a graph: with products by a library
/// only if each of them has it, since a graph has one implementation for all.
pub fn extra(numbers: &[usize]) -> Option<Extra> {
    let all = found();
    let blas = |n: &usize| all.get(*n).is_some_and(|d| d.blas == Some("cublas"));
    match (numbers.is_empty(), numbers.iter().all(blas)) {
        (true, _) => None,
        (false, true) => Some(|name| implementation(name, Some("cublas"))),
        (false, false) => kernels(),
    }
}

/// What adds the implementations that every device has.
pub fn kernels() -> Option<Extra> {
    Some(|name| implementation(name, None))
}

/// The same for a described machine, which may be this one.
pub fn extra_of(machine: &Machine, here: bool) -> Option<Extra> {
    let mut gpus = machine.units.iter().filter(|u| u.kind == UnitKind::GPU);
    if !here {
        return gpus.next().and_then(|_| kernels());
    }
    let number = |name: &str| name.strip_prefix("gpu:")?.parse().ok();
    // A number that nobody has stands for a device without a library of its own.
    let numbers = gpus.map(|u| number(&u.name).unwrap_or(usize::MAX));
    extra(&numbers.collect::<Vec<usize>>())
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
        capacity_bytes: capacity(device),
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
