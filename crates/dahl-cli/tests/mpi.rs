//! Several processes under Open MPI and MPICH train one model: the bits of one, and clear ends.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::nodes::{
    MPICH, OPEN, TRAIN, alone_and, alone_with, folder, is_there, on_nodes, process_of,
    program_on_nodes, run, signal,
};
use common::{Said, dahl};
use dahl_test_support::skip;

fn any_nodes_give_the_bits_of_one(name: &str, launcher: &str) {
    let folder = folder(name);
    let want = alone_with(&folder, TRAIN[2]);
    for (nodes, options) in [
        (2, &["--shares=auto"][..]),
        (3, &["--shares=5:2:1", "--policy=dmdas"]),
        (4, &["--shares=0:1:0.3:2", "--policy=eager"]),
    ] {
        let args = [&TRAIN[..], options].concat();
        let said = run(on_nodes(launcher, &vec![&args[..]; nodes], &folder));
        assert_eq!(said.code, Some(0), "{nodes} nodes: {}", said.err);
        let got = fs::read(folder.join("nodes.safetensors")).unwrap();
        assert!(got == want, "{nodes} nodes, {options:?}: other weights");
        fs::remove_file(folder.join("nodes.safetensors")).unwrap();
    }
}

#[test]
fn open_mpi_gives_the_bits_of_one() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    any_nodes_give_the_bits_of_one("open", OPEN.0);
}

#[test]
fn mpich_gives_the_bits_of_one() {
    if !is_there(MPICH.0) {
        skip!("no MPICH", MPICH.1);
    }
    any_nodes_give_the_bits_of_one("mpich", MPICH.0);
}

/// Stages on nodes, replicas of one of them, and stages that never wait for a batch: each as on one computer.
fn pipelines_give_the_bits_of_one(name: &str, launcher: &str) {
    let folder = folder(name);
    let parts = "--micro-batches=4";
    for (nodes, alone, options) in [
        (2, parts, &["--pipeline=2"][..]),
        (2, parts, &["--pipeline=2:zb-h1", "--cut=4"]),
        (
            3,
            parts,
            &["--pipeline=2:1f1b", "--replicas=2:1", "--shares=3:1:1"],
        ),
        (2, "--pipeline=pipedream:2", &[]),
    ] {
        let want = alone_and(&folder, &[alone]);
        let args = [&TRAIN[..], &[alone], options].concat();
        let said = run(on_nodes(launcher, &vec![&args[..]; nodes], &folder));
        assert_eq!(said.code, Some(0), "{options:?}: {}", said.err);
        let got = fs::read(folder.join("nodes.safetensors")).unwrap();
        assert!(got == want, "{nodes} nodes, {options:?}: other weights");
        fs::remove_file(folder.join("nodes.safetensors")).unwrap();
    }
}

#[test]
fn pipelines_give_the_bits_of_one_under_open_mpi() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    pipelines_give_the_bits_of_one("pipeline-open", OPEN.0);
}

#[test]
fn pipelines_give_the_bits_of_one_under_mpich() {
    if !is_there(MPICH.0) {
        skip!("no MPICH", MPICH.1);
    }
    pipelines_give_the_bits_of_one("pipeline-mpich", MPICH.0);
}

#[test]
fn before_the_first_step_it_says_whether_the_second_node_pays() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("expected");
    let mut args = TRAIN.to_vec();
    args.retain(|a| *a != "--quiet");
    args.push("--epochs=6");
    args.retain(|a| *a != "--epochs=2");
    let mut command = on_nodes(OPEN.0, &[&args, &args], &folder);
    // Other tests let policies learn durations.
    command.env("DAHL_HOME", folder.join("home"));
    let said = run(command);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let line = |start: &str| {
        let found: Vec<&str> = said.out.lines().filter(|l| l.starts_with(start)).collect();
        assert_eq!(found.len(), 1, "{start}, once: {}", said.out);
        found[0].to_string()
    };
    for text in [line("expected: "), line("seen: ")] {
        for part in [
            " a step on 2 nodes, ",
            " on node 0 alone: the second node",
            "pay",
        ] {
            assert!(text.contains(part), "{text}");
        }
        // Nobody has calibrated here.
        assert!(text.contains("a guess"), "{text}");
    }
}

