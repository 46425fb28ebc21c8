//! Partitions: random programs on random placements, against a model that knows every element of every node, and run
//! message by message.

use std::collections::HashMap;
use std::sync::Arc;

use dahl_core::graph::partition::{
    Holders, Message, Part, Placement, PlacementError, Transfer, for_shares, pairwise, part,
    place_by_rows,
};
use dahl_core::{Arena, DType, Graph, Handle, Mode, Param, Recorder, Region, Task};
use dahl_test_support::program::{Dice, MIX, Program};
use dahl_test_support::scaled;

use super::interpreter::{UPDATE, Values, elements, interpret};

/// Launches of one program, each with a placement of its own. In every second case merges are of two accumulators.
struct Case {
    program: Program,
    graph: Arc<Graph>,
    handles: Vec<Handle>,
    nodes: u16,
    placements: Vec<Placement>,
}

impl Case {
    fn random(seed: u64, arena: &Arena) -> Case {
        let mut dice = Dice::new(seed + 1_000_000);
        let program = Program::random(seed, true);
        let (mut graph, handles) = program.record(arena);
        if dice.chance(50) {
            graph = pairwise(&graph);
        }
        let nodes = 1 + dice.below(4) as u16;
        let placements = (0..3).map(|_| place(&mut dice, graph.len(), nodes));
        Case {
            placements: placements.collect(),
            program,
            graph,
            handles,
            nodes,
        }
    }
}

/// Each task on a node, and one of five on others as well.
fn place(dice: &mut Dice, tasks: usize, nodes: u16) -> Placement {
    let of = |_| -> Vec<u16> {
        let home = dice.below(usize::from(nodes)) as u16;
        let several = dice.chance(20);
        let runs = |n: &u16| *n == home || several && dice.chance(50);
        (0..nodes).filter(runs).collect()
    };
    Placement::new((0..tasks).map(of))
}

/// For every array of a program and element, which nodes have its newest value: brute force.
struct Model {
    nodes: usize,
    has: HashMap<(u64, usize), Vec<bool>>,
}

impl Model {
    fn at(&mut self, key: (u64, usize)) -> &mut Vec<bool> {
        let nodes = self.nodes;
        self.has.entry(key).or_insert_with(|| vec![true; nodes])
    }

    /// Walks a launch and checks every transfer: its sender has what it sends, its receiver lacks it and reads it next.
    fn launch(&mut self, graph: &Graph, placement: &Placement, transfers: &[Transfer], seed: u64) {
        let key = |array: u32, e: usize| {
            let storage = graph.arrays[array as usize].storage as usize;
            (graph.storages[storage].storage.id, e)
        };
        let mut coming = transfers.iter().peekable();
        for task in 0..graph.len() as u32 {
            let nodes = placement.of(task);
            let accesses = graph.accesses_of(task);
            let reads = |a: &&dahl_core::Access| a.mode.reads() && a.fresh.is_none();
            while let Some(t) = coming.next_if(|t| t.before == task) {
                assert!(nodes.contains(&t.to), "seed {seed}: to who asks");
                let node = usize::from(t.to);
                let wanted = |a: &dahl_core::Access| {
                    a.array == t.array && a.region.contains(&t.region) && reads(&a)
                };
                assert!(accesses.iter().any(wanted), "seed {seed}: nobody reads it");
                for e in elements(&graph.arrays[t.array as usize].shape, &t.region) {
                    let has = self.at(key(t.array, e));
                    assert!(has[usize::from(t.from)], "seed {seed}: an old value");
                    assert!(!has[node], "seed {seed}: it was there");
                    has[node] = true;
                }
            }
            for a in accesses {
                for e in elements(&graph.arrays[a.array as usize].shape, &a.region) {
                    let has = self.at(key(a.array, e));
                    let has_all = nodes.iter().all(|&n| has[usize::from(n)]);
                    assert!(!reads(&a) || has_all, "seed {seed}: {task} lacks a value");
                    if a.mode.writes() {
                        has.fill(false);
                        nodes.iter().for_each(|&n| has[usize::from(n)] = true);
                    }
                }
            }
        }
        assert_eq!(coming.next(), None, "seed {seed}: in program order");
    }

