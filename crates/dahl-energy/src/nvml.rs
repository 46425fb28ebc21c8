//! NVIDIA's GPUs through NVML, whose library comes with the driver and is loaded while running: nothing
//! is needed to build, and a machine without it is simply told so.
//!
//! Since Volta a GPU counts its energy in millijoules; older ones only say their power in milliwatts,
//! which is integrated. Names and codes are those of NVIDIA's NVML API reference. The library is never
//! unloaded; it is shut down with the meter.

use std::ffi::{c_char, c_int, c_uint, c_void};

use dahl_core::{Seconds, Watts};

use super::{Domain, Finding, Found, Meter, Quantity, Scope, Trouble, TroubleKind};

/// The name of this source.
pub(crate) const NAME: &str = "nvml";

/// What a card may draw that does not say.
const PLAUSIBLE_CARD: Watts = Watts(2000.0);

/// A card may pass its limit for a moment.
const TURBO: f64 = 2.0;

const SUCCESS: c_int = 0;
const NOT_SUPPORTED: c_int = 3;
const NO_PERMISSION: c_int = 4;
const GPU_IS_LOST: c_int = 15;

/// A GPU, as the library knows it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Device(pub(super) *mut c_void);

// SAFETY: the handle is a name that the library gave out; NVML is documented to be thread-safe.
unsafe impl Send for Device {}

/// The functions of the library that we use. Code that makes one of these promises that its functions keep
/// the contracts of NVML.
pub(super) struct Api {
    pub(super) init: unsafe extern "C" fn() -> c_int,
    pub(super) shutdown: unsafe extern "C" fn() -> c_int,
    pub(super) count: unsafe extern "C" fn(*mut c_uint) -> c_int,
    pub(super) device: unsafe extern "C" fn(c_uint, *mut Device) -> c_int,
    pub(super) name: unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int,
    pub(super) power: unsafe extern "C" fn(Device, *mut c_uint) -> c_int,
    /// Not in libraries before 2018.
    pub(super) energy: Option<unsafe extern "C" fn(Device, *mut u64) -> c_int>,
    pub(super) limit: Option<unsafe extern "C" fn(Device, *mut c_uint) -> c_int>,
}

struct Nvml {
    api: Api,
    domains: Vec<Domain>,
    devices: Vec<Device>,
}

impl Meter for Nvml {
    fn name(&self) -> &'static str {
        NAME
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn read(&mut self, domain: usize, _: Seconds) -> Result<u64, Trouble> {
        let device = self.devices[domain];
        match self.domains[domain].quantity {
            Quantity::Counter { .. } => energy(&self.api, device),
            Quantity::Power { .. } => power(&self.api, device),
        }
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: the library was initialised, once, by `discover_with`.
        unsafe { (self.api.shutdown)() };
    }
}

/// Looks for the library and its GPUs.
pub(crate) fn discover() -> Found {
    match load() {
        Ok(api) => discover_with(api),
        Err(why) => Found::nothing(NAME, why),
    }
}

pub(super) fn discover_with(api: Api) -> Found {
    // SAFETY: takes nothing, and may be called at any time.
    let code = unsafe { (api.init)() };
    if let Err(why) = check(code, "nvmlInit") {
        return Found::nothing(NAME, why);
    }
    let mut nvml = Nvml {
        api,
        domains: Vec::new(),
        devices: Vec::new(),
    };
    let mut count = 0;
    // SAFETY: the library is initialised and writes one number.
    let code = unsafe { (nvml.api.count)(&mut count) };
    if let Err(why) = check(code, "nvmlDeviceGetCount") {
        return Found::nothing(NAME, why);
    }
    let mut findings = Vec::new();
    for i in 0..count {
        let name = format!("gpu-{i}");
        match gpu(&nvml.api, i) {
            Ok((device, quantity, note)) => {
                findings.push(Finding::readable(NAME, &name, note));
                nvml.domains.push(Domain {
                    name,
                    scope: Scope::Gpu,
                    quantity,
                    ceiling: ceiling(&nvml.api, device),
                    sampled: true,
                });
                nvml.devices.push(device);
            }
            Err(why) => findings.push(Finding::not(NAME, &name, why)),
        }
    }
    if findings.is_empty() {
        let why = Trouble::new(TroubleKind::Missing, "nvml: the driver sees no GPU");
        return Found::nothing(NAME, why);
    }
    let any = !nvml.domains.is_empty();
    Found {
        meter: any.then(|| Box::new(nvml) as Box<dyn Meter>),
        findings,
    }
}

/// A GPU's handle, the best that it can tell, and its name.
fn gpu(api: &Api, index: c_uint) -> Result<(Device, Quantity, String), Trouble> {
    let mut device = Device(std::ptr::null_mut());
    // SAFETY: the library is initialised and writes one handle.
    let code = unsafe { (api.device)(index, &mut device) };
    check(code, "nvmlDeviceGetHandleByIndex")?;
    let mut text: [c_char; 96] = [0; 96];
    // SAFETY: the device is the library's; it writes at most as many bytes as it is told there are.
    let code = unsafe { (api.name)(device, text.as_mut_ptr(), text.len() as c_uint) };
    let bytes: Vec<u8> = text
        .iter()
        .take_while(|&&c| code == SUCCESS && c != 0)
        .map(|&c| c as u8)
        .collect();
    let name = String::from_utf8_lossy(&bytes);
    if energy(api, device).is_ok() {
        let counter = Quantity::Counter {
            joules: 1e-3,
            range: None,
        };
        return Ok((device, counter, name.into_owned()));
    }
    power(api, device)?;
    let note = format!("{name}; no energy counter, so power is integrated");
    Ok((device, Quantity::Power { watts: 1e-3 }, note))
}

fn energy(api: &Api, device: Device) -> Result<u64, Trouble> {
    let call = "nvmlDeviceGetTotalEnergyConsumption";
    let Some(function) = api.energy else {
        return Err(Trouble::new(
            TroubleKind::Missing,
            format!("this driver has no {call}"),
        ));
    };
    let mut value = 0;
    // SAFETY: the device is the library's, which is initialised and writes one number.
    let code = unsafe { function(device, &mut value) };
    check(code, call).map(|()| value)
}

fn power(api: &Api, device: Device) -> Result<u64, Trouble> {
    let mut value = 0;
    // SAFETY: as in `energy`.
    let code = unsafe { (api.power)(device, &mut value) };
    check(code, "nvmlDeviceGetPowerUsage").map(|()| u64::from(value))
}

fn ceiling(api: &Api, device: Device) -> Watts {
    let mut limit = 0;
    // SAFETY: as in `energy`.
    let code = api.limit.map(|f| unsafe { f(device, &mut limit) });
    match limit {
        limit if code == Some(SUCCESS) && limit > 0 => Watts(f64::from(limit) * 1e-3 * TURBO),
        _ => PLAUSIBLE_CARD,
    }
}

fn check(code: c_int, call: &str) -> Result<(), Trouble> {
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
fn load() -> Result<Api, Trouble> {
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
        })
    }
}

#[cfg(not(unix))]
fn load() -> Result<Api, Trouble> {
    let text = "nvml: only asked on Unix systems";
    Err(Trouble::new(TroubleKind::Missing, text))
}
