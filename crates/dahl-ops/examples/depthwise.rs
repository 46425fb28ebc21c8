//! Depthwise convolutions on this machine, `f32`: the forward pass and both gradients, for `bench/pytorch/depthwise`.
//!
//! ```text
//! depthwise WORKERS SECONDS CASE…        a case is samples,channels,side,kernel,stride
//! ```
//!
//! One line of JSON for each case and pass: milliseconds of the fastest launch and of the median. Samples are cut into two parts
//! for each worker.

use std::error::Error;
use std::time::Instant;

use dahl_core::{Arena, Array, By, Recorder, Split};
use dahl_ops::api::{self, GroupedGradParams, GroupedParams};
use dahl_ops::window::Window;
use dahl_runtime::Runtime;

type Failed = Box<dyn Error>;

fn numbers<const R: usize>(arena: &Arena, dims: [usize; R]) -> Result<Array<'_, f32, R>, Failed> {
    let value = |i: usize| ((i * 7919) % 1009) as f32 / 504.5 - 1.0;
    let values: Vec<f32> = (0..dims.iter().product()).map(value).collect();
    Ok(arena.from_slice(dims, &values)?)
}

fn record(
    recorder: &Recorder,
    arena: &Arena,
    [n, c, side, k, stride]: [usize; 5],
    pass: &str,
    parts: usize,
) -> Result<(), Failed> {
    let out = (side + 2 * (k / 2) - k) / stride + 1;
    let window = Window {
        kernel: [k; 2],
        stride: [stride; 2],
        shift: [(k / 2) as isize; 2],
    };
    let (dilation, groups) = ([1, 1], c);
    let back = GroupedGradParams {
        window,
        dilation,
        groups,
    };
    let mut x = numbers(arena, [n, c, side, side])?;
    let mut y = numbers(arena, [n, c, out, out])?;
    let mut w = numbers(arena, [c, 1, k, k])?;
    let samples = Split::new().axis(0, By::Count(parts.min(n)));
    match pass {
        "forward" => {
            let params = GroupedParams {
                window,
                dilation,
                groups,
                relu: false,
            };
            for (x, mut y) in x.split(&samples)?.iter().zip(y.split_mut(&samples)?) {
                api::conv2d_grouped_into(recorder, x, &w, None, params.clone(), &mut y);
            }
        }
        "input" => {
            for (mut x, y) in x.split_mut(&samples)?.into_iter().zip(y.split(&samples)?) {
                api::conv2d_grouped_input_grad_into(recorder, &y, &w, back.clone(), &mut x);
            }
        }
        _ => {
            for (x, y) in x.split(&samples)?.iter().zip(y.split(&samples)?) {
                api::conv2d_grouped_filter_grad_reduce(recorder, x, &y, back.clone(), &mut w);
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Failed> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [workers, seconds, cases @ ..] = &args[..] else {
        return Err("depthwise WORKERS SECONDS CASE…".into());
    };
    let (workers, seconds): (usize, f64) = (workers.parse()?, seconds.parse()?);
    let runtime = &mut Runtime::builder().workers(workers).build()?;
    for case in cases {
        let dims = case
            .split(',')
            .map(str::parse)
            .collect::<Result<Vec<usize>, _>>()?;
        let dims: [usize; 5] = dims
            .try_into()
            .map_err(|_| format!("{case}: five numbers"))?;
        for pass in ["forward", "input", "filter"] {
            let (arena, recorder) = (Arena::new(), Recorder::new());
            record(&recorder, &arena, dims, pass, 2 * workers)?;
            let graph = recorder.finish()?;
            let (begin, mut times) = (Instant::now(), Vec::new());
            while times.len() < 5 || begin.elapsed().as_secs_f64() < seconds {
                let start = Instant::now();
                runtime.launch(&graph)?;
                runtime.wait()?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
            }
            times.sort_by(f64::total_cmp);
            let (best, median) = (times[0], times[times.len() / 2]);
            println!(
                "{{\"case\": \"{case}\", \"pass\": \"{pass}\", \"best\": {best:.5}, \"median\": {median:.5}}}"
            );
        }
    }
    Ok(())
}
