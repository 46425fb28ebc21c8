//! Histories, laws and estimates, on made-up durations.

use dahl_core::{Cost, DType, Seconds, Shape};
use proptest::prelude::*;

use super::history::{PATIENCE, SETTLED, WINDOW};
use super::regression::fit;
use super::*;

fn key(footprint: u64) -> Key {
    Key {
        codelet: "gemm".into(),
        implementation: "simd".into(),
        unit: "cpu".into(),
        dtype: DType::F32,
        footprint,
        shapes: vec![Shape::new(&[3, footprint as usize % 100 + 1]).unwrap()],
    }
}

fn cost(flops: f64, bytes: f64) -> Cost {
    Cost { flops, bytes }
}

/// Numbers in 0..1 without pattern, the same in every run.
fn noise(seed: u64) -> impl FnMut() -> f64 {
    let mut x = seed.wrapping_mul(2).wrapping_add(1);
    move || {
        x = x
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (x >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn near(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs()
}

fn feed(h: &mut History, xs: &[f64]) {
    for &x in xs {
        h.record(x);
    }
}

#[test]
fn summary_is_that_of_the_samples() {
    let mut h = History::default();
    assert!(h.summary().is_none());
    for x in [5.0, 4.0, 6.0, 4.5, 5.5] {
        assert_eq!(h.record(x), Verdict::Accepted);
    }
    let s = h.summary().unwrap();
    assert_eq!((s.count, s.median, s.min, s.rejected), (5, 5.0, 4.0, 0));
    assert!(near(s.mean, 5.0, 1e-12));
    assert!(near(s.std, (2.5f64 / 4.0).sqrt(), 1e-12), "{}", s.std);
    assert!(near(s.sigma, 1.4826 * 0.5, 1e-12), "{}", s.sigma);
}

#[test]
fn what_is_no_duration_is_refused() {
    let mut h = History::default();
    for x in [
        0.0,
        -1.0,
        f64::NAN,
        f64::INFINITY,
        -f64::INFINITY,
        1e300,
        1e-300,
    ] {
        assert_eq!(h.record(x), Verdict::Refused, "{x}");
    }
    assert_eq!(h, History::default());
}

#[test]
fn outliers_stay_out_and_leave_no_mark() {
    let mut h = History::default();
    let mut u = noise(1);
    for i in 0..500 {
        let x = 1e-3 * (1.0 + 0.05 * (u() - 0.5));
        if i % 7 == 3 {
            let verdict = h.record(x * (3.0 + 50.0 * u()));
            assert!(
                i < SETTLED || verdict == Verdict::Suspect,
                "{i} {verdict:?}"
            );
        } else {
            h.record(x);
        }
    }
    let s = h.summary().unwrap();
    assert!(
        near(s.mean, 1e-3, 0.01) && near(s.median, 1e-3, 0.02),
        "{s:?}"
    );
    assert_eq!(s.restarts, 0);
    assert_eq!(s.count + s.rejected, 500);
    // One in seven, also those that came before outliers could be judged.
    assert_eq!(s.rejected, (0..500).filter(|i| i % 7 == 3).count() as u64);
}

#[test]
fn an_outlier_among_the_first_is_found_later() {
    let mut h = History::default();
    for x in [90.0, 1.0, 1.01, 0.99, 1.0, 1.02, 0.98] {
        h.record(x);
    }
    assert!(h.summary().unwrap().mean > 10.0);
    h.record(1.0);
    let s = h.summary().unwrap();
    assert_eq!((s.count, s.rejected), (7, 1));
    assert!(near(s.mean, 1.0, 0.01));
}

#[test]
fn a_shifted_level_is_followed_up_and_down() {
    let mut h = History::default();
    for (shift, level) in [1.0, 2.5, 0.4].into_iter().enumerate() {
        let mut u = noise(2);
        for _ in 0..100 {
            h.record(level * (1.0 + 0.02 * u()));
        }
        let s = h.summary().unwrap();
        assert!(
            near(s.median, level, 0.03) && near(s.mean, level, 0.03),
            "{s:?}"
        );
        assert_eq!((s.restarts, s.rejected, s.count), (shift as u64, 0, 100));
    }
}

#[test]
fn shift_takes_patience_and_no_more() {
    let mut h = History::default();
    for _ in 0..50 {
        h.record(1.0);
    }
    for _ in 1..PATIENCE {
        assert_eq!(h.record(4.0), Verdict::Suspect);
    }
    assert_eq!(h.median(), 1.0);
    assert_eq!(h.record(4.0), Verdict::Restarted);
    assert_eq!((h.median(), h.count()), (4.0, PATIENCE as u64));
}

#[test]
fn slow_drift_is_no_outlier() {
    let mut h = History::default();
    for i in 0..1000 {
        let verdict = h.record(1.0 + 1e-3 * f64::from(i));
        assert_eq!(verdict, Verdict::Accepted, "{i}");
    }
    assert!(near(h.median(), 2.0, 0.03));
}

#[test]
fn merging_adds_counts_and_pools_figures() {
    let mut u = noise(3);
    let xs: Vec<f64> = (0..400).map(|_| 1.0 + 0.05 * u()).collect();
    for cut in [0, 3, 7, 8, 30, 64, 65, 200, 399, 400] {
        let [mut a, mut b, mut all] = [(); 3].map(|()| History::default());
        feed(&mut a, &xs[..cut]);
        feed(&mut b, &xs[cut..]);
        feed(&mut all, &xs);
        a.merge(&b);
        let (s, t) = (a.summary().unwrap(), all.summary().unwrap());
        assert_eq!(
            (s.count, s.min, s.rejected),
            (t.count, t.min, t.rejected),
            "cut {cut}"
        );
        assert!(
            near(s.mean, t.mean, 1e-9) && near(s.std, t.std, 1e-6),
            "cut {cut}: {s:?} {t:?}"
        );
        assert_eq!(a.samples().count(), WINDOW);
    }
}

#[test]
fn merging_another_level_takes_the_newer() {
    for n in [20, 300] {
        let [mut old, mut new] = [(); 2].map(|()| History::default());
        feed(&mut old, &[1.0; 300]);
        feed(&mut new, &vec![3.0; n]);
        old.merge(&new);
        assert_eq!((old.median(), old.count()), (3.0, n as u64));
        assert_eq!(old.summary().unwrap().restarts, 1);
    }
}

#[test]
fn stored_histories_are_checked() {
    let good = r#"{"count":2,"mean":1.5,"m2":0.5,"min":1.0,"rejected":0,"restarts":0,
        "window":[1.0,2.0],"suspects":[]}"#;
    let h: History = serde_json::from_str(good).unwrap();
    assert_eq!(h.median(), 1.5);
    for (from, to) in [
        ("\"count\":2", "\"count\":1"),
        ("\"count\":2", "\"count\":9"),
        ("\"count\":2", "\"count\":-2"),
        ("\"count\":2", "\"count\":0"),
        ("[1.0,2.0]", "[1.0,-2.0]"),
        ("[1.0,2.0]", "[]"),
        ("\"m2\":0.5", "\"m2\":-0.5"),
        ("\"mean\":1.5", "\"mean\":0.0"),
        ("\"min\":1.0", "\"min\":null"),
        ("\"suspects\":[]", "\"suspects\":[1.0]"),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        assert!(
            serde_json::from_str::<History>(&bad).is_err(),
            "{to} passed"
        );
    }
}

fn additive_points(a: f64, b: f64, c: f64) -> Vec<Point> {
    let mut points = Vec::new();
    for m in [8.0f64, 32.0, 100.0, 256.0, 1000.0] {
        for n in [4.0f64, 50.0, 300.0] {
            let cost = cost(2.0 * m * n * 64.0, 4.0 * (m * n + 64.0 * (m + n)));
            let seconds = a + b * cost.flops + c * cost.bytes;
            points.push(Point {
                cost,
                seconds,
                weight: 1.0,
            });
        }
    }
    points
}

#[test]
fn regression_recovers_known_coefficients() {
    for (a, b, c) in [
        (5e-6, 2e-11, 1e-10),
        (0.0, 2e-11, 1e-10),
        (5e-6, 0.0, 1e-10),
        (5e-6, 2e-11, 0.0),
    ] {
        let points = additive_points(a, b, c);
        let fit = fit(&points).unwrap();
        let Law::Additive {
            overhead,
            per_flop,
            per_byte,
        } = fit.law
        else {
            panic!("{:?} for an additive law", fit.law);
        };
        for (found, wanted) in [(overhead, a), (per_flop, b), (per_byte, c)] {
            assert!(
                (found - wanted).abs() <= 1e-6 * wanted.max(1e-14),
                "{:?}",
                fit.law
            );
        }
        assert!(fit.r2 > 0.999_999 && fit.points == points.len());
    }
}

#[test]
fn coefficients_never_go_below_zero() {
    // Small shapes cheaper than any proportional law allows: the best overhead is negative.
    let points: Vec<Point> = (1..12)
        .map(|i| {
            let flops = 1e6 * f64::from(i);
            Point {
                cost: cost(flops, 0.0),
                seconds: 1e-10 * flops - 5e-5,
                weight: 1.0,
            }
        })
        .collect();
    let Some(Law::Additive {
        overhead,
        per_flop,
        per_byte,
    }) = regression::fit_additive(&points)
    else {
        panic!("no fit");
    };
    assert_eq!((overhead, per_byte), (0.0, 0.0));
    assert!(per_flop > 0.0);
}

#[test]
fn a_power_law_is_recognised() {
    let points: Vec<Point> = (0..10)
        .map(|i| {
            let flops = 10f64.powf(4.0 + 0.5 * f64::from(i));
            Point {
                cost: cost(flops, flops),
                seconds: 1e-8 * flops.powf(0.6),
                weight: 1.0,
            }
        })
        .collect();
    let fit = fit(&points).unwrap();
    let Law::Power {
        work: Work::Flops,
        ln_scale,
        exponent,
    } = fit.law
    else {
        panic!("{:?} for a power law", fit.law);
    };
    assert!(near(exponent, 0.6, 1e-9) && near(ln_scale, 1e-8f64.ln(), 1e-9));
    let t = fit.law.predict(cost(1e7, 1e7)).unwrap();
    assert!(near(t, 1e-8 * 1e7f64.powf(0.6), 1e-9));
}

#[test]
fn estimates_say_where_they_come_from() {
    let mut m = PerfModel::new();
    let c = |i: u64| cost(1e6 * i as f64, 1e4 * (i * i) as f64);
    let t = |i: u64| Seconds(1e-5 + 1e-10 * c(i).flops + 1e-10 * c(i).bytes);
    assert_eq!(m.estimate(&key(9), c(9)), None);

    m.record(&key(1), c(1), t(1));
    m.record(&key(4), c(4), t(4));
    let e = m.estimate(&key(9), c(9)).unwrap();
    assert_eq!(e.source, Source::Scaled);
    // Nearest is 4: flops × 9/4, bytes × 81/16.
    assert!(near(
        e.seconds.0,
        t(4).0 * (9.0f64 / 4.0 * 81.0 / 16.0).sqrt(),
        1e-12
    ));

    m.record(&key(6), c(6), t(6));
    let e = m.estimate(&key(9), c(9)).unwrap();
    assert!(
        matches!(e.source, Source::Regression { points: 3, r2 } if r2 > 0.999),
        "{e:?}"
    );
    assert!(near(e.seconds.0, t(9).0, 1e-6));

    m.record(&key(9), c(9), Seconds(0.5));
    let e = m.estimate(&key(9), c(9)).unwrap();
    assert_eq!(
        e,
        Estimate {
            seconds: Seconds(0.5),
            source: Source::Measured { count: 1 }
        }
    );
    // Another implementation or unit learns nothing from it.
    let other = Key {
        implementation: "naive".into(),
        ..key(9)
    };
    assert_eq!(m.estimate(&other, c(9)), None);
}

#[test]
fn three_shapes_of_one_cost_are_no_regression() {
    let mut m = PerfModel::new();
    for i in 0..5 {
        m.record(&key(i), cost(100.0, 100.0), Seconds(1.0));
    }
    let e = m.estimate(&key(7), cost(200.0, 200.0)).unwrap();
    assert_eq!(e.source, Source::Scaled);
    assert!(near(e.seconds.0, 2.0, 1e-12));
}

#[test]
fn cold_samples_do_not_enter() {
    let mut m = PerfModel::new().with_cold(2);
    let c = cost(1.0, 1.0);
    assert_eq!(m.record(&key(1), c, Seconds(9.0)), Verdict::Cold);
    assert_eq!(m.record(&key(1), c, Seconds(9.0)), Verdict::Cold);
    assert!(m.is_empty() && m.estimate(&key(1), c).is_none());
    assert_eq!(m.record(&key(1), c, Seconds(1.0)), Verdict::Accepted);
    assert_eq!(m.record(&key(2), c, Seconds(9.0)), Verdict::Cold);
    assert_eq!(m.estimate(&key(1), c).unwrap().seconds, Seconds(1.0));
    assert_eq!(m.iter().count(), 1);
}

#[test]
fn odd_costs_break_nothing() {
    let mut m = PerfModel::new();
    let odd = [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-300, 1e300];
    for (i, &f) in odd.iter().enumerate() {
        for (j, &b) in odd.iter().enumerate() {
            m.record(&key((6 * i + j) as u64), cost(f, b), Seconds(1e-3));
            for &g in &odd {
                let e = m.estimate(&key(1000), cost(g, f)).unwrap();
                assert!(e.seconds.0 >= 0.0 && e.seconds.0.is_finite(), "{e:?}");
            }
        }
    }
    assert!(PerfModel::from_records(m.records()).unwrap() == m);
}

#[test]
fn a_snapshot_with_a_key_twice_is_refused() {
    let mut m = PerfModel::new();
    m.record(&key(1), cost(1.0, 1.0), Seconds(1.0));
    let one = m.records();
    let twice: Vec<Record> = [one.clone(), one.clone()].concat();
    assert!(
        PerfModel::from_records(twice)
            .unwrap_err()
            .contains("twice")
    );
    let bad = Record {
        cost: cost(-1.0, 0.0),
        ..one[0].clone()
    };
    assert!(
        PerfModel::from_records(vec![bad])
            .unwrap_err()
            .contains("cost")
    );
}

/// A model of random records.
fn build(records: &[(u64, f64)]) -> PerfModel {
    let mut m = PerfModel::new();
    for &(k, t) in records {
        m.record(
            &key(k),
            cost(1e3 * (k + 1) as f64, 10.0 * (k * k) as f64),
            Seconds(t),
        );
    }
    m
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_history_stays_in_bounds(xs in prop::collection::vec(1e-9..1e3f64, 1..300)) {
        let mut h = History::default();
        for &x in &xs {
            h.record(x);
        }
        let s = h.summary().unwrap();
        let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = xs.iter().copied().fold(0.0, f64::max);
        prop_assert!(least <= s.min && s.min <= s.median && s.median <= most);
        prop_assert!(s.min <= s.mean * (1.0 + 1e-12) && s.mean <= most * (1.0 + 1e-12));
        prop_assert!(h.samples().count() <= WINDOW && s.count + s.rejected <= xs.len() as u64);
        prop_assert!(s.restarts > 0 || s.count + s.rejected == xs.len() as u64);
        let text = serde_json::to_string(&h).unwrap();
        prop_assert_eq!(serde_json::from_str::<History>(&text).unwrap(), h);
    }

    #[test]
    fn scaling_time_scales_the_history(xs in prop::collection::vec(0.5..8.0f64, 1..200)) {
        // By a power of two, which is exact: the same verdicts, every figure twice as large.
        let (mut one, mut two) = (History::default(), History::default());
        for &x in &xs {
            prop_assert_eq!(one.record(x), two.record(2.0 * x));
        }
        let (s, t) = (one.summary().unwrap(), two.summary().unwrap());
        prop_assert_eq!((2.0 * s.mean, 2.0 * s.median, 2.0 * s.sigma), (t.mean, t.median, t.sigma));
    }

    #[test]
    fn models_survive_snapshots_and_merges(
        a in prop::collection::vec((0..6u64, 1e-6..1e-2f64), 0..150),
        b in prop::collection::vec((0..6u64, 1e-6..1e-2f64), 0..150),
    ) {
        let (a, b) = (build(&a), build(&b));
        let copy = PerfModel::from_records(a.records()).unwrap();
        prop_assert!(copy == a);
        let (mut ab, mut again) = (a.clone(), copy);
        ab.merge(&b);
        again.merge(&b);
        prop_assert!(ab == again, "merging is not deterministic");
        let keys: Vec<Key> = ab.iter().map(|(k, _, _)| k).collect();
        prop_assert!(keys.is_sorted());
        let mut empty = PerfModel::new();
        empty.merge(&PerfModel::new());
        prop_assert!(empty.is_empty());
        let c = cost(5e3, 700.0);
        prop_assert_eq!(ab.estimate(&key(50), c), again.estimate(&key(50), c));
        prop_assert_eq!(ab.estimate(&key(50), c).is_some(), !keys.is_empty());
    }

    #[test]
    fn nothing_non_negative_beats_the_additive_fit(
        raw in prop::collection::vec((1e3..1e9f64, 1e3..1e8f64, 1e-6..1e-1f64), 3..12),
        tries in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64), 20),
    ) {
        let points: Vec<Point> = raw
            .iter()
            .map(|&(f, b, t)| Point { cost: cost(f, b), seconds: t, weight: 1.0 })
            .collect();
        let error = |law: &Law| -> f64 {
            points.iter().map(|p| (law.predict(p.cost).unwrap_or(0.0) / p.seconds - 1.0).powi(2)).sum()
        };
        let best = regression::fit_additive(&points).unwrap();
        let Law::Additive { overhead, per_flop, per_byte } = best else { unreachable!() };
        prop_assert!(overhead >= 0.0 && per_flop >= 0.0 && per_byte >= 0.0);
        for &(u, v, w) in &tries {
            let other = Law::Additive {
                overhead: overhead + (u - 0.5) * 1e-6,
                per_flop: per_flop * 2.0 * v + v * 1e-14,
                per_byte: per_byte * 2.0 * w + w * 1e-13,
            };
            let Law::Additive { overhead: o, .. } = other else { unreachable!() };
            prop_assert!(o < 0.0 || error(&best) <= error(&other) * (1.0 + 1e-5));
        }
    }
}
