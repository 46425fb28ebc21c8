//! How fast each implementation of an operation is on this machine: one thread, `f32`, best of several runs.
//!
//! Cases are recorded with the typed operations and launched as graphs of one task, so a small one shows what
//! it costs to launch it, too. Operations and bytes are those of the codelet's cost. Arguments, if any, select
//! cases by substring.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use dahl_core::{Arena, Array, Graph, Recorder, UnitKind};
use dahl_ops::api::{self, Conv2d, Pool2d, Transposed};
use dahl_runtime::Runtime;

type Failed = Box<dyn Error>;

/// Records one task over arrays of the arena.
type Record<'a> = &'a dyn Fn(&Recorder, &Arena) -> Result<(), Failed>;

/// An array of small numbers.
fn numbers<const R: usize>(arena: &Arena, dims: [usize; R]) -> Result<Array<'_, f32, R>, Failed> {
    let value = |i: usize| ((i * 7919) % 1009) as f32 / 504.5 - 1.0;
    let values: Vec<f32> = (0..dims.iter().product()).map(value).collect();
    Ok(arena.from_slice(dims, &values)?)
}

/// The graph of a case, by the implementation of this name; and the names that there are.
fn recorded(
    record: Record,
    arena: &Arena,
    by: Option<&str>,
) -> Result<(Arc<Graph>, Vec<String>), Failed> {
    let found = Arc::new(Mutex::new(Vec::new()));
    let (seen, wanted) = (found.clone(), by.map(str::to_owned));
    let recorder = Recorder::new().with_chooser(Arc::new(move |_, _, kind, names| {
        if kind != UnitKind::CPU {
            return None;
        }
        if let Ok(mut seen) = seen.lock() {
            *seen = names.iter().map(|n| n.to_string()).collect();
        }
        names.iter().position(|n| Some(*n) == wanted.as_deref())
    }));
    record(&recorder, arena)?;
    let graph = recorder.finish()?;
    let names = found.lock().map(|names| names.clone()).unwrap_or_default();
    Ok((graph, names))
}

/// Seconds of the fastest launch.
fn best(runtime: &mut Runtime, graph: &Arc<Graph>) -> Result<f64, Failed> {
    let begin = Instant::now();
    let mut best = f64::INFINITY;
    for run in 0.. {
        let start = Instant::now();
        runtime.launch(graph)?;
        runtime.wait()?;
        best = best.min(start.elapsed().as_secs_f64());
        if run >= 4 && begin.elapsed().as_secs_f64() > 0.15 {
            break;
        }
    }
    Ok(best)
}

fn case(runtime: &mut Runtime, name: &str, record: Record) -> Result<(), Failed> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if !wanted.is_empty() && !wanted.iter().any(|w| name.contains(w.as_str())) {
        return Ok(());
    }
    let arena = Arena::new();
    let (_, mut names) = recorded(record, &arena, None)?;
    if names.is_empty() {
        // Nobody is asked where there is no choice.
        names.push("only".into());
    }
    for by in names {
        let (graph, _) = recorded(record, &arena, Some(&by))?;
        let seconds = best(runtime, &graph)?;
        let cost = (graph.codelet_of(0).cost)(&graph.class_of(0).call);
        println!(
            "{name:<32} {by:<14} {:>9.4} ms {:>8.1} GFLOP/s {:>7.1} GB/s",
            seconds * 1e3,
            cost.flops / seconds / 1e9,
            cost.bytes / seconds / 1e9
        );
    }
    Ok(())
}

/// A convolution and its gradients: samples, channels, filters and side; kernel, stride and padding.
fn conv(
    runtime: &mut Runtime,
    name: &str,
    dims: [usize; 4],
    window: [usize; 3],
) -> Result<(), Failed> {
    let ([n, c, o, side], [k, stride, padding]) = (dims, window);
    let out = (side + 2 * padding - k) / stride + 1;
    let (x, w, y) = ([n, c, side, side], [o, c, k, k], [n, o, out, out]);
    let options = Conv2d::new().stride([stride; 2]).padding([padding; 2]);
    case(runtime, &format!("{name} forward"), &|r, a| {
        let (x, w, mut y) = (numbers(a, x)?, numbers(a, w)?, numbers(a, y)?);
        api::conv2d_into(r, &x, &w, None, options, &mut y);
        Ok(())
    })?;
    case(runtime, &format!("{name} filter"), &|r, a| {
        let (x, dy, mut dw) = (numbers(a, x)?, numbers(a, y)?, numbers(a, w)?);
        api::conv2d_filter_grad_reduce(r, &x, &dy, options, &mut dw);
        Ok(())
    })?;
    case(runtime, &format!("{name} input"), &|r, a| {
        let (dy, w, mut dx) = (numbers(a, y)?, numbers(a, w)?, numbers(a, x)?);
        api::conv2d_input_grad_into(r, &dy, &w, options, &mut dx);
        Ok(())
    })
}

