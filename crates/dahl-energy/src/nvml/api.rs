//! The functions of NVIDIA's management library, loaded while running. Names, signatures and codes are those of its API
//! reference; nothing is called here beyond what a caller asks for.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::{Trouble, TroubleKind};

pub(crate) const SUCCESS: c_int = 0;
const NOT_SUPPORTED: c_int = 3;
const NO_PERMISSION: c_int = 4;
const GPU_IS_LOST: c_int = 15;

/// A GPU, as the library knows it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Device(pub(crate) *mut c_void);

// SAFETY: the handle is a name that the library gave out; NVML is documented to be thread-safe.
unsafe impl Send for Device {}

/// The functions of the library that we use. Code that makes one of these promises that its functions keep
/// the contracts of NVML.
pub(crate) struct Api {
    pub(crate) init: unsafe extern "C" fn() -> c_int,
    pub(crate) shutdown: unsafe extern "C" fn() -> c_int,
    pub(crate) count: unsafe extern "C" fn(*mut c_uint) -> c_int,
    pub(crate) device: unsafe extern "C" fn(c_uint, *mut Device) -> c_int,
    pub(crate) name: unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int,
    pub(crate) power: unsafe extern "C" fn(Device, *mut c_uint) -> c_int,
    /// Not in libraries before 2018.
    pub(crate) energy: Option<unsafe extern "C" fn(Device, *mut u64) -> c_int>,
    pub(crate) limit: Option<unsafe extern "C" fn(Device, *mut c_uint) -> c_int>,
    /// Clocks, since 2019 (Volta).
    pub(crate) clocks: Option<Clocks>,
}

/// The functions about clocks, in megahertz.
#[derive(Clone, Copy)]
pub(crate) struct Clocks {
    /// `nvmlDeviceGetSupportedMemoryClocks`: how many there is room for and then are, and where they go.
    pub(crate) memory: unsafe extern "C" fn(Device, *mut c_uint, *mut c_uint) -> c_int,
    /// `nvmlDeviceGetSupportedGraphicsClocks`: the same for a clock of the memory.
    pub(crate) graphics: unsafe extern "C" fn(Device, c_uint, *mut c_uint, *mut c_uint) -> c_int,
    /// `nvmlDeviceSetGpuLockedClocks`: the lowest and the highest.
    pub(crate) lock: unsafe extern "C" fn(Device, c_uint, c_uint) -> c_int,
}

impl Api {
    /// How many GPUs there are. The library must be initialised, here and below.
    pub(crate) fn count(&self) -> Result<c_uint, Trouble> {
        let mut count = 0;
        // SAFETY: the library is initialised and writes one number.
        let code = unsafe { (self.count)(&mut count) };
        check(code, "nvmlDeviceGetCount").map(|()| count)
    }

    /// The handle of a GPU.
    pub(crate) fn device(&self, index: c_uint) -> Result<Device, Trouble> {
        let mut device = Device(std::ptr::null_mut());
        // SAFETY: the library is initialised and writes one handle.
        let code = unsafe { (self.device)(index, &mut device) };
        check(code, "nvmlDeviceGetHandleByIndex").map(|()| device)
    }