fn traces_of_all_nodes_become_one(name: &str, launcher: &str) {
    let folder = folder(name);
    let args = [&TRAIN[..], &["--trace=run.trace"]].concat();
    let said = run(on_nodes(launcher, &[&args[..]; 3], &folder));
    assert_eq!(said.code, Some(0), "{}", said.err);
    let files = fs::read_dir(&folder).unwrap().flatten();
    let traces = files.filter(|f| f.file_name().to_string_lossy().contains("trace"));
    assert_eq!(traces.count(), 1, "one file of all nodes");
    let file = folder.join("run.trace").display().to_string();
    let summary: serde_json::Value =
        serde_json::from_str(&dahl(&["trace", "summary", "--json", &file])).unwrap();
    let nodes = summary["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 3);
    let sum = |key: &str| nodes.iter().map(|n| n[key].as_u64().unwrap()).sum::<u64>();
    assert!(sum("sent") > 0, "{summary}");
    assert_eq!(sum("sent"), sum("received"));
    assert_eq!(sum("sent_bytes"), sum("received_bytes"));
    assert_eq!(nodes[0]["uncertainty_ns"], 0);
    assert!(nodes[1]["uncertainty_ns"].as_u64().unwrap() > 0);
    assert_eq!(summary["units"].as_array().unwrap().len(), 3);
    let text = dahl(&["trace", "summary", &file]);
    assert!(text.contains("waiting for messages"), "{text}");
}

#[test]
fn traces_of_all_nodes_become_one_under_open_mpi() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    traces_of_all_nodes_become_one("trace-open", OPEN.0);
}

#[test]
fn traces_of_all_nodes_become_one_under_mpich() {
    if !is_there(MPICH.0) {
        skip!("no MPICH", MPICH.1);
    }
    traces_of_all_nodes_become_one("trace-mpich", MPICH.0);
}

#[test]
fn nodes_that_were_told_different_things_are_refused() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("differ");
    for (change, parts) in [
        ("--limit=288", ["agree on the data", "288 samples"]),
        ("--seed=4", ["agree on the settings", "\"seed\":4"]),
        ("--epochs=3", ["agree on the length of the run", "(3,"]),
    ] {
        let key = change.split('=').next().unwrap();
        let other: Vec<&str> = TRAIN
            .iter()
            .map(|a| if a.starts_with(key) { change } else { a })
            .collect();
        let said = run(on_nodes(OPEN.0, &[&TRAIN, &other], &folder));
        assert_ne!(said.code, Some(0), "{change}");
        for part in parts.iter().chain(&["node 0", "node 1"]) {
            assert!(said.err.contains(part), "{change}: {}", said.err);
        }
        assert!(!folder.join("nodes.safetensors").exists(), "{change}");
    }
    let recorded = [&TRAIN[..], &["--trace=run.trace"]].concat();
    let said = run(on_nodes(OPEN.0, &[&TRAIN, &recorded], &folder));
    assert_ne!(said.code, Some(0), "a trace of one node");
    for part in ["agree on the trace", "none", "tasks per unit", "node 1"] {
        assert!(said.err.contains(part), "{}", said.err);
    }
}

/// A node with a lesser instruction set: all compute at its level, or each at its own where that is wanted.
#[test]
fn nodes_with_unlike_processors_compute_alike_unless_told() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("levels");
    // The second node has fewer instructions than the machine may have.
    let script = folder.join("dahl.sh").display().to_string();
    let lesser = "[ $OMPI_COMM_WORLD_RANK = 0 ] || export DAHL_SIMD=portable";
    let start = format!("exec {} \"$@\"", env!("CARGO_BIN_EXE_dahl"));
    fs::write(&script, format!("{lesser}\n{start}\n")).unwrap();
    let train = |options: &[&str]| {
        let args = [&TRAIN[..], options].concat();
        let nodes = [&args[..], &args];
        let command = program_on_nodes(&["sh", &script], OPEN.0, &nodes, &folder);
        let said = run(command);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let weights = fs::read(folder.join("nodes.safetensors")).unwrap();
        fs::remove_file(folder.join("nodes.safetensors")).unwrap();
        (said, weights)
    };
    let (said, strict) = train(&[]);
    assert!(said.err.contains("portable on all nodes"), "{}", said.err);
    let (_, again) = train(&["--shares=1:3"]);
    assert!(strict == again, "strict bits follow the shares");
    let (said, _) = train(&["--bits=fast"]);
    assert!(!said.err.contains("on all nodes"), "{}", said.err);
}

