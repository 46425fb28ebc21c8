//! Cuts a profile into stages for a platform.
//!
//! On equal units one order of units is as good as any other. On unequal ones the search is repeated for orders of
//! the nodes; each has to beat the best so far.

use dahl_core::Bytes;

use super::answer::{PipelinePlan, PipelineStage};
use super::cost::{Line, Stage, stashed};
use super::cuts::Cuts;
use super::flush::{Flush, affordable};
use super::platform::PipelineUnit;
use super::search::{Rules, Search, least_time};
use super::{PipelineError, Platform, Profile, bound};

/// What kind of pipeline is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct PipelineOptions {
    /// Cut batches into so many micro-batches and flush after each batch. Without, batches follow each other for ever
    /// and every batch in flight has a version of the weights.
    pub micro_batches: Option<usize>,
    /// At most so many replicas of a stage; 1 is a straight pipeline.
    pub most_replicas: Option<usize>,
    /// Stages go to the platform's units in their order; else to whichever order is best.
    pub in_order: bool,
}

/// More cuts than these are not compared with each other.
const CUTS: usize = 1200;
/// More orders of nodes than these are not tried.
const ORDERS: usize = 720;

/// The best stages for a profile on a platform.
///
/// # Errors
/// If nothing fits into the memories, or an option makes no sense.
pub fn partition(
    profile: &Profile,
    platform: &Platform,
    options: &PipelineOptions,
) -> Result<PipelinePlan, PipelineError> {
    if options.micro_batches == Some(0) || options.most_replicas == Some(0) {
        let text = "a pipeline needs at least one micro-batch and one replica";
        return Err(PipelineError::Platform(text.into()));
    }
    let most_replicas = options.most_replicas.unwrap_or(usize::MAX);
    let units = platform.units.len();
    let limit = match options.micro_batches {
        Some(_) => affordable(units),
        None => CUTS,
    };
    let cuts = Cuts::of(profile, limit);
    let (orders, all_orders) = match options.in_order {
        true => (vec![(0..units).rev().collect()], true),
        false => orders(platform),
    };
    let limited = platform.units.iter().any(|u| u.memory.is_some());
    let exact = cuts.complete && all_orders && (platform.is_uniform() || !limited);
    let floor = bound::simple(profile, platform, &cuts, most_replicas);
    let problem = Problem {
        profile,
        platform,
        cuts: &cuts,
        most_replicas,
    };
    let found = match options.micro_batches {
        None => problem.steady(&orders, floor),
        Some(m) => problem.flushed(&orders, m, limited),
    };
    let Some((mut plan, low)) = found else {
        return Err(problem.too_large(options.micro_batches));
    };
    // All units together are never faster than this, with a flush or without.
    let work = cuts.all[cuts.end()].seconds / platform.speed();
    let floor = if options.micro_batches.is_some() {
        work
    } else {
        floor
    };
    let low = if exact { low.max(floor) } else { floor };
    plan.lower_bound = low.min(plan.seconds);
    Ok(plan)
}

struct Problem<'a> {
    profile: &'a Profile,
    platform: &'a Platform,
    cuts: &'a Cuts,
    most_replicas: usize,
}

