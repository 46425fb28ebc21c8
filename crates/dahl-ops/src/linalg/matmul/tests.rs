use super::*;
use crate::simd::{Level, at_every_level};

fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| (i * 7 % 11) as f64 - 5.0).collect()
}

/// Numbers whose products and sums are rounded.
fn fractions<T: Float>(n: usize) -> Vec<T> {
    let mut state = n as u32;
    let mut next = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        T::from_f64(f64::from(state >> 8) / f64::from(1 << 24) - 0.4)
    };
    (0..n).map(|_| next()).collect()
}

/// The two ways in which a matrix can lie in memory.
fn matrix<T>(data: &[T], rows: usize, cols: usize, across: bool) -> Mat<'_, T> {
    match across {
        false => Mat::from_slice(data, rows, cols, cols),
        true => Mat::from_slice(data, cols, rows, rows).transposed(),
    }
}

#[test]
fn products_match_the_definition() {
    at_every_level(|level| {
        for (m, n, k) in [(1, 1, 1), (3, 5, 7), (17, 33, 20), (64, 1, 9), (6, 9, 0)] {
            let (a, b) = (numbers(k * (m + 2)), numbers(k * (n + 1)));
            let mut c = numbers(m * (n + 3));
            let before = c.clone();
            // `a` is stored transposed, and every matrix has a margin.
            matmul(
                Mat::from_slice(&a, k, m, m + 2).transposed(),
                Mat::from_slice(&b, k, n, n + 1),
                MatMut::from_slice(&mut c, m, n, n + 3),
                true,
            );
            for i in 0..m {
                for j in 0..n + 3 {
                    let product: f64 = (0..k)
                        .map(|l| a[l * (m + 2) + i] * b[l * (n + 1) + j.min(n - 1)])
                        .sum();
                    let want = before[i * (n + 3) + j] + if j < n { product } else { 0.0 };
                    assert_eq!(c[i * (n + 3) + j], want, "{level}: {m}×{n}×{k} at {i},{j}");
                }
            }
        }
    });
}

#[test]
fn without_accumulation_the_destination_is_overwritten() {
    at_every_level(|level| {
        let mut c = [f32::NAN; 2];
        matmul(
            Mat::from_slice(&[1.0, 2.0], 1, 2, 2),
            Mat::from_slice(&[3.0, 4.0, 5.0, 6.0], 2, 2, 2),
            MatMut::from_view(ViewMut::from_slice(&mut c, [1, 1, 1, 2])),
            false,
        );
        assert_eq!(c, [13.0, 16.0], "{level}");
    });
}

#[test]
#[should_panic(expected = "1×2 = 1×2 · 3×2")]
fn extents_that_do_not_fit_are_refused() {
    let (a, mut c) = ([0.0; 6], [0.0; 2]);
    matmul(
        Mat::from_slice(&a, 1, 2, 2),
        Mat::from_slice(&a, 3, 2, 2),
        MatMut::from_slice(&mut c, 1, 2, 2),
        false,
    );
}

/// The lengths of the slices of an inner dimension.
fn slices(k: usize) -> impl Iterator<Item = usize> {
    let length = slice_length(k);
    (0..k)
        .step_by(length.max(1))
        .map(move |from| length.min(k - from))
}

#[test]
fn slices_are_few_and_alike() {
    let of = |k| slices(k).collect::<Vec<_>>();
    assert!(of(0).is_empty());
    assert_eq!(of(1), [1]);
    assert_eq!(of(512), [512]);
    assert_eq!(of(513), [257, 256]);
    assert_eq!(of(1024), [512, 512]);
    assert_eq!(of(1025), [342, 342, 341]);
    for k in 1..5000 {
        let lengths = of(k);
        assert_eq!(lengths.iter().sum::<usize>(), k);
        assert_eq!(lengths.len(), k.div_ceil(SLICE), "{k}");
        assert!(lengths.iter().all(|&n| 0 < n && n <= SLICE), "{k}");
    }
}

