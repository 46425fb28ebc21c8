//! A program of medium size that checks its own result: splits that change, reductions, temporaries,
//! replays in flight, values read and written meanwhile, a failure, a device. Small enough to run under
//! valgrind, where every access is followed; see `scripts/valgrind`.

use std::sync::Arc;
use std::time::Duration;

use dahl_core::split::{By, Split};
use dahl_core::{
    Arena, Bytes, Codelet, Graph, Matrix, Recorder, Task, TaskError, UnitKind, Vector,
};
use dahl_runtime::{HostDeviceSpec, RunError, Runtime};

type Failure = Box<dyn std::error::Error>;

const ROWS: usize = 24;
const COLUMNS: usize = 18;

struct Codelets {
    scale: Arc<Codelet>,
    fold: Arc<Codelet>,
    spread: Arc<Codelet>,
    broken: Arc<Codelet>,
}

/// Whole numbers all along, so that sums are exact in any order.
fn codelets() -> Codelets {
    let scale = Codelet::new("scale").implement("reference", UnitKind::CPU, |ops| {
        let (x, mut y) = (ops.read::<f64>(0), ops.write::<f64>(1));
        dahl_core::view::for_rows(y.dims(), |at| {
            y.row(at)
                .iter_mut()
                .zip(x.row(at))
                .for_each(|(y, x)| *y = (x * 3.0 + 1.0) % 101.0);
        });
        Ok(())
    });
    let fold = Codelet::new("fold").implement("reference", UnitKind::CPU, |ops| {
        let (x, mut sum) = (ops.read::<f64>(0), ops.write::<f64>(1));
        let sum = sum.row([0, 0, 0]);
        dahl_core::view::for_rows(x.dims(), |at| {
            sum.iter_mut().zip(x.row(at)).for_each(|(s, x)| *s += x);
        });
        Ok(())
    });
    let spread = Codelet::new("spread").implement("reference", UnitKind::CPU, |ops| {
        let (sum, mut x) = (ops.read::<f64>(0), ops.write::<f64>(1));
        dahl_core::view::for_rows(x.dims(), |at| {
            x.row(at)
                .iter_mut()
                .zip(sum.row([0, 0, 0]))
                .for_each(|(x, s)| *x = (*x + s) % 101.0);
        });
        Ok(())
    });
    let broken = Codelet::new("broken").implement("reference", UnitKind::CPU, |_| {
        Err(TaskError("as it should".into()))
    });
    Codelets {
        scale: Arc::new(scale),
        fold: Arc::new(fold),
        spread: Arc::new(spread),
        broken: Arc::new(broken),
    }
}

/// By row into a temporary, by column back, the columns' sums over all rows, spread again.
fn record(
    c: &Codelets,
    x: &mut Matrix<'_, f64>,
    sum: &mut Vector<'_, f64>,
) -> Result<Arc<Graph>, Failure> {
    let recorder = Recorder::new();
    let rows = Split::new().axis(0, By::Size(2));
    let columns = Split::new().axis(1, By::Count(5));
    let mut t = recorder.temporary::<f64, 2>([ROWS, COLUMNS]);
    for (from, to) in x.split(&rows)?.iter().zip(&mut t.split_mut(&rows)?) {
        recorder.submit(Task::new(&c.scale, &[from.read(), to.write()]));
    }
    for (from, to) in t.split(&columns)?.iter().zip(&mut x.split_mut(&columns)?) {
        recorder.submit(Task::new(&c.scale, &[from.read(), to.write()]));
    }
    for part in x.split(&rows)? {
        recorder.submit(Task::new(&c.fold, &[part.read(), sum.reduce()]));
    }
    for part in &mut x.split_mut(&rows)? {
        recorder.submit(Task::new(&c.spread, &[sum.read(), part.read_write()]));
    }
    Ok(recorder.finish()?)
}

/// The same, one step after another.
fn step(x: &mut [f64], sum: &mut [f64]) {
    x.iter_mut()
        .for_each(|v| *v = ((*v * 3.0 + 1.0) % 101.0 * 3.0 + 1.0) % 101.0);
    x.chunks(COLUMNS)
        .for_each(|row| sum.iter_mut().zip(row).for_each(|(s, v)| *s += v));
    for row in x.chunks_mut(COLUMNS) {
        row.iter_mut()
            .zip(&*sum)
            .for_each(|(v, s)| *v = (*v + s) % 101.0);
    }
}

fn run(mut runtime: Runtime, what: &str) -> Result<(), Failure> {
    let c = codelets();
    let arena = Arena::new();
    let initial: Vec<f64> = (0..ROWS * COLUMNS).map(|i| (i % 97) as f64).collect();
    let mut x = arena.from_slice([ROWS, COLUMNS], &initial)?;
    let mut sum = arena.zeros::<f64, 1>([COLUMNS])?;
    let graph = record(&c, &mut x, &mut sum)?;
    let (mut want, mut want_sum) = (initial, vec![0.0; COLUMNS]);
    for round in 0..6 {
        for _ in 0..5 {
            runtime.launch(&graph)?;
            step(&mut want, &mut want_sum);
        }
        if *runtime.read(&x)? != want[..] || *runtime.read(&sum)? != want_sum[..] {
            return Err(format!("{what}: round {round} is wrong").into());
        }
        runtime.write(&mut sum)?.fill(0.0);
        want_sum.fill(0.0);
    }
    let recorder = Recorder::new();
    recorder.submit(Task::new(&c.broken, &[x.read_write()]));
    let broken = recorder.finish()?;
    runtime.launch(&broken)?;
    match runtime.wait() {
        Err(RunError::Task { .. }) => {}
        other => return Err(format!("{what}: {other:?} instead of an error").into()),
    }
    // Dropped with work in flight.
    runtime.launch(&graph)?;
    println!("{what}: {} tasks, 30 launches, right", graph.len());
    Ok(())
}

fn main() -> Result<(), Failure> {
    let device = HostDeviceSpec {
        units: 1,
        capacity: Bytes(10_000),
        bandwidth: 1e12,
        latency: Duration::ZERO,
    };
    for policy in ["eager", "ws", "dmdas"] {
        for main_works in [true, false] {
            let builder = Runtime::builder()
                .workers(2)
                .policy(policy)
                .main_works(main_works);
            run(
                builder.build()?,
                &format!("{policy}, main works: {main_works}"),
            )?;
        }
        let builder = Runtime::builder()
            .workers(1)
            .policy(policy)
            .host_device(device.clone());
        run(builder.build()?, &format!("{policy}, with a device"))?;
    }
    Ok(())
}
