//! A program that is started and watched: in a process group of its own, ended when it takes too long.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often a program is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// Starts a program in a process group of its own: Ctrl-C reaches us alone, and we decide what it gets.
pub(super) fn start(command: &mut Command) -> io::Result<Child> {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    command.spawn()
}

/// Sends a signal to the program, or with `all` to its whole group.
pub(super) fn signal(child: &Child, signal: i32, all: bool) {
    let id = child.id() as i32;
    // SAFETY: a system call on plain numbers.
    #[cfg(unix)]
    unsafe {
        libc::kill(if all { -id } else { id }, signal);
    }
    #[cfg(not(unix))]
    let _ = (id, signal, all);
}

/// Ends it: it is asked first, so that a launcher can end what it has started, and killed after a while.
pub(super) fn end(child: &mut Child, after: Duration) -> io::Result<ExitStatus> {
    signal(child, libc::SIGTERM, false);
    let ended = wait(child, after)?;
    // What it left behind goes as well. The number still is that of its group, or nobody's.
    signal(child, libc::SIGKILL, true);
    match ended {
        Some(status) => Ok(status),
        None => child.wait(),
    }
}

/// Waits for its end, but no longer than this.
pub(super) fn wait(child: &mut Child, at_most: Duration) -> io::Result<Option<ExitStatus>> {
    let until = Instant::now() + at_most;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// The exit code as shells count: 128 and the signal where one ended it.
pub(super) fn code(status: ExitStatus) -> i32 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return 128 + signal;
    }
    status.code().unwrap_or(1)
}

/// What a program wrote before its end, or before it took too long.
pub(super) struct Output {
    /// The exit code; none if it took too long.
    pub(super) code: Option<i32>,
    pub(super) out: String,
    pub(super) err: String,
}

/// Runs a program for no longer than this.
pub(super) fn run(command: &mut Command, at_most: Duration) -> io::Result<Output> {
    let mut child = start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (out, err) = (read(out), read(err));
    let ended = wait(&mut child, at_most)?;
    if ended.is_none() {
        end(&mut child, Duration::from_secs(3))?;
    }
    let text = |reader: std::thread::JoinHandle<String>| reader.join().unwrap_or_default();
    Ok(Output {
        code: ended.map(code),
        out: text(out),
        err: text(err),
    })
}

fn read(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // What came before a failure is kept.
            let _ = from.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_program_that_takes_too_long_is_ended_with_what_it_started() {
        let output = run(
            &mut sh("echo begun; sleep 1000 & wait"),
            Duration::from_millis(300),
        );
        let output = output.unwrap();
        assert_eq!((output.code, &output.out[..]), (None, "begun\n"));
    }

    #[test]
    fn codes_and_signals_are_told() {
        let output = run(
            &mut sh("echo out; echo err >&2; exit 3"),
            Duration::from_secs(60),
        );
        let output = output.unwrap();
        assert_eq!(output.code, Some(3));
        assert_eq!((&output.out[..], &output.err[..]), ("out\n", "err\n"));
        let killed = run(&mut sh("kill -9 $$"), Duration::from_secs(60)).unwrap();
        assert_eq!(killed.code, Some(137));
    }
}
