//! `dahl energy`: programs run as if nobody watched, and figures say where they come from.

#![cfg(unix)]

mod common;

use std::path::{Path, PathBuf};

use common::{Said, dahl, dahl_with, folder, refuse};
use serde_json::Value;

/// A made-up `/sys` with one package, whose counter stands at 5 J.
fn sys(name: &str) -> (PathBuf, String) {
    let root = folder(name);
    let zone = root.join("class/powercap/intel-rapl:0");
    std::fs::create_dir_all(&zone).expect("a folder");
    std::fs::write(zone.join("name"), "package-0\n").expect("a file");
    std::fs::write(zone.join("max_energy_range_uj"), "262143328850\n").expect("a file");
    std::fs::write(zone.join("energy_uj"), "5000000\n").expect("a file");
    let text = root.to_str().expect("UTF-8").to_string();
    (root, text)
}

/// A shell script that takes a moment and sets the counter, never leaving half a file to be read.
fn use_energy(root: &Path, microjoules: u64) -> String {
    let zone = root.join("class/powercap/intel-rapl:0");
    let zone = zone.display();
    format!(
        "sleep 0.05; echo {microjoules} > {zone}/next; mv {zone}/next {zone}/energy_uj; sleep 0.2"
    )
}

fn energy(options: &[&str], script: &str, input: &str) -> Said {
    let mut args = vec!["energy"];
    args.extend(options);
    args.extend(["--", "sh", "-c", script]);
    dahl_with(&args, input)
}

/// The report in the last line of what was said.
fn report(said: &Said) -> Value {
    let line = said.err.lines().last().expect("a report");
    serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {}", said.err))
}

fn close_to(value: &Value, expected: f64) {
    let got = value.as_f64().expect("a number");
    assert!((got - expected).abs() < 1e-6, "{got} instead of {expected}");
}

#[test]
fn the_program_keeps_its_input_its_output_and_its_exit_code() {
    let root = folder("energy-untouched");
    let root = root.to_str().expect("UTF-8");
    let said = energy(&["--sysfs", root], "cat; echo heard >&2; exit 3", "hello");
    assert_eq!((said.code, said.out.as_str()), (Some(3), "hello"));
    assert!(said.err.starts_with("heard\n"), "{}", said.err);
    assert!(
        said.err
            .contains("modelled (3.5 W busy, 0.74 W idle per core)"),
        "{}",
        said.err
    );
    let said = energy(&["--sysfs", root], "kill -TERM $$", "");
    assert_eq!(said.code, Some(128 + 15), "{}", said.err);
    assert!(said.err.contains(" on average"), "{}", said.err);
}

#[test]
fn programs_that_cannot_run_are_told_as_shells_tell_it() {
    refuse(
        &["energy", "--", "no-such-program"],
        "",
        127,
        &["no-such-program", "no such program"],
    );
    let file = folder("energy-plain").join("plain");
    std::fs::write(&file, "").expect("a file");
    let file = file.to_str().expect("UTF-8");
    refuse(
        &["energy", "--", file],
        "",
        126,
        &[file, "ermission denied"],
    );
}

#[test]
fn a_counter_is_measured_and_exported() {
    let (root, sys) = sys("energy-measured");
    let (csv, prom) = (root.join("run.csv"), root.join("run.prom"));
    let options = [
        "--json",
        "--carbon",
        "300",
        "--interval",
        "0.01",
        "--sysfs",
        &sys,
        "--csv",
        csv.to_str().expect("UTF-8"),
        "--prometheus",
        prom.to_str().expect("UTF-8"),
    ];
    let said = energy(&options, &use_energy(&root, 17_000_000), "");
    assert_eq!(said.code, Some(0), "{}", said.err);
    let report = report(&said);
    assert_eq!(report["joules_source"], "measured (rapl: package-0)");
    assert_eq!(report["measured"], true);
    close_to(&report["joules"], 12.0);
    close_to(&report["carbon_g"], 1e-3);
    let seconds = report["seconds"].as_f64().expect("seconds");
    assert!(seconds > 0.25, "{seconds}");
    close_to(&report["watts"], 12.0 / seconds);
    assert_eq!(report["domains"].as_array().map(Vec::len), Some(1));

    let csv = std::fs::read_to_string(csv).expect("a table");
    let mut lines = csv.lines();
    assert_eq!(
        lines.next(),
        Some(
            "metric;timestamp;value;resource_kind;resource_id;consumer_kind;consumer_id;__late_attributes"
        )
    );
    let mut total = 0.0;
    let mut last = String::new();
    for line in lines {
        let fields: Vec<&str> = line.split(';').collect();
        assert_eq!(fields[0], "rapl_consumed_energy_J", "{line}");
        let rest = ["cpu_package", "0", "local_machine", "", "domain=package"];
        assert_eq!(fields[3..], rest, "{line}");
        assert!(
            fields[1].ends_with('Z') && fields[1] > last.as_str(),
            "{line}"
        );
        last = fields[1].to_string();
        total += fields[2].parse::<f64>().expect("a number");
    }
    assert!((total - 12.0).abs() < 1e-6, "{total} J in {csv}");

    let prom = std::fs::read_to_string(prom).expect("metrics");
    for part in [
        "# TYPE dahl_energy_joules gauge",
        "dahl_energy_joules{source=\"measured (rapl: package-0)\"} 1",
        "dahl_energy_domain_joules{meter=\"rapl\",domain=\"package-0\",in_total=\"true\"} 1",
        "dahl_energy_co2e_grams{",
        "dahl_energy_exit_code 0",
    ] {
        assert!(prom.contains(part), "{part} is missing from {prom}");
    }
    let names = std::fs::read_dir(&root).expect("the folder").flatten();
    let names: Vec<_> = names.map(|e| e.file_name()).collect();
    assert_eq!(names.len(), 3, "nothing is left behind: {names:?}");
}