#[test]
fn a_command_for_one_computer_says_so() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
    command
        .args(["ops"])
        .env("OMPI_COMM_WORLD_RANK", "0")
        .env("OMPI_COMM_WORLD_SIZE", "2");
    let said = run(command);
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("without mpirun"), "{}", said.err);
}

/// A long run on nodes, once it has printed its first epoch; and its processes by rank.
fn long_run(launcher: &str, nodes: usize, folder: &Path, options: &[&str]) -> (Child, Vec<i32>) {
    let mut args = TRAIN.to_vec();
    args.retain(|a| !["--quiet", "--epochs=2", "--save=nodes.safetensors"].contains(a));
    args.push("--epochs=1000000");
    args.extend(options);
    let mut command = on_nodes(launcher, &vec![&args[..]; nodes], folder);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the launcher can be started");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = lines.find(|l| l.as_ref().is_ok_and(|l| l.starts_with("epoch")));
    assert!(begun.is_some(), "it ended before its first epoch");
    // What is printed later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    (child, (0..nodes).map(|n| process_of(folder, n)).collect())
}

fn end(child: Child) -> Said {
    let output = child.wait_with_output().unwrap();
    Said {
        code: output.status.code(),
        out: String::new(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

#[test]
fn a_killed_node_ends_the_run() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("killed");
    let (child, processes) = long_run(OPEN.0, 2, &folder, &[]);
    signal(processes[1], "-KILL");
    let said = end(child);
    assert_ne!(said.code, Some(0));
    assert!(
        said.err.contains("rank 1") || said.err.contains("node 1"),
        "{}",
        said.err
    );
}

#[test]
fn a_stopped_node_is_named_by_those_that_wait() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("stopped");
    let (child, processes) = long_run(OPEN.0, 2, &folder, &["--node-timeout=2"]);
    signal(processes[1], "-STOP");
    let said = end(child);
    assert_ne!(said.code, Some(0));
    let parts = ["the cluster is broken: node 1", "no answer for 2.0 s"];
    assert!(parts.iter().all(|p| said.err.contains(p)), "{}", said.err);
}

#[test]
fn a_signal_to_one_node_stops_all_and_any_number_goes_on() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("signal");
    let checkpoint = ["--checkpoint=ckpt"];
    let (child, processes) = long_run(OPEN.0, 3, &folder, &checkpoint);
    signal(processes[1], "-TERM");
    let said = end(child);
    assert_ne!(said.code, Some(0));
    assert!(said.err.contains("--resume"), "{}", said.err);
    assert!(folder.join("ckpt").is_dir());
    // On two nodes and on one, from the same checkpoint to the same step.
    let steps = fs::read(folder.join("ckpt/checkpoint.safetensors")).unwrap();
    let mut weights = Vec::new();
    for nodes in [2, 1] {
        let _ = fs::remove_dir_all(folder.join("copy"));
        fs::create_dir(folder.join("copy")).unwrap();
        fs::write(folder.join("copy/checkpoint.safetensors"), &steps).unwrap();
        let mut args = TRAIN.to_vec();
        args[2] = "--epochs=1000000";
        args.push("--resume=copy");
        let until = format!("--steps={}", steps_of(&steps) + 7);
        args.push(&until);
        let said = run(on_nodes(OPEN.0, &vec![&args[..]; nodes], &folder));
        assert_eq!(said.code, Some(0), "{nodes} nodes: {}", said.err);
        weights.push(fs::read(folder.join("nodes.safetensors")).unwrap());
    }
    assert!(
        weights[0] == weights[1],
        "other weights on two nodes than on one"
    );
}

/// The step of a checkpoint, from its header.
fn steps_of(file: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(&file[..file.len().min(1 << 20)]).into_owned();
    let at = text.find("\\\"step\\\":").expect("a step") + "\\\"step\\\":".len();
    let digits: String = text[at..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}
