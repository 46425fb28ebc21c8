//! Schedules against a replay that trusts nobody, and against known optima.

use super::{Operation, PipelineSchedule, PipelineWork, ScheduleKind, schedule};
use crate::tests::random::Dice;

fn equal(devices: usize, micro_batches: usize, kind: ScheduleKind) -> PipelineWork {
    let per = kind.stages_per_device();
    PipelineWork {
        stages: vec![[1.0 / per as f64; 3]; devices * per],
        devices,
        micro_batches,
        in_flight: None,
    }
}

fn made(work: &PipelineWork, kind: ScheduleKind) -> PipelineSchedule {
    let made = schedule(work, kind).expect("a schedule");
    check(work, &made);
    made
}

/// Fails unless each operation is there once, begins after all that it waits for, and devices do one at a time.
fn check(work: &PipelineWork, made: &PipelineSchedule) {
    let (stages, m) = (work.stages.len(), work.micro_batches);
    let split = (made.orders.iter().flatten()).any(|s| s.operation == Operation::WeightGradient);
    let mut ends = vec![vec![[None; 3]; m]; stages];
    for (order, begins) in made.orders.iter().zip(&made.begins) {
        let mut free = 0.0;
        for (slot, &begin) in order.iter().zip(begins) {
            assert!(begin >= free - 1e-9, "two at a time: {slot:?}");
            let which = slot.operation as usize;
            let [f, i, w] = work.stages[slot.stage];
            let own = [f, if split { i } else { i + w }, w][which];
            free = begin + own;
            let end = &mut ends[slot.stage][slot.micro_batch][which];
            assert!(end.is_none(), "twice: {slot:?}");
            *end = Some((begin, free));
            assert!(free <= made.makespan + 1e-9);
        }
    }
    let of = |s: usize, b: usize, which: usize| ends[s][b][which].expect("an operation is missing");
    for s in 0..stages {
        for b in 0..m {
            let after = |later: (f64, f64), earlier: (f64, f64)| {
                assert!(later.0 >= earlier.1 - 1e-9, "stage {s}, micro-batch {b}");
            };
            if s > 0 {
                after(of(s, b, 0), of(s - 1, b, 0));
                after(of(s - 1, b, 1), of(s, b, 1));
            }
            after(of(s, b, 1), of(s, b, 0));
            if split {
                after(of(s, b, 2), of(s, b, 1));
            }
        }
    }
    assert!(made.lower_bound <= made.makespan + 1e-9);
}

#[test]
fn known_makespans_and_bubbles() {
    for (devices, m, one, zero) in [(4, 8, 33.0, 27.0), (4, 12, 45.0, 39.0), (8, 12, 57.0, 43.0)] {
        let of = |kind: ScheduleKind| made(&equal(devices, m, kind), kind);
        let one_f_one_b = of(ScheduleKind::OneFOneB);
        assert_eq!(one_f_one_b.makespan, one);
        assert_eq!(one_f_one_b.in_flight[0], devices as f64);
        let h1 = of(ScheduleKind::ZbH1);
        assert_eq!(h1.makespan, zero);
        assert_eq!(h1.lower_bound, zero);
        assert!(h1.in_flight.iter().all(|&n| n <= devices as f64));
        assert_eq!(of(ScheduleKind::Auto).makespan, zero);
        assert_eq!(of(ScheduleKind::GPipe).makespan, one);
    }
    let of = |kind: ScheduleKind| made(&equal(4, 8, kind), kind).bubble;
    assert_eq!(of(ScheduleKind::OneFOneB), 0.375);
    assert_eq!(of(ScheduleKind::ZbH1), 0.125);
    assert_eq!(of(ScheduleKind::ZbH2), 0.0);
    assert_eq!(of(ScheduleKind::Interleaved), 0.1875);
}

