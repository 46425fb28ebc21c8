//! Small traces made by hand.
#![allow(dead_code)]

use dahl_core::random::Random;
use dahl_core::trace::{
    Launch, Load, NOBODY, TaskId, TaskRun, Trace, TraceAccess, TraceClass, TraceGraph, TraceMemory,
    TraceNode, TraceStorage, TraceTask, TraceUnit, Transfer,
};
use dahl_core::{Mode, Region, UnitKind};

fn class(codelet: &str) -> TraceClass {
    TraceClass {
        codelet: codelet.into(),
        implementations: [
            (UnitKind::CPU, "plain".into()),
            (UnitKind::GPU, "gpu".into()),
        ]
        .into(),
        shapes: "f32 [4]".into(),
        flops: 100.0,
        bytes: 16.0,
    }
}

/// A graph with these edges; all tasks are of class 0, of section 1.
pub fn graph(tasks: u32, edges: &[(u32, u32)]) -> TraceGraph {
    let mut g = TraceGraph {
        fingerprint: 1,
        sections: vec![String::new(), "deep".into()],
        classes: vec![class("a"), class("b")],
        ..TraceGraph::default()
    };
    for t in 0..tasks {
        g.tasks.push(TraceTask {
            class: 0,
            section: 1,
            first_access: 2 * t,
            access_count: 2,
            priority: 0,
        });
        for s in [t, t + 1] {
            g.accesses.push(TraceAccess {
                storage: s,
                mode: if s == t { Mode::Read } else { Mode::Write },
                region: Region::new([0; 4], [1, 1, 1, 4]).expect("not empty"),
            });
        }
        g.successor_start.push(g.successors.len() as u32);
        g.successors
            .extend(edges.iter().filter(|e| e.0 == t).map(|e| e.1));
    }
    g.successor_start.push(g.successors.len() as u32);
    for s in 0..=tasks {
        g.storages.push(TraceStorage {
            name: format!("s{s}"),
            bytes: 100 * u64::from(s + 1),
            temporary: s > 0,
            data: s.into(),
            overwritten: false,
        });
    }
    g
}

/// One launch at 0 of a chain of tasks, on `units` CPUs; nothing has run yet.
pub fn chain(tasks: u32, units: u16) -> Trace {
    let edges: Vec<(u32, u32)> = (1..tasks).map(|t| (t - 1, t)).collect();
    Trace {
        nodes: vec![TraceNode::default()],
        units: (0..units)
            .map(|u| TraceUnit {
                name: format!("u{u}"),
                kind: UnitKind::CPU,
                memory: 0,
            })
            .collect(),
        memories: vec![TraceMemory {
            name: "host".into(),
            capacity: None,
            node: 0,
        }],
        graphs: vec![graph(tasks, &edges)],
        launches: vec![Launch {
            step: 1,
            graph: 0,
            at: 0,
            node: 0,
        }],
        ..Trace::default()
    }
}

/// A run, with ready, taken, start and end.
pub fn run(launch: u32, task: u32, by: u32, unit: u16, times: [u64; 4]) -> TaskRun {
    TaskRun {
        id: TaskId { launch, task },
        released_by: TaskId { launch, task: by },
        unit,
        ready: times[0],
        taken: times[1],
        start: times[2],
        end: times[3],
        fell_back: false,
    }
}

/// A CPU runs a long task that a GPU's second task waits for.
pub fn lopsided() -> Trace {
    let mut trace = chain(3, 2);
    trace.graphs = vec![graph(3, &[(0, 2), (1, 2)])];
    trace.graphs[0].classes[0].codelet = "slow".into();
    trace.graphs[0].tasks[1].class = 1;
    trace.graphs[0].tasks[2].class = 1;
    trace.units[0].name = "cpu:0".into();
    trace.units[1] = TraceUnit {
        name: "gpu:0".into(),
        kind: UnitKind::GPU,
        memory: 1,
    };
    trace.memories.push(TraceMemory {
        name: "gpu:0".into(),
        capacity: Some(1 << 20),
        node: 0,
    });
    trace.tasks = vec![
        run(0, 0, NOBODY, 0, [0, 10, 10, 1010]),
        run(0, 1, NOBODY, 1, [10, 20, 50, 100]),
        run(0, 2, 0, 1, [1010, 1012, 1013, 1110]),
    ];
    trace.transfers = vec![Transfer {
        from: 0,
        to: 1,
        bytes: 64,
        for_task: TaskId { launch: 0, task: 1 },
        ahead: false,
        load: Load {
            asked: 16,
            parts: 4,
            wanted: 5,
            whole: false,
        },
        batch: 3,
        start: 25,
        end: 45,
    }];
    trace.end = 1200;
    trace
}

/// A few launches of a random graph of up to eight tasks, scheduled at random on up to three units.
pub fn random_graph(seed: u64) -> Trace {
    let random = Random::new(seed, 77);
    let mut drawn = 0;
    let mut below = |n: u64| {
        drawn += 1;
        random.below(drawn, n)
    };
    let (tasks, units, launches) = (1 + below(8) as u32, 1 + below(3), 1 + below(3) as u32);
    let mut trace = chain(tasks, units as u16);
    let mut edges = vec![];
    for a in 0..tasks {
        for b in a + 1..tasks {
            if below(3) == 0 {
                edges.push((a, b));
            }
        }
    }
    trace.graphs = vec![graph(tasks, &edges)];
    trace.launches = vec![trace.launches[0]; launches as usize];
    let mut free = vec![0u64; units as usize];
    let mut ends = vec![vec![0u64; tasks as usize]; launches as usize];
    for launch in 0..launches {
        for task in 0..tasks {
            // Waits for its predecessors, and sometimes for a task of an earlier launch.
            let mut by = TaskId {
                launch,
                task: NOBODY,
            };
            let mut ready = 0;
            for &(a, _) in edges.iter().filter(|e| e.1 == task) {
                if ends[launch as usize][a as usize] >= ready {
                    ready = ends[launch as usize][a as usize];
                    by = TaskId { launch, task: a };
                }
            }
            if launch > 0 && below(2) == 0 {
                let (l, t) = (below(launch.into()) as u32, below(tasks.into()) as u32);
                if ends[l as usize][t as usize] >= ready {
                    ready = ends[l as usize][t as usize];
                    by = TaskId { launch: l, task: t };
                }
            }
            let unit = below(units) as u16;
            let start = ready.max(free[usize::from(unit)]);
            let end = start + below(4) * below(30);
            (
                free[usize::from(unit)],
                ends[launch as usize][task as usize],
            ) = (end, end);
            let mut done = run(launch, task, NOBODY, unit, [ready, start, start, end]);
            done.released_by = by;
            trace.tasks.push(done);
        }
    }
    trace.sort();
    // Some events are lost; what is left must still be a path.
    if below(4) == 0 {
        let keep = below(trace.tasks.len() as u64 + 1) as usize;
        trace.tasks.drain(..keep);
        trace.dropped = keep as u64;
    }
    trace
}
