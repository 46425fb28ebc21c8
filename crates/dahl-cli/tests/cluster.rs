//! `dahl cluster` and `dahl machine --describe --cluster`: what a cluster is made of, and training that outlives faults.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::nodes::{
    MPICH, OPEN, TRAIN, alone_with, find_process, folder, is_there, program_in, run, signal,
};
use common::{Said, refuse};
use dahl_test_support::skip;

const DAHL: &str = env!("CARGO_BIN_EXE_dahl");

/// So long only what hangs takes.
const HANGS: Duration = Duration::from_secs(240);

/// `dahl` in a folder, with what launchers need to know.
fn dahl_in(folder: &Path, args: &[&str]) -> Said {
    let mut command = program_in(DAHL, folder);
    command.args(args);
    run(command)
}

#[test]
fn nodes_and_links_are_told() {
    for launcher in [OPEN, MPICH] {
        if !is_there(launcher.0) {
            skip!("no MPI", launcher.1);
        }
        let folder = folder("check");
        let args = [
            "cluster",
            "check",
            "--hosts=localhost,localhost",
            "--seconds=0.2",
            "--mpirun",
            launcher.0,
        ];
        let said = dahl_in(&folder, &[&args[..], &["--json"]].concat());
        assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
        let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(report["nodes"].as_array().unwrap().len(), 2);
        let link = &report["links"][0];
        assert!(link["bandwidth"].as_f64().unwrap() > 0.0, "{link}");
        assert!(link["latency"].as_f64().unwrap() > 0.0, "{link}");
        let said = dahl_in(&folder, &args);
        assert_eq!(said.code, Some(0), "{}", said.err);
        for part in ["latency", "MB/s", "joules", "clock", "fashion-mnist-small"] {
            assert!(said.out.contains(part), "{part}: {}", said.out);
        }
    }
}

/// A remote shell that reaches nobody: nothing is sent anywhere.
fn no_shell(folder: &Path) -> String {
    let shell = folder.join("no-shell");
    fs::write(&shell, "#!/bin/sh\necho 'no route to host' >&2\nexit 255\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&shell, mode).unwrap();
    format!(
        "{} --mca plm rsh --mca plm_rsh_agent {}",
        OPEN.0,
        shell.display()
    )
}

#[test]
fn a_host_that_does_not_answer_is_named_with_the_remedy() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("no-answer");
    let shell = no_shell(&folder);
    let args = [
        "cluster",
        "check",
        "--hosts=localhost,10.78.0.9",
        "--seconds=0.2",
        "--mpirun",
        &shell,
    ];
    let said = dahl_in(&folder, &args);
    assert_eq!(said.code, Some(1), "{}", said.err);
    for part in ["problem: 10.78.0.9 does not answer", "ssh 10.78.0.9"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    // The other one is there.
    assert!(
        said.out.contains("modelled") || said.out.contains("measured"),
        "{}",
        said.out
    );
}

/// Two nodes with words of their own.
fn two(folder: &Path, first: &[&str], second: &[&str]) -> Said {
    let mut command = program_in(OPEN.0, folder);
    command.args(["-n", "1"]).args(first);
    command.args([":", "-n", "1"]).args(second);
    run(command)
}

#[test]
fn other_builds_and_other_data_are_problems() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("other");
    let other = folder.join("dahl").display().to_string();
    fs::copy(DAHL, &other).unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&other).unwrap();
    std::io::Write::write_all(&mut file, b"another build").unwrap();
    drop(file);
    let check = ["cluster", "check", "--seconds=0.1"];
    let ours = [&[DAHL][..], &check].concat();
    let theirs = [&[&other[..]][..], &check].concat();
    let said = two(&folder, &ours, &theirs);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(
        said.out.contains("node 1 (") && said.out.contains("another build"),
        "{}",
        said.out
    );
    for (option, says) in [
        ("--limit=7", "has other data than node 0"),
        ("--data=idx:nowhere", "lacks the data"),
    ] {
        let said = two(&folder, &ours, &[&ours[..], &[option]].concat());
        assert_eq!(said.code, Some(1), "{}", said.err);
        assert!(said.out.contains(says), "{option}: {}", said.out);
    }
}

#[test]
fn a_described_cluster_can_be_simulated() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("describe");
    let describe = [
        DAHL,
        "machine",
        "--describe",
        "--cluster",
        "-o",
        "cluster.toml",
    ];
    let said = two(&folder, &describe, &describe);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let text = fs::read_to_string(folder.join("cluster.toml")).unwrap();
    assert_eq!(text.matches("[[node]]").count(), 2, "{text}");
    assert!(
        text.contains("port = {") && text.contains("flops ="),
        "{text}"
    );
    for args in [
        &[
            "simulate",
            "small-cnn",
            "--machine=cluster.toml",
            "--policy=dmda",
        ][..],
        &[
            "plan",
            "small-cnn",
            "--machine=cluster.toml",
            "--time-limit=0.2",
        ],
    ] {
        let said = dahl_in(&folder, args);
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
    refuse(
        &["machine", "--describe", "--cluster"],
        "",
        1,
        &["mpirun -n N"],
    );
}

#[test]
fn what_cannot_be_supervised_is_refused() {
    for (words, parts) in [
        (&["train", "model.toml"][..], &["--checkpoint DIR"][..]),
        (&["eval", "model.toml"], &["\"eval\"", "train"]),
        (
            &["train", "--checkpoint=c", "--grain=tuned"],
            &["--grain tuned"],
        ),
    ] {
        let args = [&["cluster", "run", "--hosts=localhost", "--"][..], words].concat();
        refuse(&args, "", 1, parts);
    }
    let train = ["--", "train", "--checkpoint=c"];
    let run = |options: &[&str], code, part: &str| {
        let args = [&["cluster", "run"][..], options, &train].concat();
        refuse(&args, "", code, &[part]);
    };
    run(&[], 1, "--hosts a,b,c");
    run(&["--hosts=a b"], 1, "no name of a host");
    run(
        &["--hosts=localhost", "--mpirun=/nowhere"],
        1,
        "openmpi-bin",
    );
    refuse(&["cluster", "check"], "", 1, &["--hosts a,b,c"]);
}