impl Problem<'_> {
    fn rules(&self) -> Rules {
        Rules {
            most_replicas: self.most_replicas,
            two_levels: !self.platform.is_flat(),
            may_skip: !self.platform.is_uniform(),
        }
    }

    fn steady(&self, orders: &[Vec<usize>], floor: f64) -> Option<(PipelinePlan, f64)> {
        let mut best: Option<(PipelinePlan, f64)> = None;
        for order in orders {
            let line = Line::new(self.platform, order);
            let mut search = Search::new(self.cuts, &line, self.rules());
            let most = best
                .as_ref()
                .map_or(f64::INFINITY, |(plan, _)| plan.seconds * (1.0 - 1e-12));
            let Some((stages, low)) = least_time(&mut search, floor, most) else {
                continue;
            };
            let mut after: usize = stages.iter().map(|s| s.replicas).sum();
            let rows = stages.iter().map(|s| {
                let memory = stashed(self.cuts, s, after);
                after -= s.replicas;
                (line.seconds(self.cuts, s), memory)
            });
            let rows: Vec<(f64, f64)> = rows.collect();
            let seconds = rows.iter().map(|r| r.0).fold(0.0, f64::max);
            best = Some((self.plan(&line, &stages, &rows, seconds), low));
        }
        best
    }

    fn flushed(
        &self,
        orders: &[Vec<usize>],
        micro_batches: usize,
        limited: bool,
    ) -> Option<(PipelinePlan, f64)> {
        let mut best: Option<(PipelinePlan, f64)> = None;
        for order in orders.iter().take(24) {
            let line = Line::new(self.platform, order);
            let flush = Flush {
                cuts: self.cuts,
                line: &line,
                micro_batches,
                most_replicas: self.most_replicas,
            };
            let Some(found) = flush.least_time() else {
                continue;
            };
            // Which activations are kept depends on the number of stages, which the search takes as it comes.
            let low = if limited || orders.len() > 24 {
                0.0
            } else {
                found.bound
            };
            let least = best.as_ref().map_or(low, |(_, known)| known.min(low));
            if best
                .as_ref()
                .is_some_and(|(plan, _)| plan.seconds <= found.seconds)
            {
                best = best.map(|(plan, _)| (plan, least));
                continue;
            }
            let depth = found.stages.len();
            let rows = found.stages.iter().enumerate().map(|(s, stage)| {
                let [before, after] = line.transfers(self.cuts, stage);
                let own = line.compute(self.cuts, stage);
                (own.max(before).max(after), flush.memory(stage, depth - s))
            });
            let rows: Vec<(f64, f64)> = rows.collect();
            best = Some((self.plan(&line, &found.stages, &rows, found.seconds), least));
        }
        best
    }

    fn plan(
        &self,
        line: &Line<'_>,
        stages: &[Stage],
        rows: &[(f64, f64)],
        seconds: f64,
    ) -> PipelinePlan {
        let name = |v: usize| self.profile.layers[v].name.clone();
        let stages = stages.iter().zip(rows).map(|(stage, row)| {
            let layers = self.cuts.layers(stage.first, stage.last);
            let units = &line.units[stage.place..stage.place + stage.replicas];
            PipelineStage {
                first: layers.first().copied().map_or_else(String::new, name),
                last: layers.last().copied().map_or_else(String::new, name),
                replicas: stage.replicas,
                seconds: row.0,
                memory_bytes: row.1,
                layers: layers.len(),
                transfers: line.transfers(self.cuts, stage),
                units: units.iter().rev().map(|u| u.name.clone()).collect(),
            }
        });
        PipelinePlan {
            seconds,
            lower_bound: 0.0,
            stages: stages.collect(),
            joined: !self.cuts.complete,
        }
    }

    /// Says how much memory each unit would need at least.
    fn too_large(&self, micro_batches: Option<usize>) -> PipelineError {
        let (orders, _) = orders(self.platform);
        let mut platform = self.platform.clone();
        let mut fits = |bytes: f64| {
            platform
                .units
                .iter_mut()
                .for_each(|u| u.memory = Some(bytes));
            let line = Line::new(&platform, &orders[0]);
            match micro_batches {
                None => Search::new(self.cuts, &line, self.rules())
                    .within(f64::INFINITY)
                    .is_ok(),
                Some(micro_batches) => {
                    let flush = Flush {
                        cuts: self.cuts,
                        line: &line,
                        micro_batches,
                        most_replicas: self.most_replicas,
                    };
                    flush.least_time().is_some()
                }
            }
        };
        let end = &self.cuts.all[self.cuts.end()];
        let (mut low, mut high) = (0.0, end.parameters + end.activations);
        let steps = if micro_batches.is_some() { 6 } else { 14 };
        for _ in 0..steps {
            let middle = f64::midpoint(low, high);
            if fits(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        let units = self.platform.units.len();
        let memories = self.platform.units.iter().filter_map(|u| u.memory);
        let most = memories.fold(0.0, f64::max);
        let why = format!(
            "{units} units with {} each, and they need about {}",
            Bytes(most as u64),
            Bytes(high as u64)
        );
        PipelineError::Memory { why }
    }
}

/// Orders of the units to try, the last stage's first, and whether no other could be better.
fn orders(platform: &Platform) -> (Vec<Vec<usize>>, bool) {
    let units = &platform.units;
    let all: Vec<usize> = (0..units.len()).collect();
    if platform.is_uniform() {
        return (vec![all], true);
    }
    let mut nodes: Vec<Vec<usize>> = Vec::new();
    for &u in &all {
        match nodes
            .last_mut()
            .filter(|n| units[n[0]].node == units[u].node)
        {
            Some(node) => node.push(u),
            None => nodes.push(vec![u]),
        }
    }
    let key = |u: &usize| {
        let unit: &PipelineUnit = &units[*u];
        (unit.speed.to_bits(), unit.memory.map(f64::to_bits))
    };
    let keys = |node: &Vec<usize>| node.iter().map(key).collect::<Vec<_>>();
    nodes.sort_by_cached_key(|node| keys(node));
    let alone = nodes.iter().all(|n| n.len() == 1);
    let kinds: Vec<Vec<_>> = nodes.iter().map(keys).collect();
    let mut kind: Vec<usize> = Vec::new();
    for (n, keys) in kinds.iter().enumerate() {
        kind.push(kinds.iter().position(|k| k == keys).unwrap_or(n));
    }
    let mut out = Vec::new();
    let mut arrangement = kind.clone();
    let mut complete = true;
    loop {
        let mut next_of = vec![0; nodes.len()];
        let order = arrangement.iter().flat_map(|&k| {
            let node = &nodes[k + next_of[k]];
            next_of[k] += 1;
            node.clone()
        });
        out.push(order.collect());
        if !advance(&mut arrangement) {
            break;
        }
        if out.len() >= ORDERS {
            complete = false;
            // The other end of the list: the nodes turned round.
            let turned: Vec<usize> = nodes.iter().rev().flatten().copied().collect();
            out.push(turned);
            break;
        }
    }
    (out, complete && alone)
}

/// The next permutation in lexicographic order, if there is one.
fn advance(list: &mut [usize]) -> bool {
    let Some(at) = list.windows(2).rposition(|w| w[0] < w[1]) else {
        return false;
    };
    let larger = list.iter().rposition(|&v| v > list[at]).unwrap_or(at);
    list.swap(at, larger);
    list[at + 1..].reverse();
    true
}
