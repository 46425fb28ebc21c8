//! Summaries: times that sum to the span, the critical path, gaps with their straggler, energy, memory.

mod common;

use common::{chain, lopsided, run};
use dahl_core::random::Random;
use dahl_core::trace::{NOBODY, PowerSample};
use dahl_trace::{Index, Summary, check, synthetic};

#[test]
fn each_units_times_sum_to_the_span() {
    for (tasks, units, seed) in [
        (0, 2, 1),
        (1, 1, 1),
        (900, 1, 2),
        (3000, 2, 3),
        (3000, 5, 4),
    ] {
        let trace = synthetic(tasks, units, seed);
        let s = Summary::of(&trace);
        assert_eq!(s.span_ns, s.to_ns - s.from_ns);
        for u in s.units.iter().chain([&s.all_units]) {
            let sum = u.busy_ns
                + u.transferring_ns
                + u.waiting_for_data_ns
                + u.waiting_for_work_ns
                + u.overhead_ns;
            assert_eq!(sum, u.span_ns, "{u:?}");
        }
        let busy: u64 = trace.tasks.iter().map(|t| t.end - t.start).sum();
        assert_eq!(s.all_units.busy_ns, busy);
        assert_eq!(
            s.codelets.iter().map(|c| c.time.total_ns).sum::<u64>(),
            busy
        );
        assert_eq!(s.layers.iter().map(|c| c.total_ns).sum::<u64>(), busy);
        assert_eq!(s.steps.iter().map(|c| c.busy_ns).sum::<u64>(), busy);
        assert!((0.0..=1.0).contains(&s.parallel_efficiency));
        assert!(s.critical_path.length_ns <= s.span_ns);
        serde_json::to_string(&s).expect("JSON");
    }
}

/// The pieces of a unit's time, by hand: see the table in `summary::timeline`.
#[test]
fn each_piece_has_its_name() {
    let mut trace = lopsided();
    let far = &mut trace.tasks[1];
    assert_eq!((far.unit, far.ready, far.taken), (1, 10, 20));
    let s = Summary::of(&trace);
    let (a, b) = (&s.units[0], &s.units[1]);
    assert_eq!((a.busy_ns, a.overhead_ns), (1000, 10));
    assert_eq!(
        (
            a.waiting_for_work_ns,
            a.transferring_ns,
            a.waiting_for_data_ns
        ),
        (100, 0, 0)
    );
    // Task 1: ready 10, taken 20, own copy 25 to 45, start 50, end 100. Then idle until task 0, which
    // ends at 1010, releases task 2: ready 1010, taken 1012, start 1013, end 1110.
    assert_eq!(
        (b.busy_ns, b.transferring_ns, b.waiting_for_data_ns),
        (147, 20, 11)
    );
    assert_eq!((b.waiting_for_work_ns, b.overhead_ns), (10 + 910, 10 + 2));
}

#[test]
fn the_straggler_is_named() {
    let trace = lopsided();
    let s = Summary::of(&trace);
    let gap = &s.gaps[0];
    assert_eq!(
        (gap.unit.as_str(), gap.from_ns, gap.to_ns),
        ("gpu:0", 100, 1012)
    );
    let straggler = gap.straggler.as_ref().expect("somebody to blame");
    assert_eq!((straggler.codelet.as_str(), straggler.task), ("slow", 0));
    assert_eq!(
        (straggler.unit.as_str(), straggler.duration_ns),
        ("cpu:0", 1000)
    );
    assert_eq!(gap.next.as_ref().map(|n| n.task), Some(2));
    assert_eq!(gap.released_by, gap.straggler);
    assert!(
        gap.says
            .contains("slow of deep (step 1, task 0), 1.00 µs on cpu:0"),
        "{}",
        gap.says
    );
    // The other unit ends early and waits for the last task of all.
    let end = s
        .gaps
        .iter()
        .find(|g| g.unit == "cpu:0" && g.next.is_none())
        .expect("a last gap");
    assert_eq!(end.straggler.as_ref().map(|t| t.task), Some(2));
    assert!(end.says.contains("nothing was left to do"), "{}", end.says);
    assert_eq!(s.bound.by, "critical_path");
}

/// A short task releases the next, but a long one before it filled the gap.
#[test]
fn blame_goes_back_along_the_chain() {
    let mut trace = chain(3, 2);
    trace.tasks = vec![
        run(0, 0, NOBODY, 0, [0, 0, 0, 900]),
        run(0, 1, 0, 0, [900, 900, 900, 910]),
        run(0, 2, 1, 1, [910, 910, 910, 1000]),
    ];
    check(&trace).expect("proper");
    let gap = &Summary::of(&trace).gaps[0];
    assert_eq!(gap.unit, "u1");
    assert_eq!(gap.released_by.as_ref().map(|t| t.task), Some(1));
    assert_eq!(gap.straggler.as_ref().map(|t| t.task), Some(0));
}

