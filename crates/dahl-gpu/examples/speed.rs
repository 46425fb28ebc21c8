//! What a device does: link, launch latency, products and convolutions. Short, on OpenCL's devices.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::{DType, Mode, Param};
use dahl_gpu::launch::{Steps, Task};
use dahl_gpu::opencl::{self, OpenClDevice};
use dahl_gpu::tensor::{Base, Tensor};
use dahl_gpu::{Device, GpuError, GpuMemory, Settings, recipes};

/// Seconds of the fastest of a few runs of a codelet.
fn time(
    device: &dyn Device,
    codelet: &str,
    dims: &[[usize; 4]],
    params: &[Param],
    runs: usize,
) -> Result<f64, GpuError> {
    let mut tensors = Vec::new();
    for &d in dims {
        let at = device.allocate(d.iter().product::<usize>() * 4)?;
        tensors.push(Tensor::contiguous(Base::At(at), d));
    }
    let mut modes = vec![Mode::Read; dims.len()];
    if let Some(last) = modes.last_mut() {
        *last = Mode::Write;
    }
    let task = Task {
        tensors: &tensors,
        modes: &modes,
        params,
        first: 0,
    };
    let missing = || GpuError::Unsupported(format!("no recipe for {codelet}"));
    let recipe = recipes::by_name(codelet).ok_or_else(missing)?;
    let mut best = f64::INFINITY;
    for _ in 0..=runs {
        let start = Instant::now();
        let mut steps = Steps::new(DType::F32, device.tuning());
        recipe(&task, &mut steps);
        device.run(&steps)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    for t in &tensors {
        if let Base::At(at) = t.base {
            device.release(at);
        }
    }
    Ok(best)
}

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
        let one = time(&*device, "fill", &[[1; 4]], &[Param::Float(0.0)], 200)?;
        println!("  a task of one launch: {:.1} µs", one * 1e6);
        for n in [256, 512] {
            let square = [1, 1, n, n];
            let t = time(
                &*device,
                "matmul",
                &[square; 3],
                &[Param::Int(0), Param::Int(0)],
                3,
            )?;
            println!(
                "  matmul {n}: {:.2} GFLOP/s",
                2.0 * (n as f64).powi(3) / t / 1e9
            );
        }
        let dims = [[8, 32, 32, 32], [64, 32, 3, 3], [8, 64, 32, 32]];
        let flops = 2.0 * (8 * 64 * 32 * 32 * 32 * 9) as f64;
        let params = [3, 3, 1, 1, 1, 1, 0].map(Param::Int);
        let t = time(&*device, "conv2d", &dims, &params, 3)?;
        println!(
            "  conv2d 32→64, 3×3 on 32×32, 8 samples: {:.2} GFLOP/s",
            flops / t / 1e9
        );
    }
    Ok(())
}
