//! GPUs as units of a run: opened once, measured once, added to runtimes and to described machines.
//!
//! Devices stay open as long as the process, also if another runtime is made: opening one compiles its kernels. Which
//! numbers mean which devices, [`crate::devices::list`] says.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use dahl_core::{Bytes, DType, Machine, UnitKind};
use dahl_runtime::{Builder, DeviceSpec};

use crate::device::{Device, GpuDriver, GpuMemory, LinkSpeed, Settings, kernels};
use crate::devices;
use crate::error::GpuError;

/// How devices are opened for a run.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The element type that they will compute in: its kernels are compiled now, so that no task's duration contains it.
    pub dtype: DType,
    /// Most bytes of a device's memory to take; three quarters of it unless set.
    pub limit: Option<Bytes>,
    /// Where to keep compiled programs; nowhere unless set.
    pub cache: Option<PathBuf>,
}

/// A device in use.
#[derive(Clone)]
pub struct Opened {
    /// The device.
    pub device: Arc<dyn Device>,
    /// Its links, to the device and back.
    pub links: [LinkSpeed; 2],
}

impl Opened {
    /// Most bytes of arrays on it: its limit less what kernels need for themselves.
    pub fn capacity(&self) -> Bytes {
        const SCRATCH: usize = 256 << 20;
        let limit = self.device.usage().limit;
        Bytes((limit - (limit / 8).min(SCRATCH)) as u64)
    }
}

/// Opens a device and measures its links, once in a process.
pub fn open(number: usize, opening: &Opening) -> Result<Opened, GpuError> {
    static OPEN: Mutex<BTreeMap<(usize, Option<u64>), Opened>> = Mutex::new(BTreeMap::new());
    let all = &devices::list().devices;
    let refuse = |why: String| Err(GpuError::Unsupported(why));
    let Some(found) = all.get(number) else {
        return refuse(format!("there is no gpu:{number}; there are {}", all.len()));
    };
    let name = &found.name;
    if opening.dtype == DType::F64 && !found.doubles {
        return refuse(format!(
            "gpu:{number} ({name}) does not compute in double precision: use f32, or other units"
        ));
    }
    if let Some(limit) = opening.limit
        && limit.0 > found.memory as u64
    {
        let memory = Bytes(found.memory as u64);
        return refuse(format!(
            "gpu:{number} ({name}) has {memory}, not {limit}: ask for less of its memory"
        ));
    }
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (number, opening.limit.map(|l| l.0));
    let opened = match open.get(&key) {
        Some(opened) => opened.clone(),
        None => {
            let device = found.open(Settings {
                limit: opening.limit.map(|l| l.0 as usize),
                cache: opening.cache.clone(),
                ..Settings::default()
            })?;
            let links = GpuMemory::measured(device.clone())?.links();
            let opened = Opened { device, links };
            open.insert(key, opened.clone());
            opened
        }
    };
    opened.device.prepare(opening.dtype)?;
    Ok(opened)
}

/// Whether the devices of these numbers all have a library for products of matrices. All units of a kind compute by
/// the same kernels, so it is used only if each of them has it.
fn common_library(numbers: &[usize]) -> Option<&'static str> {
    // Without numbers no library is loaded to look for devices.
    let first = numbers.first()?;
    let all = &devices::list().devices;
    let library = |n: &usize| all.get(*n).and_then(|d| d.blas);
    let first = library(first)?;
    let all_have_it = numbers.iter().all(|n| library(n) == Some(first));
    all_have_it.then_some(first)
}

/// Adds the devices of these numbers to a runtime that is being built, as units `gpu:0`, `gpu:1`…
pub fn attach(
    mut builder: Builder,
    numbers: &[usize],
    opening: &Opening,
) -> Result<Builder, GpuError> {
    let library = common_library(numbers);
    for &n in numbers {
        let opened = open(n, opening)?;
        let device = opened.device.clone();
        let driver = match library {
            Some(_) => GpuDriver::new(device.clone()),
            None => GpuDriver::without_library(device.clone()),
        };
        builder = builder.device(DeviceSpec {
            name: format!("gpu:{n}"),
            driver: Box::new(driver),
            capacity: opened.capacity(),
            backing: Box::new(GpuMemory::new(device, opened.links)),
            links: opened.links.map(|l| (l.bandwidth, l.latency)),
        });
    }
    Ok(builder)
}

/// Tells a described machine what its GPUs can execute: as the devices of this computer do if it is `here`, its units
/// named as [`attach`] names them, else by this crate's kernels.
pub fn equip(machine: &mut Machine, here: bool) {
    let gpus = machine.units.iter().filter(|u| u.kind == UnitKind::GPU);
    let number = |name: &str| name.strip_prefix("gpu:")?.parse().ok();
    // A number that nobody has stands for a device without a library of its own.
    let numbers: Vec<usize> = gpus
        .map(|u| number(&u.name).unwrap_or(usize::MAX))
        .collect();
    if !numbers.is_empty() {
        let library = if here { common_library(&numbers) } else { None };
        // A machine that has been told before keeps what it was told.
        let _ = machine.kernels.add(UnitKind::GPU, kernels(library));
    }
}
