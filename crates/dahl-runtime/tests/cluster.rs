//! Several runtimes as the nodes of a cluster: the same result as one, for any placement.

mod common;

use std::time::Duration;

use common::POLICIES;
use dahl_core::{Arena, Executor, Handle, Values, ValuesMut};
use dahl_runtime::Runtime;
use dahl_runtime::network::{LinkSpeed, LocalNode, Member, local_cluster};
use dahl_test_support::program::{Dice, Program};
use dahl_test_support::scaled;

/// Longer than any test: what fails here is not meant to be the clock.
const PATIENCE: Duration = Duration::from_secs(600);

/// How the nodes of a test run.
#[derive(Clone, Copy)]
struct Setup {
    nodes: u16,
    workers: usize,
    policy: &'static str,
    speed: LinkSpeed,
    seed: u64,
}

impl Setup {
    /// A node that places tasks by chance, alike on all nodes.
    fn member(&self, transport: LocalNode) -> Member {
        let runtime = Runtime::builder()
            .workers(self.workers)
            .policy(self.policy)
            .pin(false)
            .watchdog(Duration::from_secs(60))
            .network(Box::new(transport), PATIENCE)
            .build()
            .unwrap();
        let (mut dice, nodes) = (Dice::new(self.seed), usize::from(self.nodes));
        let place = move |graph: &dahl_core::Graph| {
            let node = |_| dice.below(nodes) as u16;
            graph.tasks.iter().map(node).collect()
        };
        Member::new(runtime, Box::new(place)).unwrap()
    }

    /// Runs something on every node at once.
    fn run<T: Send>(&self, node: impl Fn(Member) -> T + Sync) -> Vec<T> {
        std::thread::scope(|scope| {
            let cluster = local_cluster(self.nodes, self.speed).into_iter();
            let threads: Vec<_> = cluster
                .map(|t| scope.spawn(|| node(self.member(t))))
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        })
    }
}

fn set(member: &mut Member, handle: &Handle, values: &[f64]) {
    let mut write = |v: ValuesMut<'_>| match v {
        ValuesMut::F64(v) => v.copy_from_slice(values),
        ValuesMut::F32(_) => panic!("programs are in double precision"),
    };
    member.write(handle, &mut write).unwrap();
}

fn get(member: &mut Member, handle: &Handle) -> Vec<f64> {
    let mut all = Vec::new();
    let mut read = |v: Values<'_>| all = (0..v.len()).map(|i| v.get(i)).collect();
    member.read(handle, &mut read).unwrap();
    all
}

#[test]
fn any_placement_gives_the_sequential_result() {
    for seed in 0..scaled(200) {
        let setup = Setup {
            nodes: 1 + (seed % 4) as u16,
            workers: 1 + (seed / 4 % 2) as usize,
            policy: POLICIES[seed as usize % POLICIES.len()],
            speed: LinkSpeed::UNLIMITED,
            seed,
        };
        let program = Program::random(seed, true);
        let times = 1 + (seed % 3) as usize;
        let want = program.sequential(times);
        let all = setup.run(|mut member| {
            let arena = Arena::new();
            let (graph, handles) = program.record(&arena);
            for (handle, values) in handles.iter().zip(program.initial()) {
                set(&mut member, handle, &values);
            }
            for _ in 0..times {
                member.launch(&graph).unwrap();
            }
            let got: Vec<_> = handles.iter().map(|h| get(&mut member, h)).collect();
            member.wait().unwrap();
            got
        });
        for (n, got) in all.into_iter().enumerate() {
            assert_eq!(got, want, "seed {seed}, node {n}, {}", setup.policy);
        }
    }
}

