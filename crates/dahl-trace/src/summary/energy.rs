//! Energy by codelet and by layer.
//!
//! A power sample is the mean over the time since the domain's last one (since the trace began, for the
//! first). Its energy is shared out among the tasks that ran in that time, in proportion to how long
//! they ran in it; where none ran it was spent idle. So what idle units draw while others work counts
//! for the work. A domain whose source names a GPU is shared out among the tasks of GPUs, any other
//! among those of CPUs.
//!
//! Domains are kept apart: a package contains its cores, and measured figures do not add to modelled
//! ones.

use dahl_core::UnitKind;
use dahl_core::trace::{Nanos, TaskRun, Trace};
use serde::Serialize;

use super::labels::Labels;

/// The energy of a domain.
#[derive(Clone, Debug, Serialize)]
pub struct DomainEnergy {
    /// What was sampled and how, such as `measured (rapl: package-0)`.
    pub source: String,
    /// All of it.
    pub joules: f64,
    /// Mean power over the sampled time.
    pub watts: f64,
    /// Part spent while no task ran.
    pub idle_joules: f64,
    /// By codelet, largest first.
    pub codelets: Vec<NamedJoules>,
    /// By layer, largest first.
    pub layers: Vec<NamedJoules>,
}

/// Energy of something.
#[derive(Clone, Debug, Serialize)]
pub struct NamedJoules {
    /// A codelet with its implementation, or a layer.
    pub name: String,
    /// How much.
    pub joules: f64,
}

pub(super) fn by_domain(trace: &Trace, labels: &Labels) -> Vec<DomainEnergy> {
    let mut samples = vec![vec![]; trace.domains.len()];
    for p in &trace.power {
        samples[usize::from(p.domain)].push((p.at, p.watts));
    }
    samples
        .iter()
        .zip(&trace.domains)
        .filter(|(samples, _)| !samples.is_empty())
        .map(|(samples, source)| domain(trace, labels, samples, source))
        .collect()
}

/// The node that a domain is of, where there are several.
fn node(trace: &Trace, source: &str) -> Option<u16> {
    let of = |n: &dahl_core::trace::TraceNode| {
        let rest = source.strip_prefix(&n.name);
        rest.is_some_and(|rest| rest.starts_with(": "))
    };
    let place = trace.nodes.iter().position(of)?;
    (trace.nodes.len() > 1).then_some(place as u16)
}

fn domain(trace: &Trace, labels: &Labels, samples: &[(Nanos, f64)], source: &str) -> DomainEnergy {
    let kind = kind(trace, source);
    let node = node(trace, source);
    let counts = |t: &&TaskRun| {
        kind.is_none_or(|k| trace.units[usize::from(t.unit)].kind == k)
            && node.is_none_or(|n| trace.node_of(t.unit) == n)
    };
    let mut slots = Slots::of(samples);
    trace.tasks.iter().filter(counts).for_each(|t| slots.add(t));
    slots.finish();

    let mut codelets = vec![0.0; labels.codelets.len()];
    let mut layers = vec![0.0; labels.layers.len()];
    for t in trace.tasks.iter().filter(counts) {
        let joules = slots.at(t.end) - slots.at(t.start);
        codelets[labels.codelet(trace, t)] += joules;
        layers[labels.layer(trace, t)] += joules;
    }
    let joules: f64 = slots.joules.iter().sum();
    let used: f64 = codelets.iter().sum();
    // Less than sums of shares are rounded by is nothing.
    let idle = Some(joules - used).filter(|rest| *rest > 1e-9 * joules);
    let seconds = samples.last().map_or(0.0, |s| s.0 as f64 * 1e-9);
    let name = |(c, i): &(String, String)| format!("{c}/{i}");
    DomainEnergy {
        source: source.into(),
        joules,
        watts: super::stats::ratio(joules, seconds),
        idle_joules: idle.unwrap_or(0.0),
        codelets: named(labels.codelets.iter().map(name), codelets),
        layers: named(labels.layers.iter().cloned(), layers),
    }
}

/// Whose tasks a domain's energy is for: all, where there are none of the kind.
fn kind(trace: &Trace, source: &str) -> Option<UnitKind> {
    let source = source.to_lowercase();
    let gpu = ["gpu", "nvml", "nvidia"].iter().any(|w| source.contains(w));
    let kind = if gpu { UnitKind::GPU } else { UnitKind::CPU };
    // A model of all units covers all of them.
    let all = source.contains("per unit") || !trace.units.iter().any(|u| u.kind == kind);
    (!all).then_some(kind)
}

fn named(names: impl Iterator<Item = String>, joules: Vec<f64>) -> Vec<NamedJoules> {
    let mut rows: Vec<NamedJoules> = names
        .zip(joules)
        .filter(|(_, joules)| *joules > 0.0)
        .map(|(name, joules)| NamedJoules { name, joules })
        .collect();
    rows.sort_by(|a, b| b.joules.total_cmp(&a.joules));
    rows
}

/// The times between samples.
struct Slots {
    /// Borders: one more than there are slots.
    borders: Vec<Nanos>,
    joules: Vec<f64>,
    /// Busy time in each slot; while adding, without the tasks that cover a slot completely.
    busy: Vec<f64>,
    /// How many tasks more cover this slot completely than the one before.
    covers: Vec<i64>,
    /// Joules of a task that has been running since the first border, at each border.
    sums: Vec<f64>,
}

impl Slots {
    fn of(samples: &[(Nanos, f64)]) -> Slots {
        let mut borders = vec![0];
        borders.extend(samples.iter().map(|s| s.0));
        let joules = |(w, s): (&[Nanos], &(Nanos, f64))| (w[1] - w[0]) as f64 * 1e-9 * s.1;
        let n = samples.len();
        Slots {
            joules: borders.windows(2).zip(samples).map(joules).collect(),
            borders,
            busy: vec![0.0; n],
            covers: vec![0; n + 1],
            sums: vec![],
        }
    }

    /// The slot of a time; the number of slots after the last.
    fn slot(&self, at: Nanos) -> usize {
        self.borders[1..].partition_point(|&b| b <= at)
    }

    fn add(&mut self, t: &TaskRun) {
        let (a, b) = (self.slot(t.start), self.slot(t.end));
        let n = self.busy.len();
        if a == b {
            if a < n {
                self.busy[a] += (t.end - t.start) as f64;
            }
            return;
        }
        self.busy[a] += (self.borders[a + 1] - t.start) as f64;
        self.covers[a + 1] += 1;
        self.covers[b] -= 1;
        if b < n {
            self.busy[b] += (t.end - self.borders[b]) as f64;
        }
    }

    fn finish(&mut self) {
        let (mut covers, mut sum) = (0, 0.0);
        self.sums.push(0.0);
        for i in 0..self.busy.len() {
            covers += self.covers[i];
            let length = (self.borders[i + 1] - self.borders[i]) as f64;
            self.busy[i] += covers as f64 * length;
            sum += super::stats::ratio(self.joules[i] * length, self.busy[i]);
            self.sums.push(sum);
        }
    }

    /// Joules of a task that ran from the first border to `at`.
    fn at(&self, at: Nanos) -> f64 {
        let i = self.slot(at);
        if i >= self.busy.len() {
            return self.sums[self.busy.len()];
        }
        let inside = (at - self.borders[i]) as f64;
        self.sums[i] + super::stats::ratio(self.joules[i] * inside, self.busy[i])
    }
}
