//! Several processes under Open MPI and MPICH train one model: the bits of one, and clear ends.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use common::nodes::{
    MPICH, OPEN, TRAIN, alone_and, alone_with, folder, is_there, on_nodes, process_of, program_in,
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

/// Weights are judged on nodes as on one computer, and the first node alone says so.
#[test]
fn nodes_evaluate_and_predict_together() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("judge");
    let trained = run(on_nodes(OPEN.0, &[&TRAIN, &TRAIN], &folder));
    assert_eq!(trained.code, Some(0), "{}", trained.err);
    for command in ["eval", "predict"] {
        let judge = [
            command,
            "model.toml",
            "--weights=nodes.safetensors",
            "--val-limit=64",
            "--profile=none",
            "--grain=sample=8",
            "--json",
        ];
        let mut one = program_in(env!("CARGO_BIN_EXE_dahl"), &folder);
        one.args(judge);
        let alone = run(one);
        assert_eq!(alone.code, Some(0), "{}", alone.err);
        let said = run(on_nodes(OPEN.0, &[&judge, &judge], &folder));
        assert_eq!(said.code, Some(0), "{command}: {}", said.err);
        assert_eq!(said.out, alone.out, "{command}");
    }
}

/// Two equal nodes whose network costs next to nothing, so that both are used.
fn pair() -> String {
    let node = |name: &str| {
        format!(
            "[[node]]\nname = \"{name}\"\nbase_watts = 1.0\nport = {{ bandwidth = 1e12, latency = 1e-9 }}\n\
             [[memory]]\nname = \"{name}\"\nnode = \"{name}\"\ncapacity = \"4 GiB\"\n\
             [[unit]]\nname = \"{name}-cpu\"\nkind = \"cpu\"\nmemory = \"{name}\"\nidle_watts = 1.0\n\
             busy_watts = 2.0\nflops = 1e8\nbandwidth = 1e8\n"
        )
    };
    format!(
        "version = 1\nname = \"pair\"\n{}{}[[switch]]\nname = \"rack\"\nnodes = [\"a\", \"b\"]\n",
        node("a"),
        node("b")
    )
}

/// A plan for several nodes says shares, grain and policy of a run, which has the bits of one node with that grain.
#[test]
fn a_plan_for_nodes_is_followed_by_them() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("plan-of-nodes");
    fs::write(folder.join("pair.toml"), pair()).unwrap();
    let step = [TRAIN[1], TRAIN[5], TRAIN[6], TRAIN[7], TRAIN[8]];
    let to = ["--machine=pair.toml", "--objective=time", "--time-limit=1s"];
    let mut one = program_in(env!("CARGO_BIN_EXE_dahl"), &folder);
    one.arg("plan").args(step).args(to).arg("--output=two.json");
    let said = run(one);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let hint = "mpirun -n 2 --host a,b dahl train model.toml";
    assert!(
        said.out.contains(hint) && said.out.contains("--plan two.json"),
        "{}",
        said.out
    );
    let text = fs::read_to_string(folder.join("two.json")).unwrap();
    let mut plan: serde_json::Value = serde_json::from_str(&text).unwrap();
    // Micro-batches of a pipeline have sums of their own: shares are what is compared here.
    assert_eq!(plan["stages"], serde_json::Value::Null, "{text}");
    let grain = format!("--grain={}", plan["grain"].as_str().unwrap());
    let mut alone = TRAIN.to_vec();
    (alone[9], alone[11]) = (&grain, "--save=one.safetensors");
    let mut one = program_in(env!("CARGO_BIN_EXE_dahl"), &folder);
    one.args(alone);
    let said = run(one);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let want = fs::read(folder.join("one.safetensors")).unwrap();
    let follow = |file: &str, more: &[&str]| {
        let plan = format!("--plan={file}");
        let mut args = TRAIN.to_vec();
        args[9] = &plan;
        let mut two = program_in(OPEN.0, &folder);
        two.args(["-n", "2", env!("CARGO_BIN_EXE_dahl")]);
        two.args(args).args(more);
        run(two)
    };
    let said = follow("two.json", &[]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let got = fs::read(folder.join("nodes.safetensors")).unwrap();
    assert!(got == want, "other weights with {grain}");

    // Refused: what it decides said again, one node, another version, a state, a share that is none.
    let refused = |said: Said, says: &str| {
        assert!(
            said.code != Some(0) && said.err.contains(says),
            "{}",
            said.err
        );
    };
    let says = "two.json decides shares, policy and stages";
    refused(follow("two.json", &["--shares=3:1"]), says);
    let mut one = program_in(env!("CARGO_BIN_EXE_dahl"), &folder);
    one.args(["train", "model.toml", "--plan=two.json"])
        .args(&step[1..]);
    let says = "two.json is for 2 nodes (a, b), and this run has 1: start it with mpirun -n 2";
    refused(run(one), says);
    let mut simulated = program_in(env!("CARGO_BIN_EXE_dahl"), &folder);
    simulated.args([
        "simulate",
        "model.toml",
        "--machine=pair.toml",
        "--plan=two.json",
    ]);
    refused(run(simulated), "a plan for several nodes");
    let mut other = |change: &dyn Fn(&mut serde_json::Value), says: &str| {
        let kept = plan.clone();
        change(&mut plan);
        fs::write(folder.join("other.json"), plan.to_string()).unwrap();
        refused(follow("other.json", &[]), says);
        plan = kept;
    };
    other(&|p| p["cluster"] = 9.into(), "version 9");
    other(&|p| p["nodes"][0]["state"] = 1.into(), "frequency state 1");
    other(&|p| p["nodes"][0]["share"] = (-1).into(), "share of -1");
    other(&|p| p["step"]["seed"] = 4.into(), "made for seed 4");
}

