//! The engine of builds with GPUs: `dahl-gpu` in the terms of this crate.

use dahl_check::Subject;
use dahl_core::{Bytes, DType, KernelSet, Machine, Rated};
use dahl_gpu::LinkSpeed;
use dahl_gpu::{Found, list};
use dahl_gpu::{GpuDriver, GpuMemory, Opened, Opening, measure};
use dahl_runtime::Builder;

use super::{Engine, Gpu, GpuFigures, GpuState, LinkFigures, Listed};
use crate::error::TuneError;
use crate::this_machine::ThisMachine;

/// OpenCL and CUDA, by `dahl-gpu`.
pub(super) struct Native;

fn found() -> &'static [Found] {
    &list().devices
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

impl Engine for Native {
    fn listed(&self) -> Vec<Listed> {
        let one = |d: &Found| Listed {
            name: d.name.clone(),
            accelerator: d.accelerator,
        };
        found().iter().map(one).collect()
    }

    fn missing(&self) -> Vec<String> {
        let all = list().missing.iter();
        all.map(ToString::to_string).collect()
    }

    fn kernels(&self) -> KernelSet {
        dahl_gpu::kernels(None)
    }

    fn equip(&self, machine: &mut Machine, here: bool) {
        dahl_gpu::equip(machine, here);
    }

    fn look(&self, number: usize, rated: bool, this: &ThisMachine) -> Gpu {
        let d = &found()[number];
        Gpu {
            unit: format!("gpu:{number}"),
            name: d.name.clone(),
            library: d.library.to_string(),
            driver: d.driver.clone(),
            accelerator: d.accelerator,
            memory_bytes: d.memory as u64,
            shared_memory: d.shared,
            compute_units: d.units,
            clock_mhz: d.clock,
            f64: d.doubles,
            state: match figures(number, rated, this) {
                Ok(figures) => GpuState::Measured(Box::new(figures)),
                Err(e) => GpuState::Failure(e.to_string()),
            },
        }
    }

    fn attach(
        &self,
        builder: Builder,
        numbers: &[usize],
        limit: Option<Bytes>,
        dtype: DType,
        this: &ThisMachine,
    ) -> Result<Builder, TuneError> {
        dahl_gpu::attach(builder, numbers, &opening(limit, dtype, this))
            .map_err(|e| TuneError::Gpu(e.to_string()))
    }

    fn subject(
        &self,
        number: usize,
        dtype: DType,
        this: &ThisMachine,
        f: &mut dyn FnMut(Subject<'_>),
    ) -> Result<(), TuneError> {
        let Opened { device, links } = open(number, dtype, this)?;
        f(Subject {
            driver: &GpuDriver::new(device.clone()),
            memory: &GpuMemory::new(device, links),
        });
        Ok(())
    }
}
