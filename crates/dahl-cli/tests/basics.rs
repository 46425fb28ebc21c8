//! What every command line owes its users: help, a version, completions, readable refusals; and
//! `dahl machine`.

mod common;

use common::{dahl, dahl_with, refuse};
use serde_json::Value;

#[test]
fn the_machine_has_at_least_one_unit() {
    let host: Value = serde_json::from_str(&dahl(&["machine", "--json"])).expect("JSON");
    assert!(
        host["cores"].as_array().is_some_and(|c| !c.is_empty()),
        "{host}"
    );
    assert!(host["measurable"].is_array(), "{host}");
    let text = dahl(&["machine"]);
    assert!(
        text.contains("cpu:0") && text.contains("what can be measured here"),
        "{text}"
    );
}

#[test]
fn help_names_every_command_and_every_command_has_help() {
    let help = dahl(&["--help"]);
    for command in [
        "train",
        "eval",
        "ops",
        "machine",
        "trace",
        "energy",
        "perf",
        "calibrate",
        "simulate",
        "plan",
        "bench",
        "graph",
        "completions",
    ] {
        assert!(help.contains(command), "{command} is missing from {help}");
        assert!(
            dahl(&[command, "--help"]).contains("Usage: dahl"),
            "{command}"
        );
    }
}

#[test]
fn the_version_is_the_package_version() {
    assert_eq!(
        dahl(&["--version"]).trim(),
        concat!("dahl ", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = dahl(&["completions", shell]);
        assert!(
            script.contains("machine") && script.contains("bench"),
            "{shell}"
        );
    }
    refuse(&["completions", "abacus"], "", 2, &["abacus", "bash"]);
    refuse(&["completions"], "", 2, &["<SHELL>"]);
}

#[test]
fn unknown_commands_and_options_are_refused() {
    refuse(&["machin"], "", 2, &["machin", "machine"]);
    refuse(&["machine", "--jason"], "", 2, &["--jason", "--json"]);
    refuse(&["bench"], "", 2, &["tasks"]);
    let nothing = dahl_with(&[], "");
    assert_eq!(nothing.code, Some(2), "{}", nothing.err);
    assert!(nothing.err.contains("Usage: dahl"), "{}", nothing.err);
}

#[cfg(unix)]
#[test]
fn a_closed_pipe_ends_it_quietly() {
    use std::io::Read;
    use std::process::{Command, Stdio};
    // Far more output than a pipe holds, and a reader that stops after one byte.
    let task = serde_json::json!({"codelet": "x".repeat(100), "accesses": []});
    let program = serde_json::json!({"arrays": [], "tasks": vec![task; 2000]});
    let file = common::folder("closed-pipe").join("many.json");
    std::fs::write(&file, program.to_string()).expect("the build folder can be written");
    let mut child = Command::new(env!("CARGO_BIN_EXE_dahl"))
        .arg("graph")
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("dahl can be started");
    let mut out = child.stdout.take().expect("piped");
    out.read_exact(&mut [0]).expect("one byte");
    drop(out);
    let mut err = String::new();
    child
        .stderr
        .take()
        .expect("piped")
        .read_to_string(&mut err)
        .expect("UTF-8");
    child.wait().expect("it ends");
    assert_eq!(err, "");
}

#[test]
fn manual_pages_say_what_help_says() {
    let folder = common::folder("man");
    dahl(&["man", folder.to_str().unwrap()]);
    let page = std::fs::read_to_string(folder.join("dahl-train.1")).unwrap();
    assert!(
        page.contains("fashion") && page.contains("patience"),
        "{page}"
    );
    assert!(folder.join("dahl-data-show.1").exists());
    refuse(
        &["man", "/dev/null/folder"],
        "",
        1,
        &["cannot write manual pages"],
    );
}
