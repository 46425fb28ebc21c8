//! The conformance check itself: right implementations pass, wrong ones are found, with the place.

use dahl_check::check_cpu;
use dahl_core::view::for_rows;
use dahl_core::{Codelet, DType, UnitKind};
use dahl_ops::codelets::TABLE;

/// `copy` with a further implementation that changes the first row of a right result.
fn altered(change: fn(&mut [f64])) -> Codelet {
    let mut codelet = Codelet::clone(TABLE.iter().find(|c| c.name == "copy").unwrap());
    codelet.implementations.truncate(1);
    codelet.implementations[0].name = "reference";
    codelet.implement("altered", UnitKind::CPU, move |ops| {
        let (from, mut out) = (ops.read::<f64>(0), ops.write::<f64>(1));
        for_rows(out.dims(), |at| out.row(at).copy_from_slice(from.row(at)));
        change(out.row([0; 3]));
        Ok(())
    })
}

#[test]
fn what_is_wrong_is_found() {
    let right = check_cpu(&altered(|_| {}), DType::F64, 3);
    assert_eq!(right.len(), 1);
    assert!(
        right[0].failure.is_none() && right[0].cases == 8,
        "{right:?}"
    );

    let wrong = check_cpu(&altered(|row| row[0] += 1e-6), DType::F64, 3);
    let why = wrong[0].failure.as_deref().unwrap();
    assert!(why.contains("copy f64") && why.contains("y: "), "{why}");
    let worst = wrong[0].worst.unwrap();
    assert!(worst.ulps > 1e8 && worst.operand == 1, "{worst:?}");

    let unsteady = check_cpu(
        &altered(|row| {
            use std::sync::atomic::{AtomicU64, Ordering};
            static CALLS: AtomicU64 = AtomicU64::new(0);
            row[0] *= 1.0 + 1e-15 * (CALLS.fetch_add(1, Ordering::Relaxed) % 2) as f64;
        }),
        DType::F64,
        3,
    );
    let why = unsteady[0].failure.as_deref().unwrap();
    assert!(why.contains("other bits when run again"), "{why}");
}

#[test]
fn every_cpu_implementation_agrees_with_the_reference() {
    let (mut tried, mut compared, mut failures) = (0, 0, Vec::new());
    for dtype in [DType::F32, DType::F64] {
        for outcome in TABLE.iter().flat_map(|c| check_cpu(c, dtype, 17)) {
            tried += outcome.cases;
            compared += if outcome.alone { 0 } else { outcome.cases };
            failures.extend(outcome.failure);
        }
    }
    assert!(tried > 1000, "{tried} cases");
    assert!(compared > 300, "{compared} of {tried} compared");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
