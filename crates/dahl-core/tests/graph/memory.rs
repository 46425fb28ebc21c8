//! The memory plan: what shares bytes is never alive at the same time, and little more is used than must be.

use std::sync::{Arc, LazyLock};

use dahl_core::{Codelet, DType, Graph, Handle, Recorder, Task, UnitKind};
use dahl_test_support::program::Dice;
use dahl_test_support::scaled;

use crate::interpreter::reach;

static TOUCH: LazyLock<Arc<Codelet>> = LazyLock::new(|| {
    Arc::new(Codelet::new("touch").implement("reference", UnitKind::CPU, |_| Ok(())))
});

/// Tasks that each write a temporary of their own and read some that were written before.
fn random(seed: u64) -> Arc<Graph> {
    let mut dice = Dice::new(seed);
    let recorder = Recorder::new();
    let mut written: Vec<Handle> = Vec::new();
    for _ in 0..2 + dice.below(9) {
        let size = 1 + dice.below(40);
        let new = recorder.temporary_handle("", &[size], DType::F64);
        let mut operands = vec![new.with(dahl_core::Mode::Write)];
        let recent = written.len().saturating_sub(4);
        for old in &written[recent..] {
            if dice.chance(45) {
                operands.push(old.with(dahl_core::Mode::Read));
            }
        }
        recorder.submit(Task::new(&TOUCH, &operands));
        written.push(new.clone());
    }
    recorder.finish().unwrap()
}

/// Tasks that use each temporary.
fn users(graph: &Graph) -> Vec<Vec<u32>> {
    let mut users = vec![Vec::new(); graph.memory.offsets.len()];
    for task in 0..graph.len() as u32 {
        for access in graph.accesses_of(task) {
            let storage = graph.arrays[access.array as usize].storage;
            if let Some(t) = graph.storages[storage as usize].temporary {
                users[t as usize].push(task);
            }
        }
    }
    users
}

/// Bytes of each temporary, as they are laid out.
fn sizes(graph: &Graph) -> Vec<u64> {
    let temporaries = graph.storages.iter().filter(|s| s.temporary.is_some());
    temporaries
        .map(|s| (s.storage.bytes() as u64).next_multiple_of(dahl_core::arena::ALIGNMENT as u64))
        .collect()
}

/// Whether two may share bytes: every user of the one before every user of the other, by any path.
fn may_share(reach: &[Vec<bool>], a: &[u32], b: &[u32]) -> bool {
    let before = |a: &[u32], b: &[u32]| {
        a.iter()
            .all(|&x| b.iter().all(|&y| reach[x as usize][y as usize]))
    };
    before(a, b) || before(b, a)
}

/// The most bytes that are needed whatever the layout: the largest set of which no two may share.
fn least(sizes: &[u64], share: impl Fn(usize, usize) -> bool) -> u64 {
    let n = sizes.len();
    let apart = |set: u32| {
        let all: Vec<usize> = (0..n).filter(|i| set & (1 << i) != 0).collect();
        let free = all
            .iter()
            .all(|&a| all.iter().all(|&b| a >= b || !share(a, b)));
        free.then(|| all.iter().map(|&i| sizes[i]).sum())
    };
    (0..1u32 << n).filter_map(apart).max().unwrap_or(0)
}

#[test]
fn plans_equal_brute_force() {
    let (mut used, mut needed, mut shared) = (0, 0, 0);
    for seed in 0..scaled(500) {
        let graph = random(seed);
        let (plan, sizes, users, reach) =
            (&graph.memory, sizes(&graph), users(&graph), reach(&graph));
        let share = |a: usize, b: usize| may_share(&reach, &users[a], &users[b]);
        for a in 0..sizes.len() {
            let here = plan.offsets[a]..plan.offsets[a] + sizes[a];
            assert!(
                here.start
                    .is_multiple_of(dahl_core::arena::ALIGNMENT as u64)
            );
            assert!(here.end <= plan.bytes, "seed {seed}: {a} beyond the block");
            for (b, size) in sizes.iter().enumerate().take(a) {
                let there = plan.offsets[b]..plan.offsets[b] + size;
                if here.start < there.end && there.start < here.end {
                    assert!(share(a, b), "seed {seed}: {a} and {b} live together");
                    shared += 1;
                }
            }
        }
        let most = (0..sizes.len()).map(|i| plan.offsets[i] + sizes[i]).max();
        assert_eq!(
            Some(plan.bytes),
            most,
            "seed {seed}: nothing beyond the last"
        );
        assert_eq!(plan.unshared, sizes.iter().sum::<u64>(), "seed {seed}");
        let least = least(&sizes, share);
        assert!(plan.bytes >= least, "seed {seed}: the brute force is wrong");
        (used, needed) = (used + plan.bytes, needed + least);
    }
    assert!(shared > 0, "nothing ever shared bytes");
    let ratio = used as f64 / needed as f64;
    assert!(ratio < 1.03, "{ratio} times the fewest bytes");
}
