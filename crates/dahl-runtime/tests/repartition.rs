//! Changing how an array is split is never a barrier: a chain of 50 stages that see one array by
//! sample, by channel and whole has exactly the edges that its elements demand.

mod common;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use dahl_core::split::{By, Split};
use dahl_core::{Arena, Codelet, Graph, Recorder, Region, Task, UnitKind};
use dahl_runtime::Runtime;

const SAMPLES: usize = 4;
const CHANNELS: usize = 3;
const STAGES: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq)]
enum View {
    BySample,
    ByChannel,
    Both,
    Whole,
}

fn view(stage: usize) -> View {
    // Whole now and then, otherwise in turns.
    match stage % 10 {
        9 => View::Whole,
        s if s % 3 == 0 => View::BySample,
        s if s % 3 == 1 => View::ByChannel,
        _ => View::Both,
    }
}

fn split(view: View) -> Split {
    match view {
        View::BySample => Split::new().axis(0, By::Size(1)),
        View::ByChannel => Split::new().axis(1, By::Size(1)),
        View::Both => Split::new().axis(0, By::Count(2)).axis(1, By::Size(1)),
        View::Whole => Split::new(),
    }
}

/// Every element becomes itself times three plus one, modulo something.
fn codelet() -> Arc<Codelet> {
    Arc::new(
        Codelet::new("stage").implement("reference", UnitKind::CPU, |ops| {
            let mut x = ops.write::<f64>(0);
            dahl_core::view::for_rows(x.dims(), |at| {
                x.row(at)
                    .iter_mut()
                    .for_each(|v| *v = (*v * 3.0 + 1.0) % 1009.0);
            });
            Ok(())
        }),
    )
}

fn record(x: &mut dahl_core::Tensor<'_, f64>) -> (Arc<Graph>, Vec<(usize, Region)>) {
    let codelet = codelet();
    let recorder = Recorder::new();
    let mut tasks = Vec::new();
    for stage in 0..STAGES {
        for part in &mut x.split_mut(&split(view(stage))).unwrap() {
            tasks.push((stage, part.handle().region));
            recorder.submit(Task::new(&codelet, &[part.read_write()]));
        }
    }
    (recorder.finish().unwrap(), tasks)
}

#[test]
fn edges_are_those_that_elements_demand() {
    let arena = Arena::new();
    let mut x = arena.zeros::<f64, 4>([SAMPLES, CHANNELS, 2, 2]).unwrap();
    let (graph, tasks) = record(&mut x);
    let got: BTreeSet<(u32, u32)> = graph.edges().collect();
    // Element by element: each task waits for the last one that touched any element of its own.
    let mut last = [None; SAMPLES * CHANNELS];
    let mut want = BTreeSet::new();
    for (t, (_, region)) in tasks.iter().enumerate() {
        let (start, end) = (region.start(), region.end());
        for n in start[0]..end[0] {
            for c in start[1]..end[1] {
                if let Some(before) = last[n * CHANNELS + c].replace(t as u32) {
                    want.insert((before, t as u32));
                }
            }
        }
    }
    assert_eq!(got, want);
    // All of it in the stage before, and only there: no stage waits longer than it must.
    for &(from, to) in &got {
        let ((a, from), (b, to)) = (tasks[from as usize], tasks[to as usize]);
        assert_eq!(a + 1, b);
        assert!(from.overlaps(&to));
    }
}

#[test]
fn no_stage_waits_for_a_whole_one_unless_it_must() {
    let arena = Arena::new();
    let mut x = arena.zeros::<f64, 4>([SAMPLES, CHANNELS, 2, 2]).unwrap();
    let (graph, tasks) = record(&mut x);
    let of = |stage: usize| tasks.iter().filter(|t| t.0 == stage).count();
    let waits = |t: u32| graph.edges().filter(|e| e.1 == t).count();
    for (t, &(stage, _)) in tasks.iter().enumerate().filter(|(_, t)| t.0 > 0) {
        let want = match (view(stage - 1), view(stage)) {
            (View::Whole, _) => 1,
            (_, View::Whole) => of(stage - 1),
            // A sample has parts of every channel, and the other way round: here it must.
            (View::BySample, View::ByChannel) => SAMPLES,
            (View::ByChannel, View::BySample) => CHANNELS,
            // Half the samples of one channel: two samples, or one channel.
            (View::BySample, View::Both) => SAMPLES / 2,
            (View::ByChannel, View::Both) => 1,
            (View::Both, View::BySample) => CHANNELS,
            (View::Both, View::ByChannel) => 2,
            (a, b) => panic!("{a:?} is followed by {b:?}"),
        };
        assert_eq!(
            waits(t as u32),
            want,
            "task {t} of stage {stage}, {:?}",
            view(stage)
        );
    }
}

/// The longest path in tasks is one per stage: what remains when there is no barrier. And along it
/// parts run ahead: with unlimited units, a sample is done with a stage before others begin it.
#[test]
fn the_critical_path_is_one_task_per_stage_and_samples_run_ahead() {
    let arena = Arena::new();
    let mut x = arena.zeros::<f64, 4>([SAMPLES, CHANNELS, 2, 2]).unwrap();
    let (graph, _) = record(&mut x);
    let mut depth = vec![1; graph.len()];
    for (from, to) in graph.edges() {
        depth[to as usize] = depth[to as usize].max(depth[from as usize] + 1);
    }
    assert_eq!(depth.iter().max(), Some(&STAGES));

    // The same split all along: as many independent chains as parts, and no edge between them.
    let codelet = codelet();
    let recorder = Recorder::new();
    for _ in 0..STAGES {
        for part in &mut x.split_mut(&split(View::BySample)).unwrap() {
            recorder.submit(Task::new(&codelet, &[part.read_write()]));
        }
    }
    let graph = recorder.finish().unwrap();
    assert_eq!(graph.edges().count(), SAMPLES * (STAGES - 1));
    assert!(graph.edges().all(|(a, b)| b == a + SAMPLES as u32));
}

#[test]
fn the_chain_computes_what_it_should() {
    let arena = Arena::new();
    let mut x = arena.full([SAMPLES, CHANNELS, 2, 2], 5.0f64).unwrap();
    let (graph, _) = record(&mut x);
    let mut want = 5.0;
    for policy in common::POLICIES {
        let builder = Runtime::builder().workers(3).policy(policy).pin(false);
        let mut runtime = builder.watchdog(Duration::from_secs(30)).build().unwrap();
        for _ in 0..4 {
            runtime.launch(&graph).unwrap();
            (0..STAGES).for_each(|_| want = (want * 3.0 + 1.0) % 1009.0);
        }
        assert!(
            runtime.read(&x).unwrap().iter().all(|&v| v == want),
            "{policy}"
        );
    }
}
