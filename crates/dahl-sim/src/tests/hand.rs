//! Tiny graphs, computed by hand.

use dahl_core::{Mode, Rated};

use dahl_sched::policy::{Fixed, ScheduleError};

use super::super::{Interruptions, Noise, SimError};
use super::*;

#[test]
fn a_chain_takes_the_sum_and_a_fork_the_longest_way() {
    let arena = Arena::new();
    let (a, b, c) = (
        array(&arena, "a", 4),
        array(&arena, "b", 4),
        array(&arena, "c", 4),
    );
    let r = Recorder::new();
    task(&r, 1, &[a.with(Mode::Write)]);
    task(&r, 5, &[a.with(Mode::Read), b.with(Mode::Write)]);
    task(&r, 2, &[a.with(Mode::Read), c.with(Mode::Write)]);
    task(&r, 3, &[b.with(Mode::Read), c.with(Mode::ReadWrite)]);
    let graph = r.finish().unwrap();
    for policy in ["eager", "ws", "dm", "dmda", "dmdas"] {
        assert_eq!(
            run(&graph, &Machine::cpus(1), policy, 1).makespan,
            Seconds(11.0)
        );
        for cores in [2, 3, 64] {
            let prediction = run(&graph, &Machine::cpus(cores), policy, 1);
            assert_eq!(prediction.makespan, Seconds(9.0), "{policy} on {cores}");
            let busy: f64 = prediction.units.iter().map(|u| u.busy.0).sum();
            assert_eq!(busy, 11.0);
        }
    }
}

#[test]
fn dm_uses_the_fast_unit_for_what_is_long() {
    let arena = Arena::new();
    let r = Recorder::new();
    let arrays: Vec<Handle> = (0..3).map(|_| array(&arena, "x", 4)).collect();
    for (x, seconds) in arrays.iter().zip([8, 4, 4]) {
        task(&r, seconds, &[x.with(Mode::Write)]);
    }
    let graph = r.finish().unwrap();
    let mut machine = Machine::cpus(2);
    machine.units[1].rated = Some(Rated {
        flops: 4.0,
        flops_f64: 4.0,
        bandwidth: 1.0,
    });
    // The first two on the fast unit (2 s, 1 s); the third would end at 4 s on either.
    let prediction = run(&graph, &machine, "dm", 1);
    assert_eq!(
        when(&prediction),
        [(1, 0.0, 2.0), (1, 2.0, 3.0), (0, 0.0, 4.0)]
    );
    // The unit that comes first takes the long one: 8 s on the slow unit.
    assert_eq!(run(&graph, &machine, "eager", 1).makespan, Seconds(8.0));
}

#[test]
fn overhead_is_paid_per_task() {
    let arena = Arena::new();
    let a = array(&arena, "a", 4);
    let r = Recorder::new();
    (0..4).for_each(|_| {
        task(&r, 1, &[a.with(Mode::ReadWrite)]);
    });
    let graph = r.finish().unwrap();
    let mut machine = Machine::cpus(2);
    machine
        .units
        .iter_mut()
        .for_each(|u| u.overhead = Seconds(0.5));
    assert_eq!(run(&graph, &machine, "ws", 1).makespan, Seconds(6.0));
    // The first one finds a unit without work, which takes longer to notice it.
    machine
        .units
        .iter_mut()
        .for_each(|u| u.wake_latency = Seconds(2.0));
    let late = run(&graph, &machine, "ws", 1);
    assert_eq!(late.makespan, Seconds(7.5));
    let busy: f64 = late.units.iter().map(|u| u.busy.0).sum();
    assert_eq!(busy, 6.0, "noticing is no work");
}