/// A supervised run, started.
struct Supervised {
    folder: PathBuf,
    child: Child,
}

/// The length of a run that is long enough to be disturbed.
const LONG: &str = "--epochs=40";

impl Supervised {
    fn start(folder: &Path, launcher: &str, epochs: &str, options: &[&str]) -> Supervised {
        let mut train = TRAIN.to_vec();
        train[2] = epochs;
        let points = ["--checkpoint=points", "--checkpoint-every=5", "--workers=1"];
        let mut command = program_in(DAHL, folder);
        command
            .args(["cluster", "run", "--hosts=localhost,localhost,localhost"])
            .args(["--mpirun", launcher, "--"])
            .args(&train)
            .args(points)
            .args(options)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(folder.join("err")).unwrap());
        Supervised {
            folder: folder.into(),
            child: command.spawn().unwrap(),
        }
    }

    /// Waits for a checkpoint that is not this one.
    fn checkpoint_after(&mut self, last: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let began = Instant::now();
        loop {
            let now = fs::read(self.folder.join("points/checkpoint.safetensors")).ok();
            if now.is_some() && now != last {
                return now;
            }
            if self.child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(began.elapsed() < HANGS, "{}", self.errors());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.folder.join("err")).unwrap_or_default()
    }

    fn end(mut self) -> (Option<i32>, String) {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            if began.elapsed() > HANGS {
                let _ = self.child.kill();
                panic!("it hangs: {}", self.errors());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let code = self.child.wait().unwrap().code();
        for rank in 0..3 {
            assert_eq!(
                find_process(&self.folder, rank),
                None,
                "rank {rank} is left"
            );
        }
        (code, self.errors())
    }
}

/// Disturbs runs, longer ones if the faults came too late, until one has been.
fn faults_change_no_bit(name: &str, launcher: &str) {
    let disturbed = [LONG, "--epochs=200", "--epochs=1000"]
        .into_iter()
        .any(|epochs| is_disturbed_without_harm(name, launcher, epochs));
    assert!(disturbed, "no fault has met a run");
}

/// Kills and stops processes after their checkpoints. Whatever a fault meets, the bits are those of an undisturbed run.
/// Whether any met something.
fn is_disturbed_without_harm(name: &str, launcher: &str, epochs: &str) -> bool {
    let folder = folder(name);
    let want = alone_with(&folder, epochs);
    let mut supervised = Supervised::start(&folder, launcher, epochs, &["--node-timeout=2"]);
    let mut last = None;
    for (rank, sent) in [(1, "-KILL"), (2, "-STOP"), (0, "-KILL")] {
        last = supervised.checkpoint_after(last);
        // It may have ended, or be about to: then there is nobody to disturb.
        if let Some(process) = find_process(&folder, rank) {
            let _ = Command::new("kill")
                .args([sent, &process.to_string()])
                .status();
        }
    }
    let (code, err) = supervised.end();
    assert_eq!(code, Some(0), "{err}");
    // Who was disturbed went on from where it was.
    let disturbed = err.contains("restart 1 in");
    let went_on = err.contains("going on from the last checkpoint");
    assert_eq!(disturbed, went_on, "{err}");
    let got = fs::read(folder.join("nodes.safetensors")).unwrap();
    assert!(got == want, "other weights: {err}");
    let points = fs::read_dir(folder.join("points")).unwrap();
    let temporary = |e: &fs::DirEntry| e.file_name().to_string_lossy().ends_with(".tmp");
    assert_eq!(points.flatten().filter(temporary).count(), 0);
    disturbed
}

#[test]
fn faults_change_no_bit_under_open_mpi() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    faults_change_no_bit("faults-open", OPEN.0);
}

#[test]
fn faults_change_no_bit_under_mpich() {
    if !is_there(MPICH.0) {
        skip!("no MPICH", MPICH.1);
    }
    faults_change_no_bit("faults-mpich", MPICH.0);
}

#[test]
fn a_signal_stops_all_nodes_with_a_checkpoint() {
    for launcher in [OPEN, MPICH] {
        if !is_there(launcher.0) {
            skip!("no MPI", launcher.1);
        }
        let folder = folder(&format!("stop-{}", launcher.0));
        // So long that it cannot end by itself.
        let mut supervised = Supervised::start(&folder, launcher.0, "--epochs=1000000", &[]);
        supervised.checkpoint_after(None);
        signal(supervised.child.id() as i32, "-INT");
        let (code, err) = supervised.end();
        assert_eq!(code, Some(130), "{err}");
        assert!(
            err.contains("stopping all nodes") && err.contains("--resume"),
            "{err}"
        );
        // What was kept goes on.
        let mut train = TRAIN.to_vec();
        train[2] = "--epochs=1000000";
        let steps = ["--resume=points", "--steps=1", "--workers=1"];
        let said = dahl_in(&folder, &[&train[..], &steps].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
}

/// An end that another start would not change is passed on at once.
#[test]
fn errors_of_the_program_are_not_tried_again() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("own-error");
    let options = ["--data=idx:nowhere"];
    let (code, err) = Supervised::start(&folder, OPEN.0, LONG, &options).end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("nowhere") && !err.contains("restart"), "{err}");
}
