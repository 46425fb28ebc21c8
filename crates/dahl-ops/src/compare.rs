//! Comparing computed values with expected ones, so that a failure says where and by how much.
//!
//! Two values agree if they are within a relative error *or* within a number of representable values
//! (ULPs) of each other. The relative error is taken against the larger of the expected value and
//! the root mean square of all expected values: a sum that cancels to nearly nothing is judged by the
//! size of what was added. Nothing here decides which tolerance is right.

use std::fmt::Write as _;

use dahl_core::dtype::{DType, Element};

/// How many differing values a report lists.
const SHOWN: usize = 8;

/// Number of representable values between two numbers: 0 if equal (`-0` equals `0`), the largest
/// `u64` if exactly one is not a number, 0 if both are.
pub fn ulps<T: Element>(a: T, b: T) -> u64 {
    let (a, b) = (a.to_f64(), b.to_f64());
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() && b.is_nan() {
            0
        } else {
            u64::MAX
        };
    }
    match T::DTYPE {
        DType::F32 => i64::abs_diff(rank32(a as f32), rank32(b as f32)),
        DType::F64 => i64::abs_diff(rank64(a), rank64(b)),
    }
}

/// Position of a number among all numbers of its type, 0 being zero.
fn rank32(x: f32) -> i64 {
    let magnitude = i64::from(x.to_bits() & 0x7fff_ffff);
    if x.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

fn rank64(x: f64) -> i64 {
    let magnitude = (x.to_bits() & 0x7fff_ffff_ffff_ffff) as i64;
    if x.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

/// Root mean square of the finite values.
fn rms<T: Element>(want: &[T]) -> f64 {
    let finite = |x: &&T| x.to_f64().is_finite();
    let squares: f64 = want
        .iter()
        .filter(finite)
        .map(|x| x.to_f64() * x.to_f64())
        .sum();
    (squares / want.len().max(1) as f64).sqrt()
}

fn relative<T: Element>(got: T, want: T, rms: f64) -> f64 {
    (got.to_f64() - want.to_f64()).abs() / want.to_f64().abs().max(rms)
}

/// The largest relative error and the place of the value that has it; infinite where only one of the two
/// is a number. `None` if all are equal.
pub fn worst<T: Element>(got: &[T], want: &[T]) -> Option<(f64, usize)> {
    let rms = rms(want);
    let error = |(i, (&g, &w)): (usize, (&T, &T))| {
        if ulps(g, w) == 0 {
            return None;
        }
        let error = relative(g, w, rms);
        Some((if error.is_nan() { f64::INFINITY } else { error }, i))
    };
    let errors = got.iter().zip(want).enumerate().filter_map(error);
    errors.max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
}

/// Checks that `got` agrees with `want`; the error lists the first values that differ.
pub fn close<T: Element>(
    name: &str,
    got: &[T],
    want: &[T],
    rel: f64,
    max_ulps: u64,
) -> Result<(), String> {
    if got.len() != want.len() {
        return Err(format!(
            "{name}: {} values, expected {}",
            got.len(),
            want.len()
        ));
    }
    let rms = rms(want);
    let (mut differing, mut worst, mut lines) = (0usize, 0f64, String::new());
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        let distance = ulps(g, w);
        if distance <= max_ulps {
            continue;
        }
        let error = relative(g, w, rms);
        if error <= rel {
            continue;
        }
        differing += 1;
        worst = if error.is_nan() {
            f64::INFINITY
        } else {
            worst.max(error)
        };
        if differing <= SHOWN {
            let _ = write!(
                lines,
                "\n  [{i}] got {g:?}, expected {w:?}: error {error:.1e}, "
            );
            let _ = match distance {
                u64::MAX => write!(lines, "not a number"),
                d => write!(lines, "{d} ulp"),
            };
        }
    }
    if differing == 0 {
        return Ok(());
    }
    Err(format!(
        "{name}: {differing} of {} values differ (allowed: {rel:.1e} relative or {max_ulps} ulp; \
         worst {worst:.1e}){lines}",
        want.len()
    ))
}

/// [`close`] for tests.
///
/// # Panics
/// If the values do not agree, with the report as message.
#[track_caller]
pub fn assert_close<T: Element>(name: &str, got: &[T], want: &[T], rel: f64, max_ulps: u64) {
    if let Err(report) = close(name, got, want, rel, max_ulps) {
        panic!("{report}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_representable_values() {
        assert_eq!(ulps(1f32, 1f32.next_up()), 1);
        assert_eq!(ulps(-f32::from_bits(1), f32::from_bits(1)), 2);
        assert_eq!(ulps(0f64, -0f64), 0);
        assert_eq!(ulps(1f64, 1f64.next_down().next_down()), 2);
        assert_eq!(ulps(f32::NAN, f32::NAN), 0);
        assert_eq!(ulps(f32::NAN, 1.0), u64::MAX);
        assert_eq!(ulps(f64::MAX, f64::INFINITY), 1);
    }

    #[test]
    fn a_report_names_the_first_differences() {
        let report = close("add", &[1.0, 2.0, 3.5f64], &[1.0, 2.0, 3.0], 1e-12, 4).unwrap_err();
        assert!(
            report.contains("add: 1 of 3") && report.contains("[2] got 3.5,"),
            "{report}"
        );
        assert!(
            close("short", &[1f32], &[1.0, 2.0], 1.0, 0)
                .unwrap_err()
                .contains("1 values")
        );
        assert!(close("nan", &[f32::NAN], &[1.0], 1.0, 9).is_err());
        assert!(close("inf", &[f32::INFINITY], &[1.0], 1.0, 9).is_err());
        assert!(close("inf", &[f32::INFINITY], &[f32::INFINITY], 0.0, 0).is_ok());
    }

    #[test]
    fn the_worst_is_found_with_its_place() {
        assert_eq!(worst(&[1f32, -0.0], &[1.0, 0.0]), None);
        let (error, at) = worst(&[2.0, 2.5, 2.25f64], &[2.0; 3]).unwrap();
        assert_eq!((error, at), (0.25, 1));
        let (error, at) = worst(&[1.0, f64::NAN], &[1.0, 1.0]).unwrap();
        assert_eq!((error, at), (f64::INFINITY, 1));
        assert_eq!(worst(&[f64::NAN], &[f64::NAN]), None);
    }

    #[test]
    fn cancelled_sums_are_judged_by_the_size_of_the_rest() {
        assert!(close("tiny", &[1e-17, 1.0f64], &[0.0, 1.0], 1e-15, 0).is_ok());
        assert!(close("large", &[1e-3, 1.0f64], &[0.0, 1.0], 1e-5, 0).is_err());
    }
}
