//! Whether parts of an array travel alone or together: decided by cost, the same bits either way, and
//! visible in the trace. On devices made of host memory behind links of set speed.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::gpu::gpu;
use common::{POLICIES, check};
use dahl_core::trace::{Load, Trace};
use dahl_core::{
    Arena, Bytes, Codelet, Graph, Matrix, Mode, Operands, Recorder, Region, Task, UnitKind,
};
use dahl_runtime::{HostDeviceSpec, Runtime, Schedule, Traffic};
use dahl_test_support::program::Program;

const ROWS: usize = 16;
const COLUMNS: usize = 64;
/// Bytes of a row.
const ROW: u64 = COLUMNS as u64 * 4;

fn link(bandwidth: f64, latency: Duration) -> HostDeviceSpec {
    HostDeviceSpec {
        units: 1,
        capacity: Bytes(1 << 20),
        bandwidth,
        latency,
    }
}

/// Two milliseconds to start, next to nothing for a row.
fn slow_to_start() -> HostDeviceSpec {
    link(1e9, Duration::from_millis(2))
}

/// Ten microseconds to start, a hundred for a row.
fn narrow() -> HostDeviceSpec {
    link(ROW as f64 * 1e4, Duration::from_micros(10))
}

/// Adds its first operand to its second; `f32`, any shape.
fn add() -> Arc<Codelet> {
    let add = Codelet::new("add").implement("reference", UnitKind::CPU, |ops| {
        let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
        dahl_core::view::for_rows(y.dims(), |at| {
            let pairs = y.row(at).iter_mut().zip(x.row(at));
            pairs.for_each(|(y, x)| *y += x);
        });
        Ok(())
    });
    Arc::new(add)
}

fn row(i: usize) -> Region {
    Region::new([0, 0, i, 0], [1, 1, i + 1, COLUMNS]).unwrap()
}

/// For each of these rows a task: `y += x`.
fn by_row(x: &Matrix<'_, f32>, y: &mut Matrix<'_, f32>, rows: &[usize]) -> Arc<Graph> {
    let (add, recorder) = (add(), Recorder::new());
    for &i in rows {
        let (from, to) = (x.handle().part(&row(i)), y.handle().part(&row(i)));
        recorder.submit(Task::new(
            &add,
            &[from.with(Mode::Read), to.with(Mode::ReadWrite)],
        ));
    }
    recorder.finish().unwrap()
}

fn build(workers: usize, policy: &str, device: HostDeviceSpec) -> Runtime {
    let builder = Runtime::builder()
        .workers(workers)
        .policy(policy)
        .pin(false);
    let builder = builder.watchdog(Duration::from_secs(30)).trace(1 << 12);
    builder.host_device(device).build().unwrap()
}

/// What is moved to a device alone by tasks over rows, with the trace of it. The values are checked.
fn sent(device: HostDeviceSpec, rows: &[usize]) -> (Traffic, Trace) {
    let arena = Arena::new();
    let x = arena.full([ROWS, COLUMNS], 1.0f32).unwrap();
    let mut y = arena.full([ROWS, COLUMNS], 2.0f32).unwrap();
    let graph = by_row(&x, &mut y, rows);
    let mut runtime = build(0, "eager", device);
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    let (traffic, trace) = (runtime.traffic(), runtime.take_trace().unwrap());
    for (i, row) in runtime.read(&y).unwrap().chunks(COLUMNS).enumerate() {
        let want = if rows.contains(&i) { 3.0 } else { 2.0 };
        assert!(row.iter().all(|&v| v == want), "row {i}");
    }
    (traffic, trace)
}

fn loads(trace: &Trace) -> Vec<Load> {
    trace.transfers.iter().map(|t| t.load).collect()
}

#[test]
fn small_parts_over_a_link_that_is_slow_to_start_travel_as_the_whole_array() {
    let all: Vec<usize> = (0..ROWS).collect();
    let (t, trace) = sent(slow_to_start(), &all);
    assert_eq!(
        (t.copies, t.bytes_in),
        (2, 2 * ROWS as u64 * ROW),
        "x and y, each at once"
    );
    let whole = Load {
        asked: ROW,
        parts: ROWS as u32,
        wanted: ROWS as u32,
        whole: true,
    };
    assert_eq!(loads(&trace), [whole; 2]);
    assert_eq!(whole.choice(), "whole array");
}

