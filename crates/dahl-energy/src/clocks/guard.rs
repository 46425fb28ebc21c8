//! The guard: a process that waits for its parent to let go of a pipe, and then puts old values back.
//!
//! It is a fork, so that programs need nothing else on disk, in a session of its own, so that what a terminal or a
//! launcher sends to the run does not reach it. Between the fork and its end it calls only what a signal handler may
//! call, because other threads of the parent may have held locks: all that it needs is made ready before. What only a library
//! could put back, a program does, which it runs.
//!
//! The record holds old values on disk, under a lock that run and guard share: it is free when both are gone.

use std::ffi::{CString, c_char};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cpufreq::put;
use super::{Undo, failed};
use crate::{Trouble, TroubleKind};

/// Old values on disk, locked.
#[derive(Debug)]
pub(super) struct Record {
    path: PathBuf,
    file: File,
    old: Vec<Undo>,
}

impl Record {
    /// Takes the lock; refuses if another run has it.
    pub(super) fn take(path: &Path) -> Result<Record, Trouble> {
        let wrong = |e: io::Error| failed(format!("{}: {e}", path.display()));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path).map_err(wrong)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let text = format!(
                    "another run has set the clocks of this computer ({} is locked): wait until it has ended",
                    path.display()
                );
                return Err(Trouble::new(TroubleKind::Denied, text));
            }
            Err(TryLockError::Error(e)) => return Err(wrong(e)),
        }
        Ok(Record {
            path: path.into(),
            file,
            old: Vec::new(),
        })
    }

    /// Puts back what a record on disk says, if a run and its guard were killed together.
    pub(super) fn put_back(&mut self) -> Result<(), Trouble> {
        let wrong = |e: io::Error| failed(format!("{}: {e}", self.path.display()));
        let mut text = String::new();
        self.file.rewind().map_err(wrong)?;
        self.file.read_to_string(&mut text).map_err(wrong)?;
        if text.is_empty() {
            return Ok(());
        }
        let old: Vec<Undo> = serde_json::from_str(&text).map_err(|e| {
            failed(format!(
                "{} is damaged ({e}): set the clocks of this computer by hand and remove it",
                self.path.display()
            ))
        })?;
        for undo in &old {
            match undo {
                Undo::Write(path, value) => put(path, value)?,
                Undo::Run { run } => self.run(run)?,
            }
        }
        self.write("")
    }

    fn run(&self, command: &[String]) -> Result<(), Trouble> {
        let [program, args @ ..] = command else {
            return Ok(());
        };
        let done = Command::new(program).args(args).output();
        match done {
            Ok(done) if done.status.success() => Ok(()),
            Ok(done) => Err(failed(format!(
                "{}: {}",
                command.join(" "),
                String::from_utf8_lossy(&done.stdout).trim()
            ))),
            Err(e) => Err(failed(format!("{}: {e}", command.join(" ")))),
        }
    }

    /// Writes old values down, to last.
    pub(super) fn keep(&mut self, old: Vec<Undo>) -> Result<(), Trouble> {
        let text = serde_json::to_string(&old).map_err(|e| failed(e.to_string()))?;
        self.old = old;
        self.write(&text)
    }

    fn write(&mut self, text: &str) -> Result<(), Trouble> {
        let mut write = || -> io::Result<()> {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(text.as_bytes())?;
            self.file.sync_all()
        };
        write().map_err(|e| failed(format!("{}: {e}", self.path.display())))
    }
}

/// The process. It ends, with values put back, when this is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    pipe: Option<OwnedFd>,
    process: libc::pid_t,
    record: Record,
}

impl Guard {
    pub(super) fn start(record: Record) -> Result<Guard, Trouble> {
        let system = |what: &str| failed(format!("{what}: {}", io::Error::last_os_error()));
        let old: Result<Vec<Ready>, Trouble> = record.old.iter().map(Ready::new).collect();
        let old = old?;
        let mut ends = [0; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
        // SAFETY: `socketpair` writes two numbers.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return Err(system("a pipe"));
        }
        // SAFETY: both are open and nobody else's.
        let [theirs, ours] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        let (pipe, lock) = (theirs.as_raw_fd(), record.file.as_raw_fd());
        // SAFETY: the child calls `watch` and nothing else, which keeps to what is allowed after a fork.
        let process = unsafe { libc::fork() };
        match process {
            -1 => Err(system("a guard process")),
            0 => watch(pipe, lock, &old),
            process => {
                drop(theirs);
                let mut guard = Guard {
                    pipe: Some(ours),
                    process,
                    record,
                };
                guard.await_ready()?;
                Ok(guard)
            }
        }
    }

    /// Waits until nothing that ends the run can end the guard with it. Before, no clock may be set.
    fn await_ready(&mut self) -> Result<(), Trouble> {
        let Some(pipe) = &self.pipe else {
            return Ok(());
        };
        let mut byte = 0_u8;
        loop {
            // SAFETY: reads at most one byte into one.
            match unsafe { libc::read(pipe.as_raw_fd(), (&raw mut byte).cast(), 1) } {
                1 => return Ok(()),
                n if n < 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(failed("the guard process ended at once")),
            }
        }
    }

