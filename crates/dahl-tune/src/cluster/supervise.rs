//! Training that outlives the loss of nodes: the launcher is started again with the hosts that answer, from the last
//! checkpoint, until the work is done.
//!
//! What ran before changes no bit, and neither does who runs it, so the weights at the end are those of an undisturbed
//! run. Restarts without a new checkpoint in between are bounded, with growing pauses. An end that another start would
//! not change (wrong arguments, an error of the program, a stop that somebody asked for) is passed on as it is.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant, SystemTime};

use dahl_core::Stop;

use super::check::ASKING;
use super::child;
use super::mpirun::Mpirun;
use super::reach::{Unreachable, answering, unreachable};
use crate::error::TuneError;

/// The exit code of a process that ended because another node was lost.
pub const NODE_LOST: u8 = 4;

/// The first pause before a restart, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How often the launcher is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// How long a launcher may take to end what it has started.
const ENDING: Duration = Duration::from_secs(5);

/// What is to be done, where.
pub struct Supervised {
    /// The hosts, each as often as it is to have processes.
    pub hosts: Vec<String>,
    /// Who starts processes there.
    pub mpirun: Mpirun,
    /// The program, at the same place everywhere.
    pub program: PathBuf,
    /// Its arguments for the first start.
    pub begin: Vec<String>,
    /// Its arguments for going on from the checkpoint.
    pub go_on: Vec<String>,
    /// The file of the checkpoint, as seen from here.
    pub checkpoint: PathBuf,
    /// Whether the first start goes on from a checkpoint already.
    pub resumes: bool,
    /// Most restarts without a new checkpoint in between.
    pub restarts: u32,
    /// How long a node may be silent; also how long a host may take to answer, and a launcher to notice.
    pub patience: Duration,
    /// Asks for the end: twice, for an end at once.
    pub stop: Stop,
}

/// What a supervisor tells.
#[derive(Debug)]
pub enum Supervision<'a> {
    /// A host does not take part.
    Unreachable(&'a Unreachable),
    /// Processes are started on these hosts, from a checkpoint or from the beginning.
    Start {
        /// The hosts.
        hosts: &'a [String],
        /// Whether from a checkpoint.
        from_checkpoint: bool,
    },
    /// They have ended before the work was done.
    Lost {
        /// The exit code.
        code: i32,
        /// Restarts since the last checkpoint, this one included.
        restart: u32,
        /// When they start again.
        pause: Duration,
    },
    /// They are asked to stop.
    Stopping,
}

/// How processes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// To be passed on: done, refused, or stopped by somebody.
    Final(i32),
    /// Another start may do better.
    Lost(i32),
}

