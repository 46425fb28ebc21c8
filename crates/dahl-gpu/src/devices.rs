//! All devices of this computer in one list, whichever library drives them.
//!
//! GPUs and other accelerators come first, so that device 0 is one where there is one; CPUs that a
//! library offers as devices follow. A GPU that CUDA drives is not listed a second time for OpenCL. The
//! order is the libraries' own otherwise, and asked for once: a number means the same device as long as
//! the process lives. Nothing is opened here.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::cuda::{self, CudaDevice};
use crate::device::{Device, Settings};
use crate::error::GpuError;
use crate::opencl::{self, OpenClDevice};

/// What drives a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// NVIDIA's driver, with NVRTC as compiler.
    Cuda,
    /// Any OpenCL driver.
    OpenCl,
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Library::Cuda => "CUDA",
            Library::OpenCl => "OpenCL",
        })
    }
}

/// A device that could be opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What drives it.
    pub library: Library,
    /// Its number in that library.
    pub number: usize,
    /// Its name.
    pub name: String,
    /// Platform and version of its driver.
    pub driver: String,
    /// Whether it is a GPU or another accelerator, not a CPU.
    pub accelerator: bool,
    /// Bytes of its memory.
    pub memory: usize,
    /// Whether its memory is the host's.
    pub shared: bool,
    /// Compute units, or multiprocessors.
    pub units: usize,
    /// Highest clock, in MHz.
    pub clock: usize,
    /// Whether it computes in double precision.
    pub doubles: bool,
    /// Whether a library for products of matrices is there for it.
    pub blas: Option<&'static str>,
}

/// What there is, and what there is not.
#[derive(Debug)]
pub struct Listing {
    /// The devices.
    pub devices: Vec<Found>,
    /// Libraries that are not there, or do not work, each with the reason.
    pub missing: Vec<GpuError>,
}

/// All devices.
pub fn list() -> &'static Listing {
    static ONCE: OnceLock<Listing> = OnceLock::new();
    ONCE.get_or_init(|| {
        let cuda = cuda::compiler_present().and_then(|()| cuda::devices());
        // If both are missing, the driver's message comes first.
        let cuda = cuda::driver_present().and(cuda);
        join(
            cuda.map(|all| all.into_iter().enumerate().map(of_cuda).collect()),
            opencl::devices().map(|all| all.into_iter().enumerate().map(of_opencl).collect()),
        )
    })
}

/// Both libraries' devices in the order that the module states.
fn join(cuda: Result<Vec<Found>, GpuError>, opencl: Result<Vec<Found>, GpuError>) -> Listing {
    let mut missing = Vec::new();
    let mut take = |found: Result<Vec<Found>, GpuError>| {
        found.unwrap_or_else(|e| {
            missing.push(e);
            Vec::new()
        })
    };
    let mut devices = take(cuda);
    let mut others = take(opencl.and_then(|all| match all.is_empty() {
        true => Err(GpuError::NoLibrary {
            library: "OpenCL",
            why: "no driver offers a device; install your GPU's, or PoCL to compute on the processor"
                .into(),
        }),
        false => Ok(all),
    }));
    if !devices.is_empty() {
        others.retain(|d| !d.driver.starts_with("NVIDIA"));
    }
    devices.extend(others);
    devices.sort_by_key(|d| !d.accelerator);
    Listing { devices, missing }
}

fn of_cuda((number, info): (usize, cuda::Info)) -> Found {
    let (major, minor) = info.capability;
    Found {
        library: Library::Cuda,
        number,
        name: info.name,
        driver: format!("NVIDIA CUDA, compute capability {major}.{minor}"),
        accelerator: true,
        memory: info.memory,
        shared: false,
        units: info.units,
        clock: info.clock,
        doubles: true,
        blas: cuda::blas_present().then_some("cublas"),
    }
}

fn of_opencl((number, info): (usize, opencl::Info)) -> Found {
    Found {
        library: Library::OpenCl,
        number,
        name: info.name,
        driver: format!("{}, driver {}", info.platform, info.driver),
        accelerator: info.accelerator,
        memory: info.memory[0],
        shared: info.shared,
        units: info.units,
        clock: info.clock,
        doubles: info.doubles,
        blas: None,
    }
}

impl Found {
    pub(crate) fn open(&self, settings: Settings) -> Result<Arc<dyn Device>, GpuError> {
        Ok(match self.library {
            Library::Cuda => CudaDevice::open(self.number, settings)?,
            Library::OpenCl => OpenClDevice::open(self.number, settings)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(library: Library, name: &str, driver: &str, accelerator: bool) -> Found {
        Found {
            library,
            number: 0,
            name: name.into(),
            driver: driver.into(),
            accelerator,
            memory: 1 << 30,
            shared: !accelerator,
            units: 2,
            clock: 1000,
            doubles: true,
            blas: None,
        }
    }

    #[test]
    fn accelerators_come_first_and_none_twice() {
        let cl = |name, driver, accelerator| device(Library::OpenCl, name, driver, accelerator);
        let opencl = || {
            vec![
                cl("processor", "Portable Computing Language", false),
                cl("card", "NVIDIA CUDA (OpenCL 3.0)", true),
                cl("other card", "AMD Accelerated Parallel Processing", true),
            ]
        };
        let names = |l: &Listing| -> Vec<String> {
            let name = |d: &Found| format!("{} {}", d.library, d.name);
            l.devices.iter().map(name).collect()
        };
        let cuda = vec![device(Library::Cuda, "card", "NVIDIA CUDA", true)];
        let both = join(Ok(cuda), Ok(opencl()));
        assert_eq!(
            names(&both),
            ["CUDA card", "OpenCL other card", "OpenCL processor"]
        );
        assert!(both.missing.is_empty());
        let lacks = || GpuError::NoLibrary {
            library: "CUDA",
            why: "no libcuda found".into(),
        };
        let without = join(Err(lacks()), Ok(opencl()));
        assert_eq!(
            names(&without),
            ["OpenCL card", "OpenCL other card", "OpenCL processor"]
        );
        assert_eq!(without.missing, [lacks()]);
        let none = join(Err(lacks()), Err(lacks()));
        assert!(none.devices.is_empty() && none.missing.len() == 2);
        let empty = join(Ok(Vec::new()), Ok(Vec::new()));
        assert!(empty.missing[0].to_string().contains("no driver offers"));
    }
}
