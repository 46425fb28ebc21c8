//! What bounds a run.
//!
//! A unit's time, on average over the units, falls into five parts that sum to the span: **work** (the
//! tasks' bodies), **transfers** (bringing operands, and waiting for them), **messages** (waiting for what
//! other nodes send), **overhead** (a task was ready,
//! and the unit had not begun it), and waiting for work, of which there are three kinds:
//!
//! - **launching**: most of it was for tasks that nothing but their launch released: the program that
//!   launches was late;
//! - **critical path**: the longest chain of tasks takes most of the span, and longer than all tasks shared
//!   out evenly, so no schedule could have kept the units busy;
//! - **waiting for work**: neither; there were too few tasks that were ready.
//!
//! A run is bound by work if its units do little else. Otherwise the largest of the other parts is what
//! to mend. More units are recommended only where those that are there hardly wait.

use dahl_core::trace::{NOBODY, Nanos, Trace};
use serde::Serialize;

use super::stats::ratio;
use super::timeline::{Idle, UnitTime};

/// Units whose work takes this share of the span are bound by it, whatever the rest is.
const MOSTLY: f64 = 0.75;
/// Units that wait for less than this share of the span hardly wait.
const HARDLY: f64 = 0.1;

/// A critical path of this share of the span explains why units wait.
const EXPLAINS: f64 = 2.0 / 3.0;

/// What bounds a run, and by how much.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// `work`, `critical_path`, `waiting_for_work`, `transfers`, `messages`, `overhead` or `launching`.
    pub by: &'static str,
    /// That, as a share of the span; of the critical path its whole length.
    pub share: f64,
    /// In words, with what to do about it.
    pub says: String,
    /// The length of the critical path.
    pub critical_path_ns: Nanos,
    /// All tasks' time by the number of units.
    pub work_ns: Nanos,
    /// Mean of transferring and waiting for data.
    pub data_ns: Nanos,
    /// Mean waiting for messages.
    pub messages_ns: Nanos,
    /// Mean overhead.
    pub overhead_ns: Nanos,
    /// Mean waiting for launches.
    pub launching_ns: Nanos,
    /// Mean waiting for work, launches included.
    pub waiting_ns: Nanos,
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
    let launching = gaps.iter().filter(late).map(|g| g.ready - g.messages).sum();
    let mut bound = Bound {
        by: "work",
        share: 0.0,
        says: String::new(),
        critical_path_ns,
        work_ns: each(all.busy_ns),
        data_ns: each(all.transferring_ns + all.waiting_for_data_ns),
        messages_ns: each(all.waiting_for_messages_ns),
        overhead_ns: each(all.overhead_ns),
        launching_ns: each(launching),
        waiting_ns: each(all.waiting_for_work_ns),
    };
    bound.decide(span);
    bound
}

impl Bound {
    fn decide(&mut self, span: Nanos) {
        let share = |ns: Nanos| ratio(ns as f64, span as f64);
        let path = self.critical_path_ns;
        let mut largest = if 2 * self.launching_ns > self.waiting_ns {
            ("launching", self.waiting_ns)
        } else if path > self.work_ns && share(path) >= EXPLAINS {
            ("critical_path", self.waiting_ns)
        } else {
            ("waiting_for_work", self.waiting_ns)
        };
        // Of equals the first.
        for part in [
            ("transfers", self.data_ns),
            ("messages", self.messages_ns),
            ("overhead", self.overhead_ns),
        ] {
            if part.1 > largest.1 {
                largest = part;
            }
        }
        let busy = share(self.work_ns);
        let hardly = share(self.waiting_ns + self.messages_ns) < HARDLY;
        if busy >= MOSTLY || hardly && self.work_ns >= largest.1 {
            largest = ("work", self.work_ns);
        }
        self.by = largest.0;
        self.share = match self.by {
            "critical_path" => share(self.critical_path_ns),
            "launching" => share(self.launching_ns),
            _ => share(largest.1),
        };
        self.says = says(self.by, self.share, hardly);
    }
}

fn says(by: &str, share: f64, hardly: bool) -> String {
    let percent = format!("{:.1} %", share * 100.0);
    match by {
        "work" if hardly => format!(
            "work: units compute for {percent} of the time; faster codelets or more units help"
        ),
        "work" => format!(
            "work: units compute for {percent} of the time; faster codelets help, and more units \
             would wait, as these do already"
        ),
        "critical_path" => format!(
            "the critical path: a chain of tasks that must run one after another takes {percent} of \
             the time, on any number of units; split its tasks, or make them faster"
        ),
        "transfers" => format!(
            "transfers: units spend {percent} of the time bringing data; larger tasks, or fewer \
             moves between memories, help"
        ),
        "messages" => format!(
            "messages: units wait {percent} of the time for what other nodes send; a faster network, \
             fewer nodes, other shares or larger batches help"
        ),
        "overhead" => format!(
            "overhead: for {percent} of the time a task is ready and its unit has not begun it; \
             larger tasks help"
        ),
        "launching" => format!(
            "launching: units wait {percent} of the time for the next step to be launched; prepare \
             data earlier, or keep more steps in flight"
        ),
        _ => format!(
            "waiting for work: units have no ready task for {percent} of the time, and no chain of tasks \
             explains it; split tasks finer, or keep more steps in flight"
        ),
    }
}
