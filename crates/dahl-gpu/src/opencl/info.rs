//! Which devices there are, and what they can do.

use std::sync::OnceLock;

use cl3::device as cl;
use cl3::error_codes::{DLOPEN_FUNCTION_NOT_AVAILABLE, DLOPEN_RUNTIME_LOAD_FAILED, error_text};
use cl3::platform::{CL_PLATFORM_NAME, CL_PLATFORM_VERSION, get_platform_data, get_platform_ids};
use cl3::types::{cl_device_id, cl_device_info, cl_int};

use crate::error::GpuError;

/// What a loader without any driver answers.
const NO_PLATFORM: cl_int = -1001;

/// A device, described.
#[derive(Clone, Debug, PartialEq)]
pub struct Info {
    /// Its name.
    pub name: String,
    /// Who drives it, and which version.
    pub platform: String,
    /// Its driver's version.
    pub driver: String,
    /// Whether it is a GPU or another accelerator, not a CPU.
    pub accelerator: bool,
    /// Bytes of its memory, and most bytes of one buffer.
    pub memory: [usize; 2],
    /// Bytes of local memory of a group.
    pub local: usize,
    /// Compute units.
    pub units: usize,
    /// Highest clock, in MHz.
    pub clock: usize,
    /// Most items of a group.
    pub group: usize,
    /// Whether it computes in double precision.
    pub doubles: bool,
    /// Whether its memory is the host's.
    pub shared: bool,
    pub(super) id: Id,
}

/// A device as the library knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Id(pub cl_device_id);

// SAFETY: ids of devices are names, valid in every thread for as long as the library is loaded, which
// it stays.
unsafe impl Send for Id {}
// SAFETY: as above.
unsafe impl Sync for Id {}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes)
        .trim_end_matches('\0')
        .trim()
        .to_string()
}

/// A number of four or eight bytes.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b)) as usize
}

fn describe(id: cl_device_id, platform: &str) -> Result<Info, cl_int> {
    let data = |what: cl_device_info| cl::get_device_data(id, what);
    let value = |what: cl_device_info| data(what).map(|b| number(&b));
    let kind = value(cl::CL_DEVICE_TYPE)? as u64;
    Ok(Info {
        name: text(data(cl::CL_DEVICE_NAME)?),
        platform: platform.to_string(),
        driver: text(data(cl::CL_DRIVER_VERSION)?),
        accelerator: kind & (cl::CL_DEVICE_TYPE_GPU | cl::CL_DEVICE_TYPE_ACCELERATOR) != 0,
        memory: [
            value(cl::CL_DEVICE_GLOBAL_MEM_SIZE)?,
            value(cl::CL_DEVICE_MAX_MEM_ALLOC_SIZE)?,
        ],
        local: value(cl::CL_DEVICE_LOCAL_MEM_SIZE)?,
        units: value(cl::CL_DEVICE_MAX_COMPUTE_UNITS)?,
        clock: value(cl::CL_DEVICE_MAX_CLOCK_FREQUENCY)?,
        group: value(cl::CL_DEVICE_MAX_WORK_GROUP_SIZE)?,
        doubles: value(cl::CL_DEVICE_DOUBLE_FP_CONFIG).unwrap_or(0) != 0,
        shared: value(cl::CL_DEVICE_HOST_UNIFIED_MEMORY).unwrap_or(0) != 0,
        id: Id(id),
    })
}

/// All devices of all platforms, in the library's order. None of a platform is no error; no library is.
///
/// The library is asked once: its own list never changes, and some set themselves up while they are
/// first asked, which must not happen in two threads.
pub fn devices() -> Result<Vec<Info>, GpuError> {
    static ONCE: OnceLock<Result<Vec<Info>, GpuError>> = OnceLock::new();
    ONCE.get_or_init(ask).clone()
}

fn ask() -> Result<Vec<Info>, GpuError> {
    let missing = |code: cl_int| GpuError::NoLibrary {
        library: "OpenCL",
        why: match code {
            DLOPEN_RUNTIME_LOAD_FAILED => "no libOpenCL found; install an OpenCL driver".into(),
            DLOPEN_FUNCTION_NOT_AVAILABLE => "the library lacks functions of OpenCL 1.2".into(),
            _ => format!("{} ({code})", error_text(code)),
        },
    };
    let platforms = match get_platform_ids() {
        Err(NO_PLATFORM) => Vec::new(),
        other => other.map_err(missing)?,
    };
    let mut found = Vec::new();
    for platform in platforms {
        let about = |what| get_platform_data(platform, what).map_or(String::new(), text);
        let about = format!(
            "{} ({})",
            about(CL_PLATFORM_NAME),
            about(CL_PLATFORM_VERSION)
        );
        let ids = cl::get_device_ids(platform, cl::CL_DEVICE_TYPE_ALL).unwrap_or_default();
        // A device that cannot be described cannot be used either.
        found.extend(ids.into_iter().filter_map(|id| describe(id, &about).ok()));
    }
    Ok(found)
}
