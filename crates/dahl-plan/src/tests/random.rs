//! Random problems, small enough to try every plan.

use crate::problem::*;
use dahl_core::random::Random;

/// Numbers drawn one after another.
pub struct Dice(Random, u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(Random::new(seed, 7), 0)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        self.0.below(self.1, n as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Units of at most three kinds, at most two memories.
fn machine(dice: &mut Dice) -> Problem {
    let memories = 1 + usize::from(dice.chance(65));
    let mut p = Problem {
        base_watts: dice.below(20) as f64,
        ..Problem::default()
    };
    for m in 0..memories {
        p.memories.push(Memory {
            name: format!("memory {m}"),
            capacity: None,
        });
    }
    let mut left = 1 + dice.below(3);
    while left > 0 {
        let units = 1 + dice.below(left);
        left -= units;
        let idle_watts = dice.below(4) as f64;
        let states = 1 + usize::from(dice.chance(30));
        p.groups.push(Group {
            name: format!("group {}", p.groups.len()),
            units,
            memory: dice.below(memories),
            idle_watts,
            busy_watts: (0..states)
                .map(|s| idle_watts + (dice.below(20) / (s + 1)) as f64)
                .collect(),
        });
    }
    for from in 0..memories {
        for to in (0..memories).filter(|&to| to != from) {
            if dice.chance(95) {
                p.links.push(Link {
                    from,
                    to,
                    bandwidth: (2 + dice.below(8)) as f64,
                    latency: dice.below(2) as f64 / 2.0,
                    joules_per_byte: dice.below(3) as f64,
                    channels: 1 + dice.below(2),
                    shared: Vec::new(),
                });
            }
        }
    }
    p
}

/// A problem with this many tasks on three nodes, each with a unit and a port, and some with a switch between them. Most
/// tasks can run in one place only, and most read what others wrote: much has to move.
pub fn network(dice: &mut Dice, tasks: usize) -> (Problem, Goal) {
    const NODES: usize = 3;
    let mut p = Problem::default();
    for m in 0..NODES {
        p.memories.push(Memory {
            name: format!("memory {m}"),
            capacity: None,
        });
        p.groups.push(Group {
            name: format!("unit {m}"),
            units: 1,
            memory: m,
            idle_watts: 1.0,
            busy_watts: vec![1.0 + dice.below(3) as f64],
        });
        p.shared.extend(["out of", "into"].map(|way| Shared {
            name: format!("port {way} node {m}"),
            at_once: 1,
        }));
    }
    let switch = dice.chance(40).then_some(p.shared.len());
    p.shared.extend(switch.map(|_| Shared {
        name: "switch".into(),
        at_once: 1 + dice.below(2),
    }));
    for from in 0..NODES {
        for to in (0..NODES).filter(|&to| to != from) {
            p.links.push(Link {
                from,
                to,
                bandwidth: (1 + dice.below(2)) as f64,
                latency: dice.below(2) as f64 / 2.0,
                joules_per_byte: dice.below(2) as f64,
                channels: 1,
                shared: [2 * from, 2 * to + 1].into_iter().chain(switch).collect(),
            });
        }
    }
    for t in 0..tasks {
        let (home, anywhere) = (dice.below(NODES), dice.chance(25));
        let seconds = (0..NODES).map(|g| match anywhere || g == home {
            true => vec![1.0 + dice.below(3) as f64],
            false => Vec::new(),
        });
        let seconds = seconds.collect();
        p.tasks.push(t as u32);
        p.classes.push(Class {
            name: format!("class {t}"),
            seconds,
        });
        for origin in [Origin::Task(t as u32), Origin::Memory(dice.below(NODES))] {
            let readers = (t + 1..tasks).filter(|_| dice.chance(40));
            let readers = readers.map(|r| r as u32).collect();
            p.data.push(Datum {
                bytes: 1 + dice.below(4) as u64,
                origin,
                readers,
                replaces: None,
                kept: false,
            });
        }
    }
    if dice.chance(30) {
        let total: u64 = p.data.iter().map(|d| d.bytes).sum();
        for m in &mut p.memories {
            m.capacity = Some(total / 2 + dice.below(total as usize + 1) as u64);
        }
    }
    let goal = Goal {
        objective: [Objective::Energy, Objective::Time, Objective::Edp][dice.below(3)],
        deadline: None,
    };
    (p, goal)
}

/// A problem with this many tasks.
pub fn problem(dice: &mut Dice, tasks: usize) -> (Problem, Goal) {
    let mut p = machine(dice);
    for t in 0..tasks {
        if t > 0 && dice.chance(40) {
            p.tasks.push(p.tasks[t - 1]);
            continue;
        }
        let mut seconds: Vec<Vec<f64>> = Vec::new();
        for g in &p.groups {
            let base = 1 + dice.below(6);
            let times = (0..g.busy_watts.len())
                .map(|s| (base * (s + 1)) as f64)
                .collect();
            seconds.push(if dice.chance(85) { times } else { Vec::new() });
        }
        if seconds.iter().all(Vec::is_empty) {
            seconds[0] = p.groups[0].busy_watts.iter().map(|_| 2.0).collect();
        }
        p.tasks.push(p.classes.len() as u32);
        p.classes.push(Class {
            name: format!("class {t}"),
            seconds,
        });
    }
    let density = dice.below(60);
    for b in 0..tasks {
        for a in 0..b {
            if dice.chance(density) {
                p.edges.push((a as u32, b as u32));
            }
        }
    }
    data(dice, &mut p);
    if dice.chance(40) {
        let total: usize = p.data.iter().map(|d| d.bytes as usize).sum();
        for m in &mut p.memories {
            m.capacity = Some((total / 3 + dice.below(total + 1)) as u64);
        }
    }
    let objective = [Objective::Energy, Objective::Time, Objective::Edp][dice.below(3)];
    let deadline = dice.chance(35).then(|| (4 + dice.below(6 * tasks)) as f64);
    (
        p,
        Goal {
            objective,
            deadline,
        },
    )
}

fn data(dice: &mut Dice, p: &mut Problem) {
    let tasks = p.tasks.len();
    for t in 0..tasks {
        if dice.chance(50) {
            let readers = ((t + 1)..tasks)
                .filter(|_| dice.chance(30))
                .map(|r| r as u32)
                .collect();
            let (bytes, kept) = (1 + dice.below(4) as u64, dice.chance(20));
            p.data.push(Datum {
                bytes,
                origin: Origin::Task(t as u32),
                readers,
                replaces: None,
                kept,
            });
        }
    }
    if dice.chance(50) {
        let readers = (0..tasks)
            .filter(|_| dice.chance(30))
            .map(|r| r as u32)
            .collect();
        let origin = Origin::Memory(dice.below(p.memories.len()));
        p.data.push(Datum {
            bytes: 2,
            origin,
            readers,
            replaces: None,
            kept: dice.chance(50),
        });
    }
    // Something that each step updates in place: read by some, then by its writer.
    if dice.chance(40) {
        let writer = tasks as u32 - 1;
        let old = p.data.len() as u32;
        let mut readers: Vec<u32> = (0..writer).filter(|_| dice.chance(30)).collect();
        readers.push(writer);
        let origin = Origin::LeftBy(old + 1);
        p.data.push(Datum {
            bytes: 3,
            origin,
            readers,
            replaces: None,
            kept: false,
        });
        let origin = Origin::Task(writer);
        p.data.push(Datum {
            bytes: 3,
            origin,
            readers: vec![],
            replaces: Some(old),
            kept: true,
        });
    }
}
