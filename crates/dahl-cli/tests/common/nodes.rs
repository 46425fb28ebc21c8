//! What the tests of several nodes share: processes of both MPIs on this machine.

#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Said;

/// Launchers, with the package that has each.
pub const OPEN: (&str, &str) = ("mpirun.openmpi", "apt install openmpi-bin");
pub const MPICH: (&str, &str) = ("mpirun.mpich", "apt install mpich");

/// Batch norm, dropout, branches: all that is summed over samples.
const MODEL: &str = r#"
name = "small"
input = [1, 28, 28]
layers = [
    { type = "conv2d", out_channels = 6, kernel = 3 },
    { type = "batch_norm2d" },
    { type = "relu" },
    { type = "max_pool2d", kernel = 2 },
    { type = "dropout", p = 0.3 },
    { type = "flatten" },
    { type = "linear", out_features = 10 },
]
"#;

/// A folder for a test, empty.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("mpi")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("model.toml"), MODEL).unwrap();
    folder
}

pub fn is_there(launcher: &str) -> bool {
    Command::new(launcher)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_ok()
}

/// `dahl` on nodes, each with its own arguments; not started yet.
pub fn on_nodes(launcher: &str, nodes: &[&[&str]], folder: &Path) -> Command {
    program_on_nodes(&[env!("CARGO_BIN_EXE_dahl")], launcher, nodes, folder)
}

/// The same of another program that starts it.
pub fn program_on_nodes(
    program: &[&str],
    launcher: &str,
    nodes: &[&[&str]],
    folder: &Path,
) -> Command {
    let mut command = program_in(launcher, folder);
    for (i, args) in nodes.iter().enumerate() {
        if i > 0 {
            command.arg(":");
        }
        command.args(["-n", "1"]).args(program);
        command.args(*args).args(["--workers", "1"]);
    }
    command
}

/// A launcher, or what starts one, in a folder.
pub fn program_in(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .env("DAHL_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/home"))
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        // More nodes than cores, and any number of tests beside this one.
        .env("OMPI_MCA_rmaps_base_oversubscribe", "1")
        .env("OMPI_MCA_hwloc_base_binding_policy", "none")
        .stdin(Stdio::null());
    command
}

pub fn run(mut command: Command) -> Said {
    let output = command.output().expect("the launcher can be started");
    Said {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// The process of a rank that works in a folder.
pub fn process_of(folder: &Path, rank: usize) -> i32 {
    find_process(folder, rank).unwrap_or_else(|| panic!("rank {rank} is not there"))
}

/// The same, if it is there.
pub fn find_process(folder: &Path, rank: usize) -> Option<i32> {
    let rank = [
        format!("OMPI_COMM_WORLD_RANK={rank}\0"),
        format!("PMI_RANK={rank}\0"),
    ];
    fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let id: i32 = entry.file_name().to_str()?.parse().ok()?;
        let here = fs::read_link(entry.path().join("cwd")).ok()?;
        let program = fs::read_link(entry.path().join("exe")).ok()?;
        let environ = fs::read(entry.path().join("environ")).ok()?;
        let environ = String::from_utf8_lossy(&environ).into_owned();
        let is = here == folder && program == Path::new(env!("CARGO_BIN_EXE_dahl"));
        (is && rank.iter().any(|r| environ.contains(r))).then_some(id)
    })
}

pub fn signal(process: i32, signal: &str) {
    let sent = Command::new("kill")
        .args([signal, &process.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

/// What every run of these tests trains; the last word says where weights go.
pub const TRAIN: [&str; 12] = [
    "train",
    "model.toml",
    "--epochs=2",
    "--limit=320",
    "--val-limit=64",
    "--batch=32",
    "--clip-norm=1",
    "--seed=3",
    "--profile=none",
    "--grain=sample=8",
    "--quiet",
    "--save=nodes.safetensors",
];

/// The weights of the same run on one computer, with other options in the place of the number of epochs.
pub fn alone_with(folder: &Path, epochs: &str) -> Vec<u8> {
    alone(folder, epochs, &[])
}

/// The same, with more options.
pub fn alone_and(folder: &Path, options: &[&str]) -> Vec<u8> {
    alone(folder, TRAIN[2], options)
}

fn alone(folder: &Path, epochs: &str, options: &[&str]) -> Vec<u8> {
    let save = format!("--save={}", folder.join("one.safetensors").display());
    let model = folder.join("model.toml").display().to_string();
    let mut args = TRAIN.to_vec();
    (args[1], args[2], args[11]) = (&model, epochs, &save);
    args.extend(options);
    assert_eq!(super::dahl(&args), "");
    fs::read(folder.join("one.safetensors")).unwrap()
}
