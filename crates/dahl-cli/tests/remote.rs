//! `scripts/cluster/remote` rehearsed: ssh, oarsub and sbatch are stand-ins of a few lines that do their work here.
#![cfg(unix)]

#[path = "common/tiny.rs"]
mod tiny;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tiny::{file, folder};

/// Name and text of each stand-in. What `ssh` is asked to do happens in another folder of this machine.
const STAND_INS: &[(&str, &str)] = &[
    ("ssh", "shift; cd \"$FRONT_END\"; exec bash -c \"$*\""),
    (
        "sbatch",
        "[ \"$1 $2\" = '--parsable --wait' ] || exit 9; shift 2; SLURM_JOB_ID=7 \"$@\" >&2 || code=$?; echo '7;c'; exit \"${code:-0}\"",
    ),
    (
        "oarsub",
        "while [ $# -gt 1 ]; do shift; done; OAR_JOB_ID=7 bash -c \"$1\" >&2 || true; echo OAR_JOB_ID=7",
    ),
    ("oarstat", "echo '7: Terminated'"),
];

struct Rehearsal {
    /// A repository with the scripts and a tiny experiment.
    here: PathBuf,
    front_end: PathBuf,
    path: String,
}

fn rehearse(name: &str) -> Rehearsal {
    let all = folder(name);
    let of = |name: &str| {
        let path = all.join(name);
        fs::create_dir_all(&path).expect("a folder");
        path
    };
    let (bin, here, front_end) = (of("bin"), of("here"), of("front-end"));
    for (name, text) in STAND_INS {
        let path = bin.join(name);
        fs::write(&path, format!("#!/usr/bin/env bash\n{text}\n")).expect("a stand-in");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    }
    let scripts = here.join("scripts/cluster");
    fs::create_dir_all(&scripts).expect("a folder");
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/cluster");
    for script in ["remote", "oar", "slurm"] {
        fs::copy(real.join(script), scripts.join(script)).expect("a script");
    }
    file(&here, 1);
    let rehearsal = Rehearsal {
        here,
        front_end,
        path: format!(
            "{}:{}",
            bin.display(),
            std::env::var("PATH").unwrap_or_default()
        ),
    };
    for words in [
        &["init", "-q"][..],
        &["add", "."],
        &["commit", "-q", "-m", "all"],
    ] {
        let done = rehearsal.run("git", words);
        assert!(done.status.success(), "{done:?}");
    }
    rehearsal
}

impl Rehearsal {
    fn run(&self, program: &str, words: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.here);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), "somebody");
            command.env(format!("GIT_{who}_EMAIL"), "somebody@example.org");
        }
        command
            .env("PATH", &self.path)
            .env("FRONT_END", &self.front_end)
            .env("DAHL", env!("CARGO_BIN_EXE_dahl"))
            .env("DAHL_HOME", &self.front_end)
            .env("POLL", "0")
            .output()
            .expect("a program")
    }
}

#[test]
fn a_commit_is_sent_run_and_its_folder_fetched() {
    for kind in ["oar", "slurm"] {
        let rehearsal = rehearse(&format!("remote-{kind}"));
        let said = rehearsal.run(
            "scripts/cluster/remote",
            &[
                kind,
                "front",
                "tiny.toml",
                "--noisy",
                "--only",
                "engine=shell",
            ],
        );
        let err = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{kind}: {err}");
        let session = rehearsal.here.join("tiny-7");
        for name in ["report.html", "rows.jsonl", "environment.json"] {
            assert!(session.join(name).is_file(), "{kind}: {name}: {err}");
        }
        let environment = fs::read_to_string(session.join("environment.json")).expect("a file");
        let commit = rehearsal.run("git", &["rev-parse", "HEAD"]).stdout;
        let commit = String::from_utf8_lossy(&commit);
        assert!(environment.contains(commit.trim()), "{environment}");
    }
}

#[test]
fn what_is_not_committed_is_not_sent() {
    let rehearsal = rehearse("remote-dirty");
    fs::write(rehearsal.here.join("tiny.toml"), "changed").expect("a file");
    let said = rehearsal.run("scripts/cluster/remote", &["oar", "front", "tiny.toml"]);
    assert!(!said.status.success());
    assert!(String::from_utf8_lossy(&said.stderr).contains("commit first"));
    assert!(!rehearsal.front_end.join("dahl-experiments").exists());
}