#[test]
fn a_counter_that_stands_still_is_never_a_measured_zero() {
    let (_, sys) = sys("energy-still");
    let said = energy(&["--json", "--sysfs", &sys], "sleep 0.2", "");
    let report = report(&said);
    let source = report["joules_source"].as_str().expect("a source");
    assert!(source.starts_with("modelled ("), "{source}");
    assert!(report["joules"].as_f64().is_some_and(|j| j > 0.0));
    assert_eq!(report["measured"], false);
    let why = report["not_measured"].to_string();
    assert!(
        why.contains("rapl: package-0: it can be read, but did not move"),
        "{why}"
    );
}

#[test]
fn the_model_counts_the_programs_cpu_time() {
    let root = folder("energy-modelled");
    let root = root.to_str().expect("UTF-8");
    let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
    let report = report(&energy(&["--json", "--sysfs", root], busy, ""));
    let number = |name: &str| report[name].as_f64().expect("a number");
    let (cpu, seconds, joules) = (number("cpu_seconds"), number("seconds"), number("joules"));
    assert!(cpu > 0.0);
    // Idle watts of all cores, and what busy ones draw more.
    let cores = (joules - cpu * (3.5 - 0.74)) / (0.74 * seconds);
    assert!(
        (cores - cores.round()).abs() < 0.01 && cores > 0.5,
        "{cores} cores in {report}"
    );
}

#[test]
fn check_says_what_can_be_read() {
    let (root, sys) = sys("energy-check");
    let text = dahl(&["energy", "--check", "--sysfs", &sys]);
    for part in [
        "rapl",
        "package-0",
        "did not move",
        "perf",
        "hwmon",
        "nvml",
        "A run here is modelled",
    ] {
        assert!(text.contains(part), "{part} is missing from {text}");
    }
    std::fs::write(root.join("class/powercap/intel-rapl:0/energy_uj"), "ten").expect("a file");
    let value: Value =
        serde_json::from_str(&dahl(&["energy", "--check", "--json", "--sysfs", &sys]))
            .expect("JSON");
    let rapl = &value["sources"][0];
    assert_eq!(rapl["readable"], false);
    assert!(
        rapl["state"].as_str().is_some_and(|s| s.contains("ten")),
        "{rapl}"
    );
}

#[test]
fn this_machine_has_a_figure_with_a_source() {
    let report = report(&energy(&["--json"], "sleep 0.3", ""));
    let source = report["joules_source"].as_str().expect("a source");
    assert!(
        source.starts_with("measured (") || source.starts_with("modelled ("),
        "{source}"
    );
    assert!(
        report["joules"].as_f64().is_some_and(|j| j > 0.0),
        "{report}"
    );
    assert!(dahl(&["energy", "--check"]).contains("A run here is"));
}

#[test]
fn bad_options_are_refused_before_the_program_runs() {
    let folder = folder("energy-refused");
    let marker = folder.join("ran");
    let marker = marker.to_str().expect("UTF-8");
    let run = |options: &[&str], code, parts: &[&str]| {
        let mut args = vec!["energy"];
        args.extend(options);
        args.extend(["--", "touch", marker]);
        refuse(&args, "", code, parts);
    };
    run(&["--interval", "0"], 2, &["--interval", "0.001 to 60"]);
    run(&["--interval", "NaN"], 2, &["--interval", "0.001 to 60"]);
    run(&["--carbon", "-1"], 2, &["-1"]);
    run(&["--carbon=-1"], 2, &["--carbon", "kilowatt-hour"]);
    run(
        &["--csv", "no/such/folder/f.csv"],
        1,
        &["no/such/folder", "first"],
    );
    run(&["--prometheus", "/"], 1, &["is a folder"]);
    run(&["--sysfs", "no/such/tree"], 1, &["no/such/tree", "/sys"]);
    run(&["--check"], 2, &["--check"]);
    refuse(&["energy"], "", 2, &["<COMMAND>"]);
    refuse(&["energy", "sleep", "1"], "", 2, &["sleep", "-- <COMMAND>"]);
    assert!(!Path::new(marker).exists(), "it ran all the same");
}

#[test]
fn signals_reach_the_program_and_the_report_is_still_made() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};
    for signal in [2, 15] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_dahl"))
            .args(["energy", "--", "sh", "-c", "echo ready; exec sleep 60"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("dahl can be started");
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut String::new()).expect("ready");
        let pid = child.id().to_string();
        let kill = Command::new("kill")
            .args([&format!("-{signal}"), &pid])
            .status();
        assert!(kill.is_ok_and(|s| s.success()));
        let mut err = String::new();
        let mut pipe = child.stderr.take().expect("piped");
        pipe.read_to_string(&mut err).expect("UTF-8");
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(128 + signal), "{err}");
        assert!(err.contains(" on average"), "{err}");
    }
}
