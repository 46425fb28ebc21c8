//! Where a profile may be cut: downward-closed sets of layers, the *cuts*. A stage is what lies between two of them.
//!
//! A chain of layers has as many as layers, branches multiply. Up to a limit all are listed, and then the search over
//! them is exact. Beyond it branches are joined: a series of layers inside a branch counts as one. Where that is not
//! enough, the cuts are those along some topological orders, at most one for each equal share of the work: the one
//! that sends least.

use std::collections::HashSet;

use super::Profile;

/// A set of layers, one bit each.
type Set = Vec<u64>;

/// One place to cut: what lies before it, in sums.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    set: Set,
    /// Seconds of all layers before it.
    pub(super) seconds: f64,
    /// Bytes of their parameters.
    pub(super) parameters: f64,
    /// Bytes of their activations.
    pub(super) activations: f64,
    /// Bytes of the activations among them that later layers read.
    pub(super) sent: f64,
}

/// The places to cut, by number of layers before them: nothing first, everything last.
pub(super) struct Cuts {
    pub(super) all: Vec<Cut>,
    /// Whether these are all that there are.
    pub(super) complete: bool,
    /// For each, those that contain it, the largest first.
    after: Vec<Vec<u32>>,
}

impl Cuts {
    /// The cuts of a profile, at most about `limit`.
    pub(super) fn of(profile: &Profile, limit: usize) -> Cuts {
        let network = Network::of(profile);
        let single: Vec<Vec<u32>> = (0..network.count()).map(|v| vec![v as u32]).collect();
        if let Some(sets) = network.closed_sets(&single, limit) {
            return Cuts::sorted(profile, &network, sets, true);
        }
        let mut sets = Vec::new();
        if let Some(joined) = network.closed_sets(&network.branches(), limit / 2) {
            sets = joined;
        }
        // Without a bound on what bit sets cost, profiles of many thousand layers get one order.
        let orders = if network.count() <= 4096 { 3 } else { 1 };
        let share = (limit / 2).saturating_sub(sets.len()) / orders;
        for order in network.orders().into_iter().take(orders) {
            network.along(profile, &order, share.max(2), &mut sets);
        }
        Cuts::sorted(profile, &network, sets, false)
    }

    fn sorted(profile: &Profile, network: &Network, sets: Vec<Set>, complete: bool) -> Cuts {
        let unique: HashSet<Set> = sets.into_iter().collect();
        let mut sets: Vec<Set> = unique.into_iter().collect();
        sets.sort_by_cached_key(|set| (size(set), set.clone()));
        let all: Vec<Cut> = sets.into_iter().map(|s| network.cut(profile, s)).collect();
        let nested = all.windows(2).all(|c| within(&c[0].set, &c[1].set));
        let after = (0..all.len()).map(|first| {
            let later = (first + 1..all.len()).rev();
            let holds = |last: &usize| nested || within(&all[first].set, &all[*last].set);
            later.filter(holds).map(|last| last as u32).collect()
        });
        Cuts {
            after: after.collect(),
            all,
            complete,
        }
    }

    /// The last one: everything lies before it.
    pub(super) fn end(&self) -> usize {
        self.all.len() - 1
    }

    /// The cuts at which a stage that begins at a cut can end, the latest first.
    pub(super) fn after(&self, first: usize) -> impl Iterator<Item = usize> + '_ {
        self.after[first].iter().map(|&last| last as usize)
    }

    /// The layers between two cuts, in the profile's order.
    pub(super) fn layers(&self, first: usize, last: usize) -> Vec<usize> {
        let (from, to) = (&self.all[first].set, &self.all[last].set);
        let words = from.iter().zip(to).enumerate();
        words
            .flat_map(|(w, (a, b))| {
                let mut bits = b & !a;
                std::iter::from_fn(move || {
                    let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                    bits &= bits - 1;
                    Some(64 * w + bit)
                })
            })
            .collect()
    }
}

