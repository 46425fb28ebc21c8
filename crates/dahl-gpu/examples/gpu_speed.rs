//! What a device does: link, launch latency, products and convolutions. Short, on OpenCL's devices.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::{DType, Param};
use dahl_gpu::measure::{codelet, launch};
use dahl_gpu::opencl::{self, OpenClDevice};
use dahl_gpu::{Device, GpuError, GpuMemory, Settings};

fn main() -> Result<(), GpuError> {
    for (i, info) in opencl::devices()?.iter().enumerate() {
        println!("opencl:{i} {} on {}", info.name, info.platform);
        let start = Instant::now();
        let device: Arc<dyn Device> = OpenClDevice::open(i, Settings::default())?;
        println!(
            "  opened in {:.2} s, groups {:?}",
            start.elapsed().as_secs_f64(),
            device.tuning()
        );
        let memory = GpuMemory::measured(device.clone())?;
        for (way, link) in ["in", "out"].iter().zip(memory.links()) {
            let (gb, us) = (link.bandwidth / 1e9, link.latency.0 * 1e6);
            println!("  link {way}: {gb:.2} GB/s, {us:.1} µs");
        }
        let one = launch(&*device)?.0;
        println!("  a task of one launch: {:.1} µs", one * 1e6);
        for n in [256, 512] {
            let square = [1, 1, n, n];
            let params = [Param::Int(0), Param::Int(0)];
            let t = codelet(&*device, "matmul", DType::F32, &[square; 3], &params)?[0];
            println!(
                "  matmul {n}: {:.2} GFLOP/s",
                2.0 * (n as f64).powi(3) / t / 1e9
            );
        }
        let dims = [[8, 32, 32, 32], [64, 32, 3, 3], [8, 64, 32, 32]];
        let flops = 2.0 * (8 * 64 * 32 * 32 * 32 * 9) as f64;
        let params = [3, 3, 1, 1, 1, 1, 0].map(Param::Int);
        let t = codelet(&*device, "conv2d", DType::F32, &dims, &params)?[0];
        println!(
            "  conv2d 32→64, 3×3 on 32×32, 8 samples: {:.2} GFLOP/s",
            flops / t / 1e9
        );
    }
    Ok(())
}
