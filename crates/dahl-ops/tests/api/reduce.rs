//! Reductions, whole and from parts.

use dahl_core::{Arena, By, Recorder, Scalar, Split};
use dahl_ops::api;
use dahl_ops::simd::Lane;

use crate::common::{LEN, SHAPE, check, cut, launch, numbers, wide};

fn reductions<T: Lane>() {
    let given = numbers::<T>(LEN, 4);
    let arena = Arena::new();
    let x = arena.from_slice(SHAPE, &given).unwrap();
    let scalar = || arena.full::<T, 0>([], T::from_f64(100.0)).unwrap();
    let mut outs: [Scalar<'_, T>; 4] = [(); 4].map(|_| scalar());
    let mut totals: [Scalar<'_, T>; 5] = [(); 5].map(|_| scalar());
    let mut middle = arena.zeros::<T, 3>([4, 1, 7]).unwrap();
    let mut ends = arena.full::<T, 3>([1, 3, 1], T::from_f64(9.0)).unwrap();
    let mut added = arena.full::<T, 3>([1, 3, 1], T::from_f64(9.0)).unwrap();
    let r = Recorder::new();
    for (made, out) in [
        api::sum(&r, &x),
        api::mean(&r, &x),
        api::min(&r, &x),
        api::max(&r, &x),
    ]
    .iter()
    .zip(&mut outs)
    {
        api::copy_into(&r, made, out);
    }
    api::fill_assign(&r, &mut totals[4], T::from_f64(-100.0));
    for part in x.split(&cut()).unwrap() {
        api::sum_reduce(&r, &part, &mut totals[0]);
        api::sum_assign(&r, &mut totals[1], &part);
        api::mean_reduce(&r, &part, LEN, &mut totals[2]);
        api::min_assign(&r, &mut totals[3], &part);
        api::max_assign(&r, &mut totals[4], &part);
    }
    for part in x.split(&Split::new().axis(0, By::Size(1))).unwrap() {
        api::sum_axes_reduce(&r, &part, &mut added);
    }
    api::copy_into(&r, &api::sum_axes(&r, &x, [1]), &mut middle);
    api::sum_axes_into(&r, &x, &mut ends);
    let graph = r.finish().unwrap();
    let runtime = launch(&graph);

    let x = wide(&given);
    let (mut by_middle, mut by_ends) = (vec![0.0; 28], vec![0.0; 3]);
    for (i, v) in x.iter().enumerate() {
        by_middle[i / 21 * 7 + i % 7] += v;
        by_ends[i / 7 % 3] += v;
    }
    let sum: f64 = x.iter().sum();
    let least = x.iter().copied().fold(f64::INFINITY, f64::min);
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for (out, want) in outs.iter().zip([sum, sum / LEN as f64, least, most]) {
        check("to one value", &runtime.read(out).unwrap(), &[want]);
    }
    let want = [
        100.0 + sum,
        100.0 + sum,
        100.0 + sum / LEN as f64,
        least,
        most,
    ];
    for (total, want) in totals.iter().zip(want) {
        check("of parts", &runtime.read(total).unwrap(), &[want]);
    }
    check("sum_axes", &runtime.read(&middle).unwrap(), &by_middle);
    check("sum_axes_into", &runtime.read(&ends).unwrap(), &by_ends);
    let more: Vec<f64> = by_ends.iter().map(|v| v + 9.0).collect();
    check("sum_axes_reduce", &runtime.read(&added).unwrap(), &more);
}

#[test]
fn values() {
    reductions::<f32>();
    reductions::<f64>();
}

/// The smallest and largest of parts that join at the same time: of positive and of negative numbers, so
/// that an accumulator that starts at zero shows; into a value that is there, and into a new one.
fn extremes<T: Lane>(shift: f64) {
    let given: Vec<T> = (0..64)
        .map(|i| T::from_f64(shift + f64::from(i * 37 % 64)))
        .collect();
    let arena = Arena::new();
    let x = arena.from_slice([8, 8], &given).unwrap();
    let full = |v: f64| arena.full::<T, 0>([], T::from_f64(v)).unwrap();
    let (mut least, mut most) = (full(1e6), full(-1e6));
    let (mut kept, mut both) = (full(-1e6), full(0.0));
    let r = Recorder::new();
    let mut fresh = r.temporary::<T, 0>([]);
    for row in x.split(&Split::new().axis(0, By::Size(1))).unwrap() {
        api::min_reduce(&r, &row, &mut least);
        api::max_reduce(&r, &row, &mut most);
        api::min_reduce(&r, &row, &mut kept);
        api::max_reduce(&r, &row, &mut fresh);
    }
    // Another way to join closes the first group: the order of the program holds.
    api::sum_reduce(&r, &x, &mut kept);
    api::copy_into(&r, &fresh, &mut both);
    let graph = r.finish().unwrap();
    let runtime = launch(&graph);
    let sum: f64 = wide(&given).iter().sum();
    check("min", &runtime.read(&least).unwrap(), &[shift]);
    check("max", &runtime.read(&most).unwrap(), &[shift + 63.0]);
    check("fresh", &runtime.read(&both).unwrap(), &[shift + 63.0]);
    check("kept", &runtime.read(&kept).unwrap(), &[sum - 1e6]);
    let merges = graph
        .codelets
        .iter()
        .filter(|c| c.name.starts_with("merge_"));
    assert_eq!(merges.count(), 2, "accumulators were used");
}

#[test]
fn smallest_and_largest_join_at_the_same_time() {
    for shift in [-200.0, 200.0] {
        extremes::<f32>(shift);
        extremes::<f64>(shift);
    }
}
