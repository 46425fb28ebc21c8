//! `dahl bench`: measures DAHL itself.

mod step;
mod tasks;

/// What to measure.
#[derive(clap::Subcommand)]
pub enum Command {
    /// The cost of an empty task: recording, first execution, replay
    Tasks(tasks::Args),
    /// Images per second of training steps, and the memory they take
    Step(step::Args),
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Tasks(args) => tasks::run(args),
        Command::Step(args) => step::run(args),
    }
}
