//! Solving as a whole: bounds, refusals, repeatability, the frontier.

use crate::frontier::frontier;
use crate::problem::*;
use crate::schedule::verify;
use crate::solve::{Limits, plan};

use super::random::{self, Dice};

fn class(name: &str, seconds: Vec<Vec<f64>>) -> Class {
    Class {
        name: name.into(),
        seconds,
    }
}

fn group(name: &str, units: usize, memory: usize, idle_watts: f64, busy_watts: &[f64]) -> Group {
    Group {
        name: name.into(),
        units,
        memory,
        idle_watts,
        busy_watts: busy_watts.to_vec(),
    }
}

/// `tasks` equal tasks of one second on two fast units, or of two on two thrifty ones.
fn independent(tasks: usize) -> Problem {
    Problem {
        classes: vec![class("work", vec![vec![1.0], vec![2.0]])],
        tasks: vec![0; tasks],
        groups: vec![
            group("fast", 2, 0, 1.0, &[11.0]),
            group("thrifty", 2, 0, 0.0, &[2.0]),
        ],
        memories: vec![Memory {
            name: "host".into(),
            capacity: None,
        }],
        base_watts: 1.0,
        ..Problem::default()
    }
}

fn goal(objective: Objective, deadline: Option<f64>) -> Goal {
    Goal {
        objective,
        deadline,
    }
}

fn light() -> Limits<'static> {
    Limits {
        rounds: 300,
        bound_iterations: 300,
        ..Limits::default()
    }
}

#[test]
fn hand_computed_costs() {
    let p = independent(6);
    // Standing watts 3. All on the thrifty pair: 6 s, 6 × 2 s × 2 W = 24 J, in all 42 J. Each task on the
    // fast pair costs 10 J instead of 4 and saves at most a second of 3 J.
    let s = plan(&p, &goal(Objective::Energy, None), &light(), &mut || true).unwrap();
    assert!((s.cost - 42.0).abs() < 1e-9 && s.gap < 1e-9, "{s:?}");
    // Fastest: two on each thrifty unit's time of 2 s is one each, four on the fast pair: 2 s.
    let s = plan(&p, &goal(Objective::Time, None), &light(), &mut || true).unwrap();
    assert!((s.cost - 2.0).abs() < 1e-9 && s.gap < 1e-9, "{s:?}");
    // Within 4 s: four on the thrifty pair (16 J), two on the fast one (20 J), 12 J standing.
    let s = plan(
        &p,
        &goal(Objective::Energy, Some(4.0)),
        &light(),
        &mut || true,
    )
    .unwrap();
    assert!((s.cost - 48.0).abs() < 1e-9 && s.gap < 1e-9, "{s:?}");
}

#[test]
fn refusals_name_the_limit_and_by_how_much() {
    let refused = |p: &Problem, g: Goal| match plan(p, &g, &light(), &mut || true) {
        Err(e) => e.to_string(),
        Ok(s) => panic!("found {s:?}"),
    };
    let late = refused(&independent(6), goal(Objective::Energy, Some(1.5)));
    assert!(
        late.contains("deadline of 1.50 s") && late.contains("500 ms more"),
        "{late}"
    );
    let mut p = independent(1);
    p.memories[0].capacity = Some(1 << 20);
    p.data.push(Datum {
        bytes: 3 << 20,
        origin: Origin::Task(0),
        readers: vec![],
        replaces: None,
        kept: true,
    });
    let large = refused(&p, goal(Objective::Energy, None));
    assert!(
        large.contains("3.0 MiB") && large.contains("2.0 MiB less"),
        "{large}"
    );
    let mut p = independent(2);
    p.edges = vec![(0, 1), (1, 0)];
    assert!(refused(&p, goal(Objective::Time, None)).contains("waits for itself"));
    let mut p = independent(2);
    p.classes[0].seconds[0][0] = f64::NAN;
    assert!(refused(&p, goal(Objective::Time, None)).contains("work"));
}

