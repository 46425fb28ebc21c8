//! The order of an epoch: a permutation of the items that can be asked for at any place.
//!
//! No table is kept. The items 0..n are laid out in a rectangle of about √n × √n cells and stirred by
//! a Feistel network on its two coordinates: each round shifts one coordinate by a random amount that
//! depends on the other, which is undone by shifting back, hence every round is a permutation of the
//! rectangle. The few cells past n are walked through: a cell that lands there is stirred again until
//! it leaves. So an epoch of a billion items costs no memory, and resuming in its middle no time.

use super::random::{below, finalise, mix};

/// Rounds of stirring, a half round each. Six already pass the tests below; the rest is margin.
const ROUNDS: u64 = 8;

/// The order in which one epoch visits `0..len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    len: u64,
    rows: u64,
    columns: u64,
    /// `None`: as stored.
    key: Option<u64>,
}

impl Order {
    /// The order of the files themselves.
    pub(crate) fn stored(len: usize) -> Order {
        Order {
            len: len as u64,
            rows: 1,
            columns: len as u64,
            key: None,
        }
    }

    /// The order of epoch `epoch` of a run with seed `seed`.
    pub(crate) fn shuffled(len: usize, seed: u64, epoch: u64) -> Order {
        let len = len as u64;
        let columns = len.isqrt().max(1);
        Order {
            len,
            rows: len.div_ceil(columns),
            columns,
            key: Some(mix(seed, epoch)),
        }
    }

    /// The item at place `place`, or `None` past the end.
    pub(crate) fn get(&self, place: usize) -> Option<usize> {
        let mut at = place as u64;
        if at >= self.len {
            return None;
        }
        let Some(key) = self.key else {
            return Some(place);
        };
        // Terminates: the rectangle's permutation is a set of cycles, and this one holds `place`.
        loop {
            at = self.stir(key, at);
            if at < self.len {
                return Some(at as usize);
            }
        }
    }

    fn stir(&self, key: u64, at: u64) -> u64 {
        let (mut row, mut column) = (at / self.columns, at % self.columns);
        for round in 0..ROUNDS {
            let round_key = key.wrapping_add(round.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            if round % 2 == 0 {
                row = shift(
                    row,
                    below(finalise(round_key ^ column), self.rows),
                    self.rows,
                );
            } else {
                column = shift(
                    column,
                    below(finalise(round_key ^ row), self.columns),
                    self.columns,
                );
            }
        }
        row * self.columns + column
    }
}

/// `(a + b) mod n` for `a`, `b` below `n`.
fn shift(a: u64, b: u64, n: u64) -> u64 {
    let sum = a + b;
    if sum >= n { sum - n } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn visit(order: Order) -> Vec<usize> {
        (0..).map_while(|i| order.get(i)).collect()
    }

    #[test]
    fn the_stored_order_is_the_identity() {
        assert_eq!(visit(Order::stored(5)), [0, 1, 2, 3, 4]);
        assert_eq!(Order::stored(5).get(5), None);
    }

    #[test]
    fn every_permutation_of_four_items_is_about_equally_likely() {
        let mut seen = std::collections::HashMap::new();
        for epoch in 0..24_000 {
            *seen.entry(visit(Order::shuffled(4, 1, epoch))).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 24);
        // 1000 expected each, standard deviation 31.
        for (p, n) in seen {
            assert!((850..1150).contains(&n), "{p:?}: {n}");
        }
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let n = 10_000;
        let p = visit(Order::shuffled(n, 42, 0));
        // For a random permutation, |p[i+1] - p[i]| is n/3 on average and 1 about twice in all.
        let steps: Vec<usize> = p.windows(2).map(|w| w[0].abs_diff(w[1])).collect();
        let mean = steps.iter().sum::<usize>() as f64 / steps.len() as f64;
        assert!((mean / n as f64 - 1.0 / 3.0).abs() < 0.01, "{mean}");
        assert!(steps.iter().filter(|&&s| s == 1).count() < 12);
        // Fixed points: one expected.
        assert!(p.iter().enumerate().filter(|(i, v)| i == *v).count() < 8);
    }

    #[test]
    fn correlation_between_epochs_and_seeds_is_small() {
        let n = 4_096;
        let a = visit(Order::shuffled(n, 7, 0));
        for b in [
            visit(Order::shuffled(n, 7, 1)),
            visit(Order::shuffled(n, 8, 0)),
        ] {
            let mid = (n as f64 - 1.0) / 2.0;
            let dot: f64 = a
                .iter()
                .zip(&b)
                .map(|(&x, &y)| (x as f64 - mid) * (y as f64 - mid))
                .sum();
            let r = dot * 12.0 / (n as f64).powi(3);
            assert!(r.abs() < 0.06, "{r}");
        }
    }

    proptest! {
        #[test]
        fn each_item_comes_once(len in 0usize..700, seed: u64, epoch: u64) {
            let mut all = visit(Order::shuffled(len, seed, epoch));
            all.sort_unstable();
            prop_assert!(all.into_iter().eq(0..len));
        }

        #[test]
        fn huge_sets_stay_in_range(len in 1usize.., place: usize, seed: u64) {
            let order = Order::shuffled(len, seed, 0);
            prop_assert!(order.get(place % len).unwrap() < len);
            prop_assert_eq!(order.get(len), None);
        }
    }
}
