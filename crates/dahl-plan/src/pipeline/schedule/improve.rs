//! Changes of a schedule's orders, kept as long as they help: an operation goes a few places forward or back on its device.
//!
//! What a list scheduler decides is right for the moment. On unequal stages the best W to do next depends on what comes
//! later; a few thousand replays find that out. The same work gives the same answer.

use dahl_core::random::Random;

use super::orders::replay;
use super::{Operation, PipelineSchedule, PipelineWork, Slot};

/// Replayed operations beyond which the search ends.
const BUDGET: usize = 1_000_000;

/// Replays beyond which it ends, too.
const REPLAYS: usize = 8_000;

/// Moves by which a schedule that nothing nearby betters is shaken.
const SHAKEN: u64 = 6;

/// How far an operation moves at most.
const FARTHEST: usize = 8;

/// The schedule with better orders of a split backward, if there are any nearby; no device keeps more than it may.
pub(super) fn improve(
    work: &PipelineWork,
    device_of: &[usize],
    may_keep: &[usize],
    from: PipelineSchedule,
) -> PipelineSchedule {
    let operations: usize = from.orders.iter().map(Vec::len).sum();
    let mut search = Search {
        work,
        device_of,
        may_keep,
        left: (BUDGET / operations.max(1)).min(REPLAYS),
    };
    let random = Random::new(1, 1);
    let mut best = search.descend(from);
    let mut at = 0;
    while search.goes_on(&best) {
        let mut other = best.clone();
        for _ in 0..SHAKEN {
            let device = random.below(at, work.devices as u64) as usize;
            let len = other.orders[device].len();
            let from = random.below(at + 1, len as u64) as usize;
            let far = random.below(at + 2, 2 * FARTHEST as u64) as usize;
            at += 3;
            let to = (from + far).saturating_sub(FARTHEST).min(len - 1);
            if let Some(moved) = search.moved(&other, device, from, to) {
                other = moved;
            }
        }
        let other = search.descend(other);
        if rank(work, &other) <= rank(work, &best) {
            best = other;
        }
    }
    best
}

struct Search<'a> {
    work: &'a PipelineWork,
    device_of: &'a [usize],
    may_keep: &'a [usize],
    /// Replays to come.
    left: usize,
}

impl Search<'_> {
    fn goes_on(&self, best: &PipelineSchedule) -> bool {
        self.left > 0 && best.bubble > best.bubble_bound + 1e-12
    }

    /// Takes moves that help until none does.
    fn descend(&mut self, from: PipelineSchedule) -> PipelineSchedule {
        let (mut best, mut moved) = (from, true);
        while std::mem::take(&mut moved) {
            for device in 0..best.orders.len() {
                for at in 0..best.orders[device].len() {
                    for to in places(at, best.orders[device].len()) {
                        if !self.goes_on(&best) {
                            return best;
                        }
                        let made = self.moved(&best, device, at, to);
                        let better =
                            |m: &PipelineSchedule| rank(self.work, m) < rank(self.work, &best);
                        if let Some(made) = made.filter(better) {
                            (best, moved) = (made, true);
                        }
                    }
                }
            }
        }
        best
    }

    /// The schedule with an operation of a device elsewhere, if that can be followed and keeps no more than it may.
    fn moved(
        &mut self,
        of: &PipelineSchedule,
        device: usize,
        from: usize,
        to: usize,
    ) -> Option<PipelineSchedule> {
        let (first, last) = (from.min(to), from.max(to));
        let mut between = of.orders[device][first..=last].to_vec();
        let slot = between.remove(from - first);
        between.insert(to - first, slot);
        if !in_turn(&between) {
            return None;
        }
        self.left = self.left.saturating_sub(1);
        let mut orders = of.orders.clone();
        orders[device][first..=last].copy_from_slice(&between);
        let (work, may_keep) = (self.work, self.may_keep);
        let made = replay(work, self.device_of, true, orders, Some(may_keep))?;
        let per = (work.stages.len() / work.devices) as f64;
        let kept = made.in_flight.iter().zip(may_keep);
        let fits = kept.into_iter().all(|(n, &k)| n * per <= k as f64 + 1e-9);
        fits.then_some(made)
    }
}

/// Places nearby, the nearest first.
fn places(at: usize, len: usize) -> impl Iterator<Item = usize> {
    (1..=FARTHEST).flat_map(move |d| {
        let back = at.checked_sub(d);
        let on = Some(at + d).filter(|&p| p < len);
        back.into_iter().chain(on)
    })
}

/// Whether each kind of operation of a stage still takes its micro-batches in order, and each of them after what it needs on
/// the same device, in a part of its order.
fn in_turn(moved: &[Slot]) -> bool {
    moved.iter().enumerate().all(|(i, a)| {
        moved[i + 1..].iter().all(|b| {
            let same = a.stage == b.stage;
            let turn = a.operation != b.operation || a.micro_batch < b.micro_batch;
            let needs = a.micro_batch != b.micro_batch || number(a.operation) < number(b.operation);
            !same || turn && needs
        })
    })
}

fn number(operation: Operation) -> u8 {
    operation as u8
}

/// What is made smaller: the bubble, what all devices wait, the makespan. In whole numbers, so that rounding decides nothing.
fn rank(work: &PipelineWork, made: &PipelineSchedule) -> (u64, u64, u64) {
    let scale = 1e9 / made.lower_bound.max(1e-300);
    let whole = |x: f64| (x * scale).round() as u64;
    let ends = made.orders.iter().zip(&made.begins).map(|(order, begins)| {
        let last = order.last().zip(begins.last());
        let end = last.map_or(0.0, |(slot, begin)| {
            begin + work.stages[slot.stage][slot.operation as usize]
        });
        end - begins.first().copied().unwrap_or(0.0)
    });
    (
        (made.bubble * 1e9).round() as u64,
        whole(ends.sum()),
        whole(made.makespan),
    )
}
