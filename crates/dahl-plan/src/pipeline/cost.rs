//! What a stage costs: PipeDream's equations, with speeds and two levels of network.
//!
//! A stage of compute time T and W bytes of parameters on r replicas takes T / V + 4 (r−1) W / (B r²) seconds per
//! batch, V being the sum of their speeds: each replica takes whole batches in turn, and after r batches they exchange
//! gradients and weights. What crosses a cut, a bytes there and as many back, takes 2 a / (B r) on the side of each
//! stage that does not begin the pipeline; the first stage's replicas are charged at the receiver, as published. A
//! stage keeps one version of its weights and activations for each batch in flight: ⌈R / r⌉ where R units run it and
//! the stages after it.
//!
//! Units are taken in one order, from the last stage to the first.

use super::cuts::Cuts;
use super::platform::{PipelineUnit, Platform};

/// A stage between two cuts on `replicas` units from `place` on in the line of units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stage {
    pub(super) first: usize,
    pub(super) last: usize,
    pub(super) place: usize,
    pub(super) replicas: usize,
    /// Whether what it receives stays inside its node.
    pub(super) from_inside: bool,
    /// Whether what it sends stays inside its node.
    pub(super) to_inside: bool,
}

/// Units in the order in which stages take them, the last stage first.
pub(super) struct Line<'p> {
    pub(super) units: Vec<&'p PipelineUnit>,
    /// Sum of the speeds before each place.
    speeds: Vec<f64>,
    /// For each place, where the units of its node end.
    node_ends: Vec<usize>,
    limited: bool,
    inside: f64,
    between: f64,
}

impl<'p> Line<'p> {
    pub(super) fn new(platform: &'p Platform, order: &[usize]) -> Line<'p> {
        let units: Vec<&PipelineUnit> = order.iter().map(|&u| &platform.units[u]).collect();
        let mut speeds = vec![0.0];
        for unit in &units {
            speeds.push(speeds[speeds.len() - 1] + unit.speed);
        }
        let mut node_ends = vec![units.len(); units.len()];
        for place in (1..units.len()).rev() {
            let same = units[place - 1].node == units[place].node;
            node_ends[place - 1] = if same { node_ends[place] } else { place };
        }
        Line {
            limited: units.iter().any(|u| u.memory.is_some()),
            units,
            speeds,
            node_ends,
            inside: platform.inside,
            between: platform.between,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// Speed of some neighbours together.
    pub(super) fn speed(&self, place: usize, replicas: usize) -> f64 {
        if replicas == 1 {
            return self.units[place].speed;
        }
        self.speeds[place + replicas] - self.speeds[place]
    }

    /// Whether these units are in one node.
    pub(super) fn together(&self, place: usize, replicas: usize) -> bool {
        place + replicas <= self.node_ends[place]
    }

    /// The least memory among these units.
    pub(super) fn memory(&self, place: usize, replicas: usize) -> f64 {
        if !self.limited {
            return f64::INFINITY;
        }
        let units = &self.units[place..place + replicas];
        let limits = units.iter().filter_map(|u| u.memory);
        limits.fold(f64::INFINITY, f64::min)
    }

    fn bandwidth(&self, inside: bool) -> f64 {
        if inside { self.inside } else { self.between }
    }

    /// Seconds of computing, per batch.
    pub(super) fn compute(&self, cuts: &Cuts, stage: &Stage) -> f64 {
        let (a, b) = (&cuts.all[stage.first], &cuts.all[stage.last]);
        (b.seconds - a.seconds) / self.speed(stage.place, stage.replicas)
    }

    /// Seconds of exchanging gradients and weights, for each batch of a stage.
    pub(super) fn exchange(&self, cuts: &Cuts, stage: &Stage) -> f64 {
        let r = stage.replicas as f64;
        if stage.replicas == 1 {
            return 0.0;
        }
        let bytes = cuts.all[stage.last].parameters - cuts.all[stage.first].parameters;
        let bandwidth = self.bandwidth(self.together(stage.place, stage.replicas));
        4.0 * (r - 1.0) * bytes / (bandwidth * r) / r
    }

    /// Seconds of what comes in and of what goes out, there and back.
    pub(super) fn transfers(&self, cuts: &Cuts, stage: &Stage) -> [f64; 2] {
        let seconds = |cut: usize, inside: bool| {
            let bytes = 2.0 * cuts.all[cut].sent;
            bytes / (self.bandwidth(inside) * stage.replicas as f64)
        };
        if stage.first == 0 {
            return [0.0; 2];
        }
        let sent = (stage.last < cuts.end()).then(|| seconds(stage.last, stage.to_inside));
        [seconds(stage.first, stage.from_inside), sent.unwrap_or(0.0)]
    }

    /// Seconds of a stage per batch in the steady state.
    pub(super) fn seconds(&self, cuts: &Cuts, stage: &Stage) -> f64 {
        let [before, after] = self.transfers(cuts, stage);
        let own = self.compute(cuts, stage) + self.exchange(cuts, stage);
        own.max(before).max(after)
    }
}

/// Bytes that each replica of a stage holds, if `units` run it and the stages after it.
pub(super) fn stashed(cuts: &Cuts, stage: &Stage, units: usize) -> f64 {
    let (a, b) = (&cuts.all[stage.first], &cuts.all[stage.last]);
    let versions = units.div_ceil(stage.replicas) as f64;
    versions * (b.parameters - a.parameters + b.activations - a.activations)
}
