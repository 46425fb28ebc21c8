//! What the machine can do: matrix products, copying, the time between two tasks. Measured as tasks, on
//! one core alone or on all of them at the same time.

use std::sync::Arc;

use dahl_core::trace::Trace;
use dahl_core::{Arena, Codelet, Element, Graph, Recorder, Task, UnitKind};
use dahl_ops::api::{self, Transposed};
use dahl_ops::simd::Lane;
use dahl_runtime::Runtime;

use crate::error::TuneError;
use crate::profile::Speeds;

/// Rows and columns of the products: large enough for the kernel's best, small enough for a cache.
const SIDE: usize = 512;

/// Bytes of each array that is copied: more than caches hold.
const COPIED: usize = 64 << 20;

/// Measures with so many workers.
pub(crate) fn speeds(workers: usize, seconds: f64) -> Result<Speeds, TuneError> {
    Ok(Speeds {
        flops_f32: product::<f32>(workers, seconds / 4.0)?,
        flops_f64: product::<f64>(workers, seconds / 4.0)?,
        bandwidth: copying(workers, seconds / 4.0)?,
        overhead: between(workers)?,
    })
}

fn runtime(workers: usize) -> Result<Runtime, TuneError> {
    let builder = Runtime::builder().workers(workers);
    Ok(builder.trace(1 << 16).build()?)
}

/// Launches a program until the time is up; the shortest duration of each task's kind that was seen
/// while all workers worked.
fn shortest(runtime: &mut Runtime, graph: &Arc<Graph>, seconds: f64) -> Result<f64, TuneError> {
    let end = std::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
    let mut best = f64::INFINITY;
    while best.is_infinite() || std::time::Instant::now() < end {
        runtime.launch(graph)?;
        runtime.wait()?;
        if let Some(trace) = runtime.take_trace() {
            let mut all: Vec<u64> = trace.tasks.iter().map(|t| t.end - t.start).collect();
            all.sort_unstable();
            // The middle one: with several workers the first and last tasks run with fewer of them.
            if let Some(middle) = all.get(all.len() / 2) {
                best = best.min(*middle as f64 * 1e-9);
            }
        }
    }
    Ok(best)
}

fn product<T: Lane>(workers: usize, seconds: f64) -> Result<f64, TuneError> {
    let arena = Arena::new();
    let mut runtime = runtime(workers)?;
    let recorder = Recorder::new();
    let whole = [SIDE, SIDE];
    let mut all = Vec::new();
    for _ in 0..workers {
        let x = arena.full::<T, 2>(whole, T::from_f64(0.5))?;
        let y = arena.full::<T, 2>(whole, T::from_f64(0.25))?;
        all.push((x, y, arena.zeros::<T, 2>(whole)?));
    }
    for _ in 0..4 {
        for (x, y, z) in &mut all {
            api::matmul_into(&recorder, x, y, Transposed::NONE, z);
        }
    }
    let graph = recorder.finish()?;
    let flops = 2.0 * (SIDE * SIDE * SIDE) as f64;
    Ok(flops / shortest(&mut runtime, &graph, seconds)?)
}

fn copying(workers: usize, seconds: f64) -> Result<f64, TuneError> {
    let arena = Arena::new();
    let mut runtime = runtime(workers)?;
    let recorder = Recorder::new();
    let len = [COPIED / f32::DTYPE.size()];
    let mut all = Vec::new();
    for _ in 0..workers {
        all.push((arena.full::<f32, 1>(len, 1.0)?, arena.zeros::<f32, 1>(len)?));
    }
    for _ in 0..3 {
        for (x, y) in &mut all {
            api::copy_into(&recorder, x, y);
        }
    }
    let graph = recorder.finish()?;
    Ok(2.0 * COPIED as f64 / shortest(&mut runtime, &graph, seconds)?)
}

/// The median time from the end of a task to the start of the next on the same unit, where that one was
/// ready.
fn between(workers: usize) -> Result<f64, TuneError> {
    let nothing = Arc::new(Codelet::new("nothing").implement("nothing", UnitKind::CPU, |_| Ok(())));
    let arena = Arena::new();
    let mut runtime = runtime(workers)?;
    let recorder = Recorder::new();
    let mut cells = Vec::new();
    for _ in 0..16 {
        cells.push(arena.zeros::<f32, 0>([])?);
    }
    for i in 0..8192 {
        let cell = &mut cells[i % 16];
        recorder.submit(Task::new(&nothing, &[cell.read_write()]));
    }
    let graph = recorder.finish()?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        runtime.launch(&graph)?;
        runtime.wait()?;
        if let Some(trace) = runtime.take_trace() {
            best = best.min(median_gap(&trace).unwrap_or(best));
        }
    }
    Ok(if best.is_finite() { best } else { 0.0 })
}

fn median_gap(trace: &Trace) -> Option<f64> {
    let mut last = vec![None; trace.units.len()];
    let mut gaps = Vec::new();
    for run in &trace.tasks {
        let end = last[usize::from(run.unit)].replace(run.end);
        if let Some(end) = end
            && run.ready <= end
        {
            gaps.push(run.start.saturating_sub(end));
        }
    }
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).map(|g| *g as f64 * 1e-9)
}
