//! `dahl cluster`, and what commands that run on several nodes share.

mod check;
mod run;

use std::time::Instant;

use dahl::core::{Joules, Seconds};
use dahl::energy::Energy;
use dahl::nn::Step;
use dahl::runtime::network::{Member, launched};
use dahl::tune::{self, Expectation, ResolvedRun};

use super::Exit;

/// The commands of `dahl cluster`.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Who answers, whether all are alike, what joins them and what would go wrong
    Check(Box<check::Args>),
    /// Train on several computers, and go on with those that are left when one is lost
    Run(run::Args),
}

/// Runs one.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Check(args) => check::run(args),
        Command::Run(args) => run::run(args),
    }
}

/// Which computers, and who starts processes there.
#[derive(clap::Args)]
struct HostArgs {
    /// The computers, as in a,b,c; a name that stands twice gets two processes
    #[arg(long, value_name = "HOSTS")]
    hosts: Option<String>,
    /// The launcher of MPI, with words of its own if need be, as in "mpirun --mca btl_tcp_if_include eth0"
    /// [default: the one that is installed]
    #[arg(long, value_name = "WORDS", requires = "hosts")]
    mpirun: Option<String>,
}

impl HostArgs {
    fn hosts(&self) -> anyhow::Result<Option<Vec<String>>> {
        let hosts = self.hosts.as_deref().map(dahl::tune::parse_hosts);
        hosts
            .transpose()
            .map_err(|e| anyhow::anyhow!("--hosts: {e}"))
    }

    fn mpirun(&self) -> Option<&str> {
        self.mpirun.as_deref()
    }
}

/// The words of this command without options that have a value, and without others.
fn words_without(with_value: &[&str], alone: &[&str]) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = std::env::args().skip(1);
    while let Some(word) = rest.next() {
        let name = word.split('=').next().unwrap_or_default();
        if with_value.contains(&name) {
            if !word.contains('=') {
                rest.next();
            }
        } else if !alone.contains(&name) {
            out.push(word);
        }
    }
    out
}

/// Says who works together.
pub fn announce(member: &Member) {
    if member.nodes() > 1 {
        println!(
            "{} nodes, one graph: {}",
            member.nodes(),
            member.names().join(", ")
        );
    }
}

/// The end of a command on this node: together with the others, or with a word to them why not.
pub fn leave(member: &mut Member, result: anyhow::Result<()>) -> anyhow::Result<()> {
    let failed = match &result {
        Ok(()) => false,
        // All nodes come to the same end, whatever its exit code.
        Err(error) => error.downcast_ref::<Exit>().is_none(),
    };
    if failed {
        if let Err(error) = &result {
            member.leave_because(dahl::core::text::chain(error.as_ref()));
        }
        return result;
    }
    member.finish().map_err(|e| anyhow::anyhow!("{e}"))?;
    result
}

/// What every node has used, with where the figure comes from, and the sum; nothing for a computer alone. All nodes must
/// ask.
pub fn energy(member: &mut Member, own: &Energy) -> anyhow::Result<Option<String>> {
    if member.nodes() == 1 {
        return Ok(None);
    }
    let joules = own.joules().map_or(f64::NAN, |j| j.0);
    let told = [&joules.to_le_bytes()[..], own.to_string().as_bytes()].concat();
    let all = member.gather(&told).map_err(|e| anyhow::anyhow!("{e}"))?;
    let mut total = 0.0;
    let mut lines = Vec::new();
    for (name, told) in member.names().iter().zip(&all) {
        let (joules, text) = told.split_at(8.min(told.len()));
        total += joules.try_into().map_or(f64::NAN, f64::from_le_bytes);
        lines.push(format!("{name}: {}", String::from_utf8_lossy(text)));
    }
    let together = match total.is_nan() {
        true => "not known of all nodes".to_string(),
        false => format!("{} together", Joules(total)),
    };
    Ok(Some(format!("{together}; {}", lines.join("; "))))
}

/// Whether this process writes the files that all nodes have in common.
pub fn is_first() -> bool {
    launched().is_none_or(|here| here.rank == 0)
}

/// Steps that are timed to correct what was expected: after so many, until so many.
const TIMED: (u32, u32) = (10, 40);

/// What steps are expected to take, and what the first ones take.
pub struct Expected {
    expected: Expectation,
    steps: u32,
    since: Instant,
}

impl Expected {
    /// Asks all nodes and prints the answer on the first; nothing for a computer alone. All nodes must ask.
    pub fn of(
        member: &mut Member,
        step: &Step,
        run: &ResolvedRun,
    ) -> anyhow::Result<Option<Expected>> {
        let expected = tune::expect(member, step, run)?;
        if let Some(expected) = &expected {
            println!("expected: {expected}");
        }
        Ok(expected.map(|expected| Expected {
            expected,
            steps: 0,
            since: Instant::now(),
        }))
    }

    /// A step was launched; the correction, once enough of them were.
    pub fn step(&mut self) -> Option<String> {
        self.steps += 1;
        if self.steps == TIMED.0 {
            self.since = Instant::now();
        }
        (self.steps == TIMED.1).then(|| {
            let steps = f64::from(TIMED.1 - TIMED.0);
            let seen = Seconds(self.since.elapsed().as_secs_f64() / steps);
            format!("seen: {}", self.expected.corrected(seen))
        })
    }
}
