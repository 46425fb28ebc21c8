//! `dahl cluster`, and what commands that run on several nodes share.

mod check;
mod run;

use dahl::runtime::network::{Member, launched};

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

/// Whether this process writes the files that all nodes have in common.
pub fn is_first() -> bool {
    launched().is_none_or(|here| here.rank == 0)
}