impl Supervised {
    /// Does it; the exit code of the last processes.
    pub fn run(&self, tell: &mut dyn FnMut(Supervision<'_>)) -> Result<i32, TuneError> {
        let mut before = stamp(&self.checkpoint);
        let mut kept = self.resumes;
        let mut restart = 0;
        loop {
            let missing = unreachable(
                &self.mpirun,
                &self.hosts,
                &self.program,
                self.patience + ASKING,
            );
            missing
                .iter()
                .for_each(|m| tell(Supervision::Unreachable(m)));
            let hosts = answering(&self.hosts, &missing);
            let end = match hosts.is_empty() {
                true => End::Lost(i32::from(NODE_LOST)),
                false => {
                    tell(Supervision::Start {
                        hosts: &hosts,
                        from_checkpoint: kept,
                    });
                    self.attempt(&hosts, kept, tell)?
                }
            };
            let code = match end {
                End::Final(code) => return Ok(code),
                End::Lost(code) => code,
            };
            let now = stamp(&self.checkpoint);
            if now.is_some() && now != before {
                (kept, restart, before) = (true, 0, now);
            }
            if restart == self.restarts {
                return Err(TuneError::Cluster(format!(
                    "given up after {restart} restarts without a new checkpoint (exit code {code}); {}",
                    self.advice(kept)
                )));
            }
            let pause = (PAUSES.0 * 2u32.saturating_pow(restart)).min(PAUSES.1);
            restart += 1;
            tell(Supervision::Lost {
                code,
                restart,
                pause,
            });
            if self.sleep(pause) {
                return Ok(130);
            }
        }
    }

    fn advice(&self, kept: bool) -> String {
        match kept {
            true => format!(
                "{} can go on: the same command with --resume",
                self.checkpoint.display()
            ),
            false => "`dahl cluster check` says what is wrong; --checkpoint-every N writes checkpoints sooner"
                .into(),
        }
    }

    /// Waits; true if somebody wants the end.
    fn sleep(&self, pause: Duration) -> bool {
        let until = Instant::now() + pause;
        while Instant::now() < until && !self.stop.is_requested() {
            std::thread::sleep(LOOK);
        }
        self.stop.take()
    }

    /// Starts the launcher and watches it to its end.
    fn attempt(
        &self,
        hosts: &[String],
        kept: bool,
        tell: &mut dyn FnMut(Supervision<'_>),
    ) -> Result<End, TuneError> {
        let args = if kept { &self.go_on } else { &self.begin };
        let mut command = self.mpirun.command(hosts, &self.program, args);
        command.stderr(Stdio::piped());
        let cannot = |e: std::io::Error| {
            TuneError::Cluster(format!("{} cannot be started: {e}", self.mpirun.name()))
        };
        let mut child = child::start(&mut command).map_err(cannot)?;
        let heard = Arc::new(Heard::default());
        let listening = listen(&mut child, heard.clone());
        let code = self.watch(&mut child, &heard, tell).map_err(cannot)?;
        // What the group left behind holds the pipe: it is gone by now, or told to go.
        child::signal(&child, libc::SIGKILL, true);
        let _ = listening.join();
        Ok(match code {
            Watched::Stopped => End::Final(130),
            Watched::Hung => End::Lost(i32::from(NODE_LOST)),
            Watched::Ended(code) => judge(code, heard.own_error()),
        })
    }

    fn watch(
        &self,
        child: &mut Child,
        heard: &Heard,
        tell: &mut dyn FnMut(Supervision<'_>),
    ) -> std::io::Result<Watched> {
        let mut stopping = false;
        let mut since = None;
        loop {
            if let Some(status) = child::wait(child, LOOK)? {
                return Ok(match stopping {
                    true => Watched::Stopped,
                    false => Watched::Ended(child::code(status)),
                });
            }
            if self.stop.take() {
                if stopping {
                    child::end(child, ENDING)?;
                    return Ok(Watched::Stopped);
                }
                stopping = true;
                tell(Supervision::Stopping);
                child::signal(child, self.mpirun.passes_on(), false);
            }
            // A node has ended, so all others end within the time that a node may be silent. A launcher that still
            // waits after that waits for a host that is gone.
            if heard.any_error() {
                let since = *since.get_or_insert_with(Instant::now);
                if since.elapsed() > self.patience + ENDING {
                    child::end(child, ENDING)?;
                    return Ok(match stopping {
                        true => Watched::Stopped,
                        false => Watched::Hung,
                    });
                }
            }
        }
    }
}

enum Watched {
    Ended(i32),
    Stopped,
    /// It would have waited for ever.
    Hung,
}

/// What processes have said on standard error.
#[derive(Default)]
struct Heard(AtomicU8);

/// A node was lost, by what another says.
const LOSS: u8 = 1;
/// An error of the program itself.
const OWN: u8 = 2;

impl Heard {
    fn any_error(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn own_error(&self) -> bool {
        self.0.load(Ordering::Relaxed) & OWN != 0
    }

    /// Looks at a line: the program begins its errors like this on several nodes.
    fn hear(&self, line: &str) {
        if let Some((_, text)) = line.split_once("error on node ") {
            let kind = match text.contains("the cluster is broken") {
                true => LOSS,
                false => OWN,
            };
            self.0.fetch_or(kind, Ordering::Relaxed);
        }
    }
}

/// Passes standard error on, and listens.
fn listen(child: &mut Child, heard: Arc<Heard>) -> std::thread::JoinHandle<()> {
    let from = child.stderr.take();
    std::thread::spawn(move || {
        let Some(from) = from else { return };
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
            heard.hear(&String::from_utf8_lossy(&line));
            // Nobody reads it: then nobody misses it.
            let _ = std::io::stderr().write_all(&line);
            line.clear();
        }
    })
}

/// What an exit code means. Launchers give that of the first process that failed, or 128 and its signal.
fn judge(code: i32, own_error: bool) -> End {
    match code {
        // Done, wrong arguments, done but for a file.
        0 | 2 | 3 => End::Final(code),
        // Somebody has stopped the run.
        130 | 138 | 140 | 143 => End::Final(code),
        1 if own_error => End::Final(code),
        _ => End::Lost(code),
    }
}

/// Tells one file from that which replaces it: when it was written, its length and its place on the disk.
fn stamp(file: &Path) -> Option<(SystemTime, u64, u64)> {
    let facts = std::fs::metadata(file).ok()?;
    #[cfg(unix)]
    let place = std::os::unix::fs::MetadataExt::ino(&facts);
    #[cfg(not(unix))]
    let place = 0;
    Some((facts.modified().ok()?, facts.len(), place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_judged() {
        for code in [0, 2, 3, 130, 138, 140, 143] {
            assert_eq!(judge(code, false), End::Final(code));
        }
        assert_eq!(judge(1, true), End::Final(1));
        for code in [1, 4, 9, 134, 137, 139, 255] {
            assert_eq!(judge(code, false), End::Lost(code), "{code}");
        }
        assert_eq!(judge(4, true), End::Lost(4));
    }

    #[test]
    fn errors_are_told_apart_by_who_made_them() {
        let heard = Heard::default();
        heard.hear("warning: error on no one");
        assert!(!heard.any_error());
        heard.hear("error on node 1: the cluster is broken: node 0 (a): no answer for 2.0 s");
        assert!(heard.any_error() && !heard.own_error());
        heard.hear("error on node 0: there is no such model");
        assert!(heard.own_error());
    }
}
