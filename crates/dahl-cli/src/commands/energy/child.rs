//! Running a program as if nobody watched.
//!
//! Signals: those from the terminal reach the program anyway, so we only survive them, to report;
//! those that somebody sends to us are passed on. Exit codes are the shells': the program's own, 128 +
//! the signal that ended it, 127 if it was not found, 126 if it cannot be run.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::{Command, ExitStatus};

use anyhow::anyhow;

/// Runs a program to its end. An error comes with the exit code to end with.
pub fn run(command: &[OsString]) -> Result<i32, (i32, anyhow::Error)> {
    let Some((program, args)) = command.split_first() else {
        return Err((2, anyhow!("no program to run")));
    };
    signals::watch();
    let child = Command::new(program).args(args).spawn();
    let mut child = child.map_err(|e| {
        let name = program.display();
        match e.kind() {
            ErrorKind::NotFound => (127, anyhow!("cannot run {name}: no such program")),
            _ => (126, anyhow!("cannot run {name}: {e}")),
        }
    })?;
    signals::pass_on_to(child.id());
    let status = child.wait();
    signals::pass_on_to(0);
    match status {
        Ok(status) => Ok(code(status)),
        Err(e) => Err((1, anyhow!("cannot wait for {}: {e}", program.display()))),
    }
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

#[cfg(unix)]
mod signals {
    use std::sync::atomic::{AtomicI32, Ordering};

    /// The program, or 0.
    static CHILD: AtomicI32 = AtomicI32::new(0);

    /// A signal that is still to be passed on, or 0: it may come before the program's number is known.
    static PENDING: AtomicI32 = AtomicI32::new(0);

    const WATCHED: [libc::c_int; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

    /// From now on signals do not end us. A handler, unlike ignoring them, is not inherited by the
    /// program; what is ignored already (`nohup`) stays so for both.
    pub fn watch() {
        for signal in WATCHED {
            // SAFETY: the actions are plain values made by zeroing; the handler only uses atomics
            // and calls `kill`, both of which a handler may do.
            unsafe {
                let mut old: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, std::ptr::null(), &mut old);
                if old.sa_sigaction == libc::SIG_IGN {
                    continue;
                }
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handler as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
        }
    }

    pub fn pass_on_to(child: u32) {
        CHILD.store(i32::try_from(child).unwrap_or(0), Ordering::SeqCst);
        pass_on();
    }

    extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
        // SAFETY: the system passes a valid description of the signal.
        let sent_by_somebody = unsafe { (*info).si_code <= 0 };
        if sent_by_somebody {
            PENDING.store(signal, Ordering::SeqCst);
            pass_on();
        }
    }

    /// Whoever is second, the signal or the program's number, sees both and passes the signal on, once.
    fn pass_on() {
        let child = CHILD.load(Ordering::SeqCst);
        if child > 0 {
            let signal = PENDING.swap(0, Ordering::SeqCst);
            if signal > 0 {
                // SAFETY: sends a signal to the program, which has not been waited for while its number
                // is here, but for an instant at its end.
                unsafe { libc::kill(child, signal) };
            }
        }
    }
}

#[cfg(not(unix))]
mod signals {
    pub fn watch() {}

    pub fn pass_on_to(_: u32) {}
}
