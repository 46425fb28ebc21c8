//! Which of NVIDIA's libraries are there. Asked before any of their functions is called: calling one of
//! an absent library ends in a panic.

use std::sync::OnceLock;

use cudarc::{cublas, driver, nvrtc};

use crate::error::GpuError;

fn present(once: &'static OnceLock<bool>, look: impl FnOnce() -> bool) -> bool {
    *once.get_or_init(look)
}

/// Refuses if the driver is missing.
pub(crate) fn driver_present() -> Result<(), GpuError> {
    static ONCE: OnceLock<bool> = OnceLock::new();
    // SAFETY: loads the driver's library, whose initialisers are NVIDIA's.
    match present(&ONCE, || unsafe { driver::sys::is_culib_present() }) {
        true => Ok(()),
        false => Err(GpuError::NoLibrary {
            library: "CUDA",
            why: "no libcuda found; install NVIDIA's driver".into(),
        }),
    }
}

/// Refuses if the compiler is missing. `DAHL_NVRTC` may name the library's file.
pub fn compiler_present() -> Result<(), GpuError> {
    static ONCE: OnceLock<bool> = OnceLock::new();
    let look = || {
        if let Some(path) = std::env::var_os("DAHL_NVRTC") {
            // Once loaded it is found by its name, too; so it must stay.
            // SAFETY: as below, a file that the user named as NVIDIA's.
            if let Ok(library) = unsafe { libloading::Library::new(path) } {
                std::mem::forget(library);
            }
        }
        // SAFETY: loads the compiler's library, whose initialisers are NVIDIA's.
        unsafe { nvrtc::sys::is_culib_present() }
    };
    match present(&ONCE, look) {
        true => Ok(()),
        false => Err(GpuError::NoLibrary {
            library: "NVRTC",
            why: "no libnvrtc found; install it, or name its file in DAHL_NVRTC".into(),
        }),
    }
}

/// Whether cuBLAS is there.
pub(crate) fn blas_present() -> bool {
    static ONCE: OnceLock<bool> = OnceLock::new();
    // SAFETY: loads cuBLAS, whose initialisers are NVIDIA's.
    present(&ONCE, || unsafe { cublas::sys::is_culib_present() })
}
