//! A run's energy for other tools: CSV as Alumet writes it, and Prometheus's text format. Texts, no files.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use dahl_core::Seconds;

use super::{DomainEnergy, Report, Scope};

/// Energy since the domain's last sample, per sample, as Alumet's CSV plugin writes it: these columns,
/// semicolons, times in RFC 3339, attributes in the last column. Names of metrics and resources are
/// Alumet's where it has them.
pub fn csv(report: &Report, began: SystemTime) -> String {
    let mut out = String::from(
        "metric;timestamp;value;resource_kind;resource_id;consumer_kind;consumer_id;__late_attributes\n",
    );
    let mut line = |d: &DomainEnergy, at: Seconds, joules: f64| {
        let (metric, per_joule) = metric(d);
        let (kind, id, attribute) = resource(d);
        let time = rfc3339(began, at);
        let value = joules * per_joule;
        let _ = writeln!(
            out,
            "{metric};{time};{value};{kind};{id};local_machine;;{attribute}"
        );
    };
    for s in &report.samples {
        let d = &report.domains[usize::from(s.domain)];
        if is_exported(d) {
            line(d, s.at, s.watts.0 * (s.at - s.from).0);
        }
    }
    // What is only known at the end has no samples.
    for (i, d) in report.domains.iter().enumerate() {
        let sampled = report.samples.iter().any(|s| usize::from(s.domain) == i);
        if let (Some(joules), false, true) = (d.joules, sampled, is_exported(d)) {
            line(d, report.energy.elapsed, joules.0);
        }
    }
    out
}

fn is_exported(d: &DomainEnergy) -> bool {
    d.joules.is_some() && (!matches!(d.scope, Scope::Modelled | Scope::ModelledGpu) || d.counted)
}

/// A metric's name with its unit, and how many of that unit a joule is.
fn metric(d: &DomainEnergy) -> (&'static str, f64) {
    match (d.meter, &d.scope) {
        ("rapl" | "perf", _) => ("rapl_consumed_energy_J", 1.0),
        ("nvml", _) => ("nvml_energy_consumption_mJ", 1e3),
        ("hwmon", Scope::Gpu | Scope::Chip) => ("amd_gpu_energy_consumption_mJ", 1e3),
        (_, Scope::Modelled | Scope::ModelledGpu) => ("modelled_energy_J", 1.0),
        _ => ("hwmon_consumed_energy_J", 1.0),
    }
}

/// A resource's kind and number, and the attribute that says which part of it.
fn resource(d: &DomainEnergy) -> (&'static str, String, String) {
    let whole = d.domain.split('/').next().unwrap_or_default();
    let id: String = whole
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(char::is_ascii_digit)
        .collect();
    let part = d.domain.rsplit('/').next().unwrap_or_default();
    let domain = |name: &str| format!("domain={name}");
    match &d.scope {
        Scope::Wall => ("local_machine", String::new(), domain("wall")),
        Scope::Platform => ("local_machine", String::new(), domain("platform")),
        Scope::Package => ("cpu_package", id, domain("package")),
        Scope::Dram => ("dram", id, domain("dram")),
        Scope::Inside(_) => {
            let part = match part {
                "core" => "pp0",
                "uncore" => "pp1",
                other => other,
            };
            ("cpu_package", id, domain(part))
        }
        Scope::Gpu | Scope::Chip => ("gpu", id, String::new()),
        Scope::Modelled | Scope::ModelledGpu => ("local_machine", String::new(), String::new()),
    }
}

/// A point in time after a beginning, in UTC with nanoseconds.
fn rfc3339(began: SystemTime, after: Seconds) -> String {
    let after = Duration::try_from_secs_f64(after.0).unwrap_or_default();
    let since = began.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default() + after;
    let (days, second) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:09}Z",
        second / 3600,
        second / 60 % 60,
        second % 60,
        since.subsec_nanos()
    )
}

/// Year, month and day of a number of days since 1970, in the proleptic Gregorian calendar. Years begin
/// in March here, so that a leap day is the last of its year, and eras of 400 years are all alike.
fn civil(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    let days = days + 719_468; // From the first of March of year 0.
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    (era * 400 + year + next, month, day)
}

/// The totals, as gauges; with the grams of CO₂ equivalents of a kilowatt-hour, where they are known, and the exit
/// code of the program that ran.
pub fn prometheus(report: &Report, carbon: Option<f64>, code: i32) -> String {
    let energy = &report.energy;
    let mut out = String::new();
    let source = energy.source();
    let label = format!("{{source=\"{}\"}}", escaped(&source));
    let mut gauge = |name: &str, help: &str, rows: &[(String, f64)]| {
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in rows {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let one = |value: Option<f64>| -> Vec<(String, f64)> {
        value.map(|v| (label.clone(), v)).into_iter().collect()
    };
    gauge(
        "dahl_energy_joules",
        "Energy of the run; absent if unknown.",
        &one(energy.joules().map(|j| j.0)),
    );
    gauge(
        "dahl_energy_watts",
        "Mean power of the run.",
        &one(energy.watts().map(|w| w.0)),
    );
    gauge(
        "dahl_energy_co2e_grams",
        "Greenhouse gases of the run.",
        &one(carbon.and_then(|g| energy.carbon(g))),
    );
    let rows = report.domains.iter().filter(|d| is_exported(d));
    let rows: Vec<(String, f64)> = rows
        .filter_map(|d| {
            let labels = format!(
                "{{meter=\"{}\",domain=\"{}\",in_total=\"{}\"}}",
                d.meter,
                escaped(&d.domain),
                d.counted
            );
            Some((labels, d.joules?.0))
        })
        .collect();
    gauge(
        "dahl_energy_domain_joules",
        "Energy by domain; domains that are part of others are not in the total.",
        &rows,
    );
    let plain = |value: f64| [(String::new(), value)];
    gauge(
        "dahl_energy_seconds",
        "Duration of the run.",
        &plain(energy.elapsed.0),
    );
    gauge(
        "dahl_energy_exit_code",
        "Exit code of the program.",
        &plain(f64::from(code)),
    );
    out
}

/// A label's value, as the format wants it.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    text.replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (789, (1972, 2, 29)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_203, (2025, 4, 25)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil(days), date, "{days}");
        }
        let began = SystemTime::UNIX_EPOCH + Duration::new(1_745_593_733, 949_000_000);
        assert_eq!(
            rfc3339(began, Seconds(0.5)),
            "2025-04-25T15:08:54.449000000Z"
        );
    }

    #[test]
    fn labels_are_escaped() {
        assert_eq!(escaped("a \"b\" \\ c\nd"), "a \\\"b\\\" \\\\ c\\nd");
    }
}
