//! Empty tasks: what a task costs beyond its work.
//!
//! Peers run the same graphs in `bench/tasks`; the generator of `pairs` is specified there.

use std::sync::Arc;
use std::time::Instant;

use dahl_core::{Arena, Codelet, DType, Graph, Mode, Recorder, Task, UnitKind};
use dahl_runtime::Runtime;
use serde::Serialize;

use crate::error::TuneError;

/// What tasks depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskPattern {
    /// Nothing.
    Independent,
    /// The one before.
    Chain,
    /// Two of 64 arrays, chosen pseudo-randomly.
    Pairs,
}

impl TaskPattern {
    /// All of them, by name.
    pub const ALL: [(&'static str, TaskPattern); 3] = [
        ("independent", TaskPattern::Independent),
        ("chain", TaskPattern::Chain),
        ("pairs", TaskPattern::Pairs),
    ];
}

/// Nanoseconds per empty task.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TaskCosts {
    /// Recording.
    pub submit_ns: f64,
    /// The first execution.
    pub first_ns: f64,
    /// Another one: the median.
    pub replay_ns: f64,
}

/// Records so many empty tasks and executes them once, and so many times again.
pub fn measure_tasks(
    runtime: &mut Runtime,
    pattern: TaskPattern,
    tasks: u32,
    replays: u32,
) -> Result<TaskCosts, TuneError> {
    let per_task = |start: Instant| start.elapsed().as_nanos() as f64 / f64::from(tasks);
    let arena = Arena::new();
    let start = Instant::now();
    let graph = record(pattern, tasks, &arena)?;
    let submit_ns = per_task(start);
    let mut run = || -> Result<f64, TuneError> {
        let start = Instant::now();
        runtime.launch(&graph)?;
        runtime.wait()?;
        Ok(per_task(start))
    };
    let first_ns = run()?;
    let mut times = (0..replays.max(1))
        .map(|_| run())
        .collect::<Result<Vec<f64>, _>>()?;
    times.sort_by(f64::total_cmp);
    Ok(TaskCosts {
        submit_ns,
        first_ns,
        replay_ns: times[times.len() / 2],
    })
}

fn record(pattern: TaskPattern, tasks: u32, arena: &Arena) -> Result<Arc<Graph>, TuneError> {
    let kinds = [UnitKind::CPU, UnitKind::GPU].into_iter();
    let empty = Codelet::new("empty");
    let empty = Arc::new(kinds.fold(empty, |c, kind| c.implement("empty", kind, |_| Ok(()))));
    let arrays = (0..64)
        .map(|i| arena.alloc(&format!("a{i}"), &[], DType::F64))
        .collect::<Result<Vec<_>, _>>()?;
    let recorder = Recorder::new();
    let mut random = SplitMix(42);
    for _ in 0..tasks {
        match pattern {
            TaskPattern::Independent => recorder.submit(Task::new(&empty, &[])),
            TaskPattern::Chain => {
                recorder.submit(Task::new(&empty, &[arrays[0].with(Mode::ReadWrite)]))
            }
            TaskPattern::Pairs => {
                let r = random.next() % 64;
                let w = random.next() % 63;
                let w = w + u64::from(w >= r);
                let operands = [
                    arrays[r as usize].with(Mode::Read),
                    arrays[w as usize].with(Mode::ReadWrite),
                ];
                recorder.submit(Task::new(&empty, &operands))
            }
        };
    }
    Ok(recorder.finish()?)
}

/// The generator that all engines share: splitmix64.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}
