//! A complete plan: where and when everything happens, what it costs, and a check of all of it.
//!
//! [`verify`] knows only the equations of [`problem`](super::problem), none of the code that makes plans.

use std::collections::HashMap;

use super::network::{ActivityKind, Network};
use super::problem::{Origin, Problem};
use super::timeline::Started;

/// A task in a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduledTask {
    /// Index into the problem's groups.
    pub group: u16,
    /// Which unit of the group.
    pub unit: u16,
    /// Frequency state.
    pub state: u8,
    /// When it starts.
    pub start: f64,
    /// When it ends.
    pub end: f64,
}

/// A transfer in a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScheduledTransfer {
    /// Which datum.
    pub datum: u32,
    /// Over which link.
    pub link: u32,
    /// When it starts.
    pub start: f64,
    /// When it ends.
    pub end: f64,
}

/// Where the joules go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScheduleEnergy {
    /// The machine besides its units.
    pub base: f64,
    /// Of each group while it works.
    pub busy: Vec<f64>,
    /// Of each group while it waits.
    pub idle: Vec<f64>,
    /// Of each link.
    pub links: Vec<f64>,
}

impl ScheduleEnergy {
    /// All of it.
    pub fn total(&self) -> f64 {
        let sum = |v: &[f64]| v.iter().sum::<f64>();
        self.base + sum(&self.busy) + sum(&self.idle) + sum(&self.links)
    }
}

/// A complete plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// For each task, where and when.
    pub runs: Vec<ScheduledTask>,
    /// Transfers, by their start.
    pub moves: Vec<ScheduledTransfer>,
    /// The latest end.
    pub seconds: f64,
    /// Where the joules go.
    pub energy: ScheduleEnergy,
    /// Most bytes in each memory, if the network listed copies.
    pub peak: Vec<u64>,
}

impl Schedule {
    /// The plan that a performed network is.
    pub(crate) fn new(problem: &Problem, net: &Network, log: &[Started], peak: &[u64]) -> Self {
        let none = ScheduledTask {
            group: 0,
            unit: 0,
            state: 0,
            start: 0.0,
            end: 0.0,
        };
        let mut runs = vec![none; net.tasks];
        let mut moves = Vec::new();
        for s in log {
            let activity = &net.activities[s.activity as usize];
            let mode = &activity.modes[usize::from(s.mode)];
            let (start, end) = (s.start, s.end);
            match activity.what {
                ActivityKind::Task(t) => {
                    let (group, state) = (mode.resource, mode.state);
                    runs[t as usize] = ScheduledTask {
                        group,
                        unit: s.unit,
                        state,
                        start,
                        end,
                    };
                }
                ActivityKind::Transfer { datum, link } => moves.push(ScheduledTransfer {
                    datum,
                    link,
                    start,
                    end,
                }),
            }
        }
        let seconds = log.iter().fold(0.0, |m, s| s.end.max(m));
        let energy = energy(problem, &runs, &moves, seconds);
        Schedule {
            runs,
            moves,
            seconds,
            energy,
            peak: peak.to_vec(),
        }
    }
}

/// The energy equation.
pub(super) fn energy(
    problem: &Problem,
    runs: &[ScheduledTask],
    moves: &[ScheduledTransfer],
    seconds: f64,
) -> ScheduleEnergy {
    let mut e = ScheduleEnergy {
        base: problem.base_watts * seconds,
        busy: vec![0.0; problem.groups.len()],
        idle: problem
            .groups
            .iter()
            .map(|g| g.idle_watts * seconds * g.units as f64)
            .collect(),
        links: vec![0.0; problem.links.len()],
    };
    for r in runs {
        let g = &problem.groups[usize::from(r.group)];
        e.busy[usize::from(r.group)] += g.busy_watts[usize::from(r.state)] * (r.end - r.start);
        e.idle[usize::from(r.group)] -= g.idle_watts * (r.end - r.start);
    }
    // Of units that never wait, rounding may leave a little less than nothing.
    e.idle.iter_mut().for_each(|idle| *idle = idle.max(0.0));
    for m in moves {
        e.links[m.link as usize] += problem.links[m.link as usize].joules_per_byte
            * problem.data[m.datum as usize].bytes as f64;
    }
    e
}

