//! Times of one clock in terms of another.
//!
//! Two clocks were compared at two moments. In between and outside the difference is taken to change evenly, since
//! clocks differ in rate by a nearly constant amount.

use serde::{Deserialize, Serialize};

use super::Nanos;

/// How a node's times become those of the first node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    /// When the clocks were compared, in nanoseconds by the node's own clock.
    pub at: [f64; 2],
    /// What the first node's clock showed more at these moments.
    pub offset: [f64; 2],
    /// How far both offsets may be wrong.
    pub uncertainty: Nanos,
}

impl Alignment {
    /// The first node's time at a moment of this node; before its recording began if negative.
    pub fn apply(&self, own: Nanos) -> i64 {
        let own = own as f64;
        let ([from, to], [first, last]) = (self.at, self.offset);
        let drift = match to > from {
            true => (last - first) / (to - from),
            false => 0.0,
        };
        (own + first + drift * (own - from)).round() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_changes_evenly() {
        let alignment = Alignment {
            at: [100.0, 1100.0],
            offset: [50.0, 60.0],
            uncertainty: 0,
        };
        for (own, first) in [(100, 150), (1100, 1160), (600, 655), (2100, 2170), (0, 49)] {
            assert_eq!(alignment.apply(own), first, "at {own}");
        }
        assert_eq!(Alignment::default().apply(7), 7);
    }

    #[test]
    fn clocks_compared_once_have_no_drift() {
        let alignment = Alignment {
            at: [5.0, 5.0],
            offset: [-9.0, -9.0],
            uncertainty: 0,
        };
        assert_eq!(alignment.apply(3), -6);
    }
}
