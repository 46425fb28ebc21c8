//! Reductions: private accumulators mean what one task after another means, in every order that edges allow.

use dahl_core::{Arena, Graph, Mode};
use dahl_test_support::program::{Dice, Program};
use dahl_test_support::scaled;

use crate::interpreter::{elements, interpret, order, reach};

/// Whether two tasks touch an element of one storage, one of them writing.
fn conflict(graph: &Graph, a: u32, b: u32) -> bool {
    graph.accesses_of(a).iter().any(|x| {
        graph.accesses_of(b).iter().any(|y| {
            let [p, q] = [x, y].map(|a| graph.arrays[a.array as usize]);
            if p.storage != q.storage || !(x.mode.writes() || y.mode.writes()) {
                return false;
            }
            let there = elements(&q.shape, &y.region);
            let here = elements(&p.shape, &x.region);
            here.iter().any(|e| there.contains(e))
        })
    })
}

#[test]
fn any_order_gives_the_sequential_values() {
    let mut private = 0;
    for seed in 0..scaled(2000) {
        let program = Program::random(seed, true);
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        private += graph.memory.offsets.len();
        let want = program.sequential(1);
        let mut dice = Dice::new(seed + 1);
        for _ in 0..4 {
            let order = order(&graph, &mut dice);
            let got = interpret(&program, (&graph, &handles), &order);
            assert_eq!(got, want, "seed {seed}, order {order:?}: {program:#?}");
        }
    }
    assert!(private as u64 > scaled(1000), "{private} accumulators");
}

/// Whatever conflicts is ordered; edges are for nothing else; reducing tasks of different accumulators are free.
#[test]
fn edges_are_the_conflicts_that_are_left() {
    for seed in 0..scaled(400) {
        let program = Program::random(seed, true);
        let arena = Arena::new();
        let (graph, _) = program.record(&arena);
        let reach = reach(&graph);
        for a in 0..graph.len() as u32 {
            for b in 0..graph.len() as u32 {
                let ordered = reach[a as usize][b as usize] || reach[b as usize][a as usize];
                if a != b && conflict(&graph, a, b) {
                    assert!(ordered, "seed {seed}: {a} and {b}: {program:#?}");
                }
            }
            for &b in graph.successors(a) {
                assert!(conflict(&graph, a, b), "seed {seed}: {a} to {b}");
            }
        }
    }
}

/// The first accumulator is the region itself, the others start fresh, and there are never more than asked for.
#[test]
fn groups_have_at_most_so_many_accumulators() {
    for tasks in 1..12usize {
        for most in 1..6usize {
            let arena = Arena::new();
            let target = arena.zeros::<f64, 1>([8]).unwrap();
            let recorder = dahl_core::Recorder::new().with_accumulators(most);
            let params = [dahl_core::Param::Int(1)];
            for _ in 0..tasks {
                let operands = [target.handle().with(Mode::Reduce)];
                let mix = &dahl_test_support::program::MIX;
                recorder.submit(dahl_core::Task::new(mix, &operands).params(&params));
            }
            let graph = recorder.finish().unwrap();
            let accumulators = tasks.min(most);
            assert_eq!(graph.memory.offsets.len(), accumulators - 1);
            let fresh = graph.tasks.iter().filter(|t| t.fresh).count();
            assert_eq!(fresh, accumulators - 1);
            assert_eq!(graph.len(), tasks + usize::from(accumulators > 1));
            let alone = graph.roots.len();
            assert_eq!(alone, accumulators, "each begins at once");
        }
    }
}