/// A plan that leaves order and unit to a policy has units on each node; one with an order is for one computer.
#[test]
fn plans_run_on_nodes_where_a_policy_decides() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("planned");
    let want = alone_with(&folder, TRAIN[2]);
    let here = |args: &[&str]| {
        let mut one = program_in(env!("CARGO_BIN_EXE_dahl"), &folder);
        one.args(args);
        let said = run(one);
        assert_eq!(said.code, Some(0), "{args:?}: {}", said.err);
    };
    here(&["machine", "--describe", "-o", "here.toml"]);
    let machine = folder.join("here.toml");
    let text = fs::read_to_string(&machine).unwrap();
    let rated = ["idle_watts", "busy_watts", "flops", "bandwidth"];
    let own = |line: &&str| !rated.iter().any(|key| line.starts_with(key));
    let lines: Vec<&str> = text.lines().filter(own).collect();
    let speeds =
        "kind = \"cpu\"\nidle_watts = 0.1\nbusy_watts = 10.0\nflops = 1e10\nbandwidth = 1e10";
    fs::write(&machine, lines.join("\n").replace("kind = \"cpu\"", speeds)).unwrap();
    // What training is given, but for what it alone has.
    let step = [TRAIN[1], TRAIN[5], TRAIN[6], TRAIN[7], TRAIN[8], TRAIN[9]];
    let to = [
        "--machine=here.toml",
        "--fixed",
        "--time-limit=10ms",
        "--output=order.json",
    ];
    here(&[&["plan"], &step[..], &to].concat());
    let kept = fs::read_to_string(folder.join("order.json")).unwrap();
    let mut plan: serde_json::Value = serde_json::from_str(&kept).unwrap();
    let tasks = plan["tasks"].as_array_mut().unwrap();
    tasks.iter_mut().for_each(|task| task["unit"] = 0.into());
    let all: Vec<usize> = (0..tasks.len()).collect();
    for (u, unit) in plan["units"].as_array_mut().unwrap().iter_mut().enumerate() {
        let own: &[usize] = if u == 0 { &all } else { &[] };
        unit["order"] = own.into();
    }
    plan["policy"] = serde_json::json!({"name": "ws", "units": [{"name": "cpu:0", "state": 0}]});
    fs::write(folder.join("left.json"), plan.to_string()).unwrap();
    // The grain is the plan's.
    let on_two = |plan: &str| {
        let plan = format!("--plan={plan}");
        let mut args = TRAIN.to_vec();
        args[9] = &plan;
        // Units are the plan's.
        let mut two = program_in(OPEN.0, &folder);
        two.args(["-n", "2", env!("CARGO_BIN_EXE_dahl")]).args(args);
        run(two)
    };
    let said = on_two("left.json");
    assert_eq!(said.code, Some(0), "{}", said.err);
    let got = fs::read(folder.join("nodes.safetensors")).unwrap();
    assert!(got == want, "other weights");
    let said = on_two("order.json");
    let says = "order.json, which gives every task its unit, is for one";
    assert!(
        said.code != Some(0) && said.err.contains(says),
        "{}",
        said.err
    );
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
    for stages in [&[][..], &["--pipeline=2"]] {
        let mut args = [&TRAIN[..], &["--epochs=6"], stages].concat();
        args.retain(|a| !["--quiet", "--epochs=2"].contains(a));
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
        // Nobody has calibrated here: what was seen is not compared with a guess.
        for (text, parts) in [
            (
                line("expected: "),
                &[" on node 0 alone: the second node", "pay", "a guess"][..],
            ),
            (line("seen: "), &["node 0 alone", "was not measured"]),
        ] {
            for part in [&[" a step on 2 nodes, "], parts].concat() {
                assert!(text.contains(part), "{text}");
            }
        }
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
