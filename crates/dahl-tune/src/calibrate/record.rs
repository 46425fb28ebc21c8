//! Durations of a traced run, for the performance model.

use std::collections::BTreeMap;

use dahl_core::trace::Trace;
use dahl_core::{Cost, Graph, Machine, Seconds, Unit, UnitKind};
use dahl_sched::model::Key;

/// Records the durations in traces of a graph, under the names that units have; how many there were.
pub(crate) fn record(
    graph: &Graph,
    traces: &[&Trace],
    machine: &Machine,
    name: impl Fn(&Unit) -> String,
    mut to: impl FnMut(&Key, Cost, Seconds),
) -> u64 {
    let mut count = 0;
    let mut durations: BTreeMap<(u32, &str, UnitKind), Vec<Seconds>> = BTreeMap::new();
    let names: Vec<String> = machine.units.iter().map(name).collect();
    for run in traces.iter().flat_map(|t| &t.tasks) {
        count += 1;
        let class = graph.tasks[run.id.task as usize].class;
        let unit = usize::from(run.unit);
        let of = durations.entry((class, &names[unit], machine.units[unit].kind));
        // A nanosecond is the least a trace can tell from nothing.
        let nanos = (run.end - run.start).max(1);
        of.or_default().push(Seconds(nanos as f64 * 1e-9));
    }
    for ((class, unit, kind), seconds) in durations {
        if let Some(key) = Key::of(graph, class, (unit, kind), &machine.kernels) {
            let cost = graph.classes[class as usize].cost;
            for i in spread(seconds.len()) {
                to(&key, cost, seconds[i]);
            }
        }
    }
    count
}

/// The numbers below `n` in an order of which every run of consecutive ones is spread over all of them, the first one
/// first. A history judges by what it saw last: of a machine that is fast and slow in turns, that must
/// not be one of the two.
fn spread(n: usize) -> impl Iterator<Item = usize> {
    let golden = (n as f64 * 0.618) as usize;
    let stride = (1..=golden).rev().find(|&s| common_divisor(s, n) == 1);
    (0..n).map(move |i| i * stride.unwrap_or(1) % n)
}

fn common_divisor(a: usize, b: usize) -> usize {
    match b {
        0 => a,
        _ => common_divisor(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_spreads_and_leaves_nothing_out() {
        for n in [0, 1, 2, 3, 64, 1000, 4096] {
            let order: Vec<usize> = spread(n).collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..n).collect::<Vec<_>>());
            assert!(n == 0 || order[0] == 0);
            // Any hundred in a row have about as many from either half.
            for row in order.chunks_exact(100) {
                let early = row.iter().filter(|&&i| i < n / 2).count();
                assert!((40..=60).contains(&early), "{early} of 100 among {n}");
            }
        }
    }
}