#[test]
fn launches_follow_each_other_task_by_task() {
    // Two stages over weights w and v: the next launch's first stage needs w only.
    let arena = Arena::new();
    let (w, v) = (array(&arena, "w", 4), array(&arena, "v", 4));
    let r = Recorder::new();
    task(&r, 2, &[w.with(Mode::ReadWrite)]);
    task(&r, 2, &[w.with(Mode::Read), v.with(Mode::ReadWrite)]);
    let graph = r.finish().unwrap();
    // w of launch 2 must wait until launch 1's second task has read it: no overlap at all.
    assert_eq!(
        run(&graph, &Machine::cpus(2), "ws", 3).makespan,
        Seconds(12.0)
    );

    let t = array(&arena, "t", 4);
    let r = Recorder::new();
    task(&r, 2, &[w.with(Mode::ReadWrite)]);
    task(&r, 2, &[v.with(Mode::ReadWrite)]);
    task(&r, 1, &[v.with(Mode::Read), t.with(Mode::Write)]);
    let graph = r.finish().unwrap();
    // Per launch 5 s of work; v's chain is 2 + 1 per launch, as v waits for its reader.
    let prediction = run(&graph, &Machine::cpus(2), "dm", 4);
    assert_eq!(prediction.tasks(), 12);
    assert_eq!(prediction.makespan, Seconds(12.0));
    // With one launch in flight there is a barrier after each: 3 s a launch, and units wait.
    let options = Options {
        steps: 4,
        in_flight: 1,
        ..Options::default()
    };
    let machine = Machine::cpus(1);
    let policy = by_name("ws", &machine).unwrap();
    let table = times(&graph, &machine);
    let alone = simulate(&graph, &machine, &table, &*policy, &options).unwrap();
    assert_eq!(alone.makespan, Seconds(20.0));
    let starts: Vec<f64> = alone.launches.iter().map(|l| l.0.0).collect();
    assert_eq!(starts, [0.0, 5.0, 10.0, 15.0]);
}

#[test]
fn a_launcher_that_works_launches_between_its_tasks() {
    let arena = Arena::new();
    let (a, b) = (array(&arena, "a", 4), array(&arena, "b", 4));
    let r = Recorder::new();
    task(&r, 5, &[a.with(Mode::ReadWrite)]);
    task(&r, 1, &[b.with(Mode::ReadWrite)]);
    let graph = r.finish().unwrap();
    let machine = Machine::cpus(2);
    let options = |launcher| Options {
        steps: 3,
        in_flight: 2,
        launcher,
        record: true,
        ..Options::default()
    };
    let go = |launcher| run_with(&graph, &machine, "eager", &options(launcher));
    let starts = |o: &Prediction| o.launches.iter().map(|l| l.0.0).collect::<Vec<_>>();
    assert_eq!(starts(&go(None)), [0.0, 0.0, 5.0]);
    let prediction = go(Some(FIRST));
    assert_eq!(prediction.tasks(), 6);
    assert_eq!(prediction.makespan, Seconds(15.0));
    assert_eq!(starts(&prediction)[..2], [0.0, 0.0]);
    // The third waits for the first to end, at 5 s, and for the launching unit to be free.
    assert!(starts(&prediction)[2] >= 5.0);
}

#[test]
fn a_launcher_that_was_woken_in_vain_still_launches() {
    // Whatever happens at the same moment, the next launch begins when the last has ended.
    let arena = Arena::new();
    let arrays: Vec<Handle> = (0..3).map(|_| array(&arena, "x", 4)).collect();
    let r = Recorder::new();
    for x in &arrays {
        task(&r, 1, &[x.with(Mode::ReadWrite)]);
        task(&r, 1, &[x.with(Mode::ReadWrite)]);
    }
    let graph = r.finish().unwrap();
    for cores in 1..5 {
        for policy in ["eager", "ws", "dm"] {
            let machine = Machine::cpus(cores);
            let policy = by_name(policy, &machine).unwrap();
            let options = Options {
                steps: 7,
                in_flight: 1,
                launcher: Some(FIRST),
                ..Options::default()
            };
            let table = times(&graph, &machine);
            let prediction = simulate(&graph, &machine, &table, &*policy, &options).unwrap();
            assert_eq!(prediction.tasks(), 42);
        }
    }
}

#[test]
fn a_schedule_is_followed_exactly() {
    let arena = Arena::new();
    let arrays: Vec<Handle> = (0..4).map(|_| array(&arena, "x", 4)).collect();
    let r = Recorder::new();
    for x in &arrays {
        task(&r, 1, &[x.with(Mode::ReadWrite)]);
    }
    let graph = r.finish().unwrap();
    let machine = Machine::cpus(3);
    let table = times(&graph, &machine);
    let options = Options {
        steps: 2,
        record: true,
        ..Options::default()
    };
    let fixed = Fixed::new(4, vec![vec![3, 0, 2], vec![], vec![1]]).unwrap();
    let prediction = simulate(&graph, &machine, &table, &fixed, &options).unwrap();
    let on = |unit: u16| -> Vec<(usize, u32)> {
        let of = prediction.runs.iter().filter(|r| r.unit == unit);
        of.map(|r| (r.task.launch, r.task.task)).collect()
    };
    assert_eq!(on(0), [(0, 3), (0, 0), (0, 2), (1, 3), (1, 0), (1, 2)]);
    assert_eq!(on(2), [(0, 1), (1, 1)]);
    assert_eq!(prediction.makespan, Seconds(6.0));
    assert_eq!(
        Fixed::new(2, vec![vec![0]]).unwrap_err(),
        ScheduleError::Missing(1)
    );
    assert_eq!(
        Fixed::new(2, vec![vec![0, 0]]).unwrap_err(),
        ScheduleError::Twice(0)
    );
    assert_eq!(
        Fixed::new(1, vec![vec![7]]).unwrap_err().to_string(),
        "the schedule names task 7, the graph has 1"
    );
}

