//! How a batch is shared among nodes of unequal speed.
//!
//! Shares are parts of the batch. What a node really does differs from its share, since tasks are not cut: a layer in
//! four parts cannot be shared 2:1. So both are asked of the placement: a node that has the part `w` of the work and
//! whose units worked for `t` seconds in the same time as the others has the speed `w / t`, and shares in proportion to
//! speeds are worth what their placement lets the slowest node take. They are changed only where that promises a gain
//! of more than [`GAIN`], by the mean of the last [`WINDOW`] meetings, so that noise moves nothing. Where it does,
//! because others use the computers, too, every change makes the next one harder: it must be promised by twice as many
//! windows in a row, up to [`MOST_WINDOWS`], and half as many again after a calm time. Nothing here reads a clock: all
//! nodes are told the same times and conclude the same shares.

use dahl_core::graph::partition::PlacementError;

/// The gain for which shares are changed.
const GAIN: f64 = 0.08;

/// Meetings that are looked at together. The first after a change is left out: it contains making new parts.
const WINDOW: usize = 3;

/// The gain for which no more than two windows in a row are asked for: a node has become much slower or faster.
const LARGE_GAIN: f64 = 0.25;

/// Windows in a row that must promise a gain, at most.
const MOST_WINDOWS: usize = 8;

/// Windows without a promise that count as a calm time.
const CALM: usize = 16;

/// The share that a node has at least, of an equal share, so that its speed can be measured.
const LEAST: f64 = 0.02;

/// Shares, and what was measured with them.
pub(super) struct Balance {
    shares: Vec<f64>,
    automatic: bool,
    /// Sums of busy seconds since the shares were set, by node.
    busy: Vec<f64>,
    meetings: usize,
    /// Windows in a row that must promise a gain, that have done so, and that have not.
    needed: usize,
    promised: usize,
    calm: usize,
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
            needed: 1,
            promised: 0,
            calm: 0,
        })
    }

    /// Each node's part of a batch; they add up to 1.
    pub(super) fn shares(&self) -> &[f64] {
        &self.shares
    }

    /// The nodes have worked for so long since they last met; nothing if they have not. `work` says which part of the work
    /// each node has with given shares. Whether the shares have changed.
    pub(super) fn adjust(&mut self, busy: &[f64], work: impl Fn(&[f64]) -> Vec<f64>) -> bool {
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
        // A node without work is measured by its share: it may have become faster.
        let parts = work(&self.shares).into_iter().zip(&self.shares);
        let parts = parts.map(|(part, share)| if part > 0.0 { part } else { *share });
        let speeds: Vec<f64> = parts.zip(&self.busy).map(|(part, b)| part / b).collect();
        let wanted = self.in_proportion(&speeds);
        let takes = |(part, speed): (f64, &f64)| part / speed;
        let expected = work(&wanted).into_iter().zip(&speeds).map(takes);
        let slowest = self.busy.iter().copied().fold(0.0, f64::max);
        let changes = self.is_confirmed(slowest / expected.fold(f64::MIN_POSITIVE, f64::max) - 1.0);
        if changes {
            self.shares = wanted;
        }
        self.meetings = usize::from(!changes);
        self.busy.fill(0.0);
        changes
    }

    /// Shares in proportion to speeds, none too small to be measured.
    fn in_proportion(&self, speeds: &[f64]) -> Vec<f64> {
        let total: f64 = speeds.iter().sum();
        let least = LEAST / speeds.len() as f64;
        let wanted: Vec<f64> = speeds.iter().map(|v| (v / total).max(least)).collect();
        let sum: f64 = wanted.iter().sum();
        wanted.iter().map(|w| w / sum).collect()
    }

    /// A window promises such a gain: whether enough of them have.
    fn is_confirmed(&mut self, gain: f64) -> bool {
        if gain <= GAIN {
            (self.promised, self.calm) = (0, self.calm + 1);
            if self.calm == CALM {
                (self.needed, self.calm) = ((self.needed / 2).max(1), 0);
            }
            return false;
        }
        (self.promised, self.calm) = (self.promised + 1, 0);
        let needed = if gain > LARGE_GAIN { 2 } else { MOST_WINDOWS };
        if self.promised < self.needed.min(needed) {
            return false;
        }
        (self.promised, self.needed) = (0, (2 * self.needed).min(MOST_WINDOWS));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets nodes of these speeds meet so often; how often shares changed. `work` is what they have of the work.
    fn meet_with(
        balance: &mut Balance,
        speeds: &[f64],
        meetings: usize,
        work: fn(&[f64]) -> Vec<f64>,
    ) -> usize {
        let changed = |_: &usize| {
            let parts = work(balance.shares()).into_iter();
            let busy: Vec<f64> = parts.zip(speeds).map(|(w, v)| w / v).collect();
            balance.adjust(&busy, work)
        };
        (0..meetings).filter(changed).count()
    }

    /// The same with work that can be cut anywhere.
    fn meet(balance: &mut Balance, speeds: &[f64], meetings: usize) -> usize {
        meet_with(balance, speeds, meetings, <[f64]>::to_vec)
    }

    /// Work in four parts: 2:1 is 3:1, which is not taken for a fast second node.
    #[test]
    fn parts_that_are_not_cut_are_no_speed() {
        let quarters = |shares: &[f64]| {
            let first = (4.0 * shares[0]).round() / 4.0;
            vec![first, 1.0 - first]
        };
        let mut balance = Balance::new(2, None).unwrap();
        assert_eq!(meet_with(&mut balance, &[1.0, 0.5], 4, quarters), 1);
        assert!((balance.shares()[0] - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(meet_with(&mut balance, &[1.0, 0.5], 100, quarters), 0);
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
        assert!((1..=2).contains(&meet(&mut balance, &[1.0, 0.5, 0.5], 16)));
        assert!((balance.shares()[0] - 0.5).abs() < 1e-12);
    }

    /// Others use the computers, too, now this one and now that one, for some windows each.
    #[test]
    fn load_that_comes_and_goes_moves_shares_seldom() {
        let mut balance = Balance::new(2, None).unwrap();
        let mut changes = 0;
        for turn in 0..100 {
            let slow = [1.0, 0.85 - 0.02 * f64::from(turn % 3)];
            let speeds = if turn % 2 == 0 {
                slow
            } else {
                [slow[1], slow[0]]
            };
            changes += meet(&mut balance, &speeds, 2 + turn as usize % 7);
        }
        assert!(changes <= 8, "{changes} changes");
        // Afterwards it is calm, and a lasting change is followed.
        meet(&mut balance, &[1.0, 1.0], 400);
        assert!((1..=2).contains(&meet(&mut balance, &[1.0, 0.5], 16)));
        assert!((balance.shares()[1] - 1.0 / 3.0).abs() < 1e-12);
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
