//! A runtime on StarPU, for one test at a time: StarPU is one for a process.

#![allow(dead_code)] // Each test file uses its own part.

use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use dahl_runtime::Runtime;
use dahl_starpu::StarPu;

static ALONE: Mutex<()> = Mutex::new(());

/// Waits until no other test uses StarPU. Its files, with the durations that it learns, are put aside for tests.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONCE: Once = Once::new();
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    ONCE.call_once(|| {
        // SAFETY: other tests wait for the lock, and threads of the harness set no variables.
        unsafe {
            std::env::set_var("STARPU_HOME", env!("CARGO_TARGET_TMPDIR"));
            std::env::set_var("STARPU_SILENT", "1");
        }
    });
    guard
}

/// A runtime whose tasks StarPU runs, with so many launches of a graph in flight. Behind a policy's name, `+data` lets
/// it see the data of tasks.
pub fn starpu(workers: usize, policy: &str, in_flight: usize) -> Runtime {
    let (name, data) = match policy.strip_suffix("+data") {
        Some(name) => (name, true),
        None => (policy, false),
    };
    let mut engine = StarPu::new(name).expect("a policy of StarPU");
    if data {
        engine = engine.with_data();
    }
    Runtime::builder()
        .workers(workers)
        .engine(engine)
        .in_flight(in_flight)
        .watchdog(Duration::from_secs(120))
        .build()
        .unwrap_or_else(|e| panic!("{policy}: {e}"))
}
