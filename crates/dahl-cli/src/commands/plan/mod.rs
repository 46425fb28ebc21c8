//! `dahl plan`: decides beforehand what runs where.

mod explain;
mod model;
mod pipeline;
mod placement;

/// Arguments of `dahl plan`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    model: model::ModelArgs,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Say in words what a plan does, why, and what limits it
    Explain(explain::Args),
    /// Cut a network into the stages of a pipeline, with replicas, so that a batch takes the least time
    Pipeline(Box<pipeline::Args>),
    /// Place the nodes of a graph on accelerators and CPUs so that the busiest has the least to do
    Placement(placement::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Placement(args)) => placement::run(args),
        Some(Command::Explain(args)) => explain::run(args),
        Some(Command::Pipeline(args)) => pipeline::run(args),
        None => model::run(&args.model),
    }
}
