//! How near to the optimum plans are proven to be, and how long that takes.
//!
//! `cargo run --release -p dahl-plan --example planner [small|large] [seconds] [words]` prints one line per
//! problem, those whose line contains all the words if there are any, with the seconds computed (Linux): graphs shaped like training steps and random ones, on four kinds of machine.

use std::time::Duration;

use dahl_core::random::Random;
use dahl_plan::*;
use dahl_plan::{Limits, plan};

/// A group of cores in the first memory, with frequency states as parts of full speed.
fn cores(
    name: &str,
    units: usize,
    speed: f64,
    watts: f64,
    states: &[f64],
) -> (Group, f64, Vec<f64>) {
    let group = Group {
        name: name.into(),
        units,
        memory: 0,
        idle_watts: 0.15 * watts,
        // Watts fall faster than speed: voltage falls too.
        busy_watts: states
            .iter()
            .map(|f| watts * (0.25 + 0.75 * f.powi(3)))
            .collect(),
    };
    (group, speed, states.to_vec())
}

/// The machines: groups with their speed and states, with or without a second memory.
fn machine(kind: &str, units: usize) -> (Problem, Vec<(f64, Vec<f64>)>) {
    let groups = match kind {
        "cores" => vec![cores("core", units, 1.0, 6.0, &[1.0])],
        "cores+states" => vec![cores("core", units, 1.0, 6.0, &[1.0, 0.7, 0.5])],
        "big+little" => vec![
            cores("big", units / 2, 1.0, 9.0, &[1.0, 0.7]),
            cores("little", units - units / 2, 0.45, 2.0, &[1.0]),
        ],
        _ => {
            let gpus = 1 + units / 16;
            let mut gpu = cores("gpu", gpus, 40.0, 115.0, &[1.0]);
            gpu.0.memory = 1;
            vec![cores("core", units - gpus, 1.0, 6.0, &[1.0]), gpu]
        }
    };
    let mut p = Problem {
        base_watts: 20.0,
        ..Problem::default()
    };
    p.memories.push(Memory {
        name: "host".into(),
        capacity: Some(64 << 30),
    });
    if kind == "cores+gpu" {
        p.memories.push(Memory {
            name: "gpu".into(),
            capacity: Some(8 << 30),
        });
        for (from, to) in [(0, 1), (1, 0)] {
            p.links.push(Link {
                from,
                to,
                bandwidth: 12e9,
                latency: 5e-6,
                joules_per_byte: 3e-10,
                channels: 1,
                shared: Vec::new(),
            });
        }
    }
    let speeds = groups.iter().map(|g| (g.1, g.2.clone())).collect();
    p.groups = groups.into_iter().map(|g| g.0).collect();
    (p, speeds)
}

fn class(p: &mut Problem, speeds: &[(f64, Vec<f64>)], name: String, work: f64) -> u32 {
    let overhead = 20e-6;
    let seconds = speeds
        .iter()
        .map(|(speed, states)| {
            states
                .iter()
                .map(|f| overhead + work / (speed * f))
                .collect()
        })
        .collect();
    p.classes.push(Class { name, seconds });
    p.classes.len() as u32 - 1
}

/// A training step: `layers` layers, each cut into `parts`.
fn training(kind: &str, units: usize, layers: usize, parts: usize, seed: u64) -> Problem {
    let (mut p, speeds) = machine(kind, units);
    let r = Random::new(seed, 3);
    let task = |p: &mut Problem, class: u32| {
        p.tasks.push(class);
        p.tasks.len() as u32 - 1
    };
    let datum = |p: &mut Problem, bytes: u64, origin, readers: Vec<u32>| {
        p.data.push(Datum {
            bytes,
            origin,
            readers,
            replaces: None,
            kept: false,
        });
    };
    let mut forward: Vec<Vec<u32>> = Vec::new();
    let mut sizes = Vec::new();
    for l in 0..layers {
        let work = 1e-3 * (0.5 + 2.0 * r.uniform(l as u64));
        let bytes = (2e5 * (0.2 + r.uniform(100 + l as u64))) as u64;
        let c = class(&mut p, &speeds, format!("forward {l}"), work);
        forward.push((0..parts).map(|_| task(&mut p, c)).collect());
        sizes.push((work, bytes));
    }
    let loss = class(&mut p, &speeds, "loss".into(), 5e-5);
    let mut above: Vec<u32> = (0..parts).map(|_| task(&mut p, loss)).collect();
    for k in 0..parts {
        datum(&mut p, 100_000, Origin::Memory(0), vec![forward[0][k]]);
        datum(
            &mut p,
            sizes[layers - 1].1,
            Origin::Task(forward[layers - 1][k]),
            vec![above[k]],
        );
    }
    for l in (0..layers).rev() {
        let c = class(&mut p, &speeds, format!("backward {l}"), 2.0 * sizes[l].0);
        let backward: Vec<u32> = (0..parts).map(|_| task(&mut p, c)).collect();
        let c = class(&mut p, &speeds, format!("update {l}"), 1e-4);
        let update = task(&mut p, c);
        for k in 0..parts {
            datum(
                &mut p,
                sizes[l].1,
                Origin::Task(above[k]),
                vec![backward[k]],
            );
            let mut readers = vec![backward[k]];
            readers.extend(forward.get(l + 1).map(|f| f[k]));
            datum(&mut p, sizes[l].1, Origin::Task(forward[l][k]), readers);
            datum(&mut p, 50_000, Origin::Task(backward[k]), vec![update]);
        }
        above = backward;
    }
    p
}

