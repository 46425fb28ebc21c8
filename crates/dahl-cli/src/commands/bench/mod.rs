//! `dahl bench`: measures DAHL itself.

mod loading;
mod peer;
mod simulator;
mod step;
mod tasks;
mod trace;

/// What to measure.
#[derive(clap::Subcommand)]
pub enum Command {
    /// The cost of an empty task: recording, first execution, replay
    Tasks(tasks::Args),
    /// Images per second of training steps, and the memory they take
    Step(Box<step::Args>),
    /// Images per second from files to batches, without any training
    Loading(Box<loading::Args>),
    /// What the simulator predicts beside what is measured, alternating
    Simulator(simulator::Args),
    /// What recording a trace costs, alternating steps with and without
    Trace(trace::Args),
    /// Training steps as `dahl experiment` asks for them, in JSON lines on the standard streams
    Peer,
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Tasks(args) => tasks::run(args),
        Command::Step(args) => step::run(args),
        Command::Loading(args) => loading::run(args),
        Command::Simulator(args) => simulator::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Peer => peer::run(),
    }
}