#[test]
fn a_node_that_leaves_ends_the_run_of_the_others() {
    let setup = Setup {
        nodes: 3,
        workers: 1,
        policy: "ws",
        speed: LinkSpeed::UNLIMITED,
        seed: 1,
    };
    let program = Program::random(21, true);
    let all = setup.run(|mut member| {
        if member.node() == 1 {
            return None;
        }
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        // Sooner or later something from node 1 is needed.
        let work = |member: &mut Member| {
            for _ in 0..50 {
                member.launch(&graph)?;
                member.read(&handles[0], &mut |_| ())?;
            }
            member.wait()
        };
        Some(work(&mut member).unwrap_err().to_string())
    });
    assert_eq!(all[1], None);
    // From node 1 itself, or from the other that has heard of it first.
    for error in [&all[0], &all[2]].into_iter().flatten() {
        assert!(error.starts_with("the cluster is broken: node "), "{error}");
        assert!(error.ends_with("it has left the cluster"), "{error}");
    }
}

/// Every node gives something of its own length, and all get the same.
#[test]
fn nodes_gather_bytes() {
    for nodes in [1, 2, 5] {
        let setup = Setup {
            nodes,
            workers: 1,
            policy: "ws",
            speed: LinkSpeed::UNLIMITED,
            seed: 3,
        };
        let own = |node: u16| vec![node as u8 ^ 0xa5; 7 * usize::from(node)];
        let want: Vec<Vec<u8>> = (0..nodes).map(own).collect();
        for got in setup.run(|mut member| {
            let got = member.gather(&own(member.node())).unwrap();
            member.finish().unwrap();
            got
        }) {
            assert_eq!(got, want);
        }
    }
}

/// One node asks to stop at some step: all stop after the same one, soon.
#[test]
fn nodes_stop_together() {
    let setup = Setup {
        nodes: 3,
        workers: 1,
        policy: "ws",
        speed: LinkSpeed::UNLIMITED,
        seed: 4,
    };
    let stopped = setup.run(|mut member| {
        let asks = member.node() == 2;
        let stopped = (0u64..).find(|&step| member.agree(asks && step == 20).unwrap());
        member.finish().unwrap();
        stopped
    });
    assert!(
        stopped[0] > Some(20) && stopped.iter().all(|s| *s == stopped[0]),
        "{stopped:?}"
    );
}

/// What nodes were told is compared, and a difference is named with both.
#[test]
fn nodes_compare_what_they_were_told() {
    let setup = Setup {
        nodes: 2,
        workers: 1,
        policy: "ws",
        speed: LinkSpeed::UNLIMITED,
        seed: 5,
    };
    let all = setup.run(|mut member| {
        let node = member.node();
        let mut same = || vec![("the model", "lenet5".to_string())];
        member.compare(&mut same).unwrap();
        let mut other = || vec![("the data", format!("{node} samples"))];
        let error = member.compare(&mut other).unwrap_err().to_string();
        member.finish().unwrap();
        error
    });
    for error in all {
        for part in [
            "agree on the data",
            "node 0 (",
            "0 samples",
            "node 1 (",
            "1 samples",
        ] {
            assert!(error.contains(part), "{error}");
        }
    }
}

#[test]
fn slow_links_change_no_value() {
    let setup = Setup {
        nodes: 3,
        workers: 2,
        policy: "ws",
        speed: LinkSpeed {
            bandwidth: 1e6,
            latency: Duration::from_micros(300),
        },
        seed: 5,
    };
    for seed in 0..10 {
        let program = Program::random(seed, true);
        let want = program.sequential(2);
        let all = setup.run(|mut member| {
            let arena = Arena::new();
            let (graph, handles) = program.record(&arena);
            for (handle, values) in handles.iter().zip(program.initial()) {
                set(&mut member, handle, &values);
            }
            member.launch(&graph).unwrap();
            member.launch(&graph).unwrap();
            handles
                .iter()
                .map(|h| get(&mut member, h))
                .collect::<Vec<_>>()
        });
        all.into_iter()
            .for_each(|got| assert_eq!(got, want, "seed {seed}"));
    }
}
