//! NVML's meter over a library of our own: three GPUs, of which one counts, one only tells its power and
//! one tells nothing; and drivers that refuse.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

use dahl_core::Seconds;

use super::super::nvml::{Api, Device, discover_with};
use super::super::*;

unsafe extern "C" fn fine() -> c_int {
    0
}

unsafe extern "C" fn no_driver() -> c_int {
    9
}

unsafe extern "C" fn three(count: *mut c_uint) -> c_int {
    // SAFETY: the meter passes a place for one number.
    unsafe { count.write(3) };
    0
}

unsafe extern "C" fn device(index: c_uint, device: *mut Device) -> c_int {
    // SAFETY: the meter passes a place for one handle; ours is only ever looked at as a number.
    unsafe {
        device.write(Device(std::ptr::without_provenance_mut::<c_void>(
            index as usize,
        )))
    };
    0
}

unsafe extern "C" fn name(_: Device, text: *mut c_char, length: c_uint) -> c_int {
    for (i, byte) in b"Abacus\0".iter().enumerate().take(length as usize) {
        // SAFETY: within the length that the meter says.
        unsafe { text.add(i).write(*byte as c_char) };
    }
    0
}

unsafe extern "C" fn power(device: Device, milliwatts: *mut c_uint) -> c_int {
    if device.0.addr() == 2 {
        return 3;
    }
    // SAFETY: the meter passes a place for one number.
    unsafe { milliwatts.write(50_000) };
    0
}

unsafe extern "C" fn energy(device: Device, millijoules: *mut u64) -> c_int {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    if device.0.addr() != 0 {
        return 3;
    }
    // SAFETY: the meter passes a place for one number.
    unsafe { millijoules.write(COUNT.fetch_add(100_000, Ordering::Relaxed)) };
    0
}

fn api() -> Api {
    Api {
        init: fine,
        shutdown: fine,
        count: three,
        device,
        name,
        power,
        energy: Some(energy),
        limit: None,
        clocks: None,
    }
}

#[test]
fn counters_are_preferred_to_power_and_silence_is_told() {
    let found = discover_with(api());
    assert_eq!(found.findings[0].note, "Abacus");
    assert!(
        found.findings[1].note.contains("power is integrated"),
        "{:?}",
        found.findings[1]
    );
    let why = found.findings[2]
        .trouble
        .as_ref()
        .expect("the third is silent");
    assert!(why.text.contains("does not tell"), "{why}");
    let meters = Meters {
        meters: found.meter.into_iter().collect(),
        findings: found.findings,
    };
    let mut ledger = Ledger::new(meters, None, Seconds(0.1));
    for i in 0..=2 {
        ledger.sample(Seconds(f64::from(i)));
    }
    let energy = ledger.energy();
    assert_eq!(energy.source(), "measured (nvml: gpu-0, gpu-1)");
    // 100 J per reading of the first, 50 W over two seconds of the second.
    assert!((energy.joules().expect("measured").0 - 300.0).abs() < 1e-9);
}

#[test]
fn a_driver_that_refuses_is_told() {
    let found = discover_with(Api {
        init: no_driver,
        ..api()
    });
    assert!(found.meter.is_none());
    let why = found.findings[0].trouble.as_ref().expect("a reason");
    assert_eq!(why.text, "nvmlInit: no driver is loaded");
    // A library from before energy counters.
    let found = discover_with(Api {
        energy: None,
        ..api()
    });
    let domains = found.meter.as_ref().map_or(0, |m| m.domains().len());
    assert_eq!(domains, 2);
}
