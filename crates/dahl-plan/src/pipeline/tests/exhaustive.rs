//! Every way to cut small random networks, by the published equations alone.

use crate::tests::random::Dice;

use super::super::{PipelineOptions, Platform, Profile, partition};
use super::{best, check, layer, read};

/// A random network of a few layers, with branches.
fn network(dice: &mut Dice) -> Profile {
    let count = 1 + dice.below(6);
    let mut text = String::new();
    for n in 0..count {
        let time = dice.below(20) as f64;
        let activation = dice.below(8) as f64 * 1e6;
        text += &layer(n, time, activation, dice.below(5) as f64 * 1e6);
    }
    for n in 1..count {
        for m in 0..n {
            if dice.chance(if m + 1 == n { 70 } else { 20 }) {
                text += &format!("\tnode{m} -- node{n}\n");
            }
        }
    }
    read(&text)
}

struct Oracle<'a> {
    profile: &'a Profile,
    platform: &'a Platform,
    /// With so many micro-batches, and a flush.
    micro_batches: Option<usize>,
    least: f64,
}

/// A stage: its layers, and the numbers of its units.
type Chosen = (u32, Vec<usize>);

impl Oracle<'_> {
    fn sum(&self, set: u32, of: impl Fn(usize) -> f64) -> f64 {
        let layers = 0..self.profile.layers.len();
        layers.filter(|n| set >> n & 1 == 1).map(of).sum()
    }

    /// Bytes that leave a downward-closed set.
    fn sent(&self, set: u32) -> f64 {
        self.sum(set, |n| {
            let reads = self.profile.reads.iter().enumerate();
            let mut later = reads.filter(|(m, _)| set >> m & 1 == 0);
            match later.any(|(_, reads)| reads.contains(&(n as u32))) {
                true => self.profile.layers[n].activation,
                false => 0.0,
            }
        })
    }

    /// Goes through all chains of downward-closed sets, and all sets of units for each stage.
    fn all(&mut self, done: u32, free: u32, stages: &mut Vec<Chosen>) {
        let count = self.profile.layers.len();
        if done == (1 << count) - 1 {
            self.rate(stages);
            return;
        }
        for set in done + 1..1 << count {
            let closed = |n: usize| {
                let reads = &self.profile.reads[n];
                set >> n & 1 == 0 || reads.iter().all(|u| set >> u & 1 == 1)
            };
            if set & done != done || !(0..count).all(closed) {
                continue;
            }
            for units in 1..1u32 << self.platform.units.len() {
                if units & !free != 0 {
                    continue;
                }
                let all = 0..self.platform.units.len();
                let units_of = all.filter(|u| units >> u & 1 == 1).collect();
                stages.push((set & !done, units_of));
                self.all(set, free & !units, stages);
                stages.pop();
            }
        }
    }

    fn rate(&mut self, stages: &[Chosen]) {
        let bandwidth = self.platform.between;
        let (mut before, mut slowest, mut fill) = (0, 0.0f64, 0.0);
        let mut left: usize = stages.iter().map(|s| s.1.len()).sum();
        for (place, (layers, units)) in stages.iter().enumerate() {
            let r = units.len() as f64;
            let speed: f64 = units.iter().map(|&u| self.platform.units[u].speed).sum();
            let time = |n: usize| self.profile.layers[n].forward + self.profile.layers[n].backward;
            let weights = self.sum(*layers, |n| self.profile.layers[n].parameters);
            let kept = self.sum(*layers, |n| self.profile.layers[n].activation);
            let compute = self.sum(*layers, time) / speed;
            let exchange = 4.0 * (r - 1.0) * weights / (bandwidth * r) / r;
            let mut transfer = [0.0; 2];
            if place > 0 {
                transfer[0] = 2.0 * self.sent(before) / (bandwidth * r);
                transfer[1] = 2.0 * self.sent(before | layers) / (bandwidth * r);
            }
            let moved = transfer[0].max(transfer[1]);
            let memory = match self.micro_batches {
                None => (weights + kept) * left.div_ceil(units.len()) as f64,
                Some(m) => {
                    let depth = (stages.len() - place).min(m) as f64;
                    weights + depth * kept / r / m as f64
                }
            };
            let limits = units.iter().filter_map(|&u| self.platform.units[u].memory);
            if limits.fold(f64::INFINITY, f64::min) < memory {
                return;
            }
            match self.micro_batches {
                None => slowest = slowest.max((compute + exchange).max(moved)),
                Some(m) => {
                    let m = m as f64;
                    fill += (compute + transfer[0]) / m;
                    slowest = slowest.max(compute.max(moved) * (m - 1.0) / m + exchange * r);
                }
            }
            before |= layers;
            left -= units.len();
        }
        self.least = self.least.min(slowest + fill);
    }
}

