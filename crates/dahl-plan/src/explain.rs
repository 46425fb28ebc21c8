//! A plan in words: what each kind of unit does, what the plan is better than, and what limits it.
//!
//! Says nothing that is not in the plan's file.

use std::collections::BTreeMap;

use dahl_core::report::{Report, Table};
use dahl_core::{Joules, Seconds};
use serde::Serialize;

use super::file::PlanFile;
use super::policy::PlanPolicy;
use super::problem::Objective;

/// What units of one kind do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitSummary {
    /// Their names, shortened: `cpu (28)`.
    pub units: String,
    /// How many of them work at all.
    pub used: usize,
    /// How many there are.
    pub count: usize,
    /// Tasks they run.
    pub tasks: usize,
    /// Part of the time they work, on average over all of them.
    pub busy: f64,
    /// Frequency states with their parts of the working time, the most used first.
    pub states: Vec<(u8, f64)>,
    /// What takes most of their time: codelets with their parts.
    pub mostly: Vec<(String, f64)>,
}

/// A plan for people: its units, its memories, its sentences.
pub fn report(plan: &PlanFile) -> Report {
    let mut out = Report::default();
    let mut table = Table::new("units|>used|>tasks|>busy|states|mostly");
    for d in unit_summaries(plan) {
        table.row([
            d.units.clone(),
            format!("{} of {}", d.used, d.count),
            d.tasks.to_string(),
            format!("{:.1} %", 100.0 * d.busy),
            states(&d),
            shares(&d.mostly),
        ]);
    }
    out.paragraph(table);
    let mut memories = Table::new("memory|>peak|>capacity");
    for p in &plan.peaks {
        let capacity = p.capacity.map_or("unlimited".into(), |c| c.to_string());
        memories.row([p.memory.clone(), p.bytes.to_string(), capacity]);
    }
    out.paragraph(memories);
    for sentence in sentences(plan) {
        out.line(sentence);
    }
    out
}

fn states(does: &UnitSummary) -> String {
    let all: Vec<(String, f64)> = does
        .states
        .iter()
        .map(|&(s, p)| {
            (
                if s == 0 {
                    "usual".into()
                } else {
                    format!("state {s}")
                },
                p,
            )
        })
        .collect();
    shares(&all)
}

fn shares(list: &[(String, f64)]) -> String {
    let one = |(name, part): &(String, f64)| format!("{name} {:.0} %", 100.0 * part);
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The name of a unit without its number.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
        .trim_end_matches([':', '-', '_', '.'])
}

/// What each kind of unit does, in the order of the machine.
pub fn unit_summaries(plan: &PlanFile) -> Vec<UnitSummary> {
    let mut names: Vec<&str> = Vec::new();
    for u in &plan.units {
        if !names.contains(&stem(&u.name)) {
            names.push(stem(&u.name));
        }
    }
    let parts = |map: BTreeMap<String, f64>, all: f64| {
        let mut list: Vec<(String, f64)> = map.into_iter().map(|(k, v)| (k, v / all)).collect();
        list.sort_by(|a, b| b.1.total_cmp(&a.1));
        list
    };
    let one = |&name: &&str| {
        let mine: Vec<_> = (plan.units.iter().enumerate())
            .filter(|(_, u)| stem(&u.name) == name)
            .collect();
        let (mut states, mut codelets) = (BTreeMap::new(), BTreeMap::new());
        let mut work = 0.0;
        for &t in mine.iter().flat_map(|(_, u)| &u.order) {
            let task = &plan.tasks[t as usize];
            let time = task.end.0 - task.start.0;
            *states.entry(task.state.to_string()).or_insert(0.0) += time;
            *codelets.entry(task.codelet.clone()).or_insert(0.0) += time;
            work += time;
        }
        let all = if work > 0.0 { work } else { 1.0 };
        let whole = plan.seconds.0 * mine.len() as f64;
        UnitSummary {
            units: if mine.len() == 1 {
                name.to_string()
            } else {
                format!("{name} ({})", mine.len())
            },
            used: mine
                .iter()
                .filter(|(u, _)| !plan.states_of(*u).is_empty())
                .count(),
            count: mine.len(),
            tasks: mine.iter().map(|(_, u)| u.order.len()).sum(),
            busy: if whole > 0.0 { work / whole } else { 0.0 },
            states: parts(states, all)
                .into_iter()
                .map(|(s, p)| (s.parse().unwrap_or(0), p))
                .collect(),
            mostly: parts(codelets, all).into_iter().take(3).collect(),
        }
    };
    names.iter().map(one).collect()
}

