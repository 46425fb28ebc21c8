//! Random programs whose plans are simulated and performed again by SimGrid: the same seconds and joules.
//!
//! `DAHL_REPLAYS=FOLDER` keeps what was exported there; `DAHL_TEST_PROGRAMS=20000` tries 200 of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::problem::Objective;
use crate::solve::Limits;
use dahl_core::{
    FrequencyState, Graph, Link, Machine, Memory, MemoryId, Node, NodeId, Port, Power, Seconds,
    Switch, Unit, UnitKind, Watts,
};
use dahl_sched::policy::{Fixed, Policy, by_name};
use dahl_sim::simgrid::replay::replay;
use dahl_sim::{Options, Times, simulate};

use super::followed::program;
use super::graphs::planned_with;
use super::random::Dice;

/// Durations are microseconds, as those of real tasks.
const SCALE: f64 = 1e-6;

fn unit(dice: &mut Dice, name: String, kind: UnitKind, memory: MemoryId) -> Unit {
    let mut unit = Unit::new(name, kind, memory);
    let (idle, busy) = (dice.below(30) as f64 / 10.0, dice.below(900) as f64 / 10.0);
    unit.power = Some(Power {
        idle: Watts(idle),
        busy: Watts(idle + busy),
    });
    for s in 0..dice.below(3) {
        let speed = [0.7, 0.45][s];
        let state = FrequencyState::new(speed, Watts(idle + busy * speed * speed));
        unit.states.push(state);
    }
    unit.switch_seconds = [None, Some(Seconds(0.0)), Some(Seconds(1e-7))][dice.below(3)];
    if dice.chance(50) {
        unit.overhead = Seconds(SCALE * dice.below(10) as f64 / 7.0);
        unit.wake_latency = Seconds(SCALE * dice.below(10) as f64 / 3.0);
    }
    unit
}

fn machine(dice: &mut Dice) -> Machine {
    let mut m = Machine::cpus(0);
    m.nodes.clear();
    m.memories.clear();
    let nodes = 1 + dice.below(3);
    for n in 0..nodes {
        let mut node = Node::new(format!("n{n}"));
        node.base = Some(Watts(dice.below(80) as f64));
        node.port = dice.chance(60).then(|| Port {
            bandwidth: (20 + dice.below(40)) as f64 / SCALE,
            latency: Seconds(SCALE * dice.below(5) as f64 / 9.0),
            joules_per_byte: Some(dice.below(5) as f64 * 1e-9),
        });
        m.nodes.push(node);
        let memory = MemoryId(m.memories.len() as u16);
        let own = |name: &str| Memory {
            node: NodeId(n as u16),
            ..Memory::new(format!("{name}{n}"), None)
        };
        m.memories.push(own("host"));
        for i in 0..1 + dice.below(3) {
            m.units
                .push(unit(dice, format!("c{n}:{i}"), UnitKind::CPU, memory));
        }
        if dice.chance(40) {
            let card = MemoryId(m.memories.len() as u16);
            m.memories.push(own("card"));
            m.units
                .push(unit(dice, format!("g{n}"), UnitKind::GPU, card));
            let mut link = Link::new(memory, card, 40.0 / SCALE, Seconds(0.1 * SCALE));
            link.joules_per_byte = Some(dice.below(4) as f64 * 1e-9);
            link.at_once = 1 + dice.below(2) as u32;
            m.links.extend([link.reversed(), link]);
        }
    }
    let switched = dice.chance(60);
    if switched {
        m.switches.push(Switch {
            name: "switch".into(),
            bandwidth: dice
                .chance(50)
                .then(|| (20 + dice.below(90)) as f64 / SCALE),
            latency: Seconds(SCALE * dice.below(3) as f64 / 11.0),
            joules_per_byte: Some(1e-9),
        });
    }
    let hosts: Vec<MemoryId> = (0..nodes as u16)
        .filter_map(|n| m.memories.iter().position(|x| x.node == NodeId(n)))
        .map(|first| MemoryId(first as u16))
        .collect();
    for &a in &hosts {
        for &b in hosts.iter().filter(|b| **b != a) {
            let via = if switched { vec![0] } else { Vec::new() };
            let mut link = m.way(a, b, &via);
            link.bandwidth = link.bandwidth.min((10 + dice.below(50)) as f64 / SCALE);
            link.latency.0 += SCALE * dice.below(3) as f64 / 13.0;
            link.joules_per_byte = Some(link.joules_per_byte.unwrap_or(0.0) + 2e-9);
            m.links.push(link);
        }
    }
    m.check().expect("a sound machine");
    m
}

fn times(graph: &Graph, machine: &Machine) -> Times {
    Times::from_fn(graph, machine, |class, unit| {
        let class = &graph.classes[class as usize];
        class.choice(unit.kind)?;
        Some(Seconds(SCALE * class.cost.flops))
    })
    .unwrap()
}

/// Exports one run: by a plan, or under a policy.
fn export(seed: u64, folder: &Path) -> PathBuf {
    let mut dice = Dice::new(90_000 + seed);
    let (graph, machine) = (program(&mut dice), machine(&mut dice));
    let table = times(&graph, &machine);
    let mut options = Options {
        steps: 1 + dice.below(3),
        in_flight: 1 + dice.below(2),
        new_inputs_each_step: dice.chance(50),
        record: true,
        ..Options::default()
    };
    let policy: Box<dyn Policy> = match dice.below(4) {
        0 => by_name("dmda", &machine).unwrap(),
        _ => {
            let limits = Limits {
                rounds: 30,
                bound_iterations: 1,
                exact_tasks: 0,
                ..Limits::default()
            };
            let objective = [Objective::Energy, Objective::Time][dice.below(2)];
            let plan = planned_with(&graph, &machine, &table, objective, &limits).2;
            options.states = plan.states();
            let transfers = plan.checked_transfers(&graph, &machine).unwrap();
            options.transfers = Some(Arc::new(transfers));
            Box::new(Fixed::new(graph.len(), plan.orders()).unwrap())
        }
    };
    let run = simulate(&graph, &machine, &table, &*policy, &options).unwrap();
    let out = replay(&graph, &machine, &options.states, &run);
    let path = folder.join(format!("random-{seed}.json"));
    std::fs::write(&path, serde_json::to_string(&out).unwrap()).unwrap();
    path
}

#[test]
fn simgrid_takes_as_long_and_draws_as_much() {
    // Debian's module is for the system's Python.
    let python = "/usr/bin/python3";
    let known = Command::new(python).args(["-c", "import simgrid"]).output();
    if !known.is_ok_and(|o| o.status.success()) {
        dahl_test_support::skip!("no SimGrid for Python", "apt install python3-simgrid");
    }
    let kept = std::env::var_os("DAHL_REPLAYS").map(PathBuf::from);
    let own = std::env::temp_dir().join(format!("dahl-replays-{}", std::process::id()));
    let folder = kept.as_ref().unwrap_or(&own);
    std::fs::create_dir_all(folder).unwrap();
    let cases = dahl_test_support::scaled(10);
    let files: Vec<PathBuf> = (0..cases).map(|seed| export(seed, folder)).collect();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/simgrid/replay.py");
    let out = Command::new(python)
        .arg(script)
        .args(&files)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    if kept.is_none() {
        let _ = std::fs::remove_dir_all(&own);
    }
    assert!(out.status.success(), "{text}{errors}");
    assert_eq!(text.lines().count() as u64, cases + 1, "{text}");
    println!("{}", text.lines().last().unwrap_or_default());
}
