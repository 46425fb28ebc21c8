//! GPUs as units of a run: found, opened once, measured once, added to runtimes and machines.
//!
//! Devices stay open as long as the process, whoever makes another runtime: opening one compiles its
//! kernels. The kernels are kept on disk beside the measurements. A program built without the feature `gpu`
//! finds none, and says how to have them.

use dahl_core::{Bytes, DType, KernelSet, Machine, Rated, Seconds};
use dahl_runtime::Builder;
use serde::Serialize;

use crate::error::TuneError;
use crate::this_machine::ThisMachine;
use crate::units::Gpus;

/// A device as this computer has it.
#[derive(Clone, Debug, Serialize)]
pub struct Gpu {
    /// `gpu:0`.
    pub unit: String,
    /// The device's own name.
    pub name: String,
    /// `OpenCL` or `CUDA`.
    pub library: String,
    /// Platform and driver.
    pub driver: String,
    /// Whether it is a GPU or another accelerator, and not the processor under another name.
    pub accelerator: bool,
    /// Its memory.
    pub memory_bytes: u64,
    /// Whether that is the host's.
    pub shared_memory: bool,
    /// Compute units, or multiprocessors.
    pub compute_units: usize,
    /// Highest clock.
    pub clock_mhz: usize,
    /// Whether it computes in double precision.
    pub f64: bool,
    /// What was measured just now, or why nothing could be.
    #[serde(flatten)]
    pub state: GpuState,
}

/// Whether a device works.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuState {
    /// It does.
    Measured(Box<GpuFigures>),
    /// It does not, for this reason.
    Failure(String),
}

/// Quick figures.
#[derive(Clone, Debug, Serialize)]
pub struct GpuFigures {
    /// From the host.
    pub to_device: LinkFigures,
    /// To the host.
    pub from_device: LinkFigures,
    /// From handing over a task of one element to its end.
    pub launch_seconds: Seconds,
    /// Most bytes of arrays that a run would keep there.
    pub capacity_bytes: Bytes,
    /// Highest rates, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rated: Option<Rated>,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LinkFigures {
    /// Of large copies.
    pub bytes_per_second: f64,
    /// Of small ones.
    pub latency_seconds: Seconds,
}

/// What can be said of a device without opening it.
struct Listed {
    name: String,
    accelerator: bool,
}

/// The numbers of all devices.
pub fn all() -> Vec<usize> {
    (0..engine::listed().len()).collect()
}

/// Why there are not more of them: libraries that are missing, and what to do.
pub fn missing() -> Vec<String> {
    engine::missing()
}

/// The numbers of those that are not the processor under another name.
pub fn accelerators() -> Vec<usize> {
    let listed = engine::listed();
    (0..listed.len())
        .filter(|&n| listed[n].accelerator)
        .collect()
}

/// The numbers of the devices asked for, all of which exist.
pub fn numbers(gpus: &Gpus) -> Result<Vec<usize>, TuneError> {
    let none = || format!("there is no GPU here: {}", missing().join("; "));
    let numbers = match gpus {
        Gpus::These(numbers) => numbers.clone(),
        // A processor that is offered as a device competes with the CPU workers: only where there is
        // nothing else.
        Gpus::All if accelerators().is_empty() => all(),
        Gpus::All => accelerators(),
    };
    if let (Gpus::All, true) = (gpus, numbers.is_empty()) {
        return Err(TuneError::Gpu(format!("gpu: {}", none())));
    }
    // Looking for devices takes a moment: not for those who want none.
    if numbers.is_empty() {
        return Ok(numbers);
    }
    let listed = engine::listed();
    if let Some(n) = numbers.iter().find(|n| **n >= listed.len()) {
        if listed.is_empty() {
            return Err(TuneError::Gpu(format!("gpu:{n}: {}", none())));
        }
        let known = listed.iter().enumerate();
        let known: Vec<String> = known
            .map(|(i, d)| format!("gpu:{i} ({})", d.name))
            .collect();
        return Err(TuneError::Gpu(format!(
            "there is no gpu:{n}; there are: {}",
            known.join(", ")
        )));
    }
    Ok(numbers)
}

/// Adds devices, opened for this element type, to a runtime that is being built.
pub fn attach(
    builder: Builder,
    numbers: &[usize],
    limit: Option<Bytes>,
    dtype: DType,
    this: &ThisMachine,
) -> Result<Builder, TuneError> {
    engine::attach(builder, numbers, limit, dtype, this)
}

/// The kernels that every device has; none in a build without GPUs.
pub fn kernels() -> KernelSet {
    engine::kernels()
}

