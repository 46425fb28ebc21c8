//! How a batch is shared among nodes of unequal speed.
//!
//! Shares are parts of the batch. A node with share `s` whose units worked for `t` seconds in the same time as the others
//! has the speed `s / t`; shares in proportion to speeds let all end together, after `1 / Σ speed`. They are changed only
//! where that promises a gain of more than [`GAIN`], by the mean of the last [`WINDOW`] meetings, so that noise moves
//! nothing. Nothing here reads a clock: all nodes are told the same times and conclude the same shares.

use dahl_core::graph::partition::PlacementError;

/// The gain for which shares are changed.
const GAIN: f64 = 0.06;

/// Meetings that are looked at together. The first after a change is left out: it contains making new parts.
const WINDOW: usize = 3;

/// The share that a node has at least, of an equal share, so that its speed can be measured.
const LEAST: f64 = 0.02;

/// Shares, and what was measured with them.
pub(super) struct Balance {
    shares: Vec<f64>,
    automatic: bool,
    /// Sums of busy seconds since the shares were set, by node.
    busy: Vec<f64>,
    meetings: usize,
}

impl Balance {
    /// Given shares, which stay, or equal ones that follow speeds.
    pub(super) fn new(nodes: u16, shares: Option<Vec<f64>>) -> Result<Balance, PlacementError> {
        let n = usize::from(nodes);
        let automatic = shares.is_none();
        let shares = shares.unwrap_or_else(|| vec![1.0; n]);
        let usable = |s: &f64| *s >= 0.0 && s.is_finite();
        if shares.len() != n {
            return Err(PlacementError::Nodes {
                shares: shares.len(),
                nodes,
            });
        }
        if !shares.iter().all(usable) || shares.iter().all(|s| *s == 0.0) {
            return Err(PlacementError::Shares(shares));
        }
        let total: f64 = shares.iter().sum();
        Ok(Balance {
            shares: shares.iter().map(|s| s / total).collect(),
            automatic,
            busy: vec![0.0; n],
            meetings: 0,
        })
    }

    /// Each node's part of a batch; they add up to 1.
    pub(super) fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// The nodes have worked for so long since they last met; nothing if they have not. Whether the shares have changed.
    pub(super) fn adjust(&mut self, busy: &[f64]) -> bool {
        if !self.automatic || busy.len() != self.shares.len() {
            return false;
        }
        self.meetings += 1;
        if self.meetings == 1 {
            return false;
        }
        self.busy
            .iter_mut()
            .zip(busy)
            .for_each(|(all, b)| *all += b);
        if self.meetings <= WINDOW || self.busy.iter().any(|b| *b <= 0.0) {
            return false;
        }
        let speeds = self.shares.iter().zip(&self.busy).map(|(s, b)| s / b);
        let speeds: Vec<f64> = speeds.collect();
        let (slowest, total) = (
            self.busy.iter().copied().fold(0.0, f64::max),
            speeds.iter().sum::<f64>(),
        );
        let gains = slowest > (1.0 + GAIN) / total;
        if gains {
            let least = LEAST / self.shares.len() as f64;
            let wanted = speeds.iter().map(|v| (v / total).max(least));
            let wanted: Vec<f64> = wanted.collect();
            let sum: f64 = wanted.iter().sum();
            self.shares = wanted.iter().map(|w| w / sum).collect();
        }
        self.meetings = usize::from(!gains);
        self.busy.fill(0.0);
        gains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long nodes of these speeds work for their shares.
    fn times(balance: &Balance, speeds: &[f64]) -> Vec<f64> {
        let shares = balance.shares().iter();
        shares.zip(speeds).map(|(s, v)| s / v).collect()
    }

    /// Lets the nodes meet so often; how often shares changed.
    fn meet(balance: &mut Balance, speeds: &[f64], meetings: usize) -> usize {
        let changed = |_: &usize| balance.adjust(&times(balance, speeds));
        (0..meetings).filter(changed).count()
    }

    #[test]
    fn shares_follow_speeds_and_then_stay() {
        let mut balance = Balance::new(3, None).unwrap();
        assert_eq!(meet(&mut balance, &[1.0, 0.5, 2.0], 4), 1);
        let want = [2.0 / 7.0, 1.0 / 7.0, 4.0 / 7.0];
        for (share, want) in balance.shares().iter().zip(want) {
            assert!((share - want).abs() < 1e-12, "{:?}", balance.shares());
        }
        assert_eq!(meet(&mut balance, &[1.0, 0.5, 2.0], 100), 0);
        assert_eq!(meet(&mut balance, &[1.02, 0.49, 2.03], 100), 0, "noise");
        // A node slows down, perhaps in the middle of a window: two changes at most.
        assert!((1..=2).contains(&meet(&mut balance, &[1.0, 0.5, 0.5], 10)));
        assert!((balance.shares()[0] - 0.5).abs() < 1e-12);
    }

    #[test]
    fn given_shares_stay() {
        let mut balance = Balance::new(2, Some(vec![3.0, 1.0])).unwrap();
        assert_eq!(meet(&mut balance, &[1.0, 9.0], 20), 0);
        assert_eq!(balance.shares(), [0.75, 0.25]);
    }

    #[test]
    fn a_node_that_hardly_works_keeps_a_little() {
        let mut balance = Balance::new(2, None).unwrap();
        assert_eq!(meet(&mut balance, &[1.0, 1e-9], 4), 1);
        assert!(balance.shares()[1] >= 0.009, "{:?}", balance.shares());
    }

    #[test]
    fn wrong_shares_are_refused() {
        for (shares, says) in [
            (vec![1.0], "shares for 1 of 2 nodes"),
            (vec![0.0, 0.0], "not all of them 0"),
            (vec![1.0, -1.0], "at least 0"),
            (vec![1.0, f64::NAN], "at least 0"),
        ] {
            let error = Balance::new(2, Some(shares)).err().unwrap().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