#[test]
fn a_part_of_an_array_that_nobody_else_wants_travels_alone() {
    let (t, trace) = sent(slow_to_start(), &[5]);
    assert_eq!((t.copies, t.bytes_in), (2, 2 * ROW));
    assert_eq!(loads(&trace), [Load::asked(ROW); 2]);
    assert_eq!(loads(&trace)[0].choice(), "only part");
}

#[test]
fn parts_that_take_longer_on_the_way_than_to_start_travel_alone() {
    let (t, trace) = sent(narrow(), &[0, 3, 4, 7]);
    assert_eq!((t.copies, t.bytes_in), (8, 8 * ROW));
    let loads = loads(&trace);
    assert!(loads.iter().all(|l| l.parts == 1 && l.asked == ROW));
    let of_x: Vec<u32> = loads.iter().step_by(2).map(|l| l.wanted).collect();
    assert_eq!(of_x, [4, 3, 2, 1], "others were wanted, and too large");
    assert_eq!(loads[0].choice(), "part alone");
}

#[test]
fn of_an_array_travel_the_parts_that_are_wanted() {
    let (t, trace) = sent(slow_to_start(), &[2, 3, 9]);
    assert_eq!((t.copies, t.bytes_in), (2, 6 * ROW));
    let joined = Load {
        asked: ROW,
        parts: 3,
        wanted: 3,
        whole: false,
    };
    assert_eq!(loads(&trace), [joined; 2]);
    assert_eq!(joined.choice(), "parts joined");
}

/// What another unit will do is not sent; without a schedule it may be either's.
#[test]
fn parts_for_other_memories_stay() {
    let arena = Arena::new();
    let x = arena.full([ROWS, COLUMNS], 1.0f32).unwrap();
    let mut y = arena.zeros::<f32, 2>([ROWS, COLUMNS]).unwrap();
    let all: Vec<usize> = (0..ROWS).collect();
    let graph = by_row(&x, &mut y, &all);
    let (host, device): (Vec<u32>, Vec<u32>) = (0..ROWS as u32).partition(|t| t % 4 != 0);
    let schedule = Schedule {
        graph: graph.fingerprint(),
        transfers: Vec::new(),
        order: vec![host, device],
    };
    let builder = Runtime::builder().workers(1).schedule(schedule).pin(false);
    let builder = builder.host_device(slow_to_start()).trace(1 << 12);
    let mut runtime = builder.build().unwrap();
    runtime.launch(&graph).unwrap();
    runtime.wait().unwrap();
    let t = runtime.traffic();
    assert_eq!(t.bytes_in, 8 * ROW, "four rows of two arrays");
    assert_eq!(t.copies, 2);
    assert!(runtime.read(&y).unwrap().iter().all(|&v| v == 1.0));
}

/// Rows that a task of this launch has yet to write are not sent; those that it has written are.
#[test]
fn only_values_that_are_there_travel_along() {
    let arena = Arena::new();
    let x = arena.full([ROWS, COLUMNS], 1.0f32).unwrap();
    let mut y = arena.zeros::<f32, 2>([ROWS, COLUMNS]).unwrap();
    let mut z = arena.zeros::<f32, 2>([ROWS, COLUMNS]).unwrap();
    let (add, recorder) = (add(), Recorder::new());
    let rows = |x: &Matrix<'_, f32>, y: &mut Matrix<'_, f32>| {
        for i in 0..ROWS {
            let (from, to) = (x.handle().part(&row(i)), y.handle().part(&row(i)));
            let operands = [from.with(Mode::Read), to.with(Mode::ReadWrite)];
            recorder.submit(Task::new(&add, &operands));
        }
    };
    rows(&x, &mut y);
    rows(&y, &mut z);
    let graph = recorder.finish().unwrap();
    // The host makes y, the device z.
    let schedule = Schedule {
        graph: graph.fingerprint(),
        transfers: Vec::new(),
        order: vec![
            (0..ROWS as u32).collect(),
            (ROWS as u32..2 * ROWS as u32).collect(),
        ],
    };
    let builder = Runtime::builder().workers(1).schedule(schedule).pin(false);
    let builder = builder.host_device(slow_to_start()).trace(1 << 12);
    let mut runtime = builder.build().unwrap();
    for round in 1..=3u8 {
        runtime.launch(&graph).unwrap();
        runtime.wait().unwrap();
        let y = f32::from(round);
        let z_want = y * (y + 1.0) / 2.0;
        assert!(runtime.read(&z).unwrap().iter().all(|&v| v == z_want));
    }
    let t = runtime.traffic();
    let whole = ROWS as u64 * ROW;
    assert!(t.bytes_in <= 4 * whole, "{t:?}: z once, y once a launch");
}

