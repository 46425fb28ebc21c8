//! Random programs on random machines under every policy: each task once, after all it waits for, on a
//! unit that can, one at a time; the same again when run again.

use dahl_core::graph::boundary::edges_between;
use dahl_core::{Mode, Region};
use proptest::prelude::*;

use super::*;
use dahl_sched::policy::Fixed;
use dahl_sched::policy::POLICIES;

/// Array, first and last element, whether it is written; and whether only a CPU can.
pub(super) type Step = (Vec<(usize, usize, usize, u8)>, i64, bool);

pub(super) fn program(arrays: &[Handle], temporaries: usize, steps: &[Step]) -> Arc<Graph> {
    let r = Recorder::new();
    let own: Vec<Handle> = (0..temporaries)
        .map(|i| r.temporary_handle(&format!("t{i}"), &[12], DType::F32))
        .collect();
    // Temporaries may only be read once they have been written.
    own.iter().for_each(|t| {
        task(&r, 1, &[t.with(Mode::Write)]);
    });
    let all: Vec<&Handle> = arrays.iter().chain(&own).collect();
    for (i, (uses, seconds, host)) in steps.iter().enumerate() {
        let mut parts: Vec<(Handle, Mode)> = Vec::new();
        for &(array, lo, len, mode) in uses {
            let whole = all[array % all.len()];
            let (lo, hi) = (lo, (lo + len).min(12));
            let region = Region::new([0, 0, 0, lo], [1, 1, 1, hi]).unwrap();
            let part = whole.part(&region);
            let mode = [Mode::Read, Mode::Write, Mode::ReadWrite][usize::from(mode % 3)];
            let clash = |p: &(Handle, Mode)| p.0.storage.id == part.storage.id;
            if !parts.iter().any(clash) {
                parts.push((part, mode));
            }
        }
        let operands: Vec<Operand<'_>> = parts.iter().map(|(h, m)| h.with(*m)).collect();
        let codelet = if *host { &*HOST } else { &*ANY };
        let params = [Param::Int(*seconds)];
        let task = Task::new(codelet, &operands).params(&params);
        r.submit(task.priority(i as i32 % 3));
    }
    r.finish().unwrap()
}

/// `cpus` CPUs, and devices with so many units and bytes.
pub(super) fn machine(cpus: usize, devices: &[(usize, u64)]) -> Machine {
    let mut machine = Machine::cpus(cpus);
    for (i, (units, capacity)) in devices.iter().enumerate() {
        let memory = MemoryId(i as u16 + 1);
        let room = Memory::new(format!("d{i}"), Some(Bytes(*capacity)));
        machine.memories.push(room);
        for u in 0..*units {
            let unit = Unit::new(format!("gpu{i}.{u}"), UnitKind::GPU, memory);
            machine.units.push(unit);
        }
        for (from, to) in [(MemoryId::HOST, memory), (memory, MemoryId::HOST)] {
            machine.links.push(Link::new(from, to, 40.0, Seconds(0.1)));
        }
    }
    machine
}

