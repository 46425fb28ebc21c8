//! Schedules out of a search, and hints into one.

use super::search::BranchAndBound;
use super::trail::Literal;
use crate::list::in_order;
use crate::network::{ActivityKind, ExecMode, Frame};
use crate::timeline::Started;

/// A plan near which to look: for each task how and when it runs, and when each datum crosses which link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hint {
    tasks: Vec<Option<(ExecMode, f64)>>,
    transfers: Vec<(u32, u32, f64)>,
}

/// A plan that was found.
pub(super) struct FoundSchedule {
    pub memory: Vec<usize>,
    pub log: Vec<Started>,
    pub seconds: f64,
    pub joules: f64,
}

impl Hint {
    /// A plan of a frame.
    pub(crate) fn new(frame: &Frame<'_>, memory: &[usize], log: &[Started]) -> Option<Self> {
        let net = frame.network(memory)?;
        let mut hint = Hint {
            tasks: vec![None; net.tasks],
            transfers: Vec::new(),
        };
        for s in log {
            let activity = &net.activities[s.activity as usize];
            match activity.what {
                ActivityKind::Task(t) => {
                    let mode = activity.modes[usize::from(s.mode)];
                    hint.tasks[t as usize] = Some((mode, s.start));
                }
                ActivityKind::Transfer { datum, link } => {
                    hint.transfers.push((datum, link, s.start))
                }
            }
        }
        Some(hint)
    }
}

impl BranchAndBound {
    /// Leans towards a plan.
    pub(super) fn suggest(&mut self, frame: &Frame<'_>, hint: &Hint) {
        let m = &mut self.model;
        let mut when = vec![f64::INFINITY; m.trail.numbers()];
        for (t, known) in hint.tasks.iter().enumerate() {
            let Some((mode, start)) = known else { continue };
            let (span, modes) = &m.tasks[t];
            when[span.start.index()] = *start;
            let all = &frame.modes[frame.problem.tasks[t] as usize];
            for w in modes {
                if let Some(here) = w.here {
                    m.trail
                        .set_phase(if all[w.mode] == *mode { here } else { !here });
                }
            }
        }
        for c in &m.crossings {
            let mut transfers = hint.transfers.iter();
            if let Some(m) = transfers.find(|m| (m.0, m.1) == (c.datum, c.link)) {
                when[c.span.start.index()] = m.2;
            }
        }
        self.hinted = when;
    }

    /// The plan in which everything starts as early as it can: each task's memory, and what starts when. None if
    /// rounding of times leaves no room for it.
    pub(super) fn plan(&self, frame: &Frame<'_>) -> Option<FoundSchedule> {
        let (m, p) = (&self.model, frame.problem);
        let is_so = |here: Option<Literal>| here.is_none_or(|h| m.trail.holds(h));
        let mut modes = Vec::new();
        for (t, (_, all)) in m.tasks.iter().enumerate() {
            let mode = all.iter().find(|w| is_so(w.here))?.mode;
            modes.push(frame.modes[p.tasks[t] as usize][mode]);
        }
        let memory = |w: &ExecMode| p.groups[usize::from(w.resource)].memory;
        let memory: Vec<usize> = modes.iter().map(memory).collect();
        let net = frame.network(&memory)?;
        let start = |i: usize| match net.activities[i].what {
            ActivityKind::Task(t) => m.trail.least(m.tasks[t as usize].0.start),
            ActivityKind::Transfer { datum, link } => {
                let mut all = m.crossings.iter();
                let mine = all.find(|c| (c.datum, c.link) == (datum, link));
                mine.map_or(0, |c| m.trail.least(c.span.start))
            }
        };
        let place = |i: usize| match net.activities[i].what {
            ActivityKind::Task(t) => {
                let mut all = net.activities[i].modes.iter();
                all.position(|w| *w == modes[t as usize])
            }
            ActivityKind::Transfer { .. } => Some(0),
        };
        let places: Option<Vec<usize>> = (0..net.activities.len()).map(place).collect();
        let places = places?;
        let mut order = net.topological.clone();
        order.sort_by_key(|&i| start(i as usize));
        let done = in_order(&net, &places, &order).or_else(|| {
            // At one moment, who makes room goes before who takes it.
            let takes = |i: usize| {
                let bytes = |all: &[u32]| -> i128 {
                    let copies = all.iter().map(|&c| &net.copies[c as usize]);
                    copies.map(|c| i128::from(c.bytes)).sum()
                };
                bytes(&net.activities[i].makes) - bytes(&net.activities[i].ends)
            };
            order.sort_by_key(|&i| (start(i as usize), takes(i as usize)));
            in_order(&net, &places, &order)
        })?;
        Some(FoundSchedule {
            seconds: done.makespan,
            joules: done.total_joules(),
            memory,
            log: done.log,
        })
    }
}