fn size(set: &Set) -> u32 {
    set.iter().map(|w| w.count_ones()).sum()
}

fn within(a: &Set, b: &Set) -> bool {
    a.iter().zip(b).all(|(a, b)| a & !b == 0)
}

fn has(set: &Set, v: u32) -> bool {
    set[v as usize / 64] >> (v % 64) & 1 == 1
}

fn insert(set: &mut Set, v: u32) {
    set[v as usize / 64] |= 1 << (v % 64);
}

/// Who reads whom, both ways.
struct Network<'p> {
    reads: &'p [Vec<u32>],
    read_by: Vec<Vec<u32>>,
}

impl Network<'_> {
    fn of(profile: &Profile) -> Network<'_> {
        Network {
            reads: &profile.reads,
            read_by: profile.read_by(),
        }
    }

    fn count(&self) -> usize {
        self.reads.len()
    }

    fn empty(&self) -> Set {
        vec![0; self.count().div_ceil(64)]
    }

    /// All downward-closed unions of these groups of layers, unless there are more than `limit`. A group is in
    /// topological order, and nothing outside reads any but its last layer.
    fn closed_sets(&self, groups: &[Vec<u32>], limit: usize) -> Option<Vec<Set>> {
        let mut group_of = vec![0u32; self.count()];
        for (g, group) in groups.iter().enumerate() {
            group.iter().for_each(|&v| group_of[v as usize] = g as u32);
        }
        let free = |set: &Set, g: u32| {
            let group = &groups[g as usize];
            let reads = group.iter().flat_map(|&v| &self.reads[v as usize]);
            let mut outer = reads.filter(|&&u| group_of[u as usize] != g);
            outer.all(|&u| has(set, u))
        };
        let all: Vec<u32> = (0..groups.len() as u32).collect();
        let start = self.empty();
        let first: Vec<u32> = all.into_iter().filter(|&g| free(&start, g)).collect();
        let mut seen: HashSet<Set> = HashSet::from([start.clone()]);
        let mut open = vec![(start, first)];
        while let Some((set, ready)) = open.pop() {
            for &g in &ready {
                let mut next = set.clone();
                groups[g as usize]
                    .iter()
                    .for_each(|&v| insert(&mut next, v));
                if !seen.insert(next.clone()) {
                    continue;
                }
                if seen.len() > limit {
                    return None;
                }
                let group = groups[g as usize].iter();
                let readers = group.flat_map(|&v| &self.read_by[v as usize]);
                let mut ahead: Vec<u32> = readers.map(|&w| group_of[w as usize]).collect();
                ahead.retain(|&h| h != g && free(&next, h));
                ahead.extend(ready.iter().filter(|&&h| h != g));
                ahead.sort_unstable();
                ahead.dedup();
                open.push((next, ahead));
            }
        }
        Some(seen.into_iter().collect())
    }

    /// Series of layers inside branches, joined: a layer goes with the one before it if nobody else reads that, it
    /// reads nothing else, and there are layers beside both. Layers of the trunk stay alone.
    fn branches(&self) -> Vec<Vec<u32>> {
        let trunk = self.trunk();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut group_of = vec![usize::MAX; self.count()];
        for v in 0..self.count() {
            let before = match self.reads[v][..] {
                [u] if self.read_by[u as usize].len() == 1 => Some(u as usize),
                _ => None,
            };
            let joined = before.filter(|&u| !trunk[u] && !trunk[v]);
            group_of[v] = joined.map_or(groups.len(), |u| group_of[u]);
            if joined.is_none() {
                groups.push(Vec::new());
            }
            groups[group_of[v]].push(v as u32);
        }
        groups
    }

    /// Layers that every other comes before or after. In a topological order these are where no edge passes over.
    fn trunk(&self) -> Vec<bool> {
        let count = self.count();
        let last = |v: usize| self.read_by[v].iter().max().map_or(count, |&w| w as usize);
        let first = |v: usize| self.reads[v].iter().min().map_or(-1, |&u| i64::from(u));
        // Before it all must be read up to it at the latest, after it all must read it or later ones.
        let mut reach = 0;
        let mut trunk = vec![true; count];
        for (v, on) in trunk.iter_mut().enumerate() {
            *on = reach <= v;
            reach = reach.max(last(v));
        }
        let mut reach = count as i64;
        for v in (0..count).rev() {
            trunk[v] &= reach >= v as i64;
            reach = reach.min(first(v));
        }
        trunk
    }

    /// Some topological orders: the profile's own, and two that follow branches to their ends.
    fn orders(&self) -> Vec<Vec<u32>> {
        let own: Vec<u32> = (0..self.count() as u32).collect();
        vec![own, self.depth_first(false), self.depth_first(true)]
    }

    fn depth_first(&self, turned: bool) -> Vec<u32> {
        let mut waits: Vec<usize> = self.reads.iter().map(Vec::len).collect();
        let sources = (0..self.count() as u32).filter(|&v| waits[v as usize] == 0);
        let mut open: Vec<u32> = sources.collect();
        open.reverse();
        let mut order = Vec::with_capacity(self.count());
        while let Some(v) = open.pop() {
            order.push(v);
            let mut next = self.read_by[v as usize].clone();
            if turned {
                next.reverse();
            }
            for w in next {
                waits[w as usize] -= 1;
                if waits[w as usize] == 0 {
                    open.push(w);
                }
            }
        }
        order
    }

    /// Adds the cuts along an order, one for each of `shares` equal shares of the work, and the two ends.
    fn along(&self, profile: &Profile, order: &[u32], shares: usize, sets: &mut Vec<Set>) {
        let seconds = |v: u32| {
            let layer = &profile.layers[v as usize];
            layer.forward + layer.backward
        };
        let total: f64 = order.iter().map(|&v| seconds(v)).sum();
        let mut unread: Vec<usize> = self.read_by.iter().map(Vec::len).collect();
        // Work, bytes sent and layers before each cut along the order.
        let (mut done, mut sent) = (0.0, 0.0);
        let mut best: Vec<Option<(f64, usize)>> = vec![None; shares];
        for (place, &v) in order.iter().enumerate() {
            done += seconds(v);
            for &u in &self.reads[v as usize] {
                unread[u as usize] -= 1;
                if unread[u as usize] == 0 {
                    sent -= profile.layers[u as usize].activation;
                }
            }
            if unread[v as usize] > 0 {
                sent += profile.layers[v as usize].activation;
            }
            // Without any work, places count.
            let part = match total > 0.0 {
                true => done / total,
                false => place as f64 / order.len() as f64,
            };
            let share = ((part * shares as f64) as usize).min(shares - 1);
            if best[share].is_none_or(|(least, _)| sent < least) {
                best[share] = Some((sent, place + 1));
            }
        }
        let mut chosen: Vec<usize> = best.into_iter().flatten().map(|b| b.1).collect();
        chosen.push(order.len());
        let mut set = self.empty();
        sets.push(set.clone());
        let mut at = 0;
        for end in chosen {
            order[at..end.max(at)]
                .iter()
                .for_each(|&v| insert(&mut set, v));
            at = at.max(end);
            sets.push(set.clone());
        }
    }

    fn cut(&self, profile: &Profile, set: Set) -> Cut {
        let mut cut = Cut {
            seconds: 0.0,
            parameters: 0.0,
            activations: 0.0,
            sent: 0.0,
            set,
        };
        for (v, layer) in profile.layers.iter().enumerate() {
            if !has(&cut.set, v as u32) {
                continue;
            }
            cut.seconds += layer.forward + layer.backward;
            cut.parameters += layer.parameters;
            cut.activations += layer.activation;
            if self.read_by[v].iter().any(|&w| !has(&cut.set, w)) {
                cut.sent += layer.activation;
            }
        }
        cut
    }
}
