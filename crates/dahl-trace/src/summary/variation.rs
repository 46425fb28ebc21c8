//! Why the same codelet takes longer this time.
//!
//! Runs of one class (codelet, implementation, shapes) do equal work. Where their times differ much
//! (interquartile range above a quarter of the median, or one in a hundred above twice the median), the
//! runs are put into groups by each of a few circumstances, and what a circumstance **explains** is the
//! part of the variance of the logarithm of the time that lies between its groups, less what chance puts
//! there (ε², Kelley 1935): 1 where it decides everything, 0 where it does not matter. The logarithm keeps
//! a few very long runs from deciding alone. A circumstance is named if the medians of its groups differ
//! by a tenth or more. What goes along with a long time need not be its cause.

use std::collections::HashMap;

use dahl_core::Seconds;
use dahl_core::trace::{NOBODY, Trace};
use serde::Serialize;

use super::labels::Labels;
use super::stats::{Spread, quantile, ratio};
use crate::Index;

/// Fewer runs than this say nothing.
const MIN_RUNS: usize = 20;
/// What a circumstance must explain to be named.
const MIN_EXPLAINED: f64 = 0.1;

/// A class whose time varies.
#[derive(Clone, Debug, Serialize)]
pub struct Variation {
    /// The codelet.
    pub codelet: String,
    /// And how it was computed.
    pub implementation: String,
    /// Of which shapes.
    pub shapes: String,
    /// How long its tasks took.
    #[serde(flatten)]
    pub time: Spread,
    /// Time beyond the median, of all runs that took longer.
    pub lost_ns: u64,
    /// Circumstances that go along with it, the most telling first.
    pub factors: Vec<Factor>,
    /// In words.
    pub says: String,
}

/// A circumstance.
#[derive(Clone, Debug, Serialize)]
pub struct Factor {
    /// `unit`, `cold`, `first_touch`, `load` or `neighbour`.
    pub factor: &'static str,
    /// Part of the variance that lies between its groups.
    pub explains: f64,
    /// In words.
    pub says: String,
}

/// The classes that lose most time by varying.
pub(super) fn find(trace: &Trace, index: &Index, labels: &Labels, top: usize) -> Vec<Variation> {
    let mut runs = vec![vec![]; labels.classes.len()];
    for (i, t) in trace.tasks.iter().enumerate() {
        runs[labels.class(trace, t)].push(i as u32);
    }
    let mut varying: Vec<(u64, Spread, usize)> = vec![];
    for (class, runs) in runs.iter().enumerate().filter(|r| r.1.len() >= MIN_RUNS) {
        let mut durations: Vec<u64> = runs.iter().map(|&r| duration(trace, r)).collect();
        let time = Spread::of(&mut durations);
        if time.spread > 0.25 || time.p99_ns > 2 * time.median_ns {
            let beyond = |d: &u64| d.saturating_sub(time.median_ns);
            varying.push((durations.iter().map(beyond).sum(), time, class));
        }
    }
    varying.sort_by_key(|v| std::cmp::Reverse(v.0));
    varying.truncate(top);
    if varying.is_empty() {
        return vec![];
    }
    let others = others_busy(trace);
    let class = |(lost_ns, time, class): (u64, Spread, usize)| {
        let mut factors = factors(trace, index, &runs[class], &others);
        factors.retain(|f| f.explains >= MIN_EXPLAINED);
        factors.sort_by(|a, b| b.explains.total_cmp(&a.explains));
        let (codelet, implementation, shapes) = labels.classes[class].clone();
        let says = factors.first().map_or_else(
            || {
                "nothing in the trace; other programs, the clock frequency or the values computed may \
                 be the cause"
                    .to_string()
            },
            |f| f.says.clone(),
        );
        Variation {
            codelet,
            implementation,
            shapes,
            time,
            lost_ns,
            factors,
            says,
        }
    };
    varying.into_iter().map(class).collect()
}

fn duration(trace: &Trace, run: u32) -> u64 {
    let t = &trace.tasks[run as usize];
    t.end - t.start
}

/// How many other tasks were running when each began.
fn others_busy(trace: &Trace) -> Vec<u32> {
    let mut ends: Vec<u64> = trace.tasks.iter().map(|t| t.end).collect();
    ends.sort_unstable();
    let mut ended = 0;
    let running = |(i, t): (usize, &dahl_core::trace::TaskRun)| {
        while ended < ends.len() && ends[ended] <= t.start {
            ended += 1;
        }
        i.saturating_sub(ended) as u32
    };
    trace.tasks.iter().enumerate().map(running).collect()
}

