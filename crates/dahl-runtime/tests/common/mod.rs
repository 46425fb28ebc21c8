//! Running random programs and comparing what they leave with sequential execution; devices made up for tests.

#![allow(dead_code)] // Each test file uses its own part.

pub mod frail;
pub mod gpu;
pub mod known;
pub mod watched;

use std::sync::Arc;
use std::time::Duration;

use dahl_core::{Graph, Handle};
use dahl_runtime::Runtime;
use dahl_test_support::program::Program;

pub const POLICIES: [&str; 5] = ["eager", "ws", "dm", "dmda", "dmdas"];

pub fn runtime(workers: usize, policy: &str) -> Runtime {
    Runtime::builder()
        .workers(workers)
        .policy(policy)
        .main_works(workers.is_multiple_of(2))
        .watchdog(Duration::from_secs(60))
        .build()
        .unwrap()
}

/// Runs a program and compares what it leaves with sequential execution.
pub fn check(
    program: &Program,
    graph: &Arc<Graph>,
    handles: &[Handle],
    runtime: &mut Runtime,
    times: usize,
    what: &str,
) {
    program.check_on(graph, handles, runtime, times, what);
}
