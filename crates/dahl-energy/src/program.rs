//! Running a program as if nobody watched, and counting what it used.
//!
//! Signals: those from the terminal reach the program anyway, so we only survive them, to report;
//! those that somebody sends to us are passed on. Exit codes are the shells': the program's own, 128 +
//! the signal that ended it, 127 if it was not found, 126 if it cannot be run.

mod report;
#[cfg(unix)]
mod signals;

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitStatus};
use std::time::{Instant, SystemTime};

use dahl_core::Seconds;

use super::energy::Report;
use super::model::Clock;
use super::sampler::Options;

/// A program that has ended, and what the machine used meanwhile.
#[derive(Clone, Debug)]
pub struct ProgramRun {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Its exit code, or 128 + the signal that ended it.
    pub code: i32,
    /// Its CPU time, where the system tells.
    pub cpu: Option<Seconds>,
    /// When it began.
    pub began: SystemTime,
    /// What was used.
    pub report: Report,
}

/// Why a program did not run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// There was nothing to run.
    #[error("no program to run")]
    Nothing,
    /// It was not started.
    #[error("cannot run {program}: {}", if is_missing(source) { "no such program".into() } else { source.to_string() })]
    Start {
        /// Its name.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// Its end was not seen.
    #[error("cannot wait for {program}: {source}")]
    Wait {
        /// Its name.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

impl ProgramError {
    /// The exit code by which shells tell it.
    pub fn exit_code(&self) -> i32 {
        match self {
            ProgramError::Nothing => 2,
            ProgramError::Start { source, .. } if is_missing(source) => 127,
            ProgramError::Start { .. } => 126,
            ProgramError::Wait { .. } => 1,
        }
    }
}

/// Runs a program to its end. Where nothing can be measured, the model of the options goes by the program's CPU time.
pub fn run_program(options: &Options, command: &[OsString]) -> Result<ProgramRun, ProgramError> {
    let (epoch, began) = (Instant::now(), SystemTime::now());
    let options = Options {
        clock: Clock::Children,
        epoch: Some(epoch),
        ..options.clone()
    };
    let sampler = options.start();
    let code = run(command)?;
    Ok(ProgramRun {
        command: command.to_vec(),
        code,
        cpu: Clock::Children.busy().ok(),
        began,
        report: sampler.finish(),
    })
}

fn run(command: &[OsString]) -> Result<i32, ProgramError> {
    let (program, args) = command.split_first().ok_or(ProgramError::Nothing)?;
    let name = || program.display().to_string();
    #[cfg(unix)]
    signals::watch();
    let child = Command::new(program).args(args).spawn();
    let mut child = child.map_err(|source| ProgramError::Start {
        program: name(),
        source,
    })?;
    #[cfg(unix)]
    signals::pass_on_to(child.id());
    let status = child.wait();
    #[cfg(unix)]
    signals::pass_on_to(0);
    status.map(code).map_err(|source| ProgramError::Wait {
        program: name(),
        source,
    })
}

#[cfg(unix)]
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    let signal = || status.signal().map(|s| 128 + s);
    status.code().or_else(signal).unwrap_or(1)
}

#[cfg(not(unix))]
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(1)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn programs_keep_their_exit_codes_and_have_joules() {
        let sh = |script: &str| ["sh", "-c", script].map(OsString::from).to_vec();
        let run = run_program(&Options::default(), &sh("exit 3")).expect("a shell");
        assert_eq!(run.code, 3);
        assert!(run.report.energy.elapsed.0 > 0.0 && run.cpu.is_some());
        let csv = crate::export::csv(&run.report, run.began);
        assert!(csv.starts_with("metric;timestamp;"));
        let gauges = crate::export::prometheus(&run.report, None, run.code);
        assert!(gauges.contains("dahl_energy_exit_code 3"));
        let run = run_program(&Options::default(), &sh("kill -KILL $$")).expect("a shell");
        assert_eq!(run.code, 128 + 9);
    }

    #[test]
    fn programs_that_cannot_run_are_told_as_shells_tell_it() {
        for (command, code, says) in [
            (vec![], 2, "no program"),
            (vec!["no-such-program".into()], 127, "no such program"),
            (vec!["/".into()], 126, "cannot run /"),
        ] {
            let error = run_program(&Options::default(), &command).expect_err("no program");
            assert_eq!(error.exit_code(), code);
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
