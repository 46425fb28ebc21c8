//! `dahl plan`: decides beforehand what runs where.

mod placement;

/// Arguments of `dahl plan`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Place the nodes of a graph on accelerators and CPUs so that the busiest has the least to do
    Placement(placement::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::Placement(args) => placement::run(args),
    }
}