#[test]
fn energy_is_shared_out_by_busy_time() {
    let mut trace = chain(3, 1);
    trace.tasks = vec![
        run(0, 0, NOBODY, 0, [0, 0, 0, 500]),
        run(0, 1, 0, 0, [500, 500, 500, 1000]),
        run(0, 2, 1, 0, [1000, 1000, 1500, 3000]),
    ];
    trace.graphs[0].tasks[2].class = 1;
    trace.domains = vec!["measured (rapl: package-0)".into(), "unused".into()];
    let at = |at, watts| PowerSample {
        at,
        domain: 0,
        watts,
    };
    // Two tasks share the first microsecond; half of the next is idle, and counts for who ran in the
    // other half; in the last but one nothing but the third task runs, in the last nothing.
    trace.power = vec![
        at(1000, 10.0),
        at(2000, 20.0),
        at(3000, 30.0),
        at(4000, 40.0),
    ];
    let s = Summary::of(&trace);
    assert_eq!(s.energy.len(), 1);
    let e = &s.energy[0];
    assert_eq!(e.source, "measured (rapl: package-0)");
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    near(e.joules, 100e-6);
    near(e.idle_joules, 40e-6);
    near(e.watts, 25.0);
    let of = |name: &str| {
        e.codelets
            .iter()
            .find(|c| c.name == name)
            .map_or(0.0, |c| c.joules)
    };
    near(of("a/plain"), 10e-6);
    near(of("b/plain"), 50e-6);
}

#[test]
fn energy_of_a_long_run_adds_up() {
    let trace = synthetic(20_000, 4, 7);
    let e = &Summary::of(&trace).energy[0];
    let sum: f64 = e.codelets.iter().map(|c| c.joules).sum();
    assert!((sum + e.idle_joules - e.joules).abs() < 1e-9 * e.joules);
    let layers: f64 = e.layers.iter().map(|c| c.joules).sum();
    assert!((sum - layers).abs() < 1e-9 * e.joules);
}

#[test]
fn temporaries_live_from_first_use_to_last() {
    let mut trace = chain(3, 1);
    // Task i touches storages i and i + 1, of 100, 200, 300 and 400 bytes; the first is not temporary.
    trace.tasks = vec![
        run(0, 0, NOBODY, 0, [0, 0, 0, 10]),
        run(0, 1, 0, 0, [10, 10, 20, 30]),
        run(0, 2, 1, 0, [30, 30, 30, 40]),
    ];
    let curve = dahl_trace::summary::memory::host_curve(&trace, &Index::of(&trace), 0);
    assert_eq!(curve, [(0, 200), (20, 500), (30, 700), (40, 0)]);
    let peak = &Summary::of(&trace).memory[0];
    assert_eq!(
        (peak.peak_bytes, peak.at_ns, peak.what),
        (700, 30, "temporaries")
    );
}

/// Runs twice as long on one unit, everything else equal: the report says so.
#[test]
fn variation_names_what_it_goes_along_with() {
    let mut trace = chain(1, 2);
    trace.launches = vec![trace.launches[0]; 100];
    let random = Random::new(4, 2);
    trace.tasks.clear();
    let mut now = 0;
    for launch in 0..100 {
        let unit = (random.bits(launch) % 2) as u16;
        let length = 1000 * (1 + u64::from(unit)) + random.below(1000 + launch, 50);
        trace.tasks.push(run(
            launch as u32,
            0,
            NOBODY,
            unit,
            [now, now, now, now + length],
        ));
        now += length;
    }
    check(&trace).expect("proper");
    let s = Summary::of(&trace);
    let v = &s.variation[0];
    assert_eq!((v.codelet.as_str(), v.factors[0].factor), ("a", "unit"));
    assert!(v.factors[0].explains > 0.95);
    assert!(
        v.says.contains("on u1") && v.says.contains("on u0"),
        "{}",
        v.says
    );
    // Noise alone goes along with nothing.
    for (i, t) in trace.tasks.iter_mut().enumerate() {
        let length = 500 + random.below(5000 + i as u64, 1000);
        (t.ready, t.taken, t.start, t.end) = (
            i as u64 * 4000,
            i as u64 * 4000,
            i as u64 * 4000,
            i as u64 * 4000 + length,
        );
    }
    let v = &Summary::of(&trace).variation[0];
    assert!(v.factors.is_empty(), "{:?}", v.factors);
    assert!(v.says.contains("nothing in the trace"));
}

#[test]
fn lost_events_do_not_stretch_the_span() {
    let mut trace = synthetic(4000, 3, 2);
    trace.tasks.drain(..2000);
    trace.dropped = 2000;
    let from = trace.tasks.iter().map(|t| t.taken).min().expect("tasks");
    trace.transfers.retain(|t| t.start >= from);
    let s = Summary::of(&trace);
    assert_eq!((s.from_ns, s.dropped), (from, 2000));
    assert!(s.parallel_efficiency > 0.3);
}
