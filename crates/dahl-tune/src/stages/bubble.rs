//! The bubble that a trace shows: how long units of a pipeline wait between their first task of a step and their last.

use std::collections::BTreeMap;

use dahl_core::trace::Trace;

/// Of steps that ran one at a time, the middle one's largest part of a unit's computing time that it waited; none of none. Steps
/// that were not recorded whole are left out, as long as one was.
pub fn bubble(trace: &Trace) -> Option<f64> {
    // By launch and unit: begin, end, computing time.
    let mut launches: BTreeMap<u32, (usize, BTreeMap<u16, [u64; 3]>)> = BTreeMap::new();
    for run in &trace.tasks {
        let (tasks, units) = launches.entry(run.id.launch).or_default();
        *tasks += 1;
        let [begin, end, busy] = units.entry(run.unit).or_insert([u64::MAX, 0, 0]);
        (*begin, *end) = ((*begin).min(run.start), (*end).max(run.end));
        *busy += run.end - run.start;
    }
    let most = launches.values().map(|(tasks, _)| *tasks).max()?;
    let whole = launches.values().filter(|(tasks, _)| *tasks == most);
    let waits = whole.map(|(_, units)| {
        let part = |[begin, end, busy]: &[u64; 3]| match busy {
            0 => 0.0,
            busy => (end - begin).saturating_sub(*busy) as f64 / *busy as f64,
        };
        units.values().map(part).fold(0.0, f64::max)
    });
    let mut all: Vec<f64> = waits.collect();
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}
