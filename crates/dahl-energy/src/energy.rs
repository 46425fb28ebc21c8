//! Figures: joules, and where they come from.
//!
//! A figure is a list of parts, each measured or modelled. Its text names every part, so a sum of both
//! kinds cannot be taken for either.

use std::fmt;

use dahl_core::trace::{self, Trace};
use dahl_core::{Joules, Seconds, Watts};
use serde::Serialize;

use super::{Finding, Scope, Trouble, TroubleKind};

/// How a part was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PartKind {
    /// By a meter.
    Measured,
    /// By a model.
    Modelled,
}

/// A part of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// How it was found.
    pub kind: PartKind,
    /// How much.
    pub joules: Joules,
    /// By which domains, or with which watts: `rapl: package-0`.
    pub by: String,
}

/// Energy used in some time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Energy {
    /// How long.
    pub elapsed: Seconds,
    /// The parts; none if the energy is unknown.
    pub parts: Vec<Part>,
    /// What makes them doubtful.
    pub doubts: Vec<String>,
    /// Why something could not be measured.
    pub reasons: Vec<String>,
}

impl Energy {
    /// Joules; `None` where they are unknown.
    pub fn joules(&self) -> Option<Joules> {
        (!self.parts.is_empty()).then(|| self.parts.iter().map(|p| p.joules).sum())
    }

    /// Mean power.
    pub fn watts(&self) -> Option<Watts> {
        let joules = self.joules()?;
        (self.elapsed.0 > 0.0).then(|| Watts(joules.0 / self.elapsed.0))
    }

    /// Grams of CO₂ equivalents, at so many per kilowatt-hour.
    pub fn carbon(&self, grams_per_kwh: f64) -> Option<f64> {
        Some(self.joules()?.0 / 3.6e6 * grams_per_kwh)
    }

    /// Whether every joule was measured, and none is in doubt.
    pub fn is_measured(&self) -> bool {
        let measured = |p: &Part| p.kind == PartKind::Measured;
        !self.parts.is_empty() && self.parts.iter().all(measured) && self.doubts.is_empty()
    }

    /// Where it comes from: `measured (rapl: package-0)`, `modelled (3.5 W busy, 0.74 W idle per core)`,
    /// `unavailable (…)`, or several of them.
    pub fn source(&self) -> String {
        if self.parts.is_empty() {
            let why = match self.reasons.is_empty() {
                true => "nothing was asked".into(),
                false => self.reasons.join("; "),
            };
            return format!("unavailable ({why})");
        }
        let part = |p: &Part| match p.kind {
            PartKind::Measured => format!("measured ({})", p.by),
            PartKind::Modelled => format!("modelled ({})", p.by),
        };
        let parts: Vec<String> = self.parts.iter().map(part).collect();
        let mut text = parts.join(" + ");
        if !self.doubts.is_empty() {
            text.push_str(", uncertain: ");
            text.push_str(&self.doubts.join("; "));
        }
        text
    }

    /// What was used since an earlier figure of the same run.
    pub fn since(&self, earlier: &Energy) -> Energy {
        let mut parts = self.parts.clone();
        for part in &mut parts {
            // A part that was not there then had not counted anything yet.
            // Models keep their words; what is measured may be by more domains now.
            let same = |p: &&Part| {
                p.kind == part.kind && (p.kind == PartKind::Measured || p.by == part.by)
            };
            let before = earlier.parts.iter().filter(same);
            part.joules = part.joules - before.map(|p| p.joules).sum();
        }
        Energy {
            elapsed: self.elapsed - earlier.elapsed,
            parts,
            doubts: self.doubts.clone(),
            reasons: self.reasons.clone(),
        }
    }
}

impl fmt::Display for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.joules() {
            Some(joules) => write!(f, "{joules} {}", self.source()),
            None => f.write_str(&self.source()),
        }
    }
}

