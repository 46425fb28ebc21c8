//! `dahl plan`: decides beforehand what runs where.

mod cluster;
mod explain;
mod frontier;
mod model;
mod pipeline;
mod placement;
mod schedule;

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
    /// Time against energy of a pipeline: the frequencies with the least joules for every iteration time
    Frontier(frontier::Args),
    /// Cut a network into the stages of a pipeline, with replicas, so that a batch takes the least time
    Pipeline(Box<pipeline::Args>),
    /// Place the nodes of a graph on accelerators and CPUs so that the busiest has the least to do
    Placement(placement::Args),
    /// Order the operations of a pipeline's micro-batches: 1F1B, interleaved, Zero Bubble or the best found
    Schedule(schedule::Args),
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Some(Command::Placement(args)) => placement::run(args),
        Some(Command::Explain(args)) => explain::run(args),
        Some(Command::Frontier(args)) => frontier::run(args),
        Some(Command::Schedule(args)) => schedule::run(args),
        Some(Command::Pipeline(args)) => pipeline::run(args),
        None => model::run(&args.model),
    }
}