fn oracle(profile: &Profile, platform: &Platform, micro_batches: Option<usize>) -> f64 {
    let mut oracle = Oracle {
        profile,
        platform,
        micro_batches,
        least: f64::INFINITY,
    };
    oracle.all(0, (1 << platform.units.len()) - 1, &mut Vec::new());
    oracle.least
}

fn near(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

#[test]
fn small_networks_on_equal_units() {
    for seed in 0..300 {
        let mut dice = Dice::new(seed);
        let profile = network(&mut dice);
        let memory = dice.chance(60).then(|| (4 + dice.below(40)) as f64 * 1e6);
        let platform = Platform::equal(1 + dice.below(3), 1e9, memory).expect("equal");
        let least = oracle(&profile, &platform, None);
        match partition(&profile, &platform, &PipelineOptions::default()) {
            Ok(plan) => {
                check(&plan, &platform);
                assert!(near(plan.seconds, least), "{seed}: {least} {plan:?}");
                assert!(near(plan.lower_bound, least), "{seed}: {least} {plan:?}");
            }
            Err(error) => assert!(least.is_infinite(), "{seed}: {least} {error}"),
        }
    }
}

#[test]
fn small_networks_on_unequal_units() {
    for seed in 1000..1150 {
        let mut dice = Dice::new(seed);
        let profile = network(&mut dice);
        let count = 2 + dice.below(2);
        let mut platform = Platform::equal(count, 1e9, None).expect("equal");
        for unit in &mut platform.units {
            unit.speed = (1 + dice.below(4)) as f64 / 4.0;
        }
        let least = oracle(&profile, &platform, None);
        let plan = best(&profile, &platform);
        check(&plan, &platform);
        assert!(near(plan.seconds, least), "{seed}: {least} {plan:?}");
        assert!(near(plan.lower_bound, least), "{seed}: {least} {plan:?}");
    }
}

#[test]
fn small_networks_with_a_flush() {
    for seed in 2000..2200 {
        let mut dice = Dice::new(seed);
        let profile = network(&mut dice);
        let memory = dice.chance(30).then(|| (4 + dice.below(40)) as f64 * 1e6);
        let platform = Platform::equal(1 + dice.below(3), 1e9, memory).expect("equal");
        let micro_batches = Some(1 + dice.below(6));
        let least = oracle(&profile, &platform, micro_batches);
        let options = PipelineOptions {
            micro_batches,
            ..Default::default()
        };
        match partition(&profile, &platform, &options) {
            Ok(plan) => {
                assert!(
                    plan.seconds >= least * (1.0 - 1e-9),
                    "{seed}: {least} {plan:?}"
                );
                assert!(
                    plan.lower_bound <= least * (1.0 + 1e-9),
                    "{seed}: {least} {plan:?}"
                );
                if memory.is_none() {
                    assert!(
                        plan.seconds <= least * (1.0 + 1e-6),
                        "{seed}: {least} {plan:?}"
                    );
                }
            }
            Err(error) => assert!(memory.is_some(), "{seed}: {least} {error}"),
        }
    }
}