/// What one domain used.
#[derive(Clone, Debug, PartialEq)]
pub struct DomainEnergy {
    /// The source: `rapl`.
    pub meter: &'static str,
    /// The domain: `package-0`.
    pub domain: String,
    /// What it covers.
    pub scope: Scope,
    /// Joules; `None` where they are unknown.
    pub joules: Option<Joules>,
    /// Whether they are in the total.
    pub counted: bool,
    /// Why they are unknown.
    pub trouble: Option<Trouble>,
    /// What makes them doubtful.
    pub doubts: Vec<String>,
}

impl DomainEnergy {
    /// Where its joules come from, as a trace names it.
    pub fn source(&self) -> String {
        match (&self.trouble, &self.scope) {
            (Some(why), _) => format!("unavailable ({}: {}: {why})", self.meter, self.domain),
            (None, Scope::Modelled | Scope::ModelledGpu) => format!("modelled ({})", self.domain),
            (None, _) => format!("measured ({}: {})", self.meter, self.domain),
        }
    }
}

/// Power of a domain over some time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PowerSample {
    /// The beginning of that time: the end of the domain's last sample, unless it was gone since.
    pub from: Seconds,
    /// The end of that time.
    pub at: Seconds,
    /// Index into [`Report::domains`].
    pub domain: u16,
    /// The mean.
    pub watts: Watts,
}

/// All that is known at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The total.
    pub energy: Energy,
    /// Its domains.
    pub domains: Vec<DomainEnergy>,
    /// Power over time, by time.
    pub samples: Vec<PowerSample>,
    /// What was found, and what could not be read.
    pub findings: Vec<Finding>,
    /// How often all domains were read.
    pub readings: u64,
    /// How long that took, in all.
    pub spent: Seconds,
}

impl Report {
    /// Adds power over time to a trace whose times count from the same moment.
    pub fn enter(&self, trace: &mut Trace) {
        // Only domains that make the total: a counter that never moved, or a part of another, would look
        // like a figure of its own.
        let (mut places, mut domains) = (Vec::new(), Vec::new());
        for domain in &self.domains {
            places.push(domain.counted.then_some(domains.len() as u16));
            domains.extend(domain.counted.then(|| domain.source()));
        }
        let sample = |s: &PowerSample| {
            Some(trace::PowerSample {
                at: (s.at.0.max(0.0) * 1e9) as u64,
                domain: places[usize::from(s.domain)]?,
                watts: s.watts.0,
            })
        };
        trace.power = self.samples.iter().filter_map(sample).collect();
        trace.domains = domains;
    }
}

/// Decides which domains make the total, so that nothing is counted twice:
///
/// - a meter at the wall is the whole, whatever the others say: nothing is beside it;
/// - the platform covers everything, if it is at least what its parts add up to: some machines have a
///   platform counter that is not wired to all of it;
/// - a package contains its cores and its graphics, not its memory and not a card;
/// - a chip with processor and graphics in one is a package by another name;
/// - a model counts only where no processor was measured; one of cards, where no card was.
pub(crate) fn settle(domains: &mut [DomainEnergy]) {
    let known = |d: &DomainEnergy| d.joules.is_some();
    let packages: Vec<String> = domains
        .iter()
        .filter(|d| d.scope == Scope::Package && known(d))
        .map(|d| d.domain.clone())
        .collect();
    for d in domains.iter_mut() {
        let belongs = match &d.scope {
            Scope::Package | Scope::Dram | Scope::Gpu => true,
            Scope::Inside(package) => !packages.contains(package),
            Scope::Chip => packages.is_empty(),
            Scope::Wall | Scope::Platform | Scope::Modelled | Scope::ModelledGpu => false,
        };
        d.counted = belongs && known(d);
    }
    let parts: Joules = domains
        .iter()
        .filter(|d| d.counted)
        .filter_map(|d| d.joules)
        .sum();
    let platform = |d: &DomainEnergy| d.scope == Scope::Platform;
    let whole: Joules = domains
        .iter()
        .filter(|d| platform(d))
        .filter_map(|d| d.joules)
        .sum();
    if whole.0 > 0.0 && whole >= parts {
        for d in domains.iter_mut() {
            d.counted = platform(d) && known(d);
        }
    }
    let wall = |d: &DomainEnergy| d.scope == Scope::Wall && known(d);
    if domains.iter().any(wall) {
        for d in domains.iter_mut() {
            d.counted = wall(d);
        }
    }
    let processors = domains.iter().any(|d| {
        let of_processors = !matches!(d.scope, Scope::Dram | Scope::Gpu | Scope::Modelled);
        d.counted && of_processors
    });
    let covers_cards =
        |d: &DomainEnergy| matches!(d.scope, Scope::Gpu | Scope::Platform | Scope::Wall);
    let cards = domains.iter().any(|d| d.counted && covers_cards(d));
    for d in domains.iter_mut() {
        match d.scope {
            Scope::Modelled => d.counted = !processors && known(d),
            Scope::ModelledGpu => d.counted = !cards && known(d),
            _ => {}
        }
    }
}