/// What an element must be: slice by slice a chain of multiply-adds from zero, fused or not, and then the sum.
fn chain<T: Float>(
    level: Level,
    start: Option<T>,
    k: usize,
    factors: impl Fn(usize) -> (T, T),
) -> T {
    let (mut sum, mut from) = (start, 0);
    for length in slices(k) {
        let part = (from..from + length).fold(T::ZERO, |sum, l| {
            let (a, b) = factors(l);
            match level {
                Level::Portable => a * b + sum,
                _ => a.mul_add(b, sum),
            }
        });
        sum = Some(sum.map_or(part, |sum| sum + part));
        from += length;
    }
    sum.unwrap_or(T::ZERO)
}

fn compare_with_chains<T: Float>(
    level: Level,
    [m, n, k]: [usize; 3],
    [a_across, b_across, add]: [bool; 3],
) {
    let (a, b, before) = (
        fractions::<T>(m * k),
        fractions::<T>(k * n),
        fractions::<T>(m * n),
    );
    let mut c = before.clone();
    matmul(
        matrix(&a, m, k, a_across),
        matrix(&b, k, n, b_across),
        MatMut::from_slice(&mut c, m, n, n),
        add,
    );
    for i in 0..m {
        for j in 0..n {
            let want = chain(level, add.then_some(before[i * n + j]), k, |l| {
                let a = a[if a_across { l * m + i } else { i * k + l }];
                (a, b[if b_across { j * k + l } else { l * n + j }])
            });
            assert_eq!(
                c[i * n + j].to_f64().to_bits(),
                want.to_f64().to_bits(),
                "{level}, {}: {m}×{n}×{k} at {i},{j}; {a_across} {b_across} {add}",
                T::DTYPE
            );
        }
    }
}

fn ways() -> impl Iterator<Item = [bool; 3]> {
    (0..8).map(|bits| [0, 1, 2].map(|b| bits >> b & 1 == 1))
}

/// Also says that a machine's caches do not cut slices: none of them is in the definition of `chain`.
#[test]
fn every_element_is_a_chain_of_multiply_adds_per_slice() {
    at_every_level(|level| {
        for extents in [
            [23, 31, 512],
            [70, 65, 700],
            [30, 130, 1300],
            [20, 18, 4608],
        ] {
            for way in ways() {
                compare_with_chains::<f32>(level, extents, way);
                compare_with_chains::<f64>(level, extents, way);
            }
        }
        // Vectors and small destinations have orders of their own above the portable level.
        if level == Level::Portable {
            for extents in [
                [1, 40, 1300],
                [40, 1, 700],
                [1, 1, 2000],
                [3, 7, 1025],
                [9, 5, 2],
            ] {
                for way in ways() {
                    compare_with_chains::<f32>(level, extents, way);
                    compare_with_chains::<f64>(level, extents, way);
                }
            }
        }
    });
}

fn compare_with_slices<T: Float>(
    level: Level,
    [m, n, k]: [usize; 3],
    [a_across, b_across, add]: [bool; 3],
) {
    let (a, b) = (fractions::<T>(m * k), fractions::<T>(k * n));
    let mut c = fractions::<T>(m * n);
    let mut want = c.clone();
    let (left, right) = (matrix(&a, m, k, a_across), matrix(&b, k, n, b_across));
    matmul(left, right, MatMut::from_slice(&mut c, m, n, n), add);
    let mut from = 0;
    for length in slices(k) {
        let left = Mat {
            ptr: left.ptr.wrapping_add(from * left.col_stride),
            cols: length,
            ..left
        };
        let right = Mat {
            ptr: right.ptr.wrapping_add(from * right.row_stride),
            rows: length,
            ..right
        };
        let to = MatMut::from_slice(&mut want, m, n, n);
        matmul(left, right, to, add || from > 0);
        from += length;
    }
    let bits = |c: &[T]| c.iter().map(|x| x.to_f64().to_bits()).collect::<Vec<_>>();
    assert!(
        bits(&c) == bits(&want),
        "{level}, {}: {m}×{n}×{k}",
        T::DTYPE
    );
}

#[test]
fn a_long_product_is_the_sum_of_its_slices() {
    at_every_level(|level| {
        for extents in [
            [1, 40, 1300],
            [40, 1, 1300],
            [1, 1, 5000],
            [3, 7, 1025],
            [16, 16, 1024],
            [50, 60, 4608],
        ] {
            for way in ways() {
                compare_with_slices::<f32>(level, extents, way);
                compare_with_slices::<f64>(level, extents, way);
            }
        }
    });
}
