//! The memory plan: temporaries packed into one block.
//!
//! Two temporaries may share bytes if every task that uses the one comes, by the graph's own edges,
//! before every task that uses the other. Sharing never adds an edge, so it never costs parallelism,
//! and the plan holds for every number of workers and every order they choose.
//!
//! Whether all last users of `a` precede all first users of `b` is found for 64 first users at a time:
//! one backward sweep over the edges carries a mask of those that each task leads to.

use super::Graph;

/// Alignment of temporaries, as of all arrays.
const ALIGNMENT: u64 = crate::arena::ALIGNMENT as u64;

/// Sweeps over a graph are given up beyond this many steps; temporaries then get bytes of their own.
const BUDGET: u64 = 400_000_000;

/// Where every temporary lies in a graph's block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    /// Offset in bytes, by the temporary's number.
    pub offsets: Vec<u64>,
    /// Size of the block.
    pub bytes: u64,
    /// What the temporaries would take without sharing.
    pub unshared: u64,
}

/// A temporary while it is being packed.
struct Item {
    size: u64,
    first_users: Vec<u32>,
    last_users: Vec<u32>,
}

impl MemoryPlan {
    pub(super) fn pack(graph: &Graph) -> MemoryPlan {
        if graph.storages.iter().all(|s| s.temporary.is_none()) {
            return MemoryPlan::default();
        }
        let items = items(graph);
        let unshared = items.iter().map(|i| i.size).sum();
        let order = Order::find(graph, &items);
        let mut by_size: Vec<usize> = (0..items.len()).collect();
        by_size.sort_by_key(|&i| (std::cmp::Reverse(items[i].size), i));
        let mut offsets = vec![0; items.len()];
        let mut placed: Vec<usize> = Vec::new();
        let mut bytes = 0;
        if order.is_none() {
            // Nothing may share: one behind the other.
            for (offset, item) in offsets.iter_mut().zip(&items) {
                (*offset, bytes) = (bytes, bytes + item.size);
            }
            return MemoryPlan {
                offsets,
                bytes,
                unshared,
            };
        }
        let order = order.expect("checked above");
        for i in by_size {
            // The lowest gap between those placed already that this one must not touch.
            let mut taken: Vec<(u64, u64)> = placed
                .iter()
                .filter(|&&j| !order.may_share(i, j))
                .map(|&j| (offsets[j], offsets[j] + items[j].size))
                .collect();
            taken.sort_unstable();
            let mut at = 0;
            for (start, end) in taken {
                if at + items[i].size <= start {
                    break;
                }
                at = at.max(end);
            }
            offsets[i] = at;
            bytes = bytes.max(at + items[i].size);
            placed.push(i);
        }
        MemoryPlan {
            offsets,
            bytes,
            unshared,
        }
    }
}

fn items(graph: &Graph) -> Vec<Item> {
    let mut items: Vec<Item> = graph
        .storages
        .iter()
        .filter(|s| s.temporary.is_some())
        .map(|s| Item {
            size: s.planned_bytes().next_multiple_of(ALIGNMENT),
            first_users: Vec::new(),
            last_users: Vec::new(),
        })
        .collect();
    // First users are those with no predecessor among the users, last ones those with no successor;
    // all users would do as well, and one look at direct edges already leaves few.
    let mut users: Vec<Vec<u32>> = vec![Vec::new(); items.len()];
    for task in 0..graph.len() as u32 {
        for access in graph.accesses_of(task) {
            let storage = graph.arrays[access.array as usize].storage;
            if let Some(t) = graph.storages[storage as usize].temporary
                && users[t as usize].last() != Some(&task)
            {
                users[t as usize].push(task);
            }
        }
    }
    let mut has_earlier = vec![u32::MAX; graph.len()];
    let mut is_user = vec![u32::MAX; graph.len()];
    for (t, users) in users.iter().enumerate() {
        users.iter().for_each(|&u| is_user[u as usize] = t as u32);
        for &u in users {
            let mut later = false;
            for &s in graph.successors(u) {
                if is_user[s as usize] == t as u32 {
                    has_earlier[s as usize] = t as u32;
                    later = true;
                }
            }
            if !later {
                items[t].last_users.push(u);
            }
        }
        let first = users
            .iter()
            .filter(|&&u| has_earlier[u as usize] != t as u32);
        items[t].first_users.extend(first);
    }
    items
}

/// All tasks, each behind those that wait for it. In a recorded program that is the order of submission backwards; where
/// edges were added, it is found; tasks that wait in a circle are left out.
pub(super) fn backwards(graph: &Graph) -> Vec<u32> {
    if graph.edges().all(|(from, to)| from < to) {
        return (0..graph.len() as u32).rev().collect();
    }
    let mut waits = graph.in_degree.clone();
    let mut all = graph.roots.clone();
    let mut next = 0;
    while let Some(&task) = all.get(next) {
        next += 1;
        for &s in graph.successors(task) {
            waits[s as usize] -= 1;
            if waits[s as usize] == 0 {
                all.push(s);
            }
        }
    }
    all.reverse();
    all
}

/// Which temporaries come entirely before which.
struct Order {
    count: usize,
    before: Vec<u64>,
}

impl Order {
    fn find(graph: &Graph, items: &[Item]) -> Option<Order> {
        let targets: Vec<(u32, usize)> = items
            .iter()
            .enumerate()
            .flat_map(|(b, i)| i.first_users.iter().map(move |&f| (f, b)))
            .collect();
        let sources: usize = items.iter().map(|i| i.last_users.len()).sum();
        let sweeps = targets.len().div_ceil(64) as u64;
        let steps = graph.len() + graph.successors.len() + sources;
        if sweeps * steps as u64 > BUDGET || items.len() > 1 << 14 {
            return None;
        }
        let n = items.len();
        let mut order = Order {
            count: n,
            before: vec![u64::MAX; (n * n).div_ceil(64)],
        };
        let mut leads_to = vec![0u64; graph.len()];
        let backwards = backwards(graph);
        for chunk in targets.chunks(64) {
            leads_to.fill(0);
            for (bit, &(f, _)) in chunk.iter().enumerate() {
                leads_to[f as usize] |= 1 << bit;
            }
            // A task's successors come before it here, so one pass is enough.
            // A last user that is itself the target does not precede it: its own bit is kept apart.
            let mut reach = vec![0u64; graph.len()];
            for &task in &backwards {
                let mut mask = 0;
                for &s in graph.successors(task) {
                    mask |= reach[s as usize] | leads_to[s as usize];
                }
                reach[task as usize] = mask;
            }
            for (a, item) in items.iter().enumerate() {
                let all = item
                    .last_users
                    .iter()
                    .fold(u64::MAX, |m, &l| m & reach[l as usize]);
                for (bit, &(_, b)) in chunk.iter().enumerate() {
                    if all & (1 << bit) == 0 {
                        order.clear(a, b);
                    }
                }
            }
        }
        Some(order)
    }

    fn clear(&mut self, a: usize, b: usize) {
        let i = a * self.count + b;
        self.before[i / 64] &= !(1 << (i % 64));
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let i = a * self.count + b;
        self.before[i / 64] & (1 << (i % 64)) != 0
    }

    fn may_share(&self, a: usize, b: usize) -> bool {
        self.is_before(a, b) || self.is_before(b, a)
    }
}
