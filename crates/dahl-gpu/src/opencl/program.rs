//! Programs: compiled, or taken from the cache, and their kernels.

use std::collections::HashMap;
use std::ffi::CString;
use std::path::Path;

use cl3::kernel::{CL_KERNEL_WORK_GROUP_SIZE, create_kernel, get_kernel_work_group_data};
use cl3::program as cl;
use cl3::types::{cl_context, cl_kernel, cl_program};
use dahl_core::DType;

use super::handle::{Owned, call};
use super::info::Info;
use crate::cache;
use crate::error::GpuError;
use crate::source::{self, Language};
use crate::tuning::Tuning;

const OPTIONS: &std::ffi::CStr = c"-cl-std=CL1.2";

/// The kernels of a program for one element type.
pub(super) struct Program {
    kernels: HashMap<&'static str, Owned<cl_kernel>>,
    /// Most items of a group that every kernel can be launched with.
    pub limit: usize,
}

impl Program {
    /// Takes the program from the cache, or compiles it and puts it there.
    pub(super) fn new(
        context: cl_context,
        info: &Info,
        dtype: DType,
        tuning: &Tuning,
        folder: Option<&Path>,
    ) -> Result<Self, GpuError> {
        let text = source::program(Language::OpenCl, dtype, tuning);
        let options = OPTIONS.to_string_lossy();
        let parts: [&str; 5] = [&text, &options, &info.name, &info.platform, &info.driver];
        let place = folder.map(|f| cache::entry(f, &parts));
        if let Some(place) = &place
            && let Some(binary) = cache::load(place)
            && let Ok(program) = from_binary(context, info, &binary)
            && let Ok(ready) = Self::kernels_of(&program, info)
        {
            return Ok(ready);
        }
        let program = from_source(context, info, &text)?;
        if let Some(place) = place
            && let Some(binary) = binary_of(&program)
        {
            // Without a cache, the next start compiles again.
            let _ = cache::store(&place, &binary);
        }
        Self::kernels_of(&program, info)
    }

    fn kernels_of(program: &Owned<cl_program>, info: &Info) -> Result<Self, GpuError> {
        let (mut kernels, mut limit) = (HashMap::new(), usize::MAX);
        for name in source::kernels() {
            let c_name = CString::new(name).map_err(|e| GpuError::Unsupported(e.to_string()))?;
            let raw = create_kernel(program.raw(), &c_name);
            let raw = call(&info.name, &format!("creating kernel {name}"), raw)?;
            // SAFETY: created just now.
            let kernel = unsafe { Owned::new(raw, cl3::kernel::release_kernel) };
            let most = get_kernel_work_group_data(raw, info.id.0, CL_KERNEL_WORK_GROUP_SIZE);
            let most = call(&info.name, &format!("asking about kernel {name}"), most)?;
            let most = most.first_chunk().map_or(1, |b| usize::from_le_bytes(*b));
            limit = limit.min(most);
            kernels.insert(name, kernel);
        }
        Ok(Program { kernels, limit })
    }

    /// A kernel by name.
    pub(super) fn kernel(&self, name: &str) -> Option<cl_kernel> {
        self.kernels.get(name).map(Owned::raw)
    }
}

fn owned(raw: cl_program) -> Owned<cl_program> {
    // SAFETY: only called with what was created just now.
    unsafe { Owned::new(raw, cl::release_program) }
}

fn build(program: &Owned<cl_program>, info: &Info) -> Result<(), GpuError> {
    let devices = [info.id.0];
    let built = cl::build_program(program.raw(), &devices, OPTIONS, None, std::ptr::null_mut());
    built.map_err(|code| {
        let log = cl::get_program_build_data(program.raw(), info.id.0, cl::CL_PROGRAM_BUILD_LOG);
        let log = log.unwrap_or_default();
        GpuError::Build {
            device: info.name.clone(),
            log: format!(
                "{} ({code})\n{}",
                cl3::error_codes::error_text(code),
                String::from_utf8_lossy(&log).trim_end_matches('\0')
            ),
        }
    })
}

fn from_source(
    context: cl_context,
    info: &Info,
    text: &str,
) -> Result<Owned<cl_program>, GpuError> {
    let raw = cl::create_program_with_source(context, &[text]);
    let program = owned(call(&info.name, "creating a program", raw)?);
    build(&program, info)?;
    Ok(program)
}

fn from_binary(
    context: cl_context,
    info: &Info,
    binary: &[u8],
) -> Result<Owned<cl_program>, GpuError> {
    // SAFETY: the device is the context's; the binary's checksum was right, and the driver checks it.
    let raw = unsafe { cl::create_program_with_binary(context, &[info.id.0], &[binary]) };
    let program = owned(call(&info.name, "loading a program", raw)?);
    build(&program, info)?;
    Ok(program)
}

/// The binary of a program's only device.
fn binary_of(program: &Owned<cl_program>) -> Option<Vec<u8>> {
    let info = cl::get_program_info(program.raw(), cl::CL_PROGRAM_BINARIES).ok()?;
    let cl3::info_type::InfoType::VecVecUchar(mut all) = info else {
        return None;
    };
    (all.len() == 1 && !all[0].is_empty()).then(|| all.remove(0))
}