#[test]
fn the_same_seed_gives_the_same_plan_and_bounds_hold() {
    for seed in 0..150 {
        let mut dice = Dice::new(10_000 + seed);
        let (p, g) = random::problem(&mut dice, 9);
        let search = Limits {
            exact_tasks: 0,
            ..light()
        };
        let once = plan(&p, &g, &search, &mut || true);
        assert_eq!(once, plan(&p, &g, &search, &mut || true));
        let Ok(found) = once else { continue };
        assert_eq!(
            verify(&p, &found.schedule).as_ref(),
            Ok(&found.schedule.peak)
        );
        let best = plan(&p, &g, &light(), &mut || true).unwrap();
        let near = 1.0 + 1e-9;
        assert!(
            best.cost <= found.cost * near,
            "seed {seed}: {} {}",
            best.cost,
            found.cost
        );
        assert!(
            found.lower_bound <= best.cost * near,
            "seed {seed}: the bound is wrong"
        );
        assert!(
            best.bound.seconds <= best.schedule.seconds * near,
            "seed {seed}"
        );
        assert!(
            best.bound.joules <= best.schedule.energy.total() * near,
            "seed {seed}"
        );
    }
}

#[test]
fn the_frontier_trades_time_for_energy() {
    let p = independent(12);
    let all = frontier(&p, None, 8, &light(), &mut || true).unwrap();
    assert!(all.len() >= 4);
    for w in all.windows(2) {
        assert!(w[0].schedule.seconds < w[1].schedule.seconds);
        assert!(w[0].schedule.energy.total() > w[1].schedule.energy.total());
    }
}

#[test]
fn time_to_spare_is_spent_on_slower_states() {
    // Sixteen tasks on four units: 4 s at full speed, 8 s at half of it for a third of the joules.
    let p = Problem {
        classes: vec![class("work", vec![vec![1.0, 2.0]])],
        tasks: vec![0; 16],
        groups: vec![group("core", 4, 0, 0.0, &[6.0, 1.0])],
        memories: vec![Memory {
            name: "host".into(),
            capacity: None,
        }],
        ..Problem::default()
    };
    let search = Limits {
        rounds: 0,
        exact_tasks: 0,
        ..light()
    };
    for (deadline, joules) in [(4.0, 96.0), (6.0, 64.0), (8.0, 32.0)] {
        let goal = goal(Objective::Energy, Some(deadline));
        let s = plan(&p, &goal, &search, &mut || true).unwrap();
        assert!(
            s.schedule.seconds <= deadline * (1.0 + 1e-9) && (s.cost - joules).abs() < 1e-9,
            "{deadline} s: {s:?}"
        );
    }
}

#[test]
fn equal_units_end_together() {
    // Fifty tasks of unequal lengths, some in chains, on four equal units: a perfect division is there.
    let mut p = independent(0);
    p.groups = vec![group("core", 4, 0, 1.0, &[7.0])];
    p.classes.clear();
    let mut dice = Dice::new(5);
    for t in 0..50 {
        let seconds = 1e-7 * (2_000_000 + dice.below(1_000_000_000)) as f64;
        p.classes.push(class("work", vec![vec![seconds]]));
        p.tasks.push(t);
        if t >= 12 && dice.chance(50) {
            p.edges.push((t - 3 - dice.below(9) as u32, t));
        }
    }
    let limits = Limits {
        gap: 1e-6,
        rounds: 2000,
        // By trying everything it would take for ever.
        exact_tasks: 0,
        ..Limits::default()
    };
    for objective in [Objective::Time, Objective::Energy] {
        let found = plan(&p, &goal(objective, None), &limits, &mut || true).unwrap();
        verify(&p, &found.schedule).unwrap();
        assert!(found.gap <= 1.001e-6, "{objective}: {}", found.gap);
    }
}