/// The total of settled domains. `watts` is how the model describes itself.
pub(crate) fn total(
    domains: &[DomainEnergy],
    watts: &str,
    findings: &[Finding],
    elapsed: Seconds,
) -> Energy {
    let mut energy = Energy {
        elapsed,
        ..Energy::default()
    };
    let counted = |modelled: bool| {
        let model = |scope: &Scope| matches!(scope, Scope::Modelled | Scope::ModelledGpu);
        let of_kind = move |d: &&DomainEnergy| model(&d.scope) == modelled;
        domains.iter().filter(|d| d.counted).filter(of_kind)
    };
    let measured: Joules = counted(false).filter_map(|d| d.joules).sum();
    if measured.0 > 0.0 {
        energy.parts.push(Part {
            kind: PartKind::Measured,
            joules: measured,
            by: named(counted(false)),
        });
    }
    for d in counted(true) {
        energy.parts.push(Part {
            kind: PartKind::Modelled,
            joules: d.joules.unwrap_or_default(),
            by: match d.scope {
                Scope::ModelledGpu => d.domain.clone(),
                _ => watts.into(),
            },
        });
    }
    for d in domains.iter().filter(|d| d.counted) {
        let doubts = d.doubts.iter();
        energy
            .doubts
            .extend(doubts.map(|text| format!("{}: {text}", d.domain)));
    }
    if measured.0 > 0.0 {
        energy.doubts.extend(left_out(domains, findings));
    }
    let found = findings.iter().filter_map(|f| f.trouble.as_ref());
    energy.reasons.extend(found.map(Trouble::to_string));
    for d in domains {
        if let Some(why) = &d.trouble {
            let reason = format!("{}: {}: {why}", d.meter, d.domain);
            energy.reasons.push(reason);
        }
    }
    energy
}

/// Processors and memories that are there but not in a total of others like them.
fn left_out(domains: &[DomainEnergy], findings: &[Finding]) -> Vec<String> {
    let like = |scope: &Scope| matches!(scope, Scope::Package | Scope::Dram);
    if !domains.iter().any(|d| d.counted && like(&d.scope)) {
        return Vec::new();
    }
    let closed = findings.iter().filter_map(|f| {
        let scope = f.scope.as_ref().filter(|s| like(s))?;
        let why = f.trouble.as_ref()?;
        (why.kind != TroubleKind::Missing).then_some((scope, &f.what, why))
    });
    let failed = domains.iter().filter_map(|d| {
        let why = d.trouble.as_ref()?;
        // Many processors list a counter of memory that is not wired.
        let expected = d.scope == Scope::Dram && why.kind == TroubleKind::Failed;
        (like(&d.scope) && !expected).then_some((&d.scope, &d.domain, why))
    });
    let text = |(_, what, why): (&Scope, &String, &Trouble)| format!("{what} is not in it: {why}");
    closed.chain(failed).map(text).collect()
}

/// `rapl: package-0, package-0/dram; nvml: gpu-0`.
fn named<'a>(domains: impl Iterator<Item = &'a DomainEnergy>) -> String {
    let mut text = String::new();
    let mut meter = "";
    for d in domains {
        if d.meter != meter {
            let gap = if text.is_empty() { "" } else { "; " };
            text.push_str(&format!("{gap}{}: {}", d.meter, d.domain));
            meter = d.meter;
        } else {
            text.push_str(&format!(", {}", d.domain));
        }
    }
    text
}