    /// Whether the old value of a file is known.
    pub(super) fn keeps(&self, file: &Path) -> bool {
        let is = |undo: &Undo| matches!(undo, Undo::Write(path, _) if path == file);
        self.record.old.iter().any(is)
    }

    /// Has it put values back, and says if it could not.
    pub(super) fn end(mut self) -> Result<(), Trouble> {
        match self.let_go() {
            0 => Ok(()),
            n => Err(failed(format!(
                "{n} clocks could not be put back: {} has their old values",
                self.record.path.display()
            ))),
        }
    }

    /// Lets go of the pipe and waits; how many values could not be put back.
    fn let_go(&mut self) -> i32 {
        if self.pipe.take().is_none() {
            return 0;
        }
        let mut status = 0;
        // SAFETY: the process is our child; `waitpid` writes one number.
        while unsafe { libc::waitpid(self.process, &mut status, 0) } < 0 {
            if io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return 1;
            }
        }
        match libc::WIFEXITED(status) {
            true => libc::WEXITSTATUS(status),
            // Somebody killed it: its work is left to us.
            false => i32::from(self.record.put_back().is_err()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// What puts a clock back, made ready before the fork.
enum Ready {
    Write(CString, Vec<u8>),
    /// The program's path and its arguments, and where these lie, with a null behind the last.
    Run {
        _texts: Vec<CString>,
        args: Vec<*const c_char>,
    },
}

impl Ready {
    fn new(undo: &Undo) -> Result<Ready, Trouble> {
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|e| failed(e.to_string()));
        Ok(match undo {
            Undo::Write(path, value) => {
                let path = text(path.as_os_str().as_bytes())?;
                Ready::Write(path, value.clone().into_bytes())
            }
            Undo::Run { run } => {
                let texts: Result<Vec<CString>, Trouble> =
                    run.iter().map(|t| text(t.as_bytes())).collect();
                let texts = texts?;
                let args = texts.iter().map(|t| t.as_ptr());
                let args = args.chain([std::ptr::null()]).collect();
                Ready::Run {
                    _texts: texts,
                    args,
                }
            }
        })
    }

    /// Puts it back, and says whether that worked.
    ///
    /// # Safety
    /// May be called in a forked process: makes system calls only.
    unsafe fn put_back(&self) -> bool {
        // SAFETY: plain system calls on strings and buffers that outlive them. The process that runs the program is cloned as
        // by `fork`, without what libraries want to do then.
        unsafe {
            match self {
                Ready::Write(path, value) => {
                    let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_TRUNC);
                    let written = match fd {
                        -1 => -1,
                        fd => libc::write(fd, value.as_ptr().cast(), value.len()),
                    };
                    libc::close(fd);
                    written == value.len() as isize
                }
                Ready::Run { args, .. } => {
                    let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as i32;
                    if child == 0 {
                        libc::execv(args[0], args.as_ptr());
                        libc::_exit(127);
                    }
                    let mut status = -1;
                    while libc::waitpid(child, &mut status, 0) < 0
                        && *libc::__errno_location() == libc::EINTR
                    {}
                    child > 0 && status == 0
                }
            }
        }
    }
}

/// The guard's life. Only what a signal handler may call is called.
fn watch(pipe: i32, lock: i32, old: &[Ready]) -> ! {
    // SAFETY: plain system calls on numbers, and on strings and buffers that were made before the fork and outlive it.
    unsafe {
        libc::setsid();
        for signal in [
            libc::SIGINT,
            libc::SIGTERM,
            libc::SIGHUP,
            libc::SIGPIPE,
            libc::SIGQUIT,
        ] {
            libc::signal(signal, libc::SIG_IGN);
        }
        // A process that waits for the parent's files to be closed must not wait for the guard.
        let most = libc::sysconf(libc::_SC_OPEN_MAX).clamp(3, 65_536) as i32;
        for fd in (0..most).filter(|fd| *fd != pipe && *fd != lock) {
            libc::close(fd);
        }
        // A program that is run finds its usual three files.
        for _ in 0..3 {
            libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        }
        let mut byte = 0_u8;
        libc::write(pipe, (&raw const byte).cast(), 1);
        loop {
            let n = libc::read(pipe, (&raw mut byte).cast(), 1);
            // The end of the pipe, or an error other than a signal's.
            if n == 0 || (n < 0 && *libc::__errno_location() != libc::EINTR) {
                break;
            }
        }
        let mut failed = 0;
        for undo in old {
            failed += i32::from(!undo.put_back());
        }
        if failed == 0 {
            libc::ftruncate(lock, 0);
        }
        libc::_exit(failed.min(125))
    }
}
