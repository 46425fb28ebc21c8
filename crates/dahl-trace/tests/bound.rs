//! The verdict on a run names what its units spend their time with.

mod common;

use common::{chain, graph, run};
use dahl_core::trace::{Launch, NOBODY, Trace, TraceMemory};
use dahl_trace::{Summary, check};

/// Tasks without edges on two units: launch, task, unit, and ready, taken, start, end. Those of another
/// task than a launch name it.
fn made(tasks: u32, edges: &[(u32, u32)], runs: &[(u32, u16, u32, [u64; 4])]) -> Trace {
    let mut trace = chain(tasks, 2);
    trace.graphs = vec![graph(tasks, edges)];
    let run = |&(task, unit, by, times)| run(0, task, by, unit, times);
    trace.tasks = runs.iter().map(run).collect();
    trace.sort();
    trace
}

fn two_memories(mut trace: Trace) -> Trace {
    trace.memories.push(TraceMemory {
        name: "gpu:0".into(),
        capacity: None,
        node: 0,
    });
    trace
}

#[test]
fn each_verdict_has_its_trace() {
    let busy = made(
        2,
        &[],
        &[
            (0, 0, NOBODY, [0, 0, 0, 1000]),
            (1, 1, NOBODY, [0, 0, 0, 990]),
        ],
    );
    let uneven = made(
        3,
        &[],
        &[
            (0, 0, NOBODY, [0, 0, 0, 500]),
            (1, 1, NOBODY, [0, 0, 0, 600]),
            (2, 1, NOBODY, [0, 600, 600, 1000]),
        ],
    );
    let long_chain = made(
        3,
        &[(0, 1)],
        &[
            (0, 0, NOBODY, [0, 0, 0, 500]),
            (1, 0, 0, [500, 500, 500, 1000]),
            (2, 1, NOBODY, [0, 0, 0, 100]),
        ],
    );
    // Everything waits for the first task, but the chain through it is short.
    let bottleneck = made(
        5,
        &[(0, 1), (0, 2), (0, 3), (0, 4)],
        &[
            (0, 0, NOBODY, [0, 0, 0, 100]),
            (1, 0, 0, [100, 100, 100, 400]),
            (2, 0, 0, [100, 400, 400, 700]),
            (3, 0, 0, [100, 700, 700, 1000]),
            (4, 1, 0, [100, 100, 100, 200]),
        ],
    );
    let copying = two_memories(made(
        2,
        &[],
        &[
            (0, 0, NOBODY, [0, 0, 700, 1000]),
            (1, 1, NOBODY, [0, 0, 650, 1000]),
        ],
    ));
    let slow_to_begin = made(
        2,
        &[],
        &[
            (0, 0, NOBODY, [0, 700, 700, 1000]),
            (1, 1, NOBODY, [0, 650, 650, 1000]),
        ],
    );
    let mut late = made(
        2,
        &[],
        &[
            (0, 0, NOBODY, [0, 0, 0, 200]),
            (1, 1, NOBODY, [0, 0, 0, 200]),
        ],
    );
    late.launches.push(Launch {
        step: 2,
        graph: 0,
        at: 800,
        node: 0,
    });
    late.tasks.push(run(1, 0, NOBODY, 0, [800, 800, 800, 1000]));
    late.tasks.push(run(1, 1, NOBODY, 1, [800, 800, 800, 1000]));
    let cases = [
        ("work", 0.995, busy),
        ("work", 0.75, uneven),
        ("critical_path", 1.0, long_chain),
        ("waiting_for_work", 0.45, bottleneck),
        ("transfers", 0.675, copying),
        ("overhead", 0.675, slow_to_begin),
        ("launching", 0.6, late),
    ];
    for (by, share, trace) in cases {
        check(&trace).unwrap_or_else(|e| panic!("{by}: {e}"));
        let s = Summary::of(&trace);
        assert_eq!(s.bound.by, by, "{:?}", s.bound);
        assert!((s.bound.share - share).abs() < 1e-9, "{by}: {:?}", s.bound);
        let name = by.replace('_', " ");
        assert!(s.bound.says.contains(&name), "{by}: {}", s.bound.says);
        let waits = s.bound.waiting_ns as f64 > 0.1 * s.span_ns as f64;
        assert!(
            !(waits && s.bound.says.contains("or more units help")),
            "{by}: {}",
            s.bound.says
        );
    }
}

/// Whatever a run looks like, the parts sum to its span, and units that wait are not to be more.
#[test]
fn more_units_are_never_recommended_to_units_that_wait() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let trace = common::random_graph(seed);
        let s = Summary::of(&trace);
        let b = &s.bound;
        let sum = b.work_ns + b.data_ns + b.overhead_ns + b.waiting_ns;
        assert!(sum.abs_diff(s.span_ns) <= 4, "seed {seed}: {b:?}");
        let waits = b.waiting_ns as f64 >= 0.1 * s.span_ns as f64;
        let recommended = b.says.contains("or more units help");
        assert!(
            !(waits && recommended && s.span_ns > 0),
            "seed {seed}: {b:?}"
        );
        seen.insert(b.by);
    }
    assert!(seen.contains("work") && seen.len() >= 3, "{seen:?}");
}