/// Random tasks; each waits for a few of the ones shortly before it.
fn random(kind: &str, units: usize, tasks: usize, seed: u64) -> Problem {
    let (mut p, speeds) = machine(kind, units);
    let r = Random::new(seed, 4);
    let mut at = 0;
    let mut next = || {
        at += 1;
        r.uniform(at)
    };
    let width = (tasks as f64).sqrt() * 1.2;
    for t in 0..tasks {
        let c = class(&mut p, &speeds, format!("task {t}"), 2e-4 + 2e-3 * next());
        p.tasks.push(c);
        let mut before: Vec<u32> = Vec::new();
        for _ in 0..(3.0 * next()) as usize {
            let back = 1 + (width * 2.0 * next()) as usize;
            before.extend(t.checked_sub(back).map(|b| b as u32));
        }
        before.sort_unstable();
        before.dedup();
        for b in before {
            let (bytes, readers) = ((2e5 * next()) as u64, vec![t as u32]);
            p.data.push(Datum {
                bytes,
                origin: Origin::Task(b),
                readers,
                replaces: None,
                kept: false,
            });
        }
    }
    p
}

/// The gap at which a plan counts as proven: a hundredth of what solvers of mixed-integer problems ask for.
const PROVEN: f64 = 1e-6;

/// Seconds this process has computed: on a busy machine the clock on the wall says little.
fn computed() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn report(name: &str, p: &Problem, goal: Goal, limit: Duration, gap: f64) -> (bool, f64) {
    let begin = computed();
    let limits = Limits {
        gap,
        rounds: u64::MAX,
        ..Limits::default()
    };
    let mut asked = 0_u32;
    let mut go_on = true;
    let mut keep_going = || {
        asked += 1;
        if asked.is_multiple_of(16) {
            go_on = computed() - begin < limit;
        }
        go_on
    };
    let found = plan(p, &goal, &limits, &mut keep_going);
    let took = (computed() - begin).as_secs_f64();
    match found {
        Ok(s) => {
            println!(
                "{name:<34} {:>5} tasks {:>2} units  {:<6} cost {:<11.5e} bound {:<11.5e} gap {:>8.5} %  {took:>6.2} s  {}",
                p.tasks.len(),
                p.unit_count(),
                goal.objective,
                s.cost,
                s.lower_bound,
                100.0 * s.gap,
                s.reason
            );
            (s.gap <= 1.001 * PROVEN, s.gap)
        }
        Err(e) => {
            println!("{name:<34} {e}");
            (false, 1.0)
        }
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let which = args.next().unwrap_or_else(|| "small".into());
    let seconds: Option<u64> = args.next().and_then(|s| s.parse().ok());
    let words: Vec<String> = args.collect();
    let kinds = ["cores", "cores+states", "big+little", "cores+gpu"];
    let goals = [Objective::Energy, Objective::Time, Objective::Edp];
    let (mut proven, mut all, mut worst) = (0, 0, 0.0_f64);
    for kind in kinds {
        for objective in goals {
            let goal = Goal {
                objective,
                deadline: None,
            };
            let mut one = |name: String, p: Problem, limit: u64, gap: f64| {
                let line = format!("{name} {objective}");
                let line: Vec<&str> = line.split(' ').collect();
                if !words.iter().all(|w| line.contains(&w.as_str())) {
                    return;
                }
                let limit = Duration::from_secs(seconds.unwrap_or(limit));
                let (sure, gap) = report(&name, &p, goal, limit, gap);
                proven += usize::from(sure);
                all += 1;
                worst = worst.max(gap);
            };
            if which == "small" {
                for (layers, parts) in [(5, 4), (3, 6), (8, 2), (4, 5)] {
                    let p = training(kind, 4, layers, parts, 1);
                    one(
                        format!("training {layers}x{parts} on {kind}"),
                        p,
                        10,
                        PROVEN,
                    );
                }
                for seed in 0..2 {
                    one(
                        format!("random {seed} on {kind}"),
                        random(kind, 4, 50, seed),
                        10,
                        PROVEN,
                    );
                }
            } else if objective != Objective::Edp {
                one(
                    format!("training 12x40 on {kind}"),
                    training(kind, 16, 12, 40, 1),
                    60,
                    0.01,
                );
                one(
                    format!("random on {kind}"),
                    random(kind, 16, 1000, 1),
                    60,
                    0.01,
                );
            }
        }
    }
    println!(
        "{proven} of {all} proven optimal; largest gap {:.2} %",
        100.0 * worst
    );
}
