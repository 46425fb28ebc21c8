//! The frontier: plans of which none is both faster and thriftier than another.
//!
//! Found by deadlines: the fastest plan and the thriftiest mark the ends, and between them the least
//! energy is sought for one deadline after another (the ε-constraint method). What a later plan beats in
//! both respects is dropped.

use super::problem::{Goal, Objective, PlanError, Problem};
use super::solve::{Limits, Plan, plan};

/// The plans for `points` deadlines, the fastest first. `deadline` is the latest that is of interest.
pub fn frontier(
    problem: &Problem,
    deadline: Option<f64>,
    points: usize,
    limits: &Limits<'_>,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<Vec<Plan>, PlanError> {
    let goal = |objective, deadline| Goal {
        objective,
        deadline,
    };
    let fast = plan(
        problem,
        &goal(Objective::Time, deadline),
        limits,
        keep_going,
    )?;
    let thrifty = plan(
        problem,
        &goal(Objective::Energy, deadline),
        limits,
        keep_going,
    )?;
    let (from, to) = (fast.schedule.seconds, thrifty.schedule.seconds);
    let mut all = vec![fast, thrifty];
    // The fastest time at the least energy first: the fastest plan may waste.
    for k in 0..points.saturating_sub(1) {
        let part = k as f64 / points.saturating_sub(1).max(1) as f64;
        let limit = from + (to - from) * part;
        if to > from && keep_going() {
            all.extend(plan(
                problem,
                &goal(Objective::Energy, Some(limit)),
                limits,
                keep_going,
            ));
        }
    }
    all.sort_by(|a, b| {
        let key = |s: &Plan| (s.schedule.seconds, s.schedule.energy.total());
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let mut least = f64::INFINITY;
    all.retain(|s| {
        let joules = s.schedule.energy.total();
        let better = joules < least * (1.0 - 1e-9);
        if better {
            least = joules;
        }
        better
    });
    Ok(all)
}