#[test]
fn a_schedule_against_the_dependencies_is_an_error() {
    let arena = Arena::new();
    let a = array(&arena, "a", 4);
    let r = Recorder::new();
    task(&r, 1, &[a.with(Mode::Write)]);
    task(&r, 1, &[a.with(Mode::ReadWrite)]);
    let graph = r.finish().unwrap();
    let machine = Machine::cpus(1);
    let fixed = Fixed::new(2, vec![vec![1, 0]]).unwrap();
    let table = times(&graph, &machine);
    let error = simulate(&graph, &machine, &table, &fixed, &Options::default()).unwrap_err();
    assert!(
        error.to_string().starts_with("stuck: task 0, any(a"),
        "{error}"
    );
}

#[test]
fn noise_is_seeded_and_does_not_depend_on_who_runs_what() {
    let arena = Arena::new();
    let arrays: Vec<Handle> = (0..500).map(|_| array(&arena, "x", 4)).collect();
    let r = Recorder::new();
    for x in &arrays {
        task(&r, 1, &[x.with(Mode::ReadWrite)]);
    }
    let graph = r.finish().unwrap();
    let go = |cores: usize, noise: Option<Noise>, policy: &str| {
        let machine = Machine::cpus(cores);
        let options = Options {
            noise,
            ..Options::default()
        };
        run_with(&graph, &machine, policy, &options)
    };
    let noise = |seed| {
        Some(Noise {
            seed,
            sigma: 0.1,
            unit_sigma: 0.0,
            interruptions: Interruptions::default(),
        })
    };
    let busy = |o: &Prediction| o.units.iter().map(|u| u.busy.0).sum::<f64>();
    let (one, two) = (go(1, noise(1), "ws"), go(4, noise(1), "dm"));
    assert!((busy(&one) - busy(&two)).abs() < 1e-9);
    assert_ne!(busy(&one), busy(&go(1, noise(2), "ws")));
    assert!((busy(&one) / 500.0 - 1.0).abs() < 0.02, "{}", busy(&one));
    assert_eq!(go(4, noise(7), "ws"), go(4, noise(7), "ws"));
    assert_eq!(busy(&go(3, None, "ws")), 500.0);
}

#[test]
fn what_cannot_be_simulated_is_named() {
    let arena = Arena::new();
    let a = array(&arena, "a", 4);
    let r = Recorder::new();
    r.submit(Task::new(&HOST, &[a.with(Mode::Write)]).params(&[Param::Int(1)]));
    let graph = r.finish().unwrap();
    let machine = device_only(100);
    let table = times(&graph, &machine);
    let policy = by_name("ws", &machine).unwrap();
    let go = |options: &Options| simulate(&graph, &machine, &table, &*policy, options).unwrap_err();
    let error = go(&Options::default()).to_string();
    assert_eq!(
        error,
        "no unit of the machine can run task 0, host(a[0..1])"
    );
    let none = Options {
        in_flight: 0,
        ..Options::default()
    };
    assert_eq!(
        go(&none),
        SimError::Option("no launch in flight: use 1 or more".into())
    );
    let cpus = Machine::cpus(3);
    let error = simulate(&graph, &cpus, &table, &*policy, &Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the durations are for 1 units, the machine has 3"
    );
    let error = Times::estimate(&graph, &cpus, None, true).unwrap_err();
    assert!(
        error.to_string().contains("add flops and bandwidth"),
        "{error}"
    );
    let error = Times::from_fn(&graph, &cpus, |_, _| Some(Seconds(-1.0))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "host on unit \"cpu:0\" would take -1 seconds"
    );
}

#[test]
fn an_empty_graph_takes_no_time() {
    let graph = Recorder::new().finish().unwrap();
    for policy in ["eager", "ws", "dmda"] {
        let prediction = run(&graph, &with_device(10), policy, 3);
        assert_eq!((prediction.makespan, prediction.tasks()), (Seconds(0.0), 0));
        assert_eq!(prediction.launches.len(), 3);
    }
}
