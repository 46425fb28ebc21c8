//! One iteration of 1F1B: its computations, in an order in which they can run, and who waits for whom.

/// The computations of an iteration.
pub(super) struct Iteration {
    /// For each computation, its stage and 0 for forward, 1 for backward.
    pub(super) kind: Vec<(usize, usize)>,
    /// For each computation, those it waits for: at most two, all earlier in the list.
    pub(super) waits: Vec<Vec<u32>>,
    /// For each computation, those that wait for it.
    pub(super) next: Vec<Vec<u32>>,
}

impl Iteration {
    /// 1F1B with a flush: stage s of S runs S − s − 1 forward computations ahead, then one of each kind in turn.
    pub(super) fn one_f_one_b(stages: usize, micro_batches: usize) -> Iteration {
        let mut place =
            vec![[vec![u32::MAX; micro_batches], vec![u32::MAX; micro_batches]]; stages];
        let orders: Vec<Vec<(usize, usize)>> = (0..stages)
            .map(|s| order(stages - s, micro_batches))
            .collect();
        let mut out = Iteration {
            kind: Vec::new(),
            waits: Vec::new(),
            next: Vec::new(),
        };
        let mut at = vec![0; stages];
        let mut last = vec![None; stages];
        let total = 2 * stages * micro_batches;
        while out.kind.len() < total {
            for s in 0..stages {
                while let Some(&(instruction, batch)) = orders[s].get(at[s]) {
                    let needs = match instruction {
                        0 if s == 0 => None,
                        0 => Some(place[s - 1][0][batch]),
                        _ if s + 1 == stages => Some(place[s][0][batch]),
                        _ => Some(place[s + 1][1][batch]),
                    };
                    if needs == Some(u32::MAX) {
                        break;
                    }
                    let me = out.kind.len() as u32;
                    let mut waits: Vec<u32> = needs.into_iter().chain(last[s]).collect();
                    waits.dedup();
                    for &u in &waits {
                        out.next[u as usize].push(me);
                    }
                    out.kind.push((s, instruction));
                    out.waits.push(waits);
                    out.next.push(Vec::new());
                    place[s][instruction][batch] = me;
                    last[s] = Some(me);
                    at[s] += 1;
                }
            }
        }
        out
    }

    pub(super) fn len(&self) -> usize {
        self.kind.len()
    }

    /// The longest way to the begin of each computation.
    pub(super) fn heads(&self, seconds: &[f64]) -> Vec<f64> {
        let mut heads: Vec<f64> = vec![0.0; self.len()];
        for v in 0..self.len() {
            let ends = self.waits[v]
                .iter()
                .map(|&u| heads[u as usize] + seconds[u as usize]);
            heads[v] = ends.fold(0.0, f64::max);
        }
        heads
    }

    /// The longest way from the end of each computation.
    pub(super) fn tails(&self, seconds: &[f64]) -> Vec<f64> {
        let mut tails: Vec<f64> = vec![0.0; self.len()];
        for v in (0..self.len()).rev() {
            let ways = self.next[v]
                .iter()
                .map(|&w| tails[w as usize] + seconds[w as usize]);
            tails[v] = ways.fold(0.0, f64::max);
        }
        tails
    }

    /// From the first begin to the last end.
    pub(super) fn makespan(&self, seconds: &[f64]) -> f64 {
        let heads = self.heads(seconds);
        heads
            .iter()
            .zip(seconds)
            .map(|(h, s)| h + s)
            .fold(0.0, f64::max)
    }
}

/// Instructions of a stage that is `depth` from the end, itself included.
fn order(depth: usize, micro_batches: usize) -> Vec<(usize, usize)> {
    let ahead = (depth - 1).min(micro_batches);
    let mut order: Vec<(usize, usize)> = (0..ahead).map(|m| (0, m)).collect();
    for m in 0..micro_batches {
        if m + ahead < micro_batches {
            order.push((0, m + ahead));
        }
        order.push((1, m));
    }
    order
}
