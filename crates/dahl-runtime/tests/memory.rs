//! Memory is known before the run, and flat during it.
//!
//! One test, in a binary of its own: it counts the allocations of the whole process.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dahl_core::split::{By, Split};
use dahl_core::{Arena, Codelet, Graph, Recorder, Task, UnitKind, Vector};
use dahl_runtime::Runtime;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes of the process that are in RAM; none where the system does not say.
fn resident() -> Option<usize> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(statm.split_whitespace().nth(1)?.parse::<usize>().ok()? * 4096)
}

fn copy_add() -> Arc<Codelet> {
    Arc::new(
        Codelet::new("copy_add").implement("reference", UnitKind::CPU, |ops| {
            let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
            dahl_core::view::for_rows(y.dims(), |at| {
                y.row(at)
                    .iter_mut()
                    .zip(x.row(at))
                    .for_each(|(y, x)| *y = x * 0.5 + 1.0);
            });
            Ok(())
        }),
    )
}

/// A chain of temporaries, by parts that change, ending in a reduction.
fn program(x: &Vector<'_, f32>, y: &mut Vector<'_, f32>, sum: &mut Vector<'_, f32>) -> Arc<Graph> {
    let copy = copy_add();
    let add = Arc::new(
        Codelet::new("add").implement("reference", UnitKind::CPU, |ops| {
            let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
            let total: f32 = x.row([0, 0, 0]).iter().sum();
            y.row([0, 0, 0]).iter_mut().for_each(|v| *v += total);
            Ok(())
        }),
    );
    let n = x.shape().len();
    let recorder = Recorder::new();
    let mut a = recorder.temporary::<f32, 1>([n]);
    recorder.submit(Task::new(&copy, &[x.read(), a.write()]));
    for stage in 0..6 {
        let split = Split::new().axis(0, By::Count(2 + stage % 3));
        let mut b = recorder.temporary::<f32, 1>([n]);
        for (from, to) in a
            .split(&split)
            .unwrap()
            .iter()
            .zip(&mut b.split_mut(&split).unwrap())
        {
            recorder.submit(Task::new(&copy, &[from.read(), to.write()]));
        }
        a = b;
    }
    for part in a.split(&Split::new().axis(0, By::Count(8))).unwrap() {
        recorder.submit(Task::new(&add, &[part.read(), sum.reduce()]));
    }
    recorder.submit(Task::new(&copy, &[a.read(), y.write()]));
    recorder.finish().unwrap()
}

/// Replays for long. A policy that learns may allocate a little now and then, and gives it back.
fn flat(policy: &str, main_works: bool, launch_only: bool, learns: bool) {
    let arena = Arena::new();
    let x = arena.full([4096], 1.0f32).unwrap();
    let mut y = arena.zeros::<f32, 1>([4096]).unwrap();
    let mut sum = arena.zeros::<f32, 1>([1]).unwrap();
    let graph = program(&x, &mut y, &mut sum);
    let builder = Runtime::builder()
        .workers(2)
        .policy(policy)
        .main_works(main_works)
        .pin(false);
    let mut runtime = builder.build().unwrap();
    let step = |runtime: &mut Runtime| {
        runtime.launch(&graph).unwrap();
        if !launch_only {
            assert!(runtime.read(&y).unwrap()[7] > 1.0);
        }
    };
    (0..20).for_each(|_| step(&mut runtime));
    // Queues may still find a new longest length: give them a while, then ask for silence.
    let silent = (0..20).any(|_| {
        let before = ALLOCATIONS.load(Ordering::SeqCst);
        (20..200).for_each(|_| step(&mut runtime));
        ALLOCATIONS.load(Ordering::SeqCst) == before
    });
    assert!(
        silent || learns,
        "{policy}, main works: {main_works}: allocates while it replays"
    );
    let before = resident();
    (200..10_000).for_each(|_| step(&mut runtime));
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(
            after < before + (1 << 20),
            "{policy}: grew from {before} to {after} bytes"
        );
    }
    runtime.wait().unwrap();
    assert_eq!(
        runtime.temporary_bytes(),
        2 * graph.memory.bytes as usize,
        "two instances, as planned"
    );
}

