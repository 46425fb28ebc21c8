//! What a device does at best: its link, a launch, products, copies. Quick figures, a fraction of a second
//! each, of a device that is otherwise idle.
//!
//! Every figure is the best or the median of several runs after a first one that does not count: it
//! compiles, allocates and touches memory for the first time.

use std::slice::from_ref;
use std::time::{Duration, Instant};

use dahl_core::{DType, Mode, Param, Seconds};
use dahl_runtime::memory::Direction;

use crate::device::{Device, LinkSpeed};
use crate::error::GpuError;
use crate::launch::{Steps, Task};
use crate::recipes;
use crate::tensor::{Base, Tensor};

/// How long one figure may take.
const PATIENCE: Duration = Duration::from_millis(300);

/// Most runs for one figure.
const RUNS: usize = 200;

/// Memory of a device, given back when dropped.
pub(crate) struct Borrowed<'d>(pub &'d dyn Device, pub Vec<usize>);

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.1.iter().for_each(|&a| self.0.release(a));
    }
}

/// Durations of runs, in order of size: one that does not count, then at least three.
fn timed(mut run: impl FnMut() -> Result<(), GpuError>) -> Result<Vec<f64>, GpuError> {
    run()?;
    let (begin, mut all) = (Instant::now(), Vec::new());
    while all.len() < 3 || (all.len() < RUNS && begin.elapsed() < PATIENCE) {
        let start = Instant::now();
        run()?;
        all.push(start.elapsed().as_secs_f64());
    }
    all.sort_by(f64::total_cmp);
    Ok(all)
}

/// One way of a device's link: a small and a large copy, the best of several.
pub(crate) fn link(device: &dyn Device, way: Direction) -> Result<LinkSpeed, GpuError> {
    const SMALL: usize = 64;
    // Where a limit leaves little room, a smaller copy must do.
    let large = (8 << 20).min(device.usage().limit / 2).max(2 * SMALL);
    let mut host = vec![0u8; large];
    let memory = Borrowed(device, vec![device.allocate(large)?]);
    let mut best = |bytes: usize| -> Result<f64, GpuError> {
        let all = 0..bytes;
        let times = timed(|| {
            // SAFETY: both sides have so many bytes, and are ours alone.
            unsafe { device.copy(memory.1[0], host.as_mut_ptr(), from_ref(&all), way) }
        })?;
        Ok(times[0])
    };
    let (small, all) = (best(SMALL)?, best(large)?);
    Ok(LinkSpeed {
        bandwidth: large as f64 / (all - small).max(1e-9),
        latency: Seconds(small),
    })
}

/// Seconds that a codelet takes on operands of these extents, of which the last is written: several runs,
/// in order of size.
pub fn codelet(
    device: &dyn Device,
    name: &str,
    dtype: DType,
    dims: &[[usize; 4]],
    params: &[Param],
) -> Result<Vec<f64>, GpuError> {
    let mut memory = Borrowed(device, Vec::new());
    let mut tensors = Vec::new();
    let host = vec![0u8; dims.iter().map(bytes(dtype)).max().unwrap_or(0)];
    for d in dims {
        let at = device.allocate(bytes(dtype)(d))?;
        memory.1.push(at);
        tensors.push(Tensor::contiguous(Base::At(at), *d));
        let all = 0..bytes(dtype)(d);
        // Arbitrary bytes may be numbers that are slow to compute with.
        // SAFETY: both sides have so many bytes; the host's are only read.
        unsafe {
            let host = host.as_ptr().cast_mut();
            device.copy(at, host, from_ref(&all), Direction::In)?;
        }
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
    let missing = || GpuError::Unsupported(format!("no recipe for {name}"));
    let recipe = recipes::by_name(name).ok_or_else(missing)?;
    timed(|| {
        let mut steps = Steps::new(dtype, device.tuning());
        recipe(&task, &mut steps);
        device.run(&steps)
    })
}

fn bytes(dtype: DType) -> impl Fn(&[usize; 4]) -> usize {
    move |dims| dims.iter().product::<usize>() * dtype.size()
}

/// The time from handing over a task of one element to knowing that it has ended: the median.
pub fn launch(device: &dyn Device) -> Result<Seconds, GpuError> {
    let all = codelet(device, "fill", DType::F32, &[[1; 4]], &[Param::Float(0.0)])?;
    Ok(Seconds(all[all.len() / 2]))
}

/// Operations per second of a product of matrices with 768 rows and columns.
pub fn product(device: &dyn Device, dtype: DType) -> Result<f64, GpuError> {
    const SIDE: usize = 768;
    let square = [1, 1, SIDE, SIDE];
    let params = [Param::Int(0), Param::Int(0)];
    let best = codelet(device, "matmul", dtype, &[square; 3], &params)?[0];
    Ok(2.0 * (SIDE as f64).powi(3) / best)
}

/// Bytes read and written per second while the device copies 16 MiB to another place of its memory.
pub fn copying(device: &dyn Device) -> Result<f64, GpuError> {
    let dims = [1, 1, 4, 1 << 20];
    let best = codelet(device, "copy", DType::F32, &[dims; 2], &[])?[0];
    Ok(2.0 * bytes(DType::F32)(&dims) as f64 / best)
}
