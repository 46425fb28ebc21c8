//! What goes wrong on several nodes: every process ends, names the node and the cause, and leaves nothing half-written.
//!
//! Processes on this machine stand for nodes where that is enough; where a cable is cut, hosts are network namespaces.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::nodes::{OPEN, TRAIN, alone_with, find_process, folder, is_there, program_in, run};
use common::{Said, in_repository};
use dahl_test_support::skip;

const DAHL: &str = env!("CARGO_BIN_EXE_dahl");

/// Two nodes, each started by a script with a line of its own before it.
fn limited(folder: &Path, lines: [&str; 2], train: &[&str]) -> Said {
    let mut command = program_in(OPEN.0, folder);
    for (i, line) in lines.iter().enumerate() {
        let script = folder.join(format!("node{i}.sh")).display().to_string();
        fs::write(&script, format!("{line}\nexec {DAHL} \"$@\"\n")).unwrap();
        if i > 0 {
            command.arg(":");
        }
        command.args(["-n", "1", "sh", &script]).args(train);
        command.args(["--workers", "1"]);
    }
    run(command)
}

fn temporary(folder: &Path) -> usize {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    all.filter(|e| e.file_name().to_string_lossy().ends_with(".tmp"))
        .count()
}

/// A limit on the size of files stands for a full disk.
#[test]
fn a_full_disk_of_the_first_node_is_named() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("full-disk");
    let full = "trap '' XFSZ; ulimit -f 1";
    let said = limited(
        &folder,
        [full, ""],
        &[&TRAIN[..], &["--checkpoint=points"]].concat(),
    );
    assert_ne!(said.code, Some(0));
    for part in ["points", "nodes.safetensors", "error on node 0"] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    assert!(!folder.join("nodes.safetensors").exists());
    assert_eq!(temporary(&folder) + temporary(&folder.join("points")), 0);
}

#[test]
fn a_node_without_memory_is_named_by_all() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    let folder = folder("no-memory");
    // Enough to begin with, and too little for the arrays of so large a batch.
    let mut train = TRAIN.to_vec();
    train.retain(|a| {
        ![
            "model.toml",
            "--limit=320",
            "--batch=32",
            "--grain=sample=8",
        ]
        .contains(a)
    });
    train.extend(["vgg-small", "--data=synthetic:3x32x32:2048", "--batch=2048"]);
    let said = limited(&folder, ["", "ulimit -v 1000000"], &train);
    assert_ne!(said.code, Some(0));
    for part in [
        "error on node 1: out of memory",
        "the cluster is broken: node 1",
    ] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    assert!(!folder.join("nodes.safetensors").exists());
}

/// Hosts in network namespaces, removed at the end.
struct Rig {
    number: String,
    scripts: PathBuf,
}

impl Rig {
    /// So many hosts; why not, where namespaces are not allowed.
    fn up(number: u8, hosts: u8) -> Result<Rig, String> {
        let rig = Rig {
            number: number.to_string(),
            scripts: in_repository("bench/cluster/rig").into(),
        };
        // What a test that was ended left behind.
        let failed = |e: std::io::Error| e.to_string();
        rig.script("down").status().map_err(failed)?;
        let mut up = rig.script("up");
        let made = up.arg(hosts.to_string()).output().map_err(failed)?;
        match made.status.success() {
            true => Ok(rig),
            false => Err(String::from_utf8_lossy(&made.stderr)
                .trim()
                .replace('\n', "; ")),
        }
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(self.scripts.join(name));
        command.env("RIG", &self.number);
        command
    }

    fn address(&self, host: u8) -> String {
        format!("10.{}.0.{host}", self.number)
    }

    /// What runs on the first host, in a folder.
    fn on_first(&self, folder: &Path, line: &str) -> Command {
        let on = self.scripts.join("on").display().to_string();
        let mut command = program_in(&on, folder);
        let line = format!("cd {}; exec {line}", folder.display());
        command.args([self.address(1), line]);
        command
    }

    fn mpirun(&self) -> String {
        let on = self.scripts.join("on");
        format!(
            "{} --mca plm rsh --mca plm_rsh_agent {} --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 \
             --mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include eth0",
            OPEN.0,
            on.display()
        )
    }

    fn cut(&self, host: u8) {
        let name = format!("rig{}-{host}", self.number);
        let cut = Command::new("ip")
            .args(["-n", &name, "link", "set", "eth0", "down"])
            .status();
        assert!(cut.is_ok_and(|s| s.success()));
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.script("down").status();
    }
}

/// A cut cable: the host is given up, the others go on to the bits of an undisturbed run.
#[test]
fn a_cut_cable_changes_no_bit() {
    if !is_there(OPEN.0) {
        skip!("no Open MPI", OPEN.1);
    }
    // Whether namespaces may be made is the machine's business, and no package brings it.
    let rig = match Rig::up(91, 3) {
        Ok(rig) => rig,
        Err(why) => skip!(
            optional: format!("no hosts in network namespaces ({why})"),
            "run as root, apt install iproute2"
        ),
    };
    let folder = folder("cut");
    let epochs = "--epochs=200";
    let want = alone_with(&folder, epochs);
    let mut train = TRAIN.to_vec();
    train[2] = epochs;
    let hosts: Vec<String> = (1..=3).map(|h| rig.address(h)).collect();
    let line = format!(
        "{DAHL} cluster run --hosts {} --mpirun '{}' -- {} --checkpoint=points --checkpoint-every=10 --node-timeout=2 \
         --workers=1",
        hosts.join(","),
        rig.mpirun(),
        train.join(" ")
    );
    let log = fs::File::create(folder.join("err")).unwrap();
    let mut child = rig.on_first(&folder, &line).stderr(log).spawn().unwrap();
    let began = Instant::now();
    let errors = || fs::read_to_string(folder.join("err")).unwrap_or_default();
    let hangs = |began: Instant| began.elapsed() > Duration::from_secs(240);
    while !folder.join("points/checkpoint.safetensors").exists() {
        assert!(
            !hangs(began) && child.try_wait().unwrap().is_none(),
            "{}",
            errors()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    rig.cut(3);
    while child.try_wait().unwrap().is_none() {
        if hangs(began) {
            let _ = child.kill();
            panic!("it hangs: {}", errors());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let err = errors();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{err}");
    let missing = format!("{} does not answer", rig.address(3));
    assert!(err.contains(&missing), "{err}");
    assert!(err.contains("the cluster is broken: node"), "{err}");
    let got = fs::read(folder.join("nodes.safetensors")).unwrap();
    assert!(got == want, "other weights: {err}");
    assert_eq!(temporary(&folder.join("points")), 0);
    assert_eq!(find_process(&folder, 0), None);
}