/// What is missing of an array travels at once, in however many pieces it lies.
#[test]
fn pieces_of_one_array_are_one_copy() {
    let arena = Arena::new();
    let x = arena.full([ROWS, COLUMNS], 1.0f32).unwrap();
    let mut y = arena.zeros::<f32, 2>([ROWS, COLUMNS]).unwrap();
    let some = by_row(&x, &mut y, &[3, 8]);
    let recorder = Recorder::new();
    recorder.submit(Task::new(&add(), &[x.read(), y.read_write()]));
    let whole = recorder.finish().unwrap();
    let mut runtime = build(0, "eager", narrow());
    runtime.launch(&some).unwrap();
    runtime.wait().unwrap();
    assert_eq!(runtime.traffic().copies, 4, "rows 3 and 8 of both, alone");
    runtime.launch(&whole).unwrap();
    runtime.wait().unwrap();
    let t = runtime.traffic();
    assert_eq!((t.copies, t.bytes_in), (6, 2 * ROWS as u64 * ROW));
    let row = |i: usize| runtime.read(&y).unwrap()[i * COLUMNS];
    assert_eq!([2, 3, 8, 9].map(row), [1.0, 2.0, 2.0, 1.0]);
    assert_eq!(runtime.traffic().copies, 7, "and back");
}

/// A trace has what was decided with every transfer, and for which task.
#[test]
fn the_trace_keeps_what_was_decided() {
    let (_, trace) = sent(slow_to_start(), &[2, 3, 9]);
    let first = &trace.transfers[0];
    assert_eq!((first.bytes, first.load.asked), (3 * ROW, ROW));
    assert_eq!(first.load.choice(), "parts joined");
    assert_eq!((first.from, first.to), (0, 1));
    assert_eq!(trace.class_of(first.for_task).codelet, "add");
}

/// Random programs over overlapping regions and other shapes of the same data, on links where everything
/// joins: CPUs and a device write parts of what travels, and all of it means the same.
#[test]
fn random_programs_mean_the_same_whatever_travels_together() {
    let device = |units, capacity| HostDeviceSpec {
        units,
        capacity: Bytes(capacity),
        // Nothing sleeps for this long, and by it every part is worth taking along.
        bandwidth: 1e15,
        latency: Duration::from_nanos(200),
    };
    let mut joined = 0;
    for (workers, units) in [(0, &[1][..]), (1, &[2]), (2, &[1, 1])] {
        for policy in POLICIES {
            let builder = Runtime::builder()
                .workers(workers)
                .policy(policy)
                .pin(false);
            let builder = builder.watchdog(Duration::from_secs(30)).trace(1 << 12);
            let builder = units
                .iter()
                .fold(builder, |b, &u| b.host_device(device(u, 1 << 20)));
            let mut runtime = builder.build().unwrap();
            for seed in 0..250 {
                let program = Program::random(seed, seed % 2 == 0);
                let arena = Arena::new();
                let (graph, handles) = program.record(&arena);
                let what = format!("{policy}, {workers} workers, devices {units:?}, seed {seed}");
                let launches = 1 + (seed % 3) as usize;
                check(&program, &graph, &handles, &mut runtime, launches, &what);
                runtime.wait().unwrap();
                let trace = runtime.take_trace().unwrap();
                // Where there is one unit, load has no say in what travels.
                if workers == 0 {
                    joined += trace.transfers.iter().filter(|t| t.load.parts > 1).count();
                }
            }
        }
    }
    assert!(joined > 1000, "only {joined} transfers of several parts");
}

/// A CPU and a GPU behind a link that takes two milliseconds to start.
fn cpu_and_gpu() -> Runtime {
    let builder = Runtime::builder().workers(1).policy("eager").pin(false);
    let builder = builder.watchdog(Duration::from_secs(30)).trace(1 << 12);
    let gpu = gpu(1e9, Duration::from_millis(2));
    builder.device(gpu).build().unwrap()
}

/// Copies its first operand to its second, on these kinds of units.
fn copy(kinds: &[UnitKind]) -> Arc<Codelet> {
    let body = |ops: &Operands<'_>| {
        let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
        dahl_core::view::for_rows(y.dims(), |at| y.row(at).copy_from_slice(x.row(at)));
        Ok(())
    };
    let codelet = Codelet::new("copy");
    let each = kinds.iter();
    Arc::new(each.fold(codelet, |c, &k| c.implement("reference", k, body)))
}

