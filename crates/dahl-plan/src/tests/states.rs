//! Units that keep one state through a step, against every way to set them.

use crate::problem::*;
use crate::schedule::verify;
use crate::solve::{Limits, plan};

use super::exact::exhaustive;
use super::random::{Dice, problem};

/// Every unit a group of its own, in the state that it is given.
fn set(p: &Problem, states: &[usize]) -> Problem {
    let owners = p.groups.iter().enumerate();
    let owners = owners.flat_map(|(g, group)| std::iter::repeat_n(g, group.units));
    let units: Vec<(usize, usize)> = owners.zip(states.iter().copied()).collect();
    let mut out = Problem {
        one_state: Vec::new(),
        ..p.clone()
    };
    out.groups = units
        .iter()
        .map(|&(g, state)| Group {
            units: 1,
            busy_watts: vec![p.groups[g].busy_watts[state]],
            ..p.groups[g].clone()
        })
        .collect();
    for class in &mut out.classes {
        let time = |&(g, state): &(usize, usize)| {
            let time = class.seconds[g].get(state);
            time.copied().into_iter().collect()
        };
        class.seconds = units.iter().map(time).collect();
    }
    out
}

/// The least cost over all ways to set the units.
fn best_setting(p: &Problem, goal: &Goal) -> Option<f64> {
    let sizes = p.groups.iter();
    let sizes = sizes.flat_map(|g| std::iter::repeat_n(g.busy_watts.len(), g.units));
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for size in sizes {
        let longer = |s: &Vec<usize>| {
            let s = s.clone();
            (0..size).map(move |state| [&s[..], &[state]].concat())
        };
        all = all.iter().flat_map(longer).collect();
    }
    let costs = all.iter().filter_map(|s| exhaustive(&set(p, s), goal));
    // Those that are late cost more than anything.
    costs.filter(|c| c.is_finite()).min_by(f64::total_cmp)
}

#[test]
fn equals_the_best_of_all_settings() {
    let (mut planned, mut dearer) = (0, 0);
    for seed in 0..70 {
        let mut dice = Dice::new(7000 + seed);
        let (mut p, goal) = problem(&mut dice, 4);
        if p.groups.iter().all(|g| g.busy_watts.len() == 1) {
            continue;
        }
        let free = exhaustive(&p, &goal);
        p.one_state = vec![true; p.groups.len()];
        let best = best_setting(&p, &goal);
        let found = plan(&p, &goal, &Limits::default(), &mut || true).ok();
        assert_eq!(best.is_some(), found.is_some(), "seed {seed}");
        let (Some(best), Some(found)) = (best, found) else {
            continue;
        };
        verify(&p, &found.schedule).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let off = (found.cost - best).abs() / best.max(1.0);
        assert!(off < 1e-9, "seed {seed}: {} and {best}", found.cost);
        assert!(found.lower_bound <= best * (1.0 + 1e-9), "seed {seed}");
        planned += 1;
        dearer += usize::from(free.is_some_and(|free| free < best * (1.0 - 1e-9)));
    }
    assert!(planned >= 12, "{planned}");
    assert!(dearer >= 2, "free switching is never better: {dearer}");
}

#[test]
fn a_schedule_that_switches_is_refused() {
    let p = Problem {
        classes: vec![Class {
            name: "work".into(),
            seconds: vec![vec![1.0, 2.0]],
        }],
        tasks: vec![0; 3],
        groups: vec![Group {
            name: "core".into(),
            units: 1,
            memory: 0,
            idle_watts: 0.0,
            busy_watts: vec![6.0, 1.0],
        }],
        memories: vec![Memory {
            name: "host".into(),
            capacity: None,
        }],
        ..Problem::default()
    };
    let goal = Goal {
        objective: Objective::Energy,
        deadline: Some(5.0),
    };
    // Two slow tasks and a fast one, where that is free: 2 × 2 + 6 joules.
    let free = plan(&p, &goal, &Limits::default(), &mut || true).unwrap();
    assert!((free.cost - 10.0).abs() < 1e-9, "{}", free.cost);
    let kept = Problem {
        one_state: vec![true],
        ..p.clone()
    };
    assert!(verify(&kept, &free.schedule).is_err());
    let found = plan(&kept, &goal, &Limits::default(), &mut || true).unwrap();
    assert!((found.cost - 18.0).abs() < 1e-9, "{}", found.cost);
    let later = Goal {
        deadline: None,
        ..goal
    };
    let slow = plan(&kept, &later, &Limits::default(), &mut || true)
        .unwrap()
        .schedule;
    assert!((slow.energy.total() - 6.0).abs() < 1e-9);
    assert!(slow.runs.iter().all(|r| r.state == 1));
}