/// What the plan says is what is used: every byte of the block is some temporary's, and temporaries
/// that may be alive together lie apart.
fn planned() {
    let arena = Arena::new();
    let x = arena.full([1000], 1.0f32).unwrap();
    let mut y = arena.zeros::<f32, 1>([1000]).unwrap();
    let copy = copy_add();
    // x → a → b → c → y: a and c are never alive at the same time, a and b are.
    let recorder = Recorder::new();
    let [mut a, mut b, mut c] = [0; 3].map(|_| recorder.temporary::<f32, 1>([1000]));
    recorder.submit(Task::new(&copy, &[x.read(), a.write()]));
    recorder.submit(Task::new(&copy, &[a.read(), b.write()]));
    recorder.submit(Task::new(&copy, &[b.read(), c.write()]));
    recorder.submit(Task::new(&copy, &[c.read(), y.write()]));
    let graph = recorder.finish().unwrap();
    let at = &graph.memory.offsets;
    assert_eq!(at[0], at[2], "a and c share bytes");
    assert_ne!(at[0], at[1], "a and b do not");
    assert_eq!(
        (graph.memory.bytes, graph.memory.unshared),
        (2 * 4032, 3 * 4032)
    );

    // Two chains that nothing orders share nothing, whatever the program's order suggests.
    let mut z = arena.zeros::<f32, 1>([1000]).unwrap();
    let recorder = Recorder::new();
    let [mut a, mut b] = [0; 2].map(|_| recorder.temporary::<f32, 1>([1000]));
    recorder.submit(Task::new(&copy, &[x.read(), a.write()]));
    recorder.submit(Task::new(&copy, &[a.read(), y.write()]));
    recorder.submit(Task::new(&copy, &[x.read(), b.write()]));
    recorder.submit(Task::new(&copy, &[b.read(), z.write()]));
    let graph = recorder.finish().unwrap();
    assert_eq!(graph.memory.bytes, graph.memory.unshared);

    let mut runtime = Runtime::builder()
        .workers(2)
        .in_flight(1)
        .pin(false)
        .build()
        .unwrap();
    let before = runtime.temporary_bytes();
    for _ in 0..5 {
        runtime.launch(&graph).unwrap();
    }
    runtime.wait().unwrap();
    assert_eq!(
        runtime.temporary_bytes() - before,
        graph.memory.bytes as usize
    );
    assert_eq!(*runtime.read(&z).unwrap(), *runtime.read(&y).unwrap());
}

/// Every step makes its arrays in an arena that is reset while the step is under way.
fn resets() {
    let copy = copy_add();
    let keep = Arena::new();
    let mut out: Vec<_> = (0..200)
        .map(|_| keep.zeros::<f32, 1>([100]).unwrap())
        .collect();
    let mut arena = Arena::new();
    let slow = Arc::new(
        Codelet::new("slow").implement("reference", UnitKind::CPU, |ops| {
            std::thread::sleep(std::time::Duration::from_micros(300));
            let (x, mut y) = (ops.read::<f32>(0), ops.write::<f32>(1));
            y.row([0, 0, 0]).copy_from_slice(x.row([0, 0, 0]));
            Ok(())
        }),
    );
    let builder = Runtime::builder()
        .workers(2)
        .policy("ws")
        .main_works(false)
        .pin(false);
    let mut runtime = builder.build().unwrap();
    for (i, out) in out.iter_mut().enumerate() {
        let x = arena.full([100], i as f32).unwrap();
        let mut y = arena.full([100], -1.0f32).unwrap();
        let recorder = Recorder::new();
        recorder.submit(Task::new(&slow, &[x.read(), y.write()]));
        recorder.submit(Task::new(&copy, &[y.read(), out.write()]));
        let graph = recorder.finish().unwrap();
        runtime.launch(&graph).unwrap();
        arena.reset();
    }
    runtime.wait().unwrap();
    for (i, out) in out.iter().enumerate() {
        assert_eq!(
            runtime.read(out).unwrap()[..],
            [i as f32 * 0.5 + 1.0; 100],
            "step {i}"
        );
    }
    // Chunks are used again once their step has ended: far fewer than one per reset.
    let held = arena.reserved();
    (0..50).for_each(|_| {
        arena.zeros::<f32, 1>([100]).unwrap();
        arena.reset();
    });
    assert_eq!(arena.reserved(), held);
}

#[test]
fn memory_is_known_and_flat() {
    planned();
    for main_works in [true, false] {
        for launch_only in [true, false] {
            flat("ws", main_works, launch_only, false);
            flat("eager", main_works, launch_only, false);
        }
    }
    flat("dmda", true, false, true);
    resets();
}
