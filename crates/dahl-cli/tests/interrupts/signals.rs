//! Commands that are sent signals at random moments.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What is said where there is nothing to keep yet.
pub const NOTHING_YET: &str = "stopped before anything was done that could be kept\n";

/// Where a command was: its status and both outputs.
pub struct Ended {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Ended {
    /// Whether a signal ended the work early: by its exit code, or before the program could catch it.
    pub fn stopped_by(&self, signal: i32) -> Option<Stopped> {
        let (code, by) = (self.status.code(), self.status.signal());
        match (code, by) {
            (Some(0), _) => None,
            (Some(c), _) if c == 128 + signal => match self.err.as_str() {
                NOTHING_YET => Some(Stopped::BeforeAnything),
                _ => Some(Stopped::Cleanly),
            },
            (None, Some(s)) if s == signal => Some(Stopped::BeforeAnything),
            _ => panic!("{:?}: {}{}", self.status, self.out, self.err),
        }
    }
}

#[derive(PartialEq, Debug)]
pub enum Stopped {
    Cleanly,
    BeforeAnything,
}

pub fn dahl(home: &Path, args: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dahl"));
    command.args(args);
    at_home(&mut command, home);
    command
}

pub fn at_home(command: &mut Command, home: &Path) {
    command.env("DAHL_HOME", home).stdin(Stdio::null());
}

/// Runs a command and sends signals after some time each.
pub fn run(mut command: Command, signals: &[(Duration, i32)]) -> Ended {
    let begin = Instant::now();
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().expect("dahl can be started");
    let id = child.id() as i32;
    let waiting = std::thread::spawn(move || child.wait_with_output());
    for &(after, signal) in signals {
        let until = begin + after;
        while Instant::now() < until && !waiting.is_finished() {
            std::thread::sleep(Duration::from_micros(500));
        }
        if !waiting.is_finished() {
            // SAFETY: a signal to a child of ours; if it has just ended, the call fails or meets nobody.
            unsafe { libc::kill(id, signal) };
        }
    }
    let output = waiting.join().expect("a thread").expect("a child");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ended {
        status: output.status,
        out: text(output.stdout),
        err: text(output.stderr),
        took: begin.elapsed(),
    }
}

pub fn strings(args: &[&str]) -> Vec<String> {
    args.iter().map(|s| s.to_string()).collect()
}

/// Numbers that are the same in every run of the test.
pub struct Random(pub u64);

impl Random {
    pub fn part(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn signal(&mut self) -> i32 {
        if self.part() < 0.5 {
            libc::SIGINT
        } else {
            libc::SIGTERM
        }
    }
}

/// How many signals should meet a command at work: a part of all.
pub fn moments(part: usize) -> usize {
    let set = std::env::var("DAHL_TEST_INTERRUPTS").ok();
    let all: usize = set.and_then(|n| n.parse().ok()).unwrap_or(12);
    all.div_ceil(part)
}

/// Runs of a command until enough signals have met it. Where a command is quicker than it was the first time, some come
/// too late; that makes more runs, up to a limit.
pub struct Runs {
    wanted: usize,
    pub left: usize,
    random: Random,
    /// The shortest whole run so far.
    pub took: Duration,
    /// Completed, stopped before anything, stopped with what was there.
    seen: [usize; 3],
}

impl Runs {
    pub fn new(part: usize, seed: u64, took: Duration) -> Runs {
        let wanted = moments(part);
        Runs {
            wanted,
            left: 10 * wanted,
            random: Random(seed),
            took,
            seen: [0; 3],
        }
    }

    /// Whether there is another run.
    pub fn goes_on(&mut self) -> bool {
        self.left -= 1;
        self.left > 0 && self.seen[1] + self.seen[2] < self.wanted
    }

    /// When to send what.
    pub fn moment(&mut self) -> (Duration, i32) {
        let after = self.took.mul_f64(1.1 * self.random.part());
        (after, self.random.signal())
    }

    /// Counts how a run ended that a signal was sent to.
    pub fn ended(&mut self, ended: &Ended, signal: i32) -> Option<Stopped> {
        let how = ended.stopped_by(signal);
        self.seen[match how {
            None => 0,
            Some(Stopped::BeforeAnything) => 1,
            Some(Stopped::Cleanly) => 2,
        }] += 1;
        how
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let [done, before, cleanly] = self.seen;
        println!("{cleanly} stopped, {before} before anything, {done} completed");
    }
}
