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
            after.in_flight.iter().all(|&n| n <= before.in_flight[0]),
            "{seed}"
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
