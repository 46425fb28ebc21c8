//! Arrays, a graph and a runtime: a straight line fitted to points by gradient descent.
//!
//! One step of training is recorded once and launched 200 times. A launch returns at once: a step
//! waits for the weights of the one before it, and nothing waits for the whole of a step.
//!
//! Run it with `cargo run --release -p dahl --example least_squares`.

use std::sync::Arc;

use dahl::prelude::*;

const POINTS: usize = 64;
const STEPS: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Codelets say what a task does with its operands; which arrays these are is said when one is
    // submitted.
    let residual = Arc::new(
        Codelet::new("residual").implement("reference", UnitKind::CPU, |o| {
            let (x, y, line, mut r) = (
                o.read::<f64>(0),
                o.read::<f64>(1),
                o.read::<f64>(2),
                o.write::<f64>(3),
            );
            let (x, y, line) = (x.row([0; 3]), y.row([0; 3]), line.row([0; 3]));
            for (i, r) in r.row([0; 3]).iter_mut().enumerate() {
                *r = line[0] * x[i] + line[1] - y[i];
            }
            Ok(())
        }),
    );
    let gradient = Arc::new(
        Codelet::new("gradient").implement("reference", UnitKind::CPU, |o| {
            let (x, r, mut g) = (o.read::<f64>(0), o.read::<f64>(1), o.write::<f64>(2));
            let (x, r, g) = (x.row([0; 3]), r.row([0; 3]), g.row([0; 3]));
            g[0] = x.iter().zip(r).map(|(x, r)| 2.0 * x * r).sum::<f64>() / x.len() as f64;
            g[1] = r.iter().map(|r| 2.0 * r).sum::<f64>() / x.len() as f64;
            Ok(())
        }),
    );
    let descend = Arc::new(
        Codelet::new("descend").implement("reference", UnitKind::CPU, |o| {
            let (g, mut line) = (o.read::<f64>(0), o.write::<f64>(1));
            line.row([0; 3])
                .iter_mut()
                .zip(g.row([0; 3]))
                .for_each(|(l, g)| *l -= 0.3 * g);
            Ok(())
        }),
    );

    // What lasts lives in an arena: points on y = 3 x − 1, with a little noise, and the line to find.
    let arena = Arena::new();
    let noise = dahl::core::random::Random::new(42, 0);
    let xs: Vec<f64> = (0..POINTS).map(|i| i as f64 / POINTS as f64).collect();
    let ys: Vec<f64> = xs
        .iter()
        .zip(0..)
        .map(|(x, i)| 3.0 * x - 1.0 + 0.05 * noise.normal(i))
        .collect();
    let (x, y) = (
        arena.from_slice([POINTS], &xs)?,
        arena.from_slice([POINTS], &ys)?,
    );
    let mut line = arena.zeros::<f64, 1>([2])?;

    // What lives only during a step is a temporary of the graph.
    let recorder = Recorder::new();
    let mut r = recorder.temporary::<f64, 1>([POINTS]);
    let mut g = recorder.temporary::<f64, 1>([2]);
    recorder.submit(Task::new(
        &residual,
        &[x.read(), y.read(), line.read(), r.write()],
    ));
    recorder.submit(Task::new(&gradient, &[x.read(), r.read(), g.write()]));
    recorder.submit(Task::new(&descend, &[g.read(), line.read_write()]));
    let step = recorder.finish()?;
    println!(
        "a step has {} tasks and {} bytes of temporaries",
        step.len(),
        step.memory.bytes
    );

    let mut runtime = Runtime::builder().workers(2).build()?;
    for n in 0..STEPS {
        runtime.launch(&step)?;
        if (n + 1) % 50 == 0 {
            // Reading waits for the tasks that write `line`, and for no others.
            let found = runtime.read(&line)?;
            println!("step {:3}: y = {:.3} x {:+.3}", n + 1, found[0], found[1]);
        }
    }
    let found = runtime.read(&line)?;
    if (found[0] - 3.0).abs() > 0.1 || (found[1] + 1.0).abs() > 0.1 {
        return Err(format!("the line should be near y = 3 x - 1, it is {found:.3}").into());
    }
    Ok(())
}
