//! The report of a run: a few lines for people, one for programs.

use std::io::Write;

use dahl::core::Seconds;
use dahl::energy::{DomainEnergy, Finding, ProgramRun, Report, Scope, TroubleKind};
use serde_json::{Value, json};

use crate::print;

/// Writes the report to standard error. If that is closed, there is nobody to tell, and the program's
/// exit code still counts.
pub fn print(run: &ProgramRun, per_kwh: Option<f64>, as_json: bool) -> anyhow::Result<()> {
    let text = if as_json {
        serde_json::to_string(&value(run, per_kwh))?
    } else {
        text(run, per_kwh)
    };
    let _ = writeln!(std::io::stderr().lock(), "{text}");
    Ok(())
}

fn text(run: &ProgramRun, per_kwh: Option<f64>) -> String {
    let energy = &run.report.energy;
    let mut out = String::from("\n");
    out.push_str(&match (energy.joules(), energy.watts()) {
        (Some(joules), Some(watts)) => {
            format!("{joules} in {}, {watts} on average", energy.elapsed)
        }
        _ => format!("energy unknown, {}", energy.elapsed),
    });
    if let Some(cpu) = run.cpu {
        out.push_str(&format!(", {cpu} of CPU time"));
    }
    if let Some((per_kwh, grams)) = carbon(run, per_kwh) {
        out.push_str(&format!("\n{} CO₂e at {per_kwh} g/kWh", in_grams(grams)));
    }
    out.push_str(&format!("\n{}\n", energy.source()));
    let mut table = print::table(&["source", "domain", "joules", "watts", "in the total"]);
    let mut rows = 0;
    for d in run.report.domains.iter().filter(|d| is_shown(d)) {
        let Some(joules) = d.joules else { continue };
        let watts = dahl::core::Watts(joules.0 / energy.elapsed.0);
        let counted = if d.counted { "yes" } else { "no" };
        table.add_row([
            d.meter,
            &d.domain,
            &joules.to_string(),
            &watts.to_string(),
            counted,
        ]);
        rows += 1;
    }
    if rows > 1 {
        out.push_str(&format!("{table}\n"));
    }
    if !energy.is_measured() {
        for line in closed(&run.report) {
            out.push_str(&format!("not measured: {line}\n"));
        }
        out.push_str("`dahl energy --check` says what can be measured here\n");
    }
    out.push_str(&overhead(&run.report));
    out
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

fn value(run: &ProgramRun, per_kwh: Option<f64>) -> Value {
    let energy = &run.report.energy;
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
    let command: Vec<String> = run
        .command
        .iter()
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let shown = run.report.domains.iter().filter(|d| is_shown(d));
    json!({
        "command": command,
        "exit_code": run.code,
        "seconds": energy.elapsed,
        "cpu_seconds": run.cpu,
        "joules": energy.joules(),
        "joules_source": energy.source(),
        "watts": energy.watts(),
        "measured": energy.is_measured(),
        "parts": energy.parts,
        "doubts": energy.doubts,
        "domains": shown.map(domain).collect::<Vec<_>>(),
        "not_measured": closed(&run.report),
        "carbon_g": carbon(run, per_kwh).map(|(_, grams)| grams),
        "carbon_g_per_kwh": per_kwh,
        "readings": run.report.readings,
        "reading_seconds": run.report.spent,
    })
}