/// The plan in sentences.
pub fn sentences(plan: &PlanFile) -> Vec<String> {
    let f = &plan.target;
    let mut out = vec![format!(
        "{} on {}: a step alone takes {} and {}, of which {} are drawn \
         whether units work or not, {} go into work and {} into transfers.",
        f.title,
        f.machine,
        plan.seconds,
        plan.joules.total,
        Joules(plan.joules.base.0 + plan.joules.idle.0),
        plan.joules.busy,
        plan.joules.transfers
    )];
    out.extend(plan.policy.as_ref().map(|policy| {
        format!(
            "{} decides order and unit of every task at run time, on {}: the tasks of each unit, above, and the step \
             alone are those of one simulated step.",
            policy.name,
            units(policy)
        )
    }));
    out.extend(plan.expected.as_ref().map(|e| {
        // Where nothing is known of runs there is nothing to explain.
        let why = match e.seconds.0 / plan.seconds.0 - 1.0 {
            more if more.abs() < 0.005 => "a run of many steps does not differ",
            more if more < 0.0 => {
                "steps overlap, and the data of the next one comes while this one computes"
            }
            _ => {
                "wake-up latencies and durations that vary, or the wait for data, add more than the overlap of steps saves"
            }
        };
        format!(
            "In a run that follows it, {} and {} per step are expected, {} of a step alone: {why}.",
            e.seconds, e.joules, e.alone
        )
    }));
    let unused: Vec<String> = unit_summaries(plan)
        .into_iter()
        .filter(|d| d.used == 0)
        .map(|d| d.units)
        .collect();
    if !unused.is_empty() {
        out.push(format!(
            "Units that stay idle, because they would cost more than they save: {}.",
            unused.join(", ")
        ));
    }
    out.push(if plan.gap <= 1e-9 {
        format!(
            "No plan of this graph costs less per step of a run: {}.",
            plan.reason
        )
    } else {
        format!(
            "No plan of this graph can save more than {:.2} % of a run's cost: {}.",
            100.0 * plan.gap,
            plan.reason
        )
    });
    for o in &plan.alternatives {
        out.push(against(plan, &o.name, o.seconds, o.joules));
    }
    out.extend(limits(plan));
    out
}

/// The units of a policy: `cpu (28) in state 1`.
fn units(policy: &PlanPolicy) -> String {
    let mut kinds: Vec<(&str, u8, Vec<&str>)> = Vec::new();
    for unit in &policy.units {
        let kind = (stem(&unit.name), unit.state);
        match kinds.iter_mut().find(|k| (k.0, k.1) == kind) {
            Some(known) => known.2.push(&unit.name),
            None => kinds.push((kind.0, kind.1, vec![&unit.name])),
        }
    }
    let one = |(stem, state, names): &(&str, u8, Vec<&str>)| {
        let name = match &names[..] {
            [one] => one.to_string(),
            many => format!("{stem} ({})", many.len()),
        };
        match state {
            0 => name,
            state => format!("{name} in state {state}"),
        }
    };
    let all: Vec<String> = kinds.iter().map(one).collect();
    all.join(", ")
}

fn against(plan: &PlanFile, name: &str, seconds: Seconds, joules: Joules) -> String {
    let change = |new: f64, old: f64| {
        let part = 100.0 * (new / old - 1.0);
        match part {
            p if p.abs() < 0.05 => "as much".to_string(),
            p if p < 0.0 => format!("{:.1} % less", -p),
            p => format!("{p:.1} % more"),
        }
    };
    let own = plan.per_step();
    format!(
        "Against {name} ({seconds}, {joules}): {} time, {} energy.",
        change(own.0, seconds.0),
        change(own.1, joules.0)
    )
}

/// What keeps the plan from being better.
fn limits(plan: &PlanFile) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(d) = plan.target.deadline
        && plan.per_step().0 >= 0.99 * d.0
        && plan.target.objective != Objective::Time
    {
        out.push(format!(
            "The deadline of {d} holds it: with more time it might use less energy."
        ));
    }
    if let (Some(d), Some(e)) = (plan.target.deadline, &plan.expected)
        && e.seconds > d
    {
        out.push(format!(
            "A run is expected to miss the deadline of {d}, which the plan's equations keep: {} per step.",
            e.seconds
        ));
    }
    for p in &plan.peaks {
        if let Some(c) = p.capacity.filter(|c| p.bytes.0 as f64 >= 0.9 * c.0 as f64) {
            out.push(format!(
                "Memory {} is nearly full: {} of {c}.",
                p.memory, p.bytes
            ));
        }
    }
    let mut links: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for t in &plan.transfers {
        *links.entry((&t.from, &t.to)).or_insert(0.0) += t.end.0 - t.start.0;
    }
    for ((from, to), busy) in links {
        if busy >= 0.5 * plan.seconds.0 {
            let part = 100.0 * busy / plan.seconds.0;
            out.push(format!(
                "The link from {from} to {to} is busy {part:.0} % of the time."
            ));
        }
    }
    let busiest = unit_summaries(plan)
        .into_iter()
        .max_by(|a, b| a.busy.total_cmp(&b.busy));
    match busiest {
        Some(d) if d.busy >= 0.9 => {
            out.push(format!("{} works {:.0} % of the time: that is what limits the speed.", d.units, 100.0 * d.busy));
        }
        Some(d) if out.is_empty() => out.push(format!(
            "No unit is full ({} works {:.0} % of the time): tasks that wait for each other limit the speed.",
            d.units,
            100.0 * d.busy
        )),
        _ => {}
    }
    out
}