    /// Walks what goes to all nodes after a launch, and checks that they have its results then.
    fn publish(&mut self, graph: &Graph, transfers: &[Transfer], seed: u64) {
        let id = |array: u32| {
            let storage = graph.arrays[array as usize].storage as usize;
            graph.storages[storage].storage.id
        };
        for t in transfers {
            assert_eq!(t.before as usize, graph.len(), "seed {seed}: at the end");
            for e in elements(&graph.arrays[t.array as usize].shape, &t.region) {
                let has = self.at((id(t.array), e));
                assert!(has[usize::from(t.from)], "seed {seed}: an old value");
                assert!(!has[usize::from(t.to)], "seed {seed}: it was there");
                has[usize::from(t.to)] = true;
            }
        }
        let all = (0..graph.len() as u32).flat_map(|t| graph.accesses_of(t));
        let all: Vec<_> = all.collect();
        let kept = |s: &dahl_core::graph::GraphStorage| s.temporary.is_none();
        for storage in graph.storages.iter().filter(|s| kept(s)) {
            let own = |a: &&&dahl_core::Access| id(a.array) == storage.storage.id;
            let reads = |a: &&dahl_core::Access| a.mode.reads() && a.fresh.is_none();
            let is_result =
                all.iter().filter(own).count() > 0 && !all.iter().filter(own).any(reads);
            for e in (0..storage.storage.shape.len()).filter(|_| is_result) {
                let has = self.at((storage.storage.id, e));
                assert!(has.iter().all(|h| *h), "seed {seed}: a result is missing");
            }
        }
    }
}

#[test]
fn each_value_goes_once_to_each_node_that_reads_it() {
    for seed in 0..scaled(3000) {
        let arena = Arena::new();
        let case = Case::random(seed, &arena);
        let (graph, handles) = (&case.graph, &case.handles);
        let mut holders = Holders::new(case.nodes);
        let mut model = Model {
            nodes: usize::from(case.nodes),
            has: HashMap::new(),
        };
        for placement in &case.placements {
            let mut transfers = holders.exchange(graph, placement).unwrap();
            model.launch(graph, placement, &transfers, seed);
            if seed % 2 == 1 {
                let first = transfers.len();
                holders.publish(graph, &mut transfers);
                model.publish(graph, &transfers[first..], seed);
            }
        }
        for (handle, node) in handles
            .iter()
            .flat_map(|h| (0..case.nodes).map(move |n| (h, n)))
        {
            let mut lacks: Vec<usize> = Vec::new();
            for (shape, region, _) in holders.missing(handle, node) {
                lacks.extend(elements(&shape, &region));
            }
            lacks.sort_unstable();
            let all = 0..handle.whole.len();
            let want = all.filter(|&e| !model.at((handle.storage.id, e))[usize::from(node)]);
            assert_eq!(lacks, want.collect::<Vec<_>>(), "seed {seed}, node {node}");
        }
    }
}

/// One node while it runs its part of a launch.
struct Node<'g> {
    part: &'g Part,
    values: Values<'g>,
    waits: Vec<u32>,
    ready: Vec<u32>,
    left: usize,
}

impl<'g> Node<'g> {
    fn new(part: &'g Part, handles: &[Handle], values: &[Vec<f64>]) -> Self {
        let graph = &part.graph;
        Node {
            part,
            values: Values::new(graph, handles, values),
            waits: graph.in_degree.clone(),
            ready: graph.roots.clone(),
            left: graph.len(),
        }
    }

    fn end(&mut self, task: u32) {
        self.left -= 1;
        for &next in self.part.graph.successors(task) {
            self.waits[next as usize] -= 1;
            if self.waits[next as usize] == 0 {
                self.ready.push(next);
            }
        }
    }
}