fn main() -> Result<(), Failed> {
    let runtime = &mut Runtime::builder().workers(1).build()?;
    for [m, k, n] in [[1024; 3], [32, 288, 1024], [64; 3], [512, 4608, 16]] {
        case(runtime, &format!("matmul {m}×{k}×{n}"), &|r, a| {
            let (x, y) = (numbers(a, [m, k])?, numbers(a, [k, n])?);
            api::matmul_into(r, &x, &y, Transposed::NONE, &mut numbers(a, [m, n])?);
            Ok(())
        })?;
    }
    conv(runtime, "small 1-4@28", [16, 1, 4, 28], [3, 1, 0])?;
    conv(runtime, "lenet 1-6@28", [16, 1, 6, 28], [5, 1, 2])?;
    conv(runtime, "lenet 6-16@14", [32, 6, 16, 14], [5, 1, 0])?;
    conv(runtime, "vgg 3-32@32", [32, 3, 32, 32], [3, 1, 1])?;
    conv(runtime, "vgg 64-64@16", [32, 64, 64, 16], [3, 1, 1])?;
    conv(runtime, "resnet 64-64@32", [32, 64, 64, 32], [3, 1, 1])?;
    conv(runtime, "resnet 512-512@4", [32, 512, 512, 4], [3, 1, 1])?;
    conv(runtime, "down 64-128@32/2", [32, 64, 128, 32], [3, 2, 1])?;
    conv(runtime, "skip 64-128@32/2", [32, 64, 128, 32], [1, 2, 0])?;
    conv(runtime, "pointwise 96-24@32", [2, 96, 24, 32], [1, 1, 0])?;
    conv(runtime, "pointwise 16-96@32", [2, 16, 96, 32], [1, 1, 0])?;
    conv(runtime, "pointwise 144-24@32", [2, 144, 24, 32], [1, 1, 0])?;
    conv(runtime, "pointwise 24-144@32", [2, 24, 144, 32], [1, 1, 0])?;
    conv(runtime, "pointwise 144-32@16", [8, 144, 32, 16], [1, 1, 0])?;
    conv(runtime, "pointwise 32-192@16", [8, 32, 192, 16], [1, 1, 0])?;
    conv(runtime, "pointwise 192-32@16", [8, 192, 32, 16], [1, 1, 0])?;
    conv(runtime, "pointwise 96-576@8", [8, 96, 576, 8], [1, 1, 0])?;
    conv(runtime, "pointwise 64-256@32", [2, 64, 256, 32], [1, 1, 0])?;
    conv(runtime, "pointwise 256-64@32", [2, 256, 64, 32], [1, 1, 0])?;
    conv(
        runtime,
        "pointwise 1024-256@8",
        [8, 1024, 256, 8],
        [1, 1, 0],
    )?;
    conv(runtime, "pointwise 384-64@8", [32, 384, 64, 8], [1, 1, 0])?;
    conv(runtime, "pointwise 64-384@8", [32, 64, 384, 8], [1, 1, 0])?;
    conv(runtime, "pointwise 160-960@4", [32, 160, 960, 4], [1, 1, 0])?;
    for (dims, place) in [([2, 384, 8, 8], "cache"), ([32, 192, 32, 32], "memory")] {
        let norm = |r: &Recorder, a: &Arena, relu: bool| -> Result<(), Failed> {
            let row = || numbers(a, [dims[1]]);
            let (x, dy, y) = (numbers(a, dims)?, numbers(a, dims)?, numbers(a, dims)?);
            let statistics = numbers(a, [2, dims[1]])?;
            let positive = relu.then_some(&y);
            api::batch_norm_grad(r, &x, &dy, &statistics, &row()?, positive);
            Ok(())
        };
        case(runtime, &format!("batch_norm_grad {place}"), &|r, a| {
            norm(r, a, false)
        })?;
        case(
            runtime,
            &format!("batch_norm_relu_grad {place}"),
            &|r, a| norm(r, a, true),
        )?;
    }
    let (large, small) = ([16, 8, 32, 32], [16, 8, 16, 16]);
    case(runtime, "max_pool2d 2×2", &|r, a| {
        let (x, mut y) = (numbers(a, large)?, numbers(a, small)?);
        api::max_pool2d_into(r, &x, Pool2d::new([2, 2]), &mut y);
        Ok(())
    })?;
    case(runtime, "avg_pool2d 2×2", &|r, a| {
        let (x, mut y) = (numbers(a, large)?, numbers(a, small)?);
        api::avg_pool2d_into(r, &x, Pool2d::new([2, 2]), &mut y);
        Ok(())
    })?;
    for (n, place) in [(1 << 16, "cache"), (1 << 22, "memory")] {
        case(runtime, &format!("add {place}"), &|r, a| {
            let (x, y) = (numbers(a, [n])?, numbers(a, [n])?);
            api::add_into(r, &x, &y, &mut numbers(a, [n])?);
            Ok(())
        })?;
        case(runtime, &format!("exp {place}"), &|r, a| {
            api::exp_into(r, &numbers(a, [n])?, &mut numbers(a, [n])?);
            Ok(())
        })?;
        case(runtime, &format!("gelu {place}"), &|r, a| {
            api::gelu_into(r, &numbers(a, [n])?, &mut numbers(a, [n])?);
            Ok(())
        })?;
    }
    Ok(())
}