/// All circumstances that are defined for these runs, which are by start.
fn factors(trace: &Trace, index: &Index, runs: &[u32], others: &[u32]) -> Vec<Factor> {
    let units = trace.units.len();
    let run = |r: u32| &trace.tasks[r as usize];
    let mut found = vec![];

    let by_unit = Groups::of(trace, runs, |r| Some(u32::from(run(r).unit)));
    found.extend(by_unit.factor("unit", 3, |slow, fast| {
        let name = |u: u32| &trace.units[u as usize].name;
        (format!("on {}", name(slow)), format!("on {}", name(fast)))
    }));

    // The first run on each unit: its code and data are in no cache yet.
    let mut seen = vec![false; units];
    let mut cold = runs.to_vec();
    cold.retain(|&r| !std::mem::replace(&mut seen[usize::from(run(r).unit)], true));
    let by_cold = Groups::of(trace, runs, |r| Some(cold.contains(&r).into()));
    found.extend(by_cold.factor("cold", 1, words("the first time on a unit", "later")));

    // Memory of a graph's first launch has not been touched before. Lost events make the first one
    // left any launch.
    if trace.dropped == 0 {
        let mut first = vec![u32::MAX; trace.graphs.len()];
        for (i, l) in trace.launches.iter().enumerate().rev() {
            first[l.graph as usize] = i as u32;
        }
        let touch = |r: u32| {
            let launch = run(r).id.launch;
            let graph = trace.launches[launch as usize].graph as usize;
            Some(u32::from(first[graph] == launch))
        };
        let by_touch = Groups::of(trace, runs, touch);
        let says = words("in the first launch (new memory)", "in later launches");
        found.extend(by_touch.factor("first_touch", 1, says));
    }

    // Half of the other units, rounded up.
    let many = units as u32 / 2;
    if units > 1 {
        let by_load = Groups::of(trace, runs, |r| Some((others[r as usize] >= many).into()));
        let says = words("while most other units are busy", "while few are");
        found.extend(by_load.factor("load", 3, says));

        let warm = |r: u32| {
            let by = run(r).released_by;
            let by = index.find(trace, by).filter(|_| by.task != NOBODY)?;
            Some(u32::from(run(by).unit != run(r).unit))
        };
        let by_neighbour = Groups::of(trace, runs, warm);
        let says = words(
            "after a task of another unit",
            "after a task of its own unit",
        );
        found.extend(by_neighbour.factor("neighbour", 3, says));
    }
    found
}

/// Words for a circumstance that holds (1) or not (0), in the order asked for.
fn words(yes: &'static str, no: &'static str) -> impl Fn(u32, u32) -> (String, String) {
    move |a, b| ([no, yes][a as usize].into(), [no, yes][b as usize].into())
}

/// Durations by group.
struct Groups {
    groups: Vec<(u32, Vec<u64>)>,
}

impl Groups {
    /// Runs for which the circumstance is not known are left out.
    fn of(trace: &Trace, runs: &[u32], group: impl Fn(u32) -> Option<u32>) -> Groups {
        let mut groups: HashMap<u32, Vec<u64>> = HashMap::new();
        for &r in runs {
            if let Some(g) = group(r) {
                groups.entry(g).or_default().push(duration(trace, r));
            }
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_by_key(|g| g.0);
        Groups { groups }
    }

    /// ε², if there are at least two groups of at least `min` runs.
    fn factor(
        mut self,
        factor: &'static str,
        min: usize,
        words: impl Fn(u32, u32) -> (String, String),
    ) -> Option<Factor> {
        self.groups.retain(|g| g.1.len() >= min);
        if self.groups.len() < 2 {
            return None;
        }
        let log = |d: &u64| (*d.max(&1) as f64).ln();
        let all = self.groups.iter().flat_map(|g| &g.1);
        let count = all.clone().count() as f64;
        let mean = all.clone().map(log).sum::<f64>() / count;
        let total: f64 = all.map(|d| (log(d) - mean).powi(2)).sum();
        let mut between = 0.0;
        for (_, durations) in &mut self.groups {
            let own = durations.iter().map(log).sum::<f64>() / durations.len() as f64;
            between += durations.len() as f64 * (own - mean).powi(2);
            durations.sort_unstable();
        }
        let medians = self.groups.iter().map(|(g, d)| (quantile(d, 0.5), *g));
        let (slow, fast) = (medians.clone().max()?, medians.min()?);
        let time = |d: u64| Seconds(d as f64 * 1e-9);
        let (a, b) = words(slow.1, fast.1);
        let free = count - self.groups.len() as f64;
        let inside = ratio(total - between, free) * (count - 1.0);
        let explains = (1.0 - ratio(inside, total)).clamp(0.0, 1.0);
        let differ = 10 * u128::from(slow.0) >= 11 * u128::from(fast.0);
        (slow.1 != fast.1 && differ && free > 0.0 && total > 0.0).then(|| Factor {
            factor,
            explains,
            says: format!(
                "{} {a}, {} {b} (explains {:.0} %)",
                time(slow.0),
                time(fast.0),
                explains * 100.0
            ),
        })
    }
}
