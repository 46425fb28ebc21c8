//! Edges: none missed, none extra.

use std::collections::BTreeSet;

use dahl_core::Arena;
use dahl_test_support::program::Program;
use dahl_test_support::scaled;

#[test]
fn edges_equal_brute_force() {
    for seed in 0..scaled(5000) {
        let program = Program::random(seed, false);
        let arena = Arena::new();
        let (graph, _) = program.record(&arena);
        let got: BTreeSet<(u32, u32)> = graph.edges().collect();
        let twice = graph.edges().count() - got.len();
        assert_eq!(twice, 0, "edges made twice, seed {seed}");
        let want = program.brute_force_edges();
        assert_eq!(got, want, "seed {seed}: {program:#?}");
        let mut degrees = vec![0; graph.len()];
        want.iter().for_each(|&(_, to)| degrees[to as usize] += 1);
        assert_eq!(graph.in_degree, degrees, "seed {seed}");
        let roots = (0..graph.len() as u32).filter(|&t| degrees[t as usize] == 0);
        let found: BTreeSet<u32> = graph.roots.iter().copied().collect();
        assert_eq!(found, roots.collect(), "seed {seed}");
    }
}
