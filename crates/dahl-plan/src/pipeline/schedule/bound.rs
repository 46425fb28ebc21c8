//! Times that no order of a pipeline's operations is faster than.
//!
//! **What a device keeps makes it wait.** Between its first F and its first B, the micro-batch goes to the last stage and back. In
//! that time the device can do no more than the F of what it may keep: the rest of the time it waits. Likewise between its last
//! F and the B of that micro-batch it has only B and W of what it kept. If there are more micro-batches than it keeps,
//! these are two different times. And as every micro-batch takes a place from F to W, so many places serve so many of
//! them one after another.
//!
//! **What others do makes it wait.** All micro-batches go through every later device, which needs all its F and B for them, and the
//! W without which there is no place for the last. The device begins before the first of them gets there, and ends after
//! the last has come back.

use super::PipelineWork;

/// A pipeline whose orders are bounded.
pub(super) struct Bounds<'a> {
    pub(super) work: &'a PipelineWork,
    pub(super) device_of: &'a [usize],
    /// Whether B and W are two operations.
    pub(super) split: bool,
    /// By device, how many stages' activations it may keep.
    pub(super) limits: &'a [usize],
}

impl Bounds<'_> {
    fn stages(&self, device: usize) -> Vec<usize> {
        let own = |&s: &usize| self.device_of[s] == device;
        (0..self.device_of.len()).filter(own).collect()
    }

    /// Forward and back through a stage, as far as others wait for it.
    fn back(&self, stage: usize) -> f64 {
        let [_, b, w] = self.work.stages[stage];
        if self.split { b } else { b + w }
    }

    fn busy(&self, device: usize) -> f64 {
        let own = self.stages(device);
        let own = own.iter().map(|&s| self.work.stages[s].iter().sum::<f64>());
        own.sum::<f64>() * self.work.micro_batches as f64
    }

    /// What the busiest device computes.
    pub(super) fn busiest(&self) -> f64 {
        let all = (0..self.work.devices).map(|d| self.busy(d));
        all.fold(0.0, f64::max)
    }

    /// From a device's first operation to its last.
    fn stay(&self, device: usize) -> f64 {
        let busy = self.busy(device);
        let &[stage] = &self.stages(device)[..] else {
            return busy;
        };
        let (m, kept) = (self.work.micro_batches, self.limits[device].max(1));
        let after = self.after(stage);
        let [f, b, w] = self.work.stages[stage];
        let first = f + after - kept.min(m) as f64 * f;
        let last = match m > kept {
            true => after - (kept - 1) as f64 * (b + w),
            false => 0.0,
        };
        let turns = m.div_ceil(kept) as f64 * (f + after + b + w);
        let own = turns.max(busy + first.max(0.0) + last.max(0.0));
        let (mut way, mut best) = (0.0, own);
        for other in stage..self.device_of.len() {
            best = best.max(way + self.through(other) + if self.split { w } else { 0.0 });
            way += self.work.stages[other][0] + self.back(other);
        }
        best
    }

    /// From the first F of a stage to its last B, where each device has one stage. In front of the last F it has done all W but
    /// those of what it may keep; between that and its B only other B of what it keeps are left, or more W.
    fn through(&self, stage: usize) -> f64 {
        let (m, kept) = (
            self.work.micro_batches,
            self.limits[self.device_of[stage]].max(1),
        );
        let [f, _, w] = self.work.stages[stage];
        let (b, w) = (self.back(stage), if self.split { w } else { 0.0 });
        let after = self.after(stage);
        let first = f + after - kept.min(m) as f64 * f;
        let last = match m > kept {
            true => after - (kept - 1) as f64 * b,
            false => 0.0,
        };
        m as f64 * (f + b) + m.saturating_sub(kept) as f64 * w + first.max(0.0) + last.max(0.0)
    }

    /// The way of a micro-batch from a stage to the last one and back.
    fn after(&self, stage: usize) -> f64 {
        let later = stage + 1..self.device_of.len();
        later.map(|s| self.work.stages[s][0] + self.back(s)).sum()
    }

    /// The longest that any device is at it.
    pub(super) fn longest_stay(&self) -> f64 {
        let all = (0..self.work.devices).map(|d| self.stay(d));
        all.fold(0.0, f64::max)
    }

    /// A device begins when the first micro-batch has come to it, and after its last operation that others wait for the
    /// gradient goes back to the first stage.
    pub(super) fn makespan(&self) -> f64 {
        let (work, m) = (self.work, self.work.micro_batches as f64);
        let mut best = 0.0f64;
        for device in 0..work.devices {
            let own = self.stages(device);
            let first = own[0];
            let before: f64 = work.stages[..first].iter().map(|t| t[0]).sum();
            let after: f64 = (0..first).map(|s| self.back(s)).sum();
            // With a split backward a device may end with W, while the gradient has gone on.
            let tail = if self.split { 0.0 } else { after };
            best = best.max(before + self.stay(device) + tail);
            // The gradient of the last micro-batch goes back to the first stage, whose weights wait for it.
            let others: f64 = own.iter().map(|&s| work.stages[s][2]).sum::<f64>() * m;
            let last = if first > 0 { work.stages[0][2] } else { 0.0 };
            if self.split && own.len() == 1 {
                best = best.max(before + self.busy(device) - others + after + last);
            }
        }
        let way: f64 = work.stages.iter().map(|t| t[0] + t[1]).sum();
        best.max(way)
    }
}