/// Checks a plan against every rule of the problem; says the first that is broken. Peaks are found anew
/// and returned.
pub(crate) fn verify(problem: &Problem, plan: &Schedule) -> Result<Vec<u64>, String> {
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()));
    let slack = 1e-9 * plan.seconds;
    if plan.runs.len() != problem.tasks.len() {
        return Err(format!(
            "{} of {} tasks",
            plan.runs.len(),
            problem.tasks.len()
        ));
    }
    for (t, r) in plan.runs.iter().enumerate() {
        let class = &problem.classes[problem.tasks[t] as usize];
        let time = class
            .seconds
            .get(usize::from(r.group))
            .and_then(|s| s.get(usize::from(r.state)));
        if !time.is_some_and(|&time| near(r.end - r.start, time)) || r.start < 0.0 {
            return Err(format!("task {t} has a wrong duration, group or state"));
        }
        if usize::from(r.unit) >= problem.groups[usize::from(r.group)].units {
            return Err(format!("task {t} runs on a unit that does not exist"));
        }
        if r.end > plan.seconds + slack {
            return Err(format!("task {t} ends after the plan"));
        }
    }
    if let Some(&(a, b)) = problem
        .edges
        .iter()
        .find(|&&(a, b)| plan.runs[b as usize].start < plan.runs[a as usize].end - slack)
    {
        return Err(format!("task {b} starts before task {a} ends"));
    }
    one_at_a_time(problem, plan, slack)?;
    kept_states(problem, plan)?;
    let copies = copies(problem, plan, slack)?;
    let peak = peaks(problem, &copies);
    for (m, memory) in problem.memories.iter().enumerate() {
        if memory.capacity.is_some_and(|c| peak[m] > c) {
            return Err(format!("memory {:?} holds {} bytes", memory.name, peak[m]));
        }
    }
    let total = energy(problem, &plan.runs, &plan.moves, plan.seconds).total();
    if !near(total, plan.energy.total()) {
        return Err(format!(
            "energy is {total} J, not {} J",
            plan.energy.total()
        ));
    }
    Ok(peak)
}

fn one_at_a_time(problem: &Problem, plan: &Schedule, slack: f64) -> Result<(), String> {
    let mut runs: Vec<(u16, u16, f64, f64)> = plan
        .runs
        .iter()
        .map(|r| (r.group, r.unit, r.start, r.end))
        .collect();
    runs.sort_by(|a, b| {
        (a.0, a.1)
            .cmp(&(b.0, b.1))
            .then(a.2.total_cmp(&b.2))
            .then(a.3.total_cmp(&b.3))
    });
    for w in runs.windows(2) {
        if (w[0].0, w[0].1) == (w[1].0, w[1].1) && w[1].2 < w[0].3 - slack {
            return Err(format!(
                "unit {} of group {} runs two tasks at once",
                w[0].1, w[0].0
            ));
        }
    }
    let link = |m: &ScheduledTransfer| m.link as usize;
    for (i, l) in problem.links.iter().enumerate() {
        let mine = |m: &&ScheduledTransfer| link(m) == i;
        let most = carried_at_once(plan, mine, slack);
        if most > l.channels {
            return Err(format!(
                "link {i} carries {most} at once: {} is its limit",
                l.channels
            ));
        }
    }
    for (i, s) in problem.shared.iter().enumerate() {
        let through = |m: &&ScheduledTransfer| problem.links[link(m)].shared.contains(&i);
        let most = carried_at_once(plan, through, slack);
        if most > s.at_once {
            return Err(format!(
                "{} carries {most} at once: {} is its limit",
                s.name, s.at_once
            ));
        }
    }
    Ok(())
}

fn kept_states(problem: &Problem, plan: &Schedule) -> Result<(), String> {
    let mut states = HashMap::new();
    for (t, r) in plan.runs.iter().enumerate() {
        let state = *states.entry((r.group, r.unit)).or_insert(r.state);
        if state != r.state && problem.keeps_state(usize::from(r.group)) {
            return Err(format!("task {t} makes its unit change the state"));
        }
    }
    Ok(())
}