/// Calls `f` with a device as conformance checks see it.
#[cfg(feature = "gpu")]
pub fn subject<R>(
    number: usize,
    dtype: DType,
    this: &ThisMachine,
    f: impl FnOnce(dahl_check::Subject<'_>) -> R,
) -> Result<R, TuneError> {
    engine::subject(number, dtype, this, f)
}

/// Tells a described machine, which may be this one, what its GPUs can execute.
pub(crate) fn equip(machine: &mut Machine, here: bool) {
    engine::equip(machine, here);
}

/// Describes devices, with quick figures of each, and on request the highest rates that they reach.
pub fn look(numbers: &[usize], rated: bool, this: &ThisMachine) -> Vec<Gpu> {
    engine::look(numbers, rated, this)
}

/// Without the feature: no device, and how to have some.
#[cfg(not(feature = "gpu"))]
mod engine {
    use super::*;

    pub fn listed() -> Vec<Listed> {
        Vec::new()
    }

    pub fn missing() -> Vec<String> {
        vec!["this program was built without GPUs: build it with `--features gpu`".into()]
    }

    pub fn kernels() -> KernelSet {
        KernelSet::default()
    }

    pub fn equip(_: &mut Machine, _: bool) {}

    pub fn look(_: &[usize], _: bool, _: &ThisMachine) -> Vec<Gpu> {
        Vec::new()
    }

    pub fn attach(
        builder: Builder,
        _: &[usize],
        _: Option<Bytes>,
        _: DType,
        _: &ThisMachine,
    ) -> Result<Builder, TuneError> {
        Ok(builder)
    }
}

#[cfg(feature = "gpu")]
mod engine {
    use dahl_check::Subject;
    use dahl_gpu::device::LinkSpeed;
    use dahl_gpu::devices::{self, Found};
    use dahl_gpu::{GpuDriver, GpuMemory, Opened, Opening, measure};

    use super::*;

    fn found() -> &'static [Found] {
        &devices::list().devices
    }

    pub fn listed() -> Vec<Listed> {
        let one = |d: &Found| Listed {
            name: d.name.clone(),
            accelerator: d.accelerator,
        };
        found().iter().map(one).collect()
    }

    pub fn missing() -> Vec<String> {
        let all = devices::list().missing.iter();
        all.map(ToString::to_string).collect()
    }

    pub fn kernels() -> KernelSet {
        dahl_gpu::kernels(None)
    }

    pub fn equip(machine: &mut Machine, here: bool) {
        dahl_gpu::equip(machine, here);
    }

    fn opening(limit: Option<Bytes>, dtype: DType, this: &ThisMachine) -> Opening {
        Opening {
            dtype,
            limit,
            cache: this.folder().ok().map(|f| f.join("kernels")),
        }
    }

    /// Opens a device and measures its links, once.
    fn open(number: usize, dtype: DType, this: &ThisMachine) -> Result<Opened, TuneError> {
        dahl_gpu::open(number, &opening(None, dtype, this))
            .map_err(|e| TuneError::Gpu(format!("cannot open gpu:{number}: {e}")))
    }

    pub fn subject<R>(
        number: usize,
        dtype: DType,
        this: &ThisMachine,
        f: impl FnOnce(Subject<'_>) -> R,
    ) -> Result<R, TuneError> {
        let Opened { device, links } = open(number, dtype, this)?;
        Ok(f(Subject {
            driver: &GpuDriver::new(device.clone()),
            memory: &GpuMemory::new(device, links),
        }))
    }

    pub fn attach(
        builder: Builder,
        numbers: &[usize],
        limit: Option<Bytes>,
        dtype: DType,
        this: &ThisMachine,
    ) -> Result<Builder, TuneError> {
        dahl_gpu::attach(builder, numbers, &opening(limit, dtype, this))
            .map_err(|e| TuneError::Gpu(e.to_string()))
    }

    pub fn look(numbers: &[usize], rated: bool, this: &ThisMachine) -> Vec<Gpu> {
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
                state: match figures(n, rated, this) {
                    Ok(figures) => GpuState::Measured(Box::new(figures)),
                    Err(e) => GpuState::Failure(e.to_string()),
                },
            }
        };
        numbers.iter().map(one).collect()
    }

    fn figures(number: usize, rated: bool, this: &ThisMachine) -> Result<GpuFigures, TuneError> {
        let failed = |e: dahl_gpu::GpuError| TuneError::Gpu(e.to_string());
        let opened = open(number, DType::F32, this)?;
        let device = &*opened.device;
        let figures = |l: LinkSpeed| LinkFigures {
            bytes_per_second: l.bandwidth,
            latency_seconds: l.latency,
        };
        let [to_device, from_device] = opened.links.map(figures);
        let flops = |dtype| measure::product(device, dtype).map_err(failed);
        Ok(GpuFigures {
            to_device,
            from_device,
            launch_seconds: measure::launch(device).map_err(failed)?,
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
                    bandwidth: measure::copying(device).map_err(failed)?,
                }),
            },
        })
    }
}