pub(super) fn verify(graph: &Graph, machine: &Machine, prediction: &Prediction, steps: usize) {
    let n = graph.len();
    assert_eq!(prediction.runs.len(), n * steps);
    let mut at = vec![None; n * steps];
    for run in &prediction.runs {
        let place = run.task.launch * n + run.task.task as usize;
        assert!(at[place].replace(run).is_none(), "ran twice");
        let unit = &machine.units[usize::from(run.unit)];
        assert!(graph.implementation(run.task.task, unit.kind).is_some());
        assert!(run.ready <= run.taken && run.taken <= run.start && run.start <= run.end);
    }
    let run = |launch: usize, task: u32| at[launch * n + task as usize].unwrap();
    for launch in 0..steps {
        for (a, b) in graph.edges() {
            assert!(run(launch, a).end <= run(launch, b).taken);
        }
    }
    for (s, storage) in graph.storages.iter().enumerate() {
        if storage.temporary.is_none() && steps > 1 {
            for (a, b) in edges_between(graph, s as u32, graph, s as u32) {
                for early in 0..steps {
                    for late in early + 1..steps {
                        assert!(run(early, a).end <= run(late, b).taken);
                    }
                }
            }
        }
    }
    for unit in 0..machine.units.len() as u16 {
        let of = prediction.runs.iter().filter(|r| r.unit == unit);
        let mut of: Vec<_> = of.collect();
        of.sort_by(|a, b| {
            a.start
                .0
                .total_cmp(&b.start.0)
                .then(a.end.0.total_cmp(&b.end.0))
        });
        assert!(of.windows(2).all(|w| w[0].end <= w[1].start), "two at once");
    }
    for (memory, used) in machine.memories.iter().zip(&prediction.memories) {
        assert!(memory.capacity.is_none_or(|c| used.peak.0 <= c.0));
    }
    let channels = machine.channels();
    for (c, channel) in channels.all.iter().enumerate() {
        let of = prediction.transfers.iter();
        let of = of.filter(|t| channels.of_link[usize::from(t.link)].contains(&(c as u32)));
        // Ends first: one may begin when another ends.
        let mut steps: Vec<(f64, i64)> = of.flat_map(|t| [(t.start.0, 1), (t.end.0, -1)]).collect();
        steps.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut at_once = 0;
        for (_, step) in steps {
            at_once += step;
            assert!(at_once <= i64::from(channel.at_once), "{}", channel.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_policy_keeps_the_rules(
        persistent in 1usize..4,
        temporaries in 0usize..3,
        steps in proptest::collection::vec(
            (proptest::collection::vec((0usize..7, 0usize..12, 1usize..13, 0u8..3), 1..4), 1i64..5, any::<bool>()),
            1..30,
        ),
        cpus in 1usize..4,
        devices in proptest::collection::vec((1usize..3, 150u64..500), 0..3),
        launches in 1usize..5,
        in_flight in 1usize..4,
        works in any::<bool>(),
        backplane in proptest::option::of(proptest::option::of(20.0..100.0f64)),
    ) {
        let arena = Arena::new();
        let arrays: Vec<Handle> = (0..persistent)
            .map(|i| arena.alloc(&format!("a{i}"), &[12], DType::F32).unwrap())
            .collect();
        let graph = program(&arrays, temporaries, &steps);
        let mut machine = machine(cpus, &devices);
        // Devices behind links of their own, or nodes of a network.
        if let Some(backplane) = backplane {
            super::ports::network(&mut machine, 40.0, backplane);
        }
        let table = times(&graph, &machine);
        let options = Options {
            steps: launches,
            in_flight,
            launcher: works.then_some(UnitId(0)),
            record: true,
            ..Options::default()
        };
        let work: f64 = graph.tasks.iter().map(|t| graph.classes[t.class as usize].cost.flops).sum();
        for (name, _, make) in POLICIES {
            let go = || simulate(&graph, &machine, &table, &*make(&machine), &options).unwrap();
            let prediction = go();
            verify(&graph, &machine, &prediction, launches);
            prop_assert_eq!(&prediction, &go(), "{} twice", name);
            let busy: f64 = prediction.units.iter().map(|u| u.busy.0).sum();
            prop_assert!((busy - work * launches as f64).abs() < 1e-9);
            if *name != "eager" {
                continue;
            }
            // Its own placement and order of the first launch, as a schedule.
            let mut order = vec![Vec::new(); machine.units.len()];
            let mut first: Vec<_> = prediction.runs.iter().filter(|r| r.task.launch == 0).collect();
            first.sort_by(|a, b| a.taken.0.total_cmp(&b.taken.0).then(a.end.0.total_cmp(&b.end.0)));
            first.iter().for_each(|r| order[usize::from(r.unit)].push(r.task.task));
            let fixed = Fixed::new(graph.len(), order.clone()).unwrap();
            let followed = simulate(&graph, &machine, &table, &fixed, &options).unwrap();
            verify(&graph, &machine, &followed, launches);
            for run in &followed.runs {
                prop_assert!(order[usize::from(run.unit)].contains(&run.task.task));
            }
        }
    }
}
