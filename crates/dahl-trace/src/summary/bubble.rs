//! The bubble of a pipeline: how much longer its devices are at a step than its busiest one computes.
//!
//! A device is at a step from its first task of that step to its last, and computes while one of its units does. With
//! stages of equal cost the longest stay is `(1 + bubble)` times what each computes: the figure of the literature, in
//! which devices that begin later and end earlier are not said to wait. With unequal stages it is what a step in a run of many takes
//! beyond the least that is possible with these stages. A unit that has next to nothing to do does not count as one
//! that waits.
//!
//! Which units are a device stands in the trace, under [`DEVICES`]: who records a pipeline writes it. Without that there
//! is no bubble.

use std::collections::BTreeMap;

use dahl_core::trace::Trace;

/// The name under which a trace of a pipeline says which device each unit belongs to: a number for each, in their order.
pub const DEVICES: &str = "devices";

/// Of steps that ran one at a time, the bubble of the least disturbed one; none of none. Steps that were not recorded whole
/// are left out, as long as one was.
pub fn bubble(trace: &Trace) -> Option<f64> {
    let (_, text) = trace.about.iter().find(|(name, _)| name == DEVICES)?;
    let devices = text.split_whitespace().map(|n| n.parse().ok());
    let devices: Vec<u16> = devices.collect::<Option<_>>()?;
    let fits = devices.len() == trace.units.len();
    fits.then(|| least(trace, &devices))?
}

/// The least of all steps, where each unit belongs to a device.
fn least(trace: &Trace, device_of: &[u16]) -> Option<f64> {
    // By step and device: begins and ends of tasks. Every node of a cluster counts its own launches.
    let mut steps: BTreeMap<u64, BTreeMap<u16, Vec<(u64, u64)>>> = BTreeMap::new();
    for run in &trace.tasks {
        let step = trace.launches[run.id.launch as usize].step;
        let device = device_of[usize::from(run.unit)];
        let devices = steps.entry(step).or_default();
        devices
            .entry(device)
            .or_default()
            .push((run.start, run.end));
    }
    let tasks =
        |devices: &BTreeMap<u16, Vec<(u64, u64)>>| devices.values().map(Vec::len).sum::<usize>();
    let most = steps.values().map(tasks).max()?;
    steps.retain(|_, devices| tasks(devices) == most);
    let bubbles = steps.into_values().filter_map(|devices| {
        let (mut stays, mut computes) = (0, 0);
        for (_, mut tasks) in devices {
            let (stay, busy) = stay(&mut tasks);
            (stays, computes) = (stay.max(stays), busy.max(computes));
        }
        (computes > 0).then(|| (stays - computes) as f64 / computes as f64)
    });
    bubbles.min_by(f64::total_cmp)
}

/// From the first begin to the last end, and for how much of that time something runs.
fn stay(tasks: &mut [(u64, u64)]) -> (u64, u64) {
    tasks.sort_unstable();
    let first = tasks.first().map_or(0, |t| t.0);
    let (mut at, mut busy) = (first, 0);
    for &(begin, end) in tasks.iter() {
        busy += end.saturating_sub(begin.max(at));
        at = at.max(end);
    }
    (at - first, busy)
}

#[cfg(test)]
mod tests {
    use super::stay;

    #[test]
    fn a_device_computes_while_one_of_its_units_does() {
        assert_eq!(stay(&mut []), (0, 0));
        assert_eq!(stay(&mut [(5, 7), (2, 3)]), (5, 3));
        assert_eq!(stay(&mut [(2, 10), (3, 4), (9, 12), (12, 13)]), (11, 11));
    }
}
