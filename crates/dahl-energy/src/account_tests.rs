//! Accounts against counters whose truth is known.

use super::super::{PLAUSIBLE, Scope};
use super::*;

fn domain(quantity: Quantity) -> Domain {
    Domain {
        name: "package-0".into(),
        scope: Scope::Package,
        quantity,
        ceiling: PLAUSIBLE,
        sampled: true,
    }
}

/// Microjoules that wrap after `range`.
fn counter(range: Option<u64>) -> Account {
    let joules = 1e-6;
    let domain = domain(Quantity::Counter { joules, range });
    Account::new(&domain, Seconds(0.1))
}

fn enter(account: &mut Account, readings: &[(f64, u64)]) {
    for &(at, value) in readings {
        account.enter(Seconds(at), Ok(value));
    }
}

fn close_to(account: &Account, joules: f64) {
    let got = account.joules().map_or(0.0, |j| j.0);
    assert!((got - joules).abs() < 1e-6, "{got} instead of {joules}");
}

fn gone() -> Trouble {
    Trouble::new(TroubleKind::Missing, "the device is gone")
}

/// Power that swings between 20 W and 100 W, and its integral.
fn watts(t: f64) -> f64 {
    60.0 + 40.0 * (1.7 * t).sin()
}

fn truth(t: f64) -> f64 {
    60.0 * t + 40.0 / 1.7 * (1.0 - (1.7 * t).cos())
}

/// Times ten times a second, never quite.
fn ticks() -> impl Iterator<Item = f64> {
    (0..1200).map(|i| i as f64 * 0.1 + 0.03 * ((i * 7919) % 100) as f64 / 100.0)
}

fn within_a_thousandth(account: &Account) {
    let (first, last) = (
        ticks().next().expect("ticks"),
        ticks().last().expect("ticks"),
    );
    let expected = truth(last) - truth(first);
    let got = account.joules().expect("it moved").0;
    assert!(
        (got / expected - 1.0).abs() < 1e-3,
        "{got} instead of {expected}"
    );
    assert_eq!(account.doubts(), Vec::<String>::new());
    let spans: f64 = account.samples().iter().map(|s| s.joules.0).sum();
    assert!((spans / got - 1.0).abs() < 1e-9, "{spans} in samples");
}

#[test]
fn a_known_counter_integrates_through_many_wraps() {
    // 262 J: about 27 wraps in two minutes.
    let range = 262_143_328;
    let mut account = counter(Some(range));
    for t in ticks() {
        let count = (truth(t) * 1e6) as u64 + 200_000_000;
        account.enter(Seconds(t), Ok(count % range));
    }
    account.close();
    within_a_thousandth(&account);
}

#[test]
fn known_power_integrates() {
    let mut account = Account::new(&domain(Quantity::Power { watts: 1e-3 }), Seconds(0.1));
    for t in ticks() {
        account.enter(Seconds(t), Ok((watts(t) * 1e3) as u64));
    }
    account.close();
    within_a_thousandth(&account);
}

#[test]
fn one_wrap_is_exact() {
    let mut account = counter(Some(1_000_000_000));
    enter(&mut account, &[(0.0, 999_000_000), (0.1, 2_000_000)]);
    close_to(&account, 3.0);
    assert!(account.doubts().is_empty());
}

#[test]
fn unseen_wraps_are_possible_and_said() {
    // 10 J range: at 1 kW it could wrap a hundred times in a second, whichever way it seems to have gone.
    for second in [2_000_000, 500_000] {
        let mut account = counter(Some(10_000_000));
        enter(&mut account, &[(0.0, 1_000_000), (1.0, second)]);
        let doubts = account.doubts();
        assert_eq!(doubts.len(), 1, "{doubts:?}");
        assert!(doubts[0].contains("unseen"), "{doubts:?}");
        assert!(doubts[0].contains("up to 99 times"), "{doubts:?}");
        assert!(account.joules().is_some());
    }
    // Read often enough, the same counter is certain.
    let mut account = counter(Some(10_000_000));
    enter(&mut account, &[(0.0, 1_000_000), (0.01, 1_200_000)]);
    assert!(account.doubts().is_empty());
}

#[test]
fn going_backwards_without_a_range_loses_that_stretch_only() {
    let mut account = counter(None);
    let readings = [
        (0.0, 5_000_000),
        (1.0, 6_000_000),
        (2.0, 100),
        (3.0, 2_000_100),
    ];
    enter(&mut account, &readings);
    close_to(&account, 3.0);
    let doubts = account.doubts();
    assert!(
        doubts[0].contains("backwards at 2.0 s") && doubts[0].contains("missing"),
        "{doubts:?}"
    );
}

