//! From the kernels' source to PTX.

use cudarc::nvrtc::{CompileError, CompileOptions, compile_ptx_with_opts};
use dahl_core::DType;

use super::library::compiler_present;
use crate::error::GpuError;
use crate::source::{self, Language};
use crate::tuning::Tuning;

/// The PTX of all kernels, for devices of this compute capability and later.
pub fn ptx(dtype: DType, tuning: &Tuning, capability: (i32, i32)) -> Result<String, GpuError> {
    compiler_present()?;
    let text = source::program(Language::Cuda, dtype, tuning);
    let (major, minor) = capability;
    let options = CompileOptions {
        options: vec![format!("--gpu-architecture=compute_{major}{minor}")],
        ..CompileOptions::default()
    };
    let compiled = compile_ptx_with_opts(text, options).map_err(|e| GpuError::Build {
        device: format!("NVRTC for compute capability {major}.{minor}"),
        log: match e {
            CompileError::CompileError { nvrtc, log, .. } => {
                format!("{nvrtc:?}\n{}", log.to_string_lossy())
            }
            other => format!("{other:?}"),
        },
    })?;
    Ok(compiled.to_src())
}
