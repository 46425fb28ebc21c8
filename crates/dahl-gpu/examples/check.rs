//! Every codelet on every OpenCL device against the CPU's reference: a report to paste into an issue.
//!
//! `cargo run -p dahl-gpu --example check [SEED]`

use std::sync::Arc;

use dahl_core::DType;
use dahl_gpu::check::check_all;
use dahl_gpu::opencl::{self, OpenClDevice};
use dahl_gpu::{Device, GpuError, Settings};

fn main() -> Result<(), GpuError> {
    let seed = std::env::args().nth(1);
    let seed = seed.and_then(|s| s.parse().ok()).unwrap_or(1);
    for (i, info) in opencl::devices()?.iter().enumerate() {
        println!(
            "opencl:{i} {} on {}, driver {}",
            info.name, info.platform, info.driver
        );
        let device: Arc<dyn Device> = OpenClDevice::open(i, Settings::default())?;
        println!("  {:?}", device.tuning());
        for dtype in [DType::F32, DType::F64] {
            if dtype == DType::F64 && !info.doubles {
                println!("  {dtype}: not on this device");
                continue;
            }
            let all = check_all(&device, dtype, seed);
            let good = all.iter().filter(|o| o.failure.is_none()).count();
            println!(
                "  {dtype}: {good} of {} codelets agree, seed {seed}",
                all.len()
            );
            for failure in all.iter().filter_map(|o| o.failure.as_ref()) {
                println!("    {failure}");
            }
        }
    }
    Ok(())
}
