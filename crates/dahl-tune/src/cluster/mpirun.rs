//! MPI's launcher: which one is here, and how it starts a program on hosts.
//!
//! Open MPI and MPICH spell hosts differently and pass on different signals; that is all that is known of them here. What
//! else a site needs (a remote shell, an interface) are words that the user adds to the launcher's name.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::TuneError;

/// Launchers that are looked for, in this order.
const NAMES: [&str; 4] = ["mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich"];

/// Whose launcher it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MpiKind {
    /// Open MPI's `mpirun`.
    OpenMpi,
    /// The Hydra launcher of MPICH and its relatives.
    Mpich,
}

/// A launcher, with words of the user's.
#[derive(Clone, Debug)]
pub struct Mpirun {
    words: Vec<String>,
    kind: MpiKind,
}

impl Mpirun {
    /// The launcher of this command, with its first words, or the one that is installed.
    pub fn find(command: Option<&str>) -> Result<Mpirun, TuneError> {
        let words: Vec<String> = command
            .unwrap_or_default()
            .split_whitespace()
            .map(String::from)
            .collect();
        if command.is_some() && words.is_empty() {
            return Err(TuneError::Option(
                "the launcher has no name: as in \"mpirun --mca btl_tcp_if_include eth0\"".into(),
            ));
        }
        let named: Vec<Vec<String>> = match words.is_empty() {
            true => NAMES.iter().map(|n| vec![(*n).to_string()]).collect(),
            false => vec![words],
        };
        let mut tried = Vec::new();
        for words in named {
            match kind_of(&words[0]) {
                Ok(kind) => return Ok(Mpirun { words, kind }),
                Err(why) => tried.push(format!("{}: {why}", words[0])),
            }
        }
        Err(TuneError::Cluster(format!(
            "no launcher of MPI ({}): install one (Debian: openmpi-bin or mpich), or name it with --mpirun",
            tried.join("; ")
        )))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.words[0]
    }

    /// Starts a program on hosts, one process for each time that a host is named, in an order by host.
    pub fn command<S: AsRef<str>>(&self, hosts: &[S], program: &Path, args: &[String]) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command.args(["-n", &hosts.len().to_string()]);
        let list = slots(hosts);
        match self.kind {
            // A process that is bound to a core, as Open MPI does with one or two of them, could not use the others.
            MpiKind::OpenMpi => command.args(["--host", &list, "--bind-to", "none"]),
            MpiKind::Mpich => command.args(["-hosts", &list]),
        };
        command.arg(program).args(args).stdin(Stdio::null());
        command
    }

    /// The signal that it passes on to all processes without ending them.
    pub(super) fn passes_on(&self) -> i32 {
        #[cfg(unix)]
        return match self.kind {
            MpiKind::OpenMpi => libc::SIGUSR2,
            MpiKind::Mpich => libc::SIGUSR1,
        };
        #[cfg(not(unix))]
        libc::SIGTERM
    }

    /// What to do about a host that does not answer.
    pub(super) fn remedy(&self, host: &str) -> String {
        let bootstrap = match self.kind {
            MpiKind::OpenMpi => "--mca plm_rsh_agent CMD",
            MpiKind::Mpich => "-launcher-exec CMD",
        };
        format!(
            "try `ssh {host} true`, which must ask for nothing; another remote shell: --mpirun \"{} {bootstrap}\"",
            self.name()
        )
    }
}

/// Hosts as both launchers read them: `a:2,b:1`.
fn slots<S: AsRef<str>>(hosts: &[S]) -> String {
    let mut counts = BTreeMap::new();
    let mut order = Vec::new();
    for host in hosts {
        let count = counts.entry(host.as_ref()).or_insert(0);
        if *count == 0 {
            order.push(host.as_ref());
        }
        *count += 1;
    }
    let texts: Vec<String> = order.iter().map(|h| format!("{h}:{}", counts[h])).collect();
    texts.join(",")
}

fn kind_of(program: &str) -> Result<MpiKind, String> {
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    recognise(&text).ok_or_else(|| "neither Open MPI's nor MPICH's".into())
}

fn recognise(version: &str) -> Option<MpiKind> {
    let has = |word: &str| version.contains(word);
    if has("Open MPI") || has("OpenRTE") || has("Open RTE") || has("PRRTE") {
        Some(MpiKind::OpenMpi)
    } else if has("HYDRA") || has("MPICH") || has("Intel(R) MPI") {
        Some(MpiKind::Mpich)
    } else {
        None
    }
}

/// Hosts as they are typed: separated by commas, each as often as it is to have processes.
pub fn parse_hosts(text: &str) -> Result<Vec<String>, String> {
    let hosts: Vec<String> = text.split(',').map(|h| h.trim().to_string()).collect();
    // A name that begins with a dash would be an option of the launcher.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
    let named = |h: &String| !h.is_empty() && !h.starts_with('-') && h.chars().all(plain);
    match hosts.iter().find(|h| !named(h)) {
        None => Ok(hosts),
        Some(wrong) => Err(format!(
            "{wrong:?} is no name of a host: use names or addresses separated by commas, as in a,b,c"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_recognised() {
        for (text, kind) in [
            ("mpirun (Open MPI) 4.1.4", Some(MpiKind::OpenMpi)),
            ("mpirun.openmpi (OpenRTE) 4.1.4", Some(MpiKind::OpenMpi)),
            (
                "HYDRA build details:\n    Version: 4.0.2",
                Some(MpiKind::Mpich),
            ),
            ("GNU bash, version 5", None),
        ] {
            assert_eq!(recognise(text), kind, "{text}");
        }
        let none = Mpirun::find(Some("/nowhere/mpirun")).unwrap_err();
        assert!(none.to_string().contains("--mpirun"), "{none}");
        assert!(Mpirun::find(Some("  ")).is_err());
    }

    #[test]
    fn hosts_are_read_and_counted() {
        let hosts = parse_hosts("a, b,a,10.0.0.1").unwrap();
        assert_eq!(slots(&hosts), "a:2,b:1,10.0.0.1:1");
        for wrong in ["", "a,,b", "a,-x", "a b", "a;b", "$(x)"] {
            let error = parse_hosts(wrong).unwrap_err();
            assert!(error.contains("a,b,c"), "{wrong}: {error}");
        }
    }

    #[test]
    fn each_launcher_gets_its_own_words() {
        let line = |kind| {
            let words = ["mpirun".to_string(), "--x".into()].to_vec();
            let command = Mpirun { words, kind }.command(
                &["a", "b", "a"],
                Path::new("/bin/dahl"),
                &["train".into()],
            );
            let args = command.get_args().map(|a| a.to_string_lossy().into_owned());
            args.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line(MpiKind::OpenMpi),
            "--x -n 3 --host a:2,b:1 --bind-to none /bin/dahl train"
        );
        assert_eq!(
            line(MpiKind::Mpich),
            "--x -n 3 -hosts a:2,b:1 /bin/dahl train"
        );
    }
}
