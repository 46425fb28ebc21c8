//! Splits and `reduce`: one array cut in three ways without a barrier, and many tasks adding into one
//! vector with the same bits every time.
//!
//! 1. an image is written by bands of rows;
//! 2. it is blurred downwards by columns, each task reading a piece that four bands wrote;
//! 3. the result is summed by bands that overlap by a halo of one row, all tasks adding into one vector.
//!
//! Run it with `cargo run --release -p dahl --example splits`.

use std::sync::Arc;

use dahl::prelude::*;

const ROWS: usize = 64;
const COLUMNS: usize = 48;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arena = Arena::new();
    let mut image = arena.zeros::<f32, 2>([ROWS, COLUMNS])?;
    let mut blurred = arena.zeros::<f32, 2>([ROWS, COLUMNS])?;
    let mut sums = arena.zeros::<f32, 1>([COLUMNS])?;
    let graph = record(&mut image, &mut blurred, &mut sums)?;
    println!(
        "{} tasks, {} edges, fingerprint {:016x}",
        graph.len(),
        graph.edges().count(),
        graph.fingerprint()
    );

    // The graph fixes which tasks share an accumulator and the order in which these are merged, so
    // neither the number of workers nor the policy can change a bit.
    let mut first: Option<Vec<u32>> = None;
    for policy in ["eager", "ws", "dmda"] {
        for workers in 1..=4 {
            let mut runtime = Runtime::builder().workers(workers).policy(policy).build()?;
            runtime.write(&mut sums)?.fill(0.0);
            runtime.launch(&graph)?;
            let bits: Vec<u32> = runtime.read(&sums)?.iter().map(|v| v.to_bits()).collect();
            if *first.get_or_insert_with(|| bits.clone()) != bits {
                return Err(format!("{policy} with {workers} workers gave other bits").into());
            }
        }
    }
    println!("identical bits from 3 policies with 1 to 4 workers each");
    let runtime = Runtime::builder().workers(1).build()?;
    println!("{:.3}", runtime.read(&sums)?);
    Ok(())
}

fn record(
    image: &mut Matrix<'_, f32>,
    blurred: &mut Matrix<'_, f32>,
    sums: &mut Vector<'_, f32>,
) -> Result<Arc<Graph>, Box<dyn std::error::Error>> {
    let paint = Arc::new(Codelet::new("paint").implement("reference", UnitKind::CPU, paint));
    let blur = Arc::new(Codelet::new("blur").implement("reference", UnitKind::CPU, blur));
    let sum = Arc::new(Codelet::new("sum").implement("reference", UnitKind::CPU, sum));
    let recorder = Recorder::new();

    recorder.section("by rows");
    for (i, mut band) in image
        .split_mut(&Split::new().axis(0, By::Count(4)))?
        .into_iter()
        .enumerate()
    {
        recorder.submit(Task::new(&paint, &[band.write()]).params(&[Param::Int(i as i64)]));
    }

    recorder.section("by columns");
    let columns = Split::new().axis(1, By::Size(20)); // 20, 20 and 8 wide
    for (from, mut to) in image
        .split(&columns)?
        .iter()
        .zip(blurred.split_mut(&columns)?)
    {
        recorder.submit(Task::new(&blur, &[from.read(), to.write()]));
    }

    recorder.section("by rows with a halo");
    let bands = Split::new().axis(0, By::Count(8)).halo(0, 1, 1);
    for band in blurred.split(&bands)? {
        recorder.submit(Task::new(&sum, &[band.read(), sums.reduce()]));
    }
    Ok(recorder.finish()?)
}

/// A pattern with long binary fractions, so that the order of additions shows.
fn paint(o: &Operands<'_>) -> Result<(), TaskError> {
    let (band, mut out) = (o.int(0) as usize, o.write::<f32>(0));
    for_rows(out.dims(), |at| {
        for (column, v) in out.row(at).iter_mut().enumerate() {
            *v = 1.0 / (1 + at[2] + column + 16 * band) as f32;
        }
    });
    Ok(())
}

/// Each pixel becomes the mean of itself and the one above.
fn blur(o: &Operands<'_>) -> Result<(), TaskError> {
    let (from, mut to) = (o.read::<f32>(0), o.write::<f32>(1));
    for_rows(to.dims(), |[a, b, row]| {
        let (here, above) = (
            from.row([a, b, row]),
            from.row([a, b, row.saturating_sub(1)]),
        );
        for (i, v) in to.row([a, b, row]).iter_mut().enumerate() {
            *v = 0.5 * (here[i] + above[i]);
        }
    });
    Ok(())
}

/// Adds every row to the sums. A task that reduces *adds* to what it finds.
fn sum(o: &Operands<'_>) -> Result<(), TaskError> {
    let (band, mut sums) = (o.read::<f32>(0), o.write::<f32>(1));
    for_rows(band.dims(), |at| {
        sums.row([0; 3])
            .iter_mut()
            .zip(band.row(at))
            .for_each(|(s, v)| *s += v);
    });
    Ok(())
}
