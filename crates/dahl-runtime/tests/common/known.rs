//! Durations that are known beforehand: no clock decides where tasks go.

use std::sync::atomic::{AtomicUsize, Ordering};

use dahl_core::{Graph, Machine, Seconds, Unit};
use dahl_runtime::perf_store::PerfStore;
use dahl_sched::model::Key;

/// A performance model of a graph's tasks, from the name of the codelet and the unit. Good for one launch: after
/// it, what was measured counts too.
pub fn known(graph: &Graph, machine: &Machine, seconds: impl Fn(&str, &Unit) -> f64) -> PerfStore {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let file = format!("dahl-known-{}-{count}.json", std::process::id());
    // Nobody writes there.
    let (mut store, _) = PerfStore::open(&std::env::temp_dir().join(file), 0).unwrap();
    for unit in &machine.units {
        let name = machine.timed_as(unit);
        for (class, record) in graph.classes.iter().enumerate() {
            let Some(key) = Key::of(graph, class as u32, (&name, unit.kind), &machine.kernels)
            else {
                continue;
            };
            let codelet = &graph.codelets[record.codelet as usize].name;
            let each = Seconds(seconds(codelet, unit));
            for _ in 0..32 {
                store.record(&key, record.cost, each);
            }
        }
    }
    store
}
