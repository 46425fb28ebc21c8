//! A greedy construction: each task in turn takes the execution mode that costs least for now.
//!
//! As HEFT (Topcuoglu et al., 2002): tasks by the longest path that follows them, each where it ends
//! first; but an end is weighed against joules, by a weight that is varied, and data on its way counts
//! with its time and its joules. Links are taken to be free and memories to be large: the code that turns the
//! choice into a plan sees what becomes of it.

use super::list::Choice;
use super::network::{ExecMode, Frame, Network};
use super::problem::Origin;

/// A choice for each task, with seconds weighed at `watts`, from the modes that `allowed` lets through.
pub(crate) fn greedy(
    frame: &Frame<'_>,
    relaxed: &Network,
    watts: f64,
    allowed: &dyn Fn(usize, usize, &ExecMode) -> bool,
) -> Choice {
    let p = frame.problem;
    let n = p.tasks.len();
    let mean: Vec<f64> = (0..n)
        .map(|t| {
            let modes = &frame.modes[p.tasks[t] as usize];
            modes.iter().map(|w| w.seconds).sum::<f64>() / modes.len() as f64
        })
        .collect();
    let tail = relaxed.tails(&mean);
    let mut order: Vec<u32> = frame.topological.clone();
    // Stable, so tasks of no length stay in topological order.
    order.sort_by(|&a, &b| {
        (tail[b as usize] + mean[b as usize]).total_cmp(&(tail[a as usize] + mean[a as usize]))
    });
    let mut reads: Vec<Vec<u32>> = vec![Vec::new(); n];
    for (i, d) in p.data.iter().enumerate() {
        for &r in &d.readers {
            reads[r as usize].push(i as u32);
        }
    }
    let mut free: Vec<Vec<f64>> = p.groups.iter().map(|g| vec![0.0; g.units]).collect();
    let mut memory: Vec<Option<usize>> = vec![None; n];
    let mut end = vec![0.0_f64; n];
    let mut present = vec![0_u64; p.data.len()];
    let mut choice = vec![0; n];
    for &t in &order {
        let t = t as usize;
        let ready = relaxed.activities[t]
            .before
            .iter()
            .map(|&b| end[b as usize])
            .fold(0.0, f64::max);
        let mut best = (f64::INFINITY, 0, 0.0, 0);
        let modes = &frame.modes[p.tasks[t] as usize];
        let any = modes.iter().enumerate().any(|(k, w)| allowed(t, k, w));
        for (k, w) in modes.iter().enumerate() {
            if any && !allowed(t, k, w) {
                continue;
            }
            let g = usize::from(w.resource);
            let here = p.groups[g].memory;
            let (mut start, mut joules) = (ready, w.joules);
            for &d in &reads[t] {
                let datum = &p.data[d as usize];
                let Some(from) = frame.origin(d as usize, &memory) else {
                    continue;
                };
                if here < 64 && present[d as usize] >> here & 1 == 1 {
                    continue;
                }
                let Some(route) = &frame.routes[from][here] else {
                    joules = f64::INFINITY;
                    continue;
                };
                let mut arrives = match datum.origin {
                    Origin::Task(writer) => end[writer as usize],
                    _ => 0.0,
                };
                for &l in route {
                    let link = &p.links[l as usize];
                    arrives += link.seconds(datum.bytes);
                    joules += link.joules_per_byte * datum.bytes as f64;
                }
                start = start.max(arrives);
            }
            let (unit, at) = free[g]
                .iter()
                .copied()
                .enumerate()
                .min_by(|a, b| a.1.total_cmp(&b.1))
                .unwrap_or((0, 0.0));
            let ends = start.max(at) + w.seconds;
            let score = watts * ends + joules;
            if score < best.0 {
                best = (score, k, ends, unit);
            }
        }
        let (_, k, ends, unit) = best;
        let g = usize::from(modes[k].resource);
        choice[t] = k as u16;
        end[t] = ends;
        free[g][unit] = ends;
        memory[t] = Some(p.groups[g].memory);
        for &d in &reads[t] {
            if p.groups[g].memory < 64 {
                present[d as usize] |= 1 << p.groups[g].memory;
            }
        }
    }
    choice
}