fn joined(runtime: &mut Runtime) -> usize {
    runtime.wait().unwrap();
    let trace = runtime.take_trace().unwrap();
    trace.transfers.iter().filter(|t| t.load.parts > 1).count()
}

/// One launch writes a row on the CPU while the next sends another row of the same array to the device,
/// where the first row is wanted, too.
#[test]
fn what_a_task_writes_meanwhile_is_not_taken_along() {
    let arena = Arena::new();
    let x = arena.full([ROWS, COLUMNS], 0.0f32).unwrap();
    let mut y = arena.full([ROWS, COLUMNS], -1.0f32).unwrap();
    let slow = Codelet::new("slow").implement("reference", UnitKind::CPU, |ops| {
        let mut x = ops.write::<f32>(0);
        let row = x.row([0, 0, 0]);
        let next = row[COLUMNS - 1] + 1.0;
        row[..COLUMNS / 2].fill(next);
        std::thread::sleep(Duration::from_millis(1));
        row[COLUMNS / 2..].fill(next);
        Ok(())
    });
    let recorder = Recorder::new();
    let written = x.handle().part(&row(1));
    recorder.submit(Task::new(&Arc::new(slow), &[written.with(Mode::ReadWrite)]));
    let first = recorder.finish().unwrap();
    let recorder = Recorder::new();
    for i in [0, 1, 2] {
        let (from, to) = (x.handle().part(&row(i)), y.handle().part(&row(i)));
        let operands = [from.with(Mode::Read), to.with(Mode::Write)];
        recorder.submit(Task::new(&copy(&[UnitKind::GPU]), &operands));
    }
    let second = recorder.finish().unwrap();
    let mut runtime = cpu_and_gpu();
    for round in 1..=20u8 {
        // Nothing of x is on the device at first.
        runtime.write_handle::<f32>(x.handle()).unwrap()[0] = 0.0;
        runtime.launch(&first).unwrap();
        runtime.launch(&second).unwrap();
        let values = runtime.read(&y).unwrap();
        let row = &values[COLUMNS..2 * COLUMNS];
        assert!(row.iter().all(|&v| v == f32::from(round)), "{row:?}");
    }
    assert!(joined(&mut runtime) > 0, "nothing travelled together");
    let _ = &mut y;
}

/// A CPU is done with rows that are still on their way to the device, and the host writes one: what
/// arrives late is not taken for current.
#[test]
fn the_host_does_not_write_what_is_on_its_way() {
    let arena = Arena::new();
    let x = arena.full([ROWS, COLUMNS], -1.0f32).unwrap();
    let y = arena.zeros::<f32, 2>([ROWS, COLUMNS]).unwrap();
    let all = |rows: std::ops::Range<usize>, kinds: &[UnitKind], recorder: &Recorder| {
        for i in rows {
            let (from, to) = (x.handle().part(&row(i)), y.handle().part(&row(i)));
            let operands = [from.with(Mode::Read), to.with(Mode::Write)];
            recorder.submit(Task::new(&copy(kinds), &operands));
        }
    };
    let recorder = Recorder::new();
    // Two for the device alone: these travel together, whatever the CPU is done with already.
    all(0..2, &[UnitKind::GPU], &recorder);
    all(2..ROWS, &[UnitKind::CPU, UnitKind::GPU], &recorder);
    let first = recorder.finish().unwrap();
    let recorder = Recorder::new();
    all(ROWS - 1..ROWS, &[UnitKind::GPU], &recorder);
    let second = recorder.finish().unwrap();
    let mut runtime = cpu_and_gpu();
    for round in 0..40u16 {
        runtime.write_handle::<f32>(x.handle()).unwrap().fill(-1.0);
        runtime.launch(&first).unwrap();
        let last = x.handle().part(&row(ROWS - 1));
        let want = f32::from(round);
        runtime.write_handle::<f32>(&last).unwrap().fill(want);
        runtime.launch(&second).unwrap();
        let values = runtime.read(&y).unwrap();
        let row = &values[(ROWS - 1) * COLUMNS..];
        assert!(row.iter().all(|&v| v == want), "round {round}: {row:?}");
    }
    assert!(joined(&mut runtime) > 0, "nothing travelled together");
}
