//! Where and with what an experiment ran: what another person needs to repeat it, and what decides whether a killed
//! session may go on.
//!
//! Asks git, the compiler and the drivers where they are there; what is not known is not made up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use dahl_core::hash::Checksum;
use serde::{Deserialize, Serialize};

/// What is known, by name: `cpu`, `commit`, …
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Facts.
    pub facts: BTreeMap<String, String>,
    /// Variables that steer engines.
    pub variables: BTreeMap<String, String>,
    /// What differs from the commit; empty if nothing does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub diff: String,
}

/// Facts that must be the same for a session to go on.
const IDENTITY: &[&str] = &[
    "commit",
    "dirty",
    "binary",
    "experiment",
    "cpu",
    "cores",
    "kernel",
    "memory",
];

/// Beginnings of variables that steer engines.
const VARIABLES: &[&str] = &[
    "DAHL_",
    "OMP_",
    "MKL_",
    "KMP_",
    "GOMP_",
    "OPENBLAS_",
    "CUDA_",
    "STARPU_",
    "MALLOC_",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "TORCH",
    "PYTORCH_",
];

impl Environment {
    /// Looks around. `program` is the binary that runs DAHL's peers, `folder` lies in the repository, `text` is the
    /// experiment's.
    pub fn look(program: &Path, folder: &Path, text: &str) -> Environment {
        let mut facts = BTreeMap::new();
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|v| !v.is_empty()) {
                facts.insert(name.to_owned(), value);
            }
        };
        let git = |args: &[&str]| said("git", args, Some(folder));
        let status = git(&["status", "--porcelain", "--untracked-files=no"]);
        add("commit", git(&["rev-parse", "HEAD"]));
        let diff = match status.as_deref() {
            None | Some("") => String::new(),
            Some(_) => git(&["diff", "HEAD"]).unwrap_or_default(),
        };
        add(
            "dirty",
            status.map(|s| {
                if s.is_empty() {
                    "no".into()
                } else {
                    format!("yes, {}", hash(diff.as_bytes()))
                }
            }),
        );
        add("binary", fs::read(program).ok().map(|b| hash(&b)));
        add("experiment", Some(hash(text.as_bytes())));
        let lock = git(&["rev-parse", "--show-toplevel"])
            .and_then(|top| fs::read(Path::new(&top).join("Cargo.lock")).ok());
        add("Cargo.lock", lock.map(|b| hash(&b)));
        add("rustc", said("rustc", &["--version"], None));
        add("python", said("python3", &["--version"], None));
        let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        add("cpu", field(&cpu, "model name"));
        add("microcode", field(&cpu, "microcode"));
        add(
            "cores",
            std::thread::available_parallelism()
                .ok()
                .map(|n| n.to_string()),
        );
        add("smt", file("/sys/devices/system/cpu/smt/control"));
        add(
            "governor",
            file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        );
        add(
            "no_turbo",
            file("/sys/devices/system/cpu/intel_pstate/no_turbo"),
        );
        add("boost", file("/sys/devices/system/cpu/cpufreq/boost"));
        add("kernel", file("/proc/sys/kernel/osrelease"));
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        add("memory", field(&memory, "MemTotal"));
        add(
            "huge pages",
            file("/sys/kernel/mm/transparent_hugepage/enabled"),
        );
        let query = "--query-gpu=name,driver_version,power.limit,clocks.max.sm";
        add(
            "gpus",
            said("nvidia-smi", &[query, "--format=csv,noheader"], None),
        );
        let wanted = |name: &str| VARIABLES.iter().any(|v| name.starts_with(v));
        let variables = std::env::vars().filter(|(name, _)| wanted(name)).collect();
        Environment {
            facts,
            variables,
            diff,
        }
    }

    /// Whether the tree differs from its commit.
    pub fn is_dirty(&self) -> bool {
        self.facts.get("dirty").is_some_and(|d| d != "no")
    }

    /// What differs between two environments of one session, in words; none if it may go on.
    pub(crate) fn difference(&self, now: &Environment) -> Option<String> {
        let missing = "unknown".to_owned();
        let differs = |name: &&&str| self.facts.get(**name) != now.facts.get(**name);
        let name = IDENTITY.iter().find(differs);
        let fact = name.map(|name| {
            let of = |e: &Environment| e.facts.get(*name).unwrap_or(&missing).clone();
            format!("{name} was {}, is {}", of(self), of(now))
        });
        fact.or_else(|| {
            (self.variables != now.variables).then(|| "variables of the environment differ".into())
        })
    }
}

fn hash(bytes: &[u8]) -> String {
    format!("{:016x}", Checksum::of(bytes))
}

/// The first line that a program prints, if it runs.
fn said(program: &str, args: &[&str], folder: Option<&Path>) -> Option<String> {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    if let Some(folder) = folder {
        command.current_dir(folder);
    }
    let output = command.output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn file(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_owned())
}

fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find(|l| l.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_on_figures_is_compared() {
        let env = |commit: &str| Environment {
            facts: BTreeMap::from([
                ("commit".into(), commit.into()),
                ("rustc".into(), commit.into()),
            ]),
            ..Environment::default()
        };
        assert_eq!(env("a").difference(&env("a")), None);
        assert_eq!(
            env("a").difference(&env("b")),
            Some("commit was a, is b".into())
        );
        let mut other = env("a");
        other.facts.insert("cpu".into(), "x".into());
        assert_eq!(
            env("a").difference(&other),
            Some("cpu was unknown, is x".into())
        );
        other = env("a");
        other.variables.insert("OMP_NUM_THREADS".into(), "1".into());
        assert!(env("a").difference(&other).is_some());
    }

    #[test]
    fn this_machine_has_a_processor_and_a_kernel() {
        let here = Environment::look(Path::new("/proc/self/exe"), Path::new("/"), "x");
        assert!(here.facts.contains_key("cores") && here.facts.contains_key("binary"));
        assert_eq!(here.facts.get("dirty"), None, "the root is no repository");
    }
}