#[test]
fn v_has_no_bubble_at_the_memory_of_1f1b() {
    for (devices, m) in [
        (1, 1),
        (2, 3),
        (3, 5),
        (4, 7),
        (4, 8),
        (4, 16),
        (8, 15),
        (8, 32),
    ] {
        let made = made(&equal(devices, m, ScheduleKind::ZbV), ScheduleKind::ZbV);
        assert_eq!(made.bubble, 0.0, "{devices} devices, {m} micro-batches");
        let most = made.in_flight.iter().copied().fold(0.0, f64::max);
        assert!(most <= devices as f64, "{devices} devices keep {most}");
    }
    // With fewer micro-batches it has one, and never more than 1F1B's.
    for (devices, m) in [(2, 2), (4, 1), (4, 4)] {
        let of = |kind: ScheduleKind| made(&equal(devices, m, kind), kind);
        let (zero, one) = (of(ScheduleKind::ZbV), of(ScheduleKind::OneFOneB));
        assert!(
            zero.bubble <= one.bubble,
            "{devices} devices, {m}: {zero:?}"
        );
        let most = zero.in_flight.iter().copied().fold(0.0, f64::max);
        assert!(most <= devices as f64, "{devices} devices keep {most}");
    }
}

#[test]
fn unequal_stages_wait_less_with_the_memory_of_1f1b() {
    for seed in 0..10 {
        let mut dice = Dice::new(seed);
        let mut time = || 1.0 + dice.below(40) as f64 / 100.0;
        let work = PipelineWork {
            stages: (0..4).map(|_| [time(), time(), time()]).collect(),
            devices: 4,
            micro_batches: 8,
            in_flight: None,
        };
        let before = made(&work, ScheduleKind::OneFOneB);
        let after = made(&work, ScheduleKind::Auto);
        assert!(after.makespan < before.makespan, "{seed}");
        assert!(
            after.bubble <= before.bubble / 2.0,
            "{seed}: {} of {}",
            after.bubble,
            before.bubble
        );
        let gap = (1.0 + after.bubble) / (1.0 + after.bubble_bound) - 1.0;
        assert!(gap <= 0.03, "{seed}: {gap} {after:?}");
        assert!(
            after.in_flight.iter().all(|&n| n <= before.in_flight[0]),
            "{seed}"
        );
    }
}

/// All orders of a device's operations in which each kind takes micro-batches in order and at most so many are kept.
fn every_order(m: usize, kept: usize) -> Vec<Vec<usize>> {
    let mut out = Vec::new();
    let mut open = vec![(Vec::new(), [0usize; 3])];
    while let Some((order, done)) = open.pop() {
        if done == [m; 3] {
            out.push(order);
            continue;
        }
        let may = [
            done[0] < m && done[0] - done[2] < kept,
            done[1] < done[0],
            done[2] < done[1],
        ];
        for which in (0..3).filter(|&w| may[w]) {
            let (mut order, mut done): (Vec<usize>, _) = (order.clone(), done);
            order.push(which);
            done[which] += 1;
            open.push((order, done));
        }
    }
    out
}

/// The longest stay of a device, and when all has ended, if devices follow these orders; `None` if they wait for each other.
fn followed(work: &PipelineWork, orders: &[&Vec<usize>]) -> Option<(f64, f64)> {
    let devices = orders.len();
    let mut ends = vec![[const { Vec::<f64>::new() }; 3]; devices];
    let mut free = vec![0.0f64; devices];
    let mut first = vec![None; devices];
    let mut at = vec![0; devices];
    let mut moved = true;
    while std::mem::take(&mut moved) {
        for d in 0..devices {
            while let Some(&which) = orders[d].get(at[d]) {
                let batch = ends[d][which].len();
                let ready = match which {
                    0 if d == 0 => Some(0.0),
                    0 => ends[d - 1][0].get(batch).copied(),
                    1 if d + 1 == devices => ends[d][0].get(batch).copied(),
                    1 => ends[d + 1][1].get(batch).copied(),
                    _ => Some(0.0),
                };
                let Some(ready) = ready else { break };
                let begin = free[d].max(ready);
                first[d].get_or_insert(begin);
                free[d] = begin + work.stages[d][which];
                ends[d][which].push(free[d]);
                at[d] += 1;
                moved = true;
            }
        }
    }
    let done = (0..devices).all(|d| at[d] == orders[d].len());
    let stays = free.iter().zip(first).map(|(f, b)| f - b.unwrap_or(0.0));
    done.then(|| {
        let stay = stays.fold(0.0, f64::max);
        (stay, free.iter().copied().fold(0.0, f64::max))
    })
}

