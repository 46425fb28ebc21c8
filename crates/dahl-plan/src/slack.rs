//! Slack before the deadline, spent on slower frequency states.
//!
//! The tasks that start first take the state that is thriftiest on their units, all others keep theirs; how
//! many do is found by bisection. As units slow down together, none waits for another. It changes neither
//! units nor order: that is the local search's business.

use super::list::{Candidate, Choice, Lister};
use super::network::Frame;

/// Halvings: enough to tell tasks of any problem apart.
const HALVINGS: usize = 20;

/// The best plan of this kind, or the one given.
pub(crate) fn spend(frame: &Frame<'_>, lister: &mut Lister<'_, '_>, plan: Candidate) -> Candidate {
    let p = frame.problem;
    if !plan.cost.is_finite() {
        return plan;
    }
    let tasks = plan.choice.len();
    let started = plan.log.iter().map(|s| s.activity as usize);
    let order: Vec<usize> = started.filter(|&a| a < tasks).collect();
    let share = p.standing_watts() / p.unit_count().max(1) as f64;
    let mut best = plan.clone();
    for weight in [0.0, 0.3, 1.0] {
        let slow: Choice = (0..tasks)
            .map(|t| {
                let modes = &frame.modes[p.tasks[t] as usize];
                let resource = modes[usize::from(plan.choice[t])].resource;
                let cost = |k: &usize| modes[*k].joules + weight * share * modes[*k].seconds;
                let here = (0..modes.len()).filter(|&k| modes[k].resource == resource);
                let least = here.min_by(|a, b| cost(a).total_cmp(&cost(b)));
                least.map_or(plan.choice[t], |k| k as u16)
            })
            .collect();
        let (mut fits, mut fails) = (0, tasks + 1);
        for _ in 0..HALVINGS {
            let many = (fits + fails) / 2;
            if many == fits {
                break;
            }
            let mut choice = plan.choice.clone();
            order[..many.min(order.len())]
                .iter()
                .for_each(|&t| choice[t] = slow[t]);
            match lister.plan(&choice, &plan.nudge) {
                Some(next) if next.cost.is_finite() => {
                    fits = many;
                    if next.rank < best.rank {
                        best = next;
                    }
                }
                _ => fails = many,
            }
        }
    }
    best
}
