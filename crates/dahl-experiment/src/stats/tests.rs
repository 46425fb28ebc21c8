use super::*;

/// Values of `fixtures/bootstrap.json`, which `scripts/bootstrap-fixtures` makes with SciPy.
#[derive(serde::Deserialize)]
struct Fixture {
    values: Vec<f64>,
    median: f64,
    low: f64,
    high: f64,
    /// How far SciPy's own ends move between its seeds.
    spread: f64,
}

#[derive(serde::Deserialize)]
struct Fixtures {
    scipy: String,
    estimates: Vec<Fixture>,
    ratios: Vec<Fixture>,
    quantiles: Vec<(Vec<f64>, f64, f64)>,
}

fn fixtures() -> Fixtures {
    serde_json::from_str(include_str!("../../fixtures/bootstrap.json")).expect("fixtures")
}

#[test]
fn intervals_are_those_of_scipy() {
    let all = fixtures();
    assert!(!all.scipy.is_empty() && all.estimates.len() >= 6);
    for (i, f) in all.estimates.iter().enumerate() {
        let e = estimate(&f.values, 1).expect("an estimate");
        assert_eq!(e.median, f.median, "case {i}");
        // Both are random: our 2000 resamples may differ from SciPy's by as much as its seeds do among each other.
        let near = |ours: f64, theirs: f64| (ours - theirs).abs() <= f.spread + 1e-12;
        assert!(
            near(e.low, f.low) && near(e.high, f.high),
            "case {i}: {e:?} beside {} {}",
            f.low,
            f.high
        );
    }
}

#[test]
fn unpaired_ratios_are_those_of_scipy() {
    for (i, f) in fixtures().ratios.iter().enumerate() {
        let (above, below) = f.values.split_at(f.values.len() / 2);
        let e = unpaired_ratio(above, below, 1).expect("a ratio");
        assert!((e.median - f.median).abs() < 1e-12, "case {i}");
        let near = |ours: f64, theirs: f64| (ours - theirs).abs() <= f.spread + 1e-12;
        assert!(
            near(e.low, f.low) && near(e.high, f.high),
            "case {i}: {e:?} beside {} {}",
            f.low,
            f.high
        );
    }
}

#[test]
fn quantiles_are_numpys() {
    for (values, q, expected) in fixtures().quantiles {
        let mut sorted = values;
        sorted.sort_by(f64::total_cmp);
        let found = quantile(&sorted, q).expect("a quantile");
        assert!(
            (found - expected).abs() <= 1e-12 * expected.abs().max(1.0),
            "{sorted:?} {q}"
        );
    }
}

#[test]
fn few_values_give_their_range_and_nothing_gives_nothing() {
    assert_eq!(estimate(&[], 1), None);
    let one = estimate(&[2.0], 1).expect("one");
    assert_eq!(
        (one.median, one.low, one.high, one.width()),
        (2.0, 2.0, 2.0, f64::INFINITY)
    );
    let three = estimate(&[3.0, 1.0, 2.0], 1).expect("three");
    assert_eq!(
        (three.median, three.low, three.high, three.is_few()),
        (2.0, 1.0, 3.0, true)
    );
    assert_eq!(estimate(&[1.0, f64::NAN], 1), None);
}

#[test]
fn ratios_are_paired_by_block_so_that_drift_falls_out() {
    // The machine becomes twice as slow in the middle; within a block the second engine takes 1.3 times as long.
    let pairs: Vec<(f64, f64)> = (0..10)
        .map(|i| {
            let drift = if i < 5 { 1.0 } else { 2.0 };
            (1.3 * drift, drift)
        })
        .collect();
    let ratio = paired_ratio(&pairs, 1).expect("a ratio");
    assert!((ratio.median - 1.3).abs() < 1e-12 && ratio.width() < 1e-12);
    assert!(ratio_text(&ratio).starts_with("× 1.300"));
    let above: Vec<f64> = pairs.iter().map(|p| p.0).collect();
    let below: Vec<f64> = pairs.iter().map(|p| p.1).collect();
    let apart = unpaired_ratio(&above, &below, 1).expect("a ratio");
    assert!(
        ratio_text(&apart).starts_with("no difference seen"),
        "{apart:?}"
    );
}

#[test]
fn the_same_seed_gives_the_same_interval() {
    let values: Vec<f64> = (0..20).map(|i| f64::from(i * i % 17)).collect();
    assert_eq!(estimate(&values, 3), estimate(&values, 3));
}

#[test]
fn an_end_that_differs_from_one_by_rounding_is_one() {
    let interval = |low: f64, high: f64| Estimate {
        median: (low + high) / 2.0,
        low,
        high,
        n: 3,
    };
    // Two windows of 10 ms of CPU time, read at different times: (0.07 − 0.06) / (0.03 − 0.02).
    let low = (0.07f64 - 0.06) / (0.03 - 0.02);
    assert!(low > 1.0 && interval(low, 3.0).contains(1.0));
    assert!(interval(0.5, 1.0 / low).contains(1.0));
    assert!(!interval(1.001, 3.0).contains(1.0) && !interval(0.5, 0.999).contains(1.0));
}