/// The least longest stay and the least makespan of all schedules with a split backward.
fn shortest(work: &PipelineWork, kept: &[usize]) -> (f64, f64) {
    let all: Vec<Vec<Vec<usize>>> = (kept.iter())
        .map(|&k| every_order(work.micro_batches, k))
        .collect();
    let mut at = vec![0; all.len()];
    let mut best = (f64::INFINITY, f64::INFINITY);
    loop {
        let orders: Vec<&Vec<usize>> = all.iter().zip(&at).map(|(o, &i)| &o[i]).collect();
        best = followed(work, &orders).map_or(best, |t| (best.0.min(t.0), best.1.min(t.1)));
        let Some(d) = (0..at.len()).find(|&d| at[d] + 1 < all[d].len()) else {
            return best;
        };
        at[..d].fill(0);
        at[d] += 1;
    }
}

#[test]
fn auto_against_every_schedule() {
    for seed in 0..30 {
        let mut dice = Dice::new(seed);
        let (devices, m) = [(2, 2), (2, 3), (3, 2)][dice.below(3)];
        let limit = match dice.below(3) {
            0 => vec![devices],
            1 => vec![devices + 1],
            _ => (0..devices).map(|d| devices - d).collect(),
        };
        let mut time = || 1.0 + dice.below(40) as f64 / 20.0;
        let work = PipelineWork {
            stages: (0..devices).map(|_| [time(), time(), time()]).collect(),
            devices,
            micro_batches: m,
            in_flight: Some(limit.clone()),
        };
        let each = if limit.len() == 1 {
            vec![limit[0]; devices]
        } else {
            limit
        };
        let found = made(&work, ScheduleKind::Auto);
        let within = found
            .in_flight
            .iter()
            .zip(&each)
            .all(|(n, k)| *n <= *k as f64);
        assert!(within, "{seed}: {:?} {each:?}", found.in_flight);
        let (stay, makespan) = shortest(&work, &each);
        assert!(
            found.lower_bound <= makespan * (1.0 + 1e-9),
            "{seed}: {found:?} {makespan}"
        );
        let own = |t: &[f64; 3]| t.iter().sum::<f64>() * m as f64;
        let busiest = work.stages.iter().map(own).fold(0.0, f64::max);
        let (bound, found) = (1.0 + found.bubble_bound, 1.0 + found.bubble);
        assert!(bound * busiest <= stay * (1.0 + 1e-9), "{seed}: {work:?}");
        let ratio = found * busiest / stay;
        assert!(
            (1.0 - 1e-9..1.1).contains(&ratio),
            "{seed}: {ratio} {work:?}"
        );
    }
}

#[test]
fn bad_work_is_refused() {
    let good = equal(3, 4, ScheduleKind::OneFOneB);
    let refused = |work: PipelineWork, kind: ScheduleKind, word: &str| {
        let error = schedule(&work, kind).expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    };
    refused(
        PipelineWork {
            devices: 0,
            ..good.clone()
        },
        ScheduleKind::GPipe,
        "at least one",
    );
    refused(
        PipelineWork {
            micro_batches: 0,
            ..good.clone()
        },
        ScheduleKind::GPipe,
        "at least one",
    );
    refused(good.clone(), ScheduleKind::ZbV, "2 stages each");
    refused(
        equal(3, 4, ScheduleKind::Interleaved),
        ScheduleKind::Interleaved,
        "multiple of 3",
    );
    let mut bad = good.clone();
    bad.stages[1][2] = f64::NAN;
    refused(bad, ScheduleKind::ZbH1, "NaN");
    refused(
        PipelineWork {
            micro_batches: usize::MAX,
            ..good
        },
        ScheduleKind::GPipe,
        "million",
    );
}
