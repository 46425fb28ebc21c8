//! Splits drawn where a set has none.

use super::Split;

/// One sample in so many is for validation when no split is named.
const VALIDATION_PART: usize = 10;

/// The samples of one split, in order: those whose numbers are lowest are for validation, a tenth of all.
pub(crate) fn draw(count: usize, split: Split, number: impl Fn(usize) -> u64) -> Vec<usize> {
    let mut numbers: Vec<(u64, usize)> = (0..count).map(|i| (number(i), i)).collect();
    let part = count.div_ceil(VALIDATION_PART).min(count / 2);
    if part > 0 {
        numbers.select_nth_unstable(part - 1);
    }
    let chosen = match split {
        Split::Validation => &numbers[..part],
        Split::Train => &numbers[part..],
    };
    let mut chosen: Vec<usize> = chosen.iter().map(|n| n.1).collect();
    chosen.sort_unstable();
    chosen
}
