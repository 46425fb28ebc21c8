//! Which hosts answer: each is asked by the launcher that will start the work there, for the version of `dahl`.
//!
//! So a host counts only if the launcher reaches it, the program is there and starts. All are asked at once, and none
//! for longer than the time given.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::child;
use super::mpirun::Mpirun;

/// A host that cannot take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    /// The host.
    pub host: String,
    /// What was noticed.
    pub why: String,
    /// What to do.
    pub remedy: String,
}

impl std::fmt::Display for Unreachable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Unreachable { host, why, remedy } = self;
        write!(f, "{host} does not answer: {why}; {remedy}")
    }
}

/// Asks every host, each once; those that cannot take part, in the order of the hosts.
pub(super) fn unreachable(
    mpirun: &Mpirun,
    hosts: &[String],
    program: &Path,
    at_most: Duration,
) -> Vec<Unreachable> {
    let mut once: Vec<&String> = Vec::new();
    for host in hosts {
        if !once.contains(&host) {
            once.push(host);
        }
    }
    std::thread::scope(|scope| {
        let asked: Vec<_> = once
            .into_iter()
            .map(|host| scope.spawn(move || ask(mpirun, host, program, at_most)))
            .collect();
        let answers = asked.into_iter().map(|a| a.join().ok().flatten());
        answers.flatten().collect()
    })
}

/// The hosts that answer, each as often as before.
pub(super) fn answering(hosts: &[String], missing: &[Unreachable]) -> Vec<String> {
    let gone = |host: &&String| missing.iter().any(|m| m.host == **host);
    hosts.iter().filter(|h| !gone(h)).cloned().collect()
}

fn ask(mpirun: &Mpirun, host: &str, program: &Path, at_most: Duration) -> Option<Unreachable> {
    let mut command = mpirun.command(&[host], program, &["--version".into()]);
    let is = |why: String, remedy: String| {
        Some(Unreachable {
            host: host.into(),
            why,
            remedy,
        })
    };
    let output = match child::run(&mut command, at_most) {
        Ok(output) => output,
        Err(error) => return is(format!("{}: {error}", mpirun.name()), mpirun.remedy(host)),
    };
    let wanted = format!("dahl {}", env!("CARGO_PKG_VERSION"));
    let said = output.out.lines().find(|l| l.starts_with("dahl "));
    match (said, output.code) {
        (Some(said), Some(0)) if said.trim() == wanted => None,
        (Some(said), Some(0)) => is(
            format!("it has {}, here is {wanted}", said.trim()),
            "install the same build on all hosts".into(),
        ),
        (_, None) => is(
            format!("nothing came for {:.0} s", at_most.as_secs_f64()),
            mpirun.remedy(host),
        ),
        (_, Some(code)) => {
            let last = telling(&output.err).unwrap_or("it said nothing");
            // Both launchers name the file that they cannot start.
            let missing = output.err.contains(&program.display().to_string());
            match missing {
                true => is(
                    format!("{} cannot be started there ({last})", program.display()),
                    "install it at the same place on all hosts".into(),
                ),
                false => is(format!("{last} (exit code {code})"), mpirun.remedy(host)),
            }
        }
    }
}

/// The line of a launcher's message that says most: the first that is no frame.
fn telling(text: &str) -> Option<&str> {
    let frame = |l: &&str| l.is_empty() || l.chars().all(|c| "-=*#".contains(c));
    text.lines().map(str::trim).find(|l| !frame(l))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_launchers_message_is_found_between_its_frames() {
        let text = "-----\n\nssh: Could not resolve hostname x\n-----\n";
        assert_eq!(telling(text), Some("ssh: Could not resolve hostname x"));
        assert_eq!(telling("---\n"), None);
    }

    #[test]
    fn hosts_that_do_not_answer_are_left_out() {
        let hosts = ["a", "b", "a", "c"].map(String::from);
        let missing = [Unreachable {
            host: "a".into(),
            why: String::new(),
            remedy: String::new(),
        }];
        assert_eq!(answering(&hosts, &missing), ["b", "c"]);
    }
}
