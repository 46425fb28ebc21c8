//! Batches: small copies over one link, started together. The rule, for the runtime, which makes copies, and
//! for the simulator, which predicts them.
//!
//! A copy of `b` bytes takes `L + b / B`, and copies that are started together and waited for once pay `L`
//! once. A task waits for all of its operands, so it always gains; somebody else who waits for one of them,
//! or for the link, waits for the rest of the batch, too. So a copy joins a batch if it takes less on its
//! way than it saves: `b / B < L`.

use dahl_core::Seconds;

/// Whether a copy that takes `whole`, of which `start` whatever its size, takes less on its way than a start
/// of its own, which is saved with this chance if it travels with others.
pub fn is_small(start: Seconds, whole: Seconds, chance: f64) -> bool {
    whole.0 - start.0 < chance * start.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_below_the_latency_are_small() {
        let whole = |bytes: f64| Seconds(1.0 + bytes / 1000.0);
        let small = |bytes, chance| is_small(Seconds(1.0), whole(bytes), chance);
        assert!(small(999.0, 1.0) && !small(1001.0, 1.0));
        assert!(small(499.0, 0.5) && !small(501.0, 0.5) && !small(1.0, 0.0));
        assert!(
            !is_small(Seconds(0.0), Seconds(0.0), 1.0),
            "nothing to save"
        );
    }
}
