//! `dahl trace`: summaries and exports of files, and refusals that say why.

mod common;

use common::{dahl, folder, refuse};
use dahl::trace::{Summary, save, synthetic};
use serde_json::Value;

/// A file with a made-up trace.
fn trace(name: &str, tasks: usize) -> (std::path::PathBuf, String) {
    let folder = folder(name);
    let file = folder.join("run.trace");
    save(&synthetic(tasks, 4, 3), &file).expect("the build folder can be written");
    let file = file.to_str().expect("UTF-8").to_string();
    (folder, file)
}

#[test]
fn the_summary_answers_on_one_screen() {
    let (_, file) = trace("trace-summary", 3000);
    let said = dahl(&["trace", "summary", &file]);
    for part in [
        "3000 tasks",
        "parallel efficiency",
        "bound by",
        "waiting for work",
        "cpu:0",
        "conv2d (simd)",
        "waited for",
        "critical path",
        "peak memory",
        "modelled (8.5 W busy, 2.1 W idle per unit)",
    ] {
        assert!(said.contains(part), "{part} is missing from\n{said}");
    }
    assert!(said.lines().count() <= 55, "{said}");
    let longer = dahl(&["trace", "summary", &file, "--top", "50"]);
    assert!(longer.lines().count() > said.lines().count());
}

#[test]
fn json_has_the_summarys_figures() {
    let (_, file) = trace("trace-json", 2000);
    let said: Value =
        serde_json::from_str(&dahl(&["trace", "summary", &file, "--json"])).expect("JSON");
    let want = Summary::of(&synthetic(2000, 4, 3));
    assert_eq!(said["span_ns"], want.span_ns);
    assert_eq!(said["units"][0]["busy_ns"], want.units[0].busy_ns);
    assert_eq!(said["bound"]["by"], want.bound.by);
    assert_eq!(
        said["codelets"].as_array().map(Vec::len),
        Some(want.codelets.len())
    );
    assert_eq!(said["gaps"].as_array().map(Vec::len), Some(5));
}

#[test]
fn every_format_is_written_to_files_and_to_standard_output() {
    let (folder, file) = trace("trace-export", 500);
    for (format, begin) in [
        ("csv", "kind,step"),
        ("paje", "%EventDef"),
        ("dot", "digraph"),
    ] {
        let to = ["trace", "export", &file, "--format", format, "-o", "-"];
        let said = dahl(&to);
        assert!(
            said.starts_with(begin),
            "{format}: {}",
            &said[..100.min(said.len())]
        );
        let out = folder.join(format);
        let path = out.to_str().expect("UTF-8");
        dahl(&["trace", "export", &file, "--format", format, "-o", path]);
        assert_eq!(std::fs::read_to_string(&out).expect("written"), said);
    }
    let out = folder.join("perfetto");
    let path = out.to_str().expect("UTF-8");
    dahl(&["trace", "export", &file, "--format", "perfetto", "-o", path]);
    assert_eq!(std::fs::read(&out).expect("written")[0], 0x0a, "a packet");
}

#[test]
fn refusals_name_file_place_and_remedy() {
    let (folder, file) = trace("trace-refuse", 100);
    let path = |name: &str| folder.join(name).to_str().expect("UTF-8").to_string();
    refuse(
        &["trace", "summary", &path("none")],
        "",
        1,
        &["none", "No such file"],
    );
    std::fs::write(path("text"), "hello").expect("written");
    refuse(
        &["trace", "summary", &path("text")],
        "",
        1,
        &["text", "not a trace", "--trace"],
    );
    let mut bytes = std::fs::read(&file).expect("readable");
    bytes.truncate(bytes.len() / 2);
    std::fs::write(path("half"), &bytes).expect("written");
    refuse(
        &["trace", "summary", &path("half")],
        "",
        1,
        &["half", "at byte", "too early"],
    );
    let export = |format: &'static str| ["trace", "export", &file, "--format", format, "-o", "-"];
    refuse(
        &export("excel"),
        "",
        2,
        &["excel", "perfetto", "paje", "csv", "dot"],
    );
    let far = [&export("dot")[..], &["--step", "999"]].concat();
    refuse(&far, "", 1, &["no step 999", "1 to"]);
    let crowded = [&export("dot")[..], &["--limit", "3"]].concat();
    refuse(&crowded, "", 1, &["--limit (now 3)"]);
    refuse(
        &[&export("csv")[..], &["--step", "1"]].concat(),
        "",
        1,
        &["--step", "DOT"],
    );
    let nowhere = path("none/out.csv");
    let to = ["trace", "export", &file, "--format", "csv", "-o", &nowhere];
    refuse(&to, "", 1, &["none/out.csv"]);
    refuse(&["trace"], "", 2, &["summary", "export"]);
}
