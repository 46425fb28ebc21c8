//! What can be read on this machine, and how what cannot is allowed.

use serde::Serialize;

use crate::{DomainEnergy, Finding, Report, Scope};

/// What can be read of a domain or source, or why not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Readable {
    /// The source: `rapl`.
    pub meter: &'static str,
    /// The domain; empty for a source as a whole.
    pub domain: String,
    /// Whether it can be read.
    pub readable: bool,
    /// What it is, or why it cannot be read.
    pub state: String,
    /// How to allow it.
    pub remedy: String,
}

impl Report {
    /// What can be read here, source by source.
    pub fn readable(&self) -> Vec<Readable> {
        self.findings.iter().map(|f| readable(f, self)).collect()
    }
}

fn readable(finding: &Finding, report: &Report) -> Readable {
    let is_it = |d: &&DomainEnergy| d.meter == finding.meter && d.domain == finding.what;
    let domain = report.domains.iter().find(is_it);
    let trouble = finding
        .trouble
        .as_ref()
        .or_else(|| domain.and_then(|d| d.trouble.as_ref()));
    let state = match (trouble, domain) {
        (Some(why), _) => why.text.clone(),
        (None, Some(d)) => [finding.note.as_str(), relation(d)]
            .into_iter()
            .filter(|s| !s.is_empty())
            .collect::<Vec<_>>()
            .join("; "),
        (None, None) => finding.note.clone(),
    };
    Readable {
        meter: finding.meter,
        domain: finding.what.clone(),
        readable: trouble.is_none(),
        state,
        remedy: trouble.and_then(|t| t.remedy.clone()).unwrap_or_default(),
    }
}

/// How a domain stands to the total.
fn relation(d: &DomainEnergy) -> &'static str {
    match (&d.scope, d.counted) {
        (_, true) => "in the total",
        (Scope::Inside(_) | Scope::Chip, false) => "part of the package",
        (Scope::Platform, false) => "less than its parts, so not used",
        (_, false) => "part of the platform or of what the wall gives",
    }
}
