//! What a program used: a few lines for people, one for programs.

use dahl_core::report::{Report as Text, Table};
use dahl_core::{Seconds, Watts};
use serde_json::{Value, json};

use crate::{DomainEnergy, Finding, ProgramRun, Report, Scope, TroubleKind};

impl ProgramRun {
    /// For people, with CO₂ equivalents at so many grams per kilowatt-hour where they are given.
    pub fn text(&self, per_kwh: Option<f64>) -> Text {
        let energy = &self.report.energy;
        let mut out = Text::default();
        let mut line = match (energy.joules(), energy.watts()) {
            (Some(joules), Some(watts)) => {
                format!("{joules} in {}, {watts} on average", energy.elapsed)
            }
            _ => format!("energy unknown, {}", energy.elapsed),
        };
        if let Some(cpu) = self.cpu {
            line += &format!(", {cpu} of CPU time");
        }
        out.line("");
        out.line(line);
        if let Some((per_kwh, grams)) = carbon(self, per_kwh) {
            out.line(format!("{} CO₂e at {per_kwh} g/kWh", in_grams(grams)));
        }
        out.line(energy.source());
        let mut table = Table::new("source|domain|joules|watts|in the total");
        for d in self.report.domains.iter().filter(|d| is_shown(d)) {
            let Some(joules) = d.joules else { continue };
            let watts = Watts(joules.0 / energy.elapsed.0).to_string();
            let counted = if d.counted { "yes" } else { "no" };
            let (meter, domain) = (d.meter.into(), d.domain.clone());
            table.row([meter, domain, joules.to_string(), watts, counted.into()]);
        }
        if table.rows.len() > 1 {
            out.table(table);
        }
        if !energy.is_measured() {
            for line in closed(&self.report) {
                out.line(format!("not measured: {line}"));
            }
            out.line("`dahl energy --check` says what can be measured here");
        }
        out.line(overhead(&self.report));
        out
    }

    /// The same and more as JSON.
    pub fn to_json(&self, per_kwh: Option<f64>) -> Value {
        let energy = &self.report.energy;
        let domain = |d: &DomainEnergy| {
            json!({
                "meter": d.meter,
                "domain": d.domain,
                "joules": d.joules,
                "in_total": d.counted,
                "source": d.source(),
                "doubts": d.doubts,
            })
        };
        let command: Vec<String> = self
            .command
            .iter()
            .map(|a| a.to_string_lossy().into_owned())
            .collect();
        let shown = self.report.domains.iter().filter(|d| is_shown(d));
        json!({
            "command": command,
            "exit_code": self.code,
            "seconds": energy.elapsed,
            "cpu_seconds": self.cpu,
            "joules": energy.joules(),
            "joules_source": energy.source(),
            "watts": energy.watts(),
            "measured": energy.is_measured(),
            "parts": energy.parts,
            "doubts": energy.doubts,
            "domains": shown.map(domain).collect::<Vec<_>>(),
            "not_measured": closed(&self.report),
            "carbon_g": carbon(self, per_kwh).map(|(_, grams)| grams),
            "carbon_g_per_kwh": per_kwh,
            "readings": self.report.readings,
            "reading_seconds": self.report.spent,
        })
    }
}

/// A model that was not needed is not worth a line.
fn is_shown(d: &DomainEnergy) -> bool {
    !matches!(d.scope, Scope::Modelled | Scope::ModelledGpu) || d.counted
}

/// What somebody could open, and what is there but does not work; not what this machine lacks.
fn closed(report: &Report) -> Vec<String> {
    let worth = |f: &&Finding| {
        let trouble = f.trouble.as_ref();
        trouble.is_some_and(|t| t.kind != TroubleKind::Missing)
    };
    let found = report.findings.iter().filter(worth).filter_map(|f| {
        let why = f.trouble.as_ref()?;
        Some(format!("{}: {}: {why}", f.meter, f.what))
    });
    let failed = report.domains.iter().filter_map(|d| {
        let why = d.trouble.as_ref()?;
        Some(format!("{}: {}: {why}", d.meter, d.domain))
    });
    found.chain(failed).collect()
}

fn overhead(report: &Report) -> String {
    let each = Seconds(report.spent.0 / report.readings.max(1) as f64);
    let share = 100.0 * report.spent.0 / report.energy.elapsed.0.max(f64::MIN_POSITIVE);
    format!(
        "measuring: {} readings of {each} each, {share:.2} % of the time",
        report.readings
    )
}

fn in_grams(grams: f64) -> String {
    match grams {
        g if g >= 1000.0 => format!("{:.3} kg", g / 1000.0),
        g if g >= 1.0 => format!("{g:.2} g"),
        g if g >= 1e-3 => format!("{:.2} mg", g * 1e3),
        g => format!("{:.2} µg", g * 1e6),
    }
}

/// Grams per kilowatt-hour, and grams.
fn carbon(run: &ProgramRun, per_kwh: Option<f64>) -> Option<(f64, f64)> {
    let per_kwh = per_kwh?;
    Some((per_kwh, run.report.energy.carbon(per_kwh)?))
}