#[test]
fn a_reset_is_not_taken_for_a_wrap() {
    // From 5 J to nothing, with a range of 262 kJ: as a wrap that would be 262 kJ in a second.
    let mut account = counter(Some(262_143_328_850));
    enter(
        &mut account,
        &[(0.0, 4_000_000), (1.0, 5_000_000), (2.0, 0), (3.0, 500_000)],
    );
    close_to(&account, 1.5);
    assert!(
        account.doubts()[0].contains("jumped"),
        "{:?}",
        account.doubts()
    );
    // The same for a reading above the range.
    let mut account = counter(Some(1000));
    enter(&mut account, &[(0.0, 5000), (1.0, 10), (2.0, 20)]);
    close_to(&account, 1e-5);
    assert!(
        account.doubts()[0].contains("backwards"),
        "{:?}",
        account.doubts()
    );
}

#[test]
fn a_counter_counts_on_while_it_cannot_be_read() {
    let mut account = counter(Some(262_143_328_850));
    enter(&mut account, &[(0.0, 1_000_000), (1.0, 2_000_000)]);
    let why = Trouble::new(TroubleKind::Garbage, "holds \"x\" where a number should be");
    account.enter(Seconds(2.0), Err(why));
    close_to(&account, 1.0);
    let doubts = account.doubts();
    assert!(
        doubts[0].starts_with("counted until 2.0 s: holds"),
        "{doubts:?}"
    );
    enter(&mut account, &[(3.0, 9_000_000)]);
    close_to(&account, 8.0);
    assert!(account.doubts().is_empty());
}

#[test]
fn what_is_unplugged_keeps_its_figure() {
    let mut account = counter(Some(262_143_328_850));
    enter(&mut account, &[(0.0, 1_000_000), (1.0, 3_000_000)]);
    account.enter(Seconds(2.0), Err(gone()));
    account.enter(Seconds(3.0), Err(gone()));
    close_to(&account, 2.0);
    assert_eq!(
        account.doubts(),
        ["counted until 2.0 s: the device is gone"]
    );
    // Plugged in again it may have been reset: what it used meanwhile is not guessed.
    enter(&mut account, &[(4.0, 90_000_000), (5.0, 91_000_000)]);
    close_to(&account, 3.0);
    let doubts = account.doubts();
    assert!(doubts[0].contains("from 2.0 s to 4.0 s"), "{doubts:?}");
}

#[test]
fn a_counter_that_does_not_move_is_no_measurement() {
    let mut account = counter(None);
    enter(&mut account, &[(0.0, 7), (1.0, 7), (2.0, 7)]);
    assert_eq!(account.joules(), None);
    let why = account.why_not(Seconds(2.0)).expect("a reason");
    assert!(why.text.contains("did not move in 2.00 s"), "{why}");
    let mut account = counter(None);
    account.enter(Seconds(0.0), Err(gone()));
    assert_eq!(account.why_not(Seconds(0.0)), Some(gone()));
}

#[test]
fn impossible_power_and_long_steps_are_said() {
    let mut account = Account::new(&domain(Quantity::Power { watts: 1.0 }), Seconds(0.1));
    enter(&mut account, &[(0.0, 50), (1.0, 99_999), (2.0, 50)]);
    close_to(&account, 100.0);
    assert!(
        account.doubts()[0].contains("more than it can draw"),
        "{:?}",
        account.doubts()
    );
    enter(&mut account, &[(30.0, 50)]);
    let doubts = account.doubts();
    assert!(
        doubts[1].contains("not read for 28.0 s before 30.0 s"),
        "{doubts:?}"
    );
}

#[test]
fn doubts_are_told_once_and_counted() {
    let mut account = counter(None);
    for i in 0..1000 {
        account.enter(Seconds(i as f64), Ok(u64::from(i % 2 == 0)));
    }
    let doubts = account.doubts();
    assert_eq!(doubts.len(), 1);
    assert!(doubts[0].ends_with("(and 499 more such)"), "{doubts:?}");
}

#[test]
fn a_clock_that_steps_back_changes_nothing() {
    let mut account = counter(None);
    enter(
        &mut account,
        &[(1.0, 0), (2.0, 1_000_000), (1.5, 5_000_000)],
    );
    close_to(&account, 1.0);
    enter(&mut account, &[(3.0, 6_000_000)]);
    close_to(&account, 6.0);
}

#[test]
fn memory_stays_flat_and_samples_keep_their_energy() {
    let mut account = counter(None);
    let n = 3 * MOST_SAMPLES as u64;
    for i in 0..n {
        account.enter(Seconds(i as f64 * 0.1), Ok(i * i));
    }
    account.close();
    let samples = account.samples();
    assert!(samples.len() <= MOST_SAMPLES);
    let joules: f64 = samples.iter().map(|s| s.joules.0).sum();
    assert!((joules / ((n - 1) as f64).powi(2) * 1e6 - 1.0).abs() < 1e-9);
    assert!(samples.windows(2).all(|w| w[0].to == w[1].from));
}
