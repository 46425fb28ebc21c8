//! What bounds a run.
//!
//! Five times that the span cannot, or did not, get below. The largest is the one to work on:
//!
//! - **critical path**: the longest chain of tasks, however many units there are;
//! - **work**: all tasks shared out evenly among the units;
//! - **data**: what a unit spent, on average, transferring and waiting for data;
//! - **overhead**: what a unit spent, on average, between a task being ready and its being taken;
//! - **launching**: what a unit spent, on average, waiting for tasks that nothing but their launch
//!   released, which is the program that launches being late.

use dahl_core::trace::{NOBODY, Nanos, Trace};
use serde::Serialize;

use super::stats::ratio;
use super::timeline::{Idle, UnitTime};

/// What bounds a run, and by how much.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// The largest of the following: `critical_path`, `work`, `data`, `overhead` or `launching`.
    pub by: &'static str,
    /// That, as a share of the span.
    pub share: f64,
    /// In words, with what to do about it.
    pub says: String,
    /// See [`self`], as the following.
    pub critical_path_ns: Nanos,
    /// All tasks' time by the number of units.
    pub work_ns: Nanos,
    /// Mean of transferring and waiting for data.
    pub data_ns: Nanos,
    /// Mean overhead.
    pub overhead_ns: Nanos,
    /// Mean waiting for launches.
    pub launching_ns: Nanos,
}

pub(super) fn of(
    trace: &Trace,
    all: &UnitTime,
    gaps: &[Idle],
    units: usize,
    span: Nanos,
    critical_path_ns: Nanos,
) -> Bound {
    let each = |sum: Nanos| sum / (units.max(1) as u64);
    let late = |g: &&Idle| {
        g.next
            .is_some_and(|n| trace.tasks[n as usize].released_by.task == NOBODY)
    };
    let launching = gaps.iter().filter(late).map(|g| g.ready - g.from).sum();
    let bounds = [
        ("critical_path", critical_path_ns),
        ("work", each(all.busy_ns)),
        ("data", each(all.transferring_ns + all.waiting_for_data_ns)),
        ("overhead", each(all.overhead_ns)),
        ("launching", each(launching)),
    ];
    // Of equals the first: one unit has its work for a critical path.
    let mut largest = bounds[usize::from(units == 1)];
    for b in bounds {
        if b.1 > largest.1 && !(units == 1 && b.0 == "critical_path") {
            largest = b;
        }
    }
    let share = ratio(largest.1 as f64, span as f64);
    Bound {
        by: largest.0,
        share,
        says: says(largest.0, share),
        critical_path_ns,
        work_ns: bounds[1].1,
        data_ns: bounds[2].1,
        overhead_ns: bounds[3].1,
        launching_ns: bounds[4].1,
    }
}

fn says(by: &str, share: f64) -> String {
    let percent = share * 100.0;
    match by {
        "critical_path" => format!(
            "the critical path: its tasks alone take {percent:.1} % of the span, on any number of \
             units; split them, or make them faster"
        ),
        "work" => format!(
            "the work: shared out evenly it keeps every unit busy for {percent:.1} % of the span; \
             more units or faster codelets help"
        ),
        "data" => format!(
            "data: units spend {percent:.1} % of the span waiting for copies; larger tasks, or \
             fewer moves between memories, help"
        ),
        "overhead" => format!(
            "overhead: units spend {percent:.1} % of the span getting at tasks that are ready; \
             larger tasks help"
        ),
        _ => format!(
            "launching: units spend {percent:.1} % of the span waiting for the next launch; prepare \
             data earlier, or keep more launches in flight"
        ),
    }
}
