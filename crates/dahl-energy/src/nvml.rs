//! NVIDIA's GPUs through NVML, whose library comes with the driver and is loaded while running: nothing
//! is needed to build, and a machine without it is simply told so.
//!
//! Since Volta a GPU counts its energy in millijoules; older ones only say their power in milliwatts,
//! which is integrated. Names and codes are those of NVIDIA's NVML API reference. The library is never
//! unloaded; it is shut down with the meter.

pub(crate) mod api;

use std::ffi::c_uint;

use dahl_core::{Seconds, Watts};

use super::{Domain, Finding, Found, Meter, Quantity, Scope, Trouble, TroubleKind};
pub(crate) use api::{Api, Device};
use api::{SUCCESS, check};

/// The name of this source.
pub(crate) const NAME: &str = "nvml";

/// What a card may draw that does not say.
const PLAUSIBLE_CARD: Watts = Watts(2000.0);

/// A card may pass its limit for a moment.
const TURBO: f64 = 2.0;

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
    match api::load() {
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
    let count = match nvml.api.count() {
        Ok(count) => count,
        Err(why) => return Found::nothing(NAME, why),
    };
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
    let device = api.device(index)?;
    let name = api.name(device);
    if energy(api, device).is_ok() {
        let counter = Quantity::Counter {
            joules: 1e-3,
            range: None,
        };
        return Ok((device, counter, name));
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