/// How many of some transfers are under way at once, at most.
fn carried_at_once(
    plan: &Schedule,
    some: impl Fn(&&ScheduledTransfer) -> bool,
    slack: f64,
) -> usize {
    // +1 at each start, −1 at each end, ends first.
    let mut steps: Vec<(f64, isize)> = Vec::new();
    for m in plan.moves.iter().filter(some) {
        steps.extend([(m.start + slack, 1), (m.end, -1)]);
    }
    steps.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut now, mut most) = (0, 0);
    for (_, step) in steps {
        now += step;
        most = most.max(now);
    }
    most as usize
}

/// A copy: memory, bytes, from, to.
type Span = (usize, u64, f64, f64);

fn copies(problem: &Problem, plan: &Schedule, slack: f64) -> Result<Vec<Span>, String> {
    let memory = |t: u32| problem.groups[usize::from(plan.runs[t as usize].group)].memory;
    let origin = |d: usize| match problem.data[d].origin {
        Origin::Task(t) => memory(t),
        Origin::Memory(m) => m,
        Origin::LeftBy(o) => match problem.data[o as usize].origin {
            Origin::Task(t) => memory(t),
            _ => 0,
        },
    };
    let mut moves: Vec<Vec<&ScheduledTransfer>> = vec![Vec::new(); problem.data.len()];
    for m in &plan.moves {
        moves[m.datum as usize].push(m);
    }
    // Who writes what replaces each datum.
    let mut heir: Vec<Option<u32>> = vec![None; problem.data.len()];
    for d in &problem.data {
        if let (Some(old), Origin::Task(w)) = (d.replaces, d.origin) {
            heir[old as usize] = Some(w);
        }
    }
    let mut spans = Vec::new();
    for (i, d) in problem.data.iter().enumerate() {
        let (exists, born) = match d.origin {
            Origin::Task(t) => (plan.runs[t as usize].end, plan.runs[t as usize].start),
            _ => (0.0, 0.0),
        };
        // Memory, present from, occupied from, occupied to.
        let mut here = vec![(origin(i), exists, born, exists)];
        moves[i].sort_by(|a, b| a.start.total_cmp(&b.start));
        for m in &moves[i] {
            let link = &problem.links[m.link as usize];
            let Some(source) = here.iter_mut().find(|h| h.0 == link.from) else {
                return Err(format!("datum {i} leaves a memory it never was in"));
            };
            let seconds = link.seconds(d.bytes);
            if m.start < source.1 - slack
                || (m.end - m.start - seconds).abs() > slack + 1e-9 * seconds
            {
                return Err(format!(
                    "the transfer of datum {i} starts too early or is too short"
                ));
            }
            source.3 = source.3.max(m.end);
            here.push((link.to, m.end, m.start, m.end));
        }
        for &r in &d.readers {
            let run = &plan.runs[r as usize];
            match here.iter_mut().find(|h| h.0 == memory(r)) {
                Some(copy) if copy.1 <= run.start + slack => copy.3 = copy.3.max(run.end),
                _ => return Err(format!("task {r} starts before datum {i} is there")),
            }
        }
        if d.kept {
            here[0].3 = f64::INFINITY;
        }
        if let Some(w) = heir[i] {
            let run = &plan.runs[w as usize];
            let late = d
                .readers
                .iter()
                .find(|&&r| r != w && plan.runs[r as usize].end > run.start + slack);
            if let Some(r) = late {
                return Err(format!("datum {i} is replaced before task {r} has read it"));
            }
            if let Some(copy) = here.iter_mut().find(|c| c.0 == memory(w)) {
                copy.3 = run.start;
            }
        }
        spans.extend(here.iter().map(|h| (h.0, d.bytes, h.2, h.3)));
    }
    Ok(spans)
}

fn peaks(problem: &Problem, copies: &[Span]) -> Vec<u64> {
    let mut peak = vec![0; problem.memories.len()];
    for (m, peak) in peak.iter_mut().enumerate() {
        let mut steps: Vec<(f64, i128)> = Vec::new();
        for c in copies.iter().filter(|c| c.0 == m && c.3 > c.2) {
            steps.extend([(c.2, i128::from(c.1)), (c.3, -i128::from(c.1))]);
        }
        steps.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let mut held = 0;
        for (_, step) in steps {
            held += step;
            *peak = (*peak).max(held as u64);
        }
    }
    peak
}