/// Runs all parts of a launch in an order that chance decides. A send ends when its receive has begun, as in the
/// worst of transports.
fn run(nodes: &mut [Node<'_>], dice: &mut Dice, seed: u64) {
    let mut begun: HashMap<(u32, bool), (usize, u32)> = HashMap::new();
    while nodes.iter().any(|n| n.left > 0) {
        let able: Vec<usize> = (0..nodes.len())
            .filter(|&n| !nodes[n].ready.is_empty())
            .collect();
        assert!(!able.is_empty(), "seed {seed}: nodes wait in a circle");
        let n = able[dice.below(able.len())];
        let place = dice.below(nodes[n].ready.len());
        let task = nodes[n].ready.swap_remove(place);
        let Some(&Message {
            transfer, sends, ..
        }) = nodes[n].part.graph.message(task)
        else {
            nodes[n].values.run(task);
            nodes[n].end(task);
            continue;
        };
        begun.insert((transfer, sends), (n, task));
        if let (Some(&from), Some(&to)) =
            (begun.get(&(transfer, true)), begun.get(&(transfer, false)))
        {
            let values = nodes[from.0].values.operand(from.1, 0);
            nodes[to.0].values.set_operand(to.1, 0, &values);
            nodes[from.0].end(from.1);
            nodes[to.0].end(to.1);
        }
    }
}

#[test]
fn parts_compute_what_the_whole_does() {
    for seed in 0..scaled(2000) {
        let mut dice = Dice::new(seed);
        let arena = Arena::new();
        let case = Case::random(seed, &arena);
        let (graph, handles) = (&case.graph, &case.handles);
        let nodes = usize::from(case.nodes);
        let mut holders = Holders::new(case.nodes);
        let mut values = vec![case.program.initial(); nodes];
        for placement in &case.placements {
            let transfers = holders.exchange(graph, placement).unwrap();
            let parts: Vec<Part> = (0..case.nodes)
                .map(|n| part(graph, placement, &transfers, n).unwrap())
                .collect();
            same_tasks(graph, placement, &parts, seed);
            let mut all: Vec<Node<'_>> = parts
                .iter()
                .zip(&values)
                .map(|(p, v)| Node::new(p, handles, v))
                .collect();
            run(&mut all, &mut dice, seed);
            for (node, values) in all.into_iter().zip(&mut values) {
                node.values.leave(handles, values);
            }
        }
        let want = case.program.sequential(case.placements.len());
        for (n, values) in values.iter().enumerate() {
            for ((handle, got), want) in handles.iter().zip(values).zip(&want) {
                let mut lacks = vec![false; got.len()];
                for (shape, region, _) in holders.missing(handle, n as u16) {
                    elements(&shape, &region)
                        .into_iter()
                        .for_each(|e| lacks[e] = true);
                }
                for (e, lacks) in lacks.into_iter().enumerate() {
                    assert!(
                        lacks || got[e] == want[e],
                        "seed {seed}, node {n}, element {e}"
                    );
                }
            }
        }
    }
}

/// All parts together have the tasks of the whole, each once on every node it is placed on, as they were and in their
/// order.
fn same_tasks(graph: &Graph, placement: &Placement, parts: &[Part], seed: u64) {
    for (n, part) in parts.iter().enumerate() {
        let own = (0..).zip(part.origin.iter().copied());
        let own: Vec<(u32, u32)> = own.filter(|&(_, o)| (o as usize) < graph.len()).collect();
        let placed = (0..graph.len() as u32).filter(|&t| placement.runs(t, n as u16));
        assert!(
            own.iter().map(|&(_, origin)| origin).eq(placed),
            "seed {seed}"
        );
        for (task, origin) in own {
            assert_eq!(part.graph.class_of(task).call, graph.class_of(origin).call);
            let (own, whole) = (part.graph.codelet_of(task), graph.codelet_of(origin));
            assert_eq!(own.name, whole.name);
        }
    }
}

#[test]
fn merges_of_two_compute_what_the_whole_does() {
    let mut cut = 0;
    for seed in 0..scaled(500) {
        let program = Program::random(seed, true);
        let arena = Arena::new();
        let (graph, handles) = program.record(&arena);
        let pairs = pairwise(&graph);
        let merges = |g: &Graph, most: usize| {
            let name = |t: u32| g.codelet_of(t).name == "merge";
            let all = (0..g.len() as u32).filter(|&t| name(t) && g.accesses_of(t).len() > most);
            all.map(|t| g.accesses_of(t).len() - 1).sum::<usize>()
        };
        assert_eq!(merges(&pairs, 2), 0, "seed {seed}");
        assert_eq!(merges(&pairs, 0), merges(&graph, 0), "seed {seed}");
        cut += pairs.len() - graph.len();
        let order: Vec<u32> = (0..pairs.len() as u32).collect();
        let got = interpret(&program, (&pairs, &handles), &order);
        assert_eq!(got, program.sequential(1), "seed {seed}");
    }
    assert!(cut as u64 > scaled(50), "{cut} merges");
}

/// Layers whose gradients are sums over blocks of the batch, and are read by an update and, where it is said, by something
/// that needs the whole sum.
fn layers(dice: &mut Dice, arena: &Arena) -> (Arc<Graph>, Vec<Handle>, bool) {
    let recorder = Recorder::new();
    let array = |extents: &[usize]| arena.alloc("", extents, DType::F64).unwrap();
    let blocks = 2 + dice.below(6);
    let batch = array(&[blocks, 3]);
    recorder.by_rows(&batch);
    let watched = dice.chance(30);
    let mut handles = vec![batch.clone()];
    for _ in 0..1 + dice.below(3) {
        let extents = [4 + dice.below(60), 16 + dice.below(48)];
        let (weight, gradient) = (array(&extents), array(&extents));
        for block in 0..blocks {
            let rows = Region::new([0, 0, block, 0], [1, 1, block + 1, 3]).unwrap();
            let rows = batch.part(&rows);
            let operands = [rows.with(Mode::Read), gradient.with(Mode::Reduce)];
            recorder.submit(Task::new(&MIX, &operands).params(&[Param::Int(block as i64)]));
        }
        if watched {
            let norm = array(&[1]);
            let operands = [gradient.with(Mode::Read), norm.with(Mode::Write)];
            recorder.submit(Task::new(&MIX, &operands).params(&[Param::Int(0)]));
            handles.push(norm);
        }
        let operands = [gradient.with(Mode::Read), weight.with(Mode::ReadWrite)];
        recorder.submit(Task::new(&UPDATE, &operands));
        handles.extend([weight, gradient]);
    }
    (recorder.finish().unwrap(), handles, watched)
}

#[test]
fn sums_and_updates_in_pieces_compute_what_the_whole_does() {
    let mut cut = 0;
    for seed in 0..scaled(200) {
        let (mut dice, arena) = (Dice::new(seed), Arena::new());
        let (graph, handles, watched) = layers(&mut dice, &arena);
        let shares: Vec<f64> = (0..2 + dice.below(3))
            .map(|_| 1.0 + dice.below(3) as f64)
            .collect();
        let (nodes, whole) = (shares.len() as u16, for_shares(&graph, &shares));
        let placement = place_by_rows(&whole, &shares).unwrap();
        let more = whole.len() - pairwise(&graph).len();
        assert!(!watched || more == 0, "seed {seed}: the whole sum is read");
        cut += usize::from(more > 0);
        let fill = |h: &Handle| (0..h.whole.len()).map(|i| (i % 91) as f64).collect();
        let mut want: Vec<Vec<f64>> = handles.iter().map(fill).collect();
        let mut values = vec![want.clone(); usize::from(nodes)];
        let mut holders = Holders::new(nodes);
        for _ in 0..2 {
            let mut one = Values::new(&graph, &handles, &want);
            (0..graph.len() as u32).for_each(|t| one.run(t));
            one.leave(&handles, &mut want);
            let transfers = holders.exchange(&whole, &placement).unwrap();
            let parts: Vec<Part> = (0..nodes)
                .map(|n| part(&whole, &placement, &transfers, n).unwrap())
                .collect();
            for part in &parts {
                let due = part.graph.due.len();
                assert_eq!(due, part.graph.len(), "seed {seed}: what is due when");
            }
            let all = parts.iter().zip(&values);
            let mut all: Vec<Node<'_>> = all.map(|(p, v)| Node::new(p, &handles, v)).collect();
            run(&mut all, &mut dice, seed);
            let ended = all.into_iter().zip(&mut values);
            ended.for_each(|(node, values)| node.values.leave(&handles, values));
        }
        for (at, handle) in handles.iter().enumerate() {
            let mut seen = vec![false; want[at].len()];
            for (node, values) in (0..nodes).zip(&values) {
                let mut has = vec![true; seen.len()];
                for (shape, region, _) in holders.missing(handle, node) {
                    let lacks = elements(&shape, &region).into_iter();
                    lacks.for_each(|e| has[e] = false);
                }
                for e in (0..seen.len()).filter(|&e| has[e]) {
                    assert_eq!(values[at][e], want[at][e], "seed {seed}, node {node}");
                    seen[e] = true;
                }
            }
            assert!(seen.iter().all(|s| *s), "seed {seed}: somebody has it");
        }
    }
    assert!(cut as u64 > scaled(50), "{cut} programs were cut");
}

#[test]
fn one_node_runs_the_graph_itself() {
    for seed in 0..200 {
        let program = Program::random(seed, true);
        let arena = Arena::new();
        let (graph, _) = program.record(&arena);
        let placement = Placement::from(vec![0; graph.len()]);
        let transfers = Holders::new(1).exchange(&graph, &placement).unwrap();
        assert_eq!(transfers, []);
        let alone = part(&graph, &placement, &transfers, 0).unwrap();
        same_tasks(&graph, &placement, std::slice::from_ref(&alone), seed);
        assert_eq!(alone.graph.len(), graph.len(), "seed {seed}");
        assert_eq!(alone.graph.memory, graph.memory, "seed {seed}");
        assert!(alone.graph.edges().eq(graph.edges()), "seed {seed}");
    }
}

#[test]
fn what_is_no_placement_is_refused() {
    let arena = Arena::new();
    let (graph, _) = Program::random(3, true).record(&arena);
    let tasks = graph.len();
    let refused = |placement| Holders::new(2).exchange(&graph, &placement).unwrap_err();
    let placed = tasks - 1;
    let error = refused(vec![0; placed].into());
    assert_eq!(error, PlacementError::Length { placed, tasks });
    let mut node_of = vec![0; tasks];
    node_of[1] = 2;
    let text = "task 1 is placed on node 2: there are 2 nodes, numbered from 0";
    assert_eq!(refused(node_of.into()).to_string(), text);
    let nodes = |t: usize| if t == 1 { vec![] } else { vec![0] };
    let text = "task 1 is placed on no node: each task needs one";
    let nowhere = Placement::new((0..tasks).map(nodes));
    assert_eq!(refused(nowhere).to_string(), text);
}
