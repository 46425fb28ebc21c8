//! A trace in figures: where the time went, which unit waited and why, what bounds the run.
//!
//! The **span** reaches from the first event (a launch, a task becoming ready, a transfer) to the end of
//! the last task or transfer. Where events were given up, the launches are older than what is left, and
//! the span begins with the first task taken. What each time of a unit means is said in [`timeline`];
//! they sum to the span.
//!
//! Times are whole nanoseconds, so that sums are exact and equal those of the exports. Field names are
//! those of `dahl trace summary --json` and stay. Nothing is printed here.

pub mod bound;
pub mod bubble;
pub mod critical;
pub mod energy;
pub mod gaps;
pub mod groups;
mod labels;
pub mod memory;
pub mod nodes;
mod report;
mod slowest;
mod stats;
mod task;
pub mod timeline;
pub mod transfers;
pub mod variation;

use dahl_core::trace::{Nanos, Trace};
use serde::Serialize;

use crate::Index;
pub use bound::Bound;
pub use critical::{CriticalPath, OnPath};
pub use energy::{DomainEnergy, NamedJoules};
pub use gaps::Gap;
pub use groups::{CodeletTime, LayerTime, StepTime};
use labels::Labels;
pub use memory::MemoryPeak;
pub use nodes::NodeTime;
pub use slowest::Slowest;
pub use stats::Spread;
pub use task::TaskRef;
pub use timeline::UnitTime;
pub use transfers::PairTraffic;
pub use variation::{Factor, Variation};

/// How many of the largest gaps, longest tasks of the critical path and varying codelets are kept
/// by default.
pub const TOP: usize = 10;

/// Version of the fields.
pub const VERSION: u32 = 3;

/// What a trace says.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// [`VERSION`].
    pub version: u32,
    /// What made the trace.
    pub about: Vec<(String, String)>,
    /// Whether the times are a simulator's.
    pub simulated: bool,
    /// Tasks that ran.
    pub tasks: u64,
    /// Launches; those of several nodes for the same step count once.
    pub launches: u64,
    /// Events that were given up.
    pub dropped: u64,
    /// Begin of the span.
    pub from_ns: Nanos,
    /// End of the span.
    pub to_ns: Nanos,
    /// Length of the span.
    pub span_ns: Nanos,
    /// Time of each unit.
    pub units: Vec<UnitTime>,
    /// Time of all units together.
    pub all_units: UnitTime,
    /// The nodes of a cluster; empty for a computer alone.
    pub nodes: Vec<NodeTime>,
    /// Busy time of all units, divided by the span and the number of units.
    pub parallel_efficiency: f64,
    /// Of a pipeline, how much longer devices are at a step than the busiest computes: of the least disturbed step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bubble: Option<f64>,
    /// The longest chain of tasks that had to run one after another.
    pub critical_path: CriticalPath,
    /// What bounds the run.
    pub bound: Bound,
    /// Codelets by time.
    pub codelets: Vec<CodeletTime>,
    /// Layers by time.
    pub layers: Vec<LayerTime>,
    /// Steps in order.
    pub steps: Vec<StepTime>,
    /// The largest gaps, longest first.
    pub gaps: Vec<Gap>,
    /// Traffic by pair of memories.
    pub transfers: Vec<PairTraffic>,
    /// Peak of each memory.
    pub memory: Vec<MemoryPeak>,
    /// Energy by domain; empty where power was not sampled. Domains may contain each other, so they are
    /// never added.
    pub energy: Vec<DomainEnergy>,
    /// Codelets whose time varies though their shapes do not.
    pub variation: Vec<Variation>,
}

impl Summary {
    /// Sums up a trace that [`crate::check`] accepts.
    pub fn of(trace: &Trace) -> Summary {
        Summary::with_top(trace, TOP)
    }

    /// Sums up with so many of the largest of things.
    pub fn with_top(trace: &Trace, top: usize) -> Summary {
        let index = Index::of(trace);
        let labels = Labels::of(trace);
        let (from, to) = extent(trace);
        let lines = timeline::lines(trace);
        let (units, gaps) = timeline::times(trace, &index, &lines, from, to);
        let all = timeline::total(&units);
        let path = critical::critical_path(trace, &index);
        let span = to - from;
        let capacity = span as f64 * units.len() as f64;
        let bound = bound::of(trace, &all, &gaps, units.len(), span, path.length_ns);
        let nodes = nodes::of(trace, &units, &gaps);
        Summary {
            nodes,
            version: VERSION,
            about: trace.about.clone(),
            simulated: trace.simulated,
            tasks: trace.tasks.len() as u64,
            launches: groups::launches_by_step(trace).count() as u64,
            dropped: trace.dropped,
            from_ns: from,
            to_ns: to,
            span_ns: span,
            parallel_efficiency: stats::ratio(all.busy_ns as f64, capacity),
            bubble: bubble::bubble(trace),
            critical_path: critical::describe(trace, &labels, &path, span, top),
            bound,
            codelets: groups::codelets(trace, &labels),
            layers: groups::layers(trace, &labels),
            steps: groups::steps(trace, &index),
            gaps: gaps::largest(trace, &index, gaps, top),
            transfers: transfers::by_pair(trace),
            memory: memory::peaks(trace, &index),
            energy: energy::by_domain(trace, &labels),
            variation: variation::find(trace, &index, &labels, top),
            units,
            all_units: all,
        }
    }
}

/// Begin and end of the span.
pub fn extent(trace: &Trace) -> (Nanos, Nanos) {
    let transfers = trace.transfers.iter().map(|t| t.start);
    let from = if trace.dropped == 0 {
        let launches = trace.launches.iter().map(|l| l.at);
        let ready = trace.tasks.iter().map(|t| t.ready);
        transfers.chain(launches).chain(ready).min()
    } else {
        transfers.chain(trace.tasks.iter().map(|t| t.taken)).min()
    };
    let ends = trace.tasks.iter().map(|t| t.end);
    let ends = ends.chain(trace.messages.iter().map(|m| m.end));
    let to = ends.chain(trace.transfers.iter().map(|t| t.end)).max();
    let from = from.unwrap_or(0);
    (from, to.unwrap_or(from).max(from))
}