    /// Its name; empty if it does not tell.
    pub(crate) fn name(&self, device: Device) -> String {
        let mut text: [c_char; 96] = [0; 96];
        // SAFETY: the device is the library's; it writes at most as many bytes as it is given room for.
        let code = unsafe { (self.name)(device, text.as_mut_ptr(), text.len() as c_uint) };
        let bytes = text.iter().take_while(|&&c| code == SUCCESS && c != 0);
        let bytes: Vec<u8> = bytes.map(|&c| c as u8).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

pub(crate) fn check(code: c_int, call: &str) -> Result<(), Trouble> {
    let (kind, text) = match code {
        SUCCESS => return Ok(()),
        NOT_SUPPORTED => (TroubleKind::Missing, "this GPU does not tell".to_string()),
        NO_PERMISSION => (TroubleKind::Denied, "permission denied".to_string()),
        GPU_IS_LOST => (TroubleKind::Missing, "the GPU is gone".to_string()),
        9 => (TroubleKind::Missing, "no driver is loaded".to_string()),
        other => (TroubleKind::Failed, format!("error {other}")),
    };
    Err(Trouble::new(kind, format!("{call}: {text}")))
}

#[cfg(unix)]
pub(crate) fn load() -> Result<Api, Trouble> {
    use std::ffi::CStr;

    const LIBRARY: &CStr = c"libnvidia-ml.so.1";

    // SAFETY: the name is a C string; what the library does when it is loaded is the driver's business,
    // as in every program that uses the GPU.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        let text = "nvml: no NVIDIA driver here (libnvidia-ml.so.1 cannot be loaded)";
        return Err(Trouble::new(TroubleKind::Missing, text));
    }
    let find = |name: &CStr| {
        // SAFETY: the library is loaded and stays so; the name is a C string.
        let symbol = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!symbol.is_null()).then_some(symbol)
    };
    let need = |name: &CStr| {
        find(name).ok_or_else(|| {
            let text = format!(
                "nvml: libnvidia-ml.so.1 has no {}: update the driver",
                name.to_string_lossy()
            );
            Trouble::new(TroubleKind::Missing, text)
        })
    };
    // SAFETY: each symbol is the function of this name in NVML's API, whose documented signature is the
    // field's type; function pointers and data pointers have one size on Unix.
    unsafe {
        use std::mem::transmute as typed;
        Ok(Api {
            init: typed::<*mut c_void, unsafe extern "C" fn() -> c_int>(need(c"nvmlInit_v2")?),
            shutdown: typed::<*mut c_void, unsafe extern "C" fn() -> c_int>(need(c"nvmlShutdown")?),
            count: typed::<*mut c_void, unsafe extern "C" fn(*mut c_uint) -> c_int>(need(
                c"nvmlDeviceGetCount_v2",
            )?),
            device: typed::<*mut c_void, unsafe extern "C" fn(c_uint, *mut Device) -> c_int>(need(
                c"nvmlDeviceGetHandleByIndex_v2",
            )?),
            name: typed::<*mut c_void, unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int>(
                need(c"nvmlDeviceGetName")?,
            ),
            power: typed::<*mut c_void, unsafe extern "C" fn(Device, *mut c_uint) -> c_int>(need(
                c"nvmlDeviceGetPowerUsage",
            )?),
            energy: find(c"nvmlDeviceGetTotalEnergyConsumption")
                .map(|s| typed::<*mut c_void, unsafe extern "C" fn(Device, *mut u64) -> c_int>(s)),
            limit: find(c"nvmlDeviceGetEnforcedPowerLimit").map(|s| {
                typed::<*mut c_void, unsafe extern "C" fn(Device, *mut c_uint) -> c_int>(s)
            }),
            clocks: (|| {
                Some(Clocks {
                    memory: typed::<
                        *mut c_void,
                        unsafe extern "C" fn(Device, *mut c_uint, *mut c_uint) -> c_int,
                    >(find(c"nvmlDeviceGetSupportedMemoryClocks")?),
                    graphics: typed::<
                        *mut c_void,
                        unsafe extern "C" fn(Device, c_uint, *mut c_uint, *mut c_uint) -> c_int,
                    >(find(c"nvmlDeviceGetSupportedGraphicsClocks")?),
                    lock: typed::<*mut c_void, unsafe extern "C" fn(Device, c_uint, c_uint) -> c_int>(
                        find(c"nvmlDeviceSetGpuLockedClocks")?,
                    ),
                })
            })(),
        })
    }
}

#[cfg(not(unix))]
pub(crate) fn load() -> Result<Api, Trouble> {
    let text = "nvml: only asked on Unix systems";
    Err(Trouble::new(TroubleKind::Missing, text))
}
