//! Words for bounds and refusals: which limit holds, and by how much it is missed.

use dahl_core::{Bytes, Seconds};

use super::bound::Bound;
use super::network::Frame;
use super::problem::{Goal, Objective, Origin, Problem};
use super::solve::{Attempt, Limits, attempt};

/// What a lower bound rests on.
pub(super) fn bound(problem: &Problem, goal: &Goal, bound: &Bound) -> String {
    let mut parts: Vec<(f64, String)> = Vec::new();
    if bound.path > 0.01 {
        parts.push((bound.path, "the longest chain of tasks".into()));
    }
    for (g, group) in problem
        .groups
        .iter()
        .enumerate()
        .filter(|&(g, _)| bound.work[g] > 0.01)
    {
        let units = match group.units {
            1 => format!("the work of {}", group.name),
            n => format!("the work of the {n} units {}", group.name),
        };
        parts.push((bound.work[g], units));
    }
    parts.sort_by(|a, b| b.0.total_cmp(&a.0));
    let parts: Vec<String> = parts.into_iter().map(|p| p.1).collect();
    let time = match parts.len() {
        0 => "nothing but the tasks' own joules".to_string(),
        _ => format!("time by {}", parts.join(" and ")),
    };
    match goal.objective {
        Objective::Time => format!("{time}; tasks may be divided between units"),
        _ => {
            format!("joules of the tasks on their cheapest units, and {time}; tasks may be divided")
        }
    }
}

/// A deadline that no plan can meet.
pub(super) fn too_slow(problem: &Problem, goal: &Goal, b: &Bound) -> String {
    let deadline = goal.deadline.unwrap_or(0.0);
    let time = Goal {
        objective: Objective::Time,
        deadline: None,
    };
    format!(
        "the deadline of {} cannot be met: no plan takes less than {}, {} more ({})",
        Seconds(deadline),
        Seconds(b.seconds),
        Seconds(b.seconds - deadline),
        bound(problem, &time, b)
    )
}

/// What stands in the way where no plan was found.
pub(super) fn nothing_found(
    problem: &Problem,
    goal: &Goal,
    limits: &Limits<'_>,
    proven: bool,
) -> String {
    if let Some(text) = too_large(problem) {
        return text;
    }
    let certain = if proven {
        ""
    } else {
        " (found by search, not proven)"
    };
    let light = Limits {
        rounds: limits.rounds.min(500),
        exact_tasks: if proven { limits.exact_tasks } else { 0 },
        warm_starts: &[],
        ..*limits
    };
    let without = |problem: &Problem, goal: Goal| {
        let mut left = 3_000_u32;
        let mut keep_going = || {
            left = left.saturating_sub(1);
            left > 0
        };
        match attempt(problem, &goal, &light, &mut keep_going) {
            Ok(Attempt::Found(s)) => Some(s),
            _ => None,
        }
    };
    let any_time = Goal {
        objective: Objective::Time,
        deadline: None,
    };
    if let Some(deadline) = goal.deadline
        && let Some(s) = without(problem, any_time)
    {
        let t = s.schedule.seconds;
        return format!(
            "the deadline of {} cannot be met: the fastest plan takes {}, {} more{certain}",
            Seconds(deadline),
            Seconds(t),
            Seconds(t - deadline)
        );
    }
    let mut roomy = problem.clone();
    roomy.memories.iter_mut().for_each(|m| m.capacity = None);
    if let Some(s) = without(&roomy, any_time) {
        let over = problem
            .memories
            .iter()
            .zip(&s.schedule.peak)
            .filter_map(|(m, &peak)| {
                let capacity = m.capacity.filter(|&c| c < peak)?;
                Some(format!(
                    "{:?} holds {}, the fastest plan without limits needs {}, {} more",
                    m.name,
                    Bytes(capacity),
                    Bytes(peak),
                    Bytes(peak - capacity)
                ))
            });
        let over: Vec<String> = over.collect();
        return format!(
            "memory is too small{certain}: {}; a smaller batch or a finer grain needs less",
            over.join("; ")
        );
    }
    "data cannot get to the units that need it: the machine lacks a link between two memories"
        .into()
}

/// A memory that cannot even hold what a single task needs, or what always lies there.
fn too_large(problem: &Problem) -> Option<String> {
    let frame = Frame::new(problem).ok()?;
    for (m, memory) in problem.memories.iter().enumerate() {
        let always = problem
            .data
            .iter()
            .filter(|d| d.kept && d.origin == Origin::Memory(m));
        let bytes = always.fold(0_u64, |a, d| a.saturating_add(d.bytes));
        if let Some(c) = memory.capacity.filter(|&c| c < bytes) {
            return Some(format!(
                "memory {:?} holds {}, but what always lies there takes {}, {} more",
                memory.name,
                Bytes(c),
                Bytes(bytes),
                Bytes(bytes - c)
            ));
        }
    }
    let mut needs = vec![0_u64; problem.tasks.len()];
    for d in &problem.data {
        for &r in &d.readers {
            needs[r as usize] += d.bytes;
        }
        if let (Origin::Task(t), None) = (d.origin, d.replaces) {
            needs[t as usize] += d.bytes;
        }
    }
    for (t, &bytes) in needs.iter().enumerate() {
        let room = |m: &usize| problem.memories[*m].capacity.unwrap_or(u64::MAX);
        let most = frame.memories_of(t).iter().map(room).max().unwrap_or(0);
        if most < bytes {
            return Some(format!(
                "task {t} ({}) needs {} in one memory, the largest it can use holds {}, {} less",
                problem.classes[problem.tasks[t] as usize].name,
                Bytes(bytes),
                Bytes(most),
                Bytes(bytes - most)
            ));
        }
    }
    None
}
