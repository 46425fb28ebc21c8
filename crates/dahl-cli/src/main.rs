//! The binary `dahl`: one file per command, one printer.

#[macro_use]
mod print;
mod commands;
mod interrupt;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// What the environment decides.
const ENVIRONMENT: &str = "\
Environment:
  DAHL_HOME  folder for what is measured here: calibration profiles, durations of tasks, compiled GPU kernels
             [default: ~/.local/share/dahl]
  DAHL_DATA  folders, separated by colons, in which data sets are looked for
  DAHL_MPI   the file of the MPI library, where mpirun or srun has started several nodes [default: the launcher's]
  DAHL_SIMD  instruction level of CPU kernels: avx512, avx2, or portable, which gives the same bits on every processor
             [default: the best that this machine has]";

/// Train neural networks on the machines you have, with the least electricity.
#[derive(Parser)]
#[command(name = "dahl", version, max_term_width = 100, after_help = ENVIRONMENT)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a model
    Train(Box<commands::train::Args>),
    /// Loss and accuracy of trained weights
    Eval(commands::eval::Args),
    /// Class scores of images, by trained weights
    Predict(Box<commands::predict::Args>),
    /// Look at a data set: its size, its classes, a picture of a batch
    #[command(subcommand)]
    Data(commands::data::Command),
    /// The shipped models: parameters, work, bytes
    Models(commands::models::Args),
    /// Whether a training step fits into memory, before anything runs
    Memory(Box<commands::memory::Args>),
    /// How far two sets of weights are apart
    Diff(commands::diff::Args),
    /// The table of operations, and which implementation would be chosen for a shape
    Ops(commands::ops::Args),
    /// What this machine has: units, memories, caches, and what can be measured on it
    Machine(commands::machine::Args),
    /// Joules of any program, and what can be measured here
    Energy(commands::energy::Args),
    /// How long each codelet takes: measured, fitted, against what this machine can do
    Perf(commands::perf::Args),
    /// Measure this machine and the codelets of models, for `--grain tuned`, simulations and plans
    Calibrate(commands::calibrate::Args),
    /// Check every implementation of every codelet on the units of this machine, and report
    Check(commands::check::Args),
    /// Measure DAHL itself
    #[command(subcommand)]
    Bench(commands::bench::Command),
    /// Measure what a paper needs: blocks, intervals, figures, one page
    #[command(subcommand)]
    Experiment(commands::experiment::Command),
    /// Look at what `--trace` recorded
    #[command(subcommand)]
    Trace(commands::trace::Command),
    /// Predict time, energy and memory of training on a machine that need not be here
    Simulate(commands::simulate::Args),
    /// Decide beforehand what runs where
    Plan(commands::plan::Args),
    /// Several computers: what they are made of, and training that outlives the loss of one
    #[command(subcommand)]
    Cluster(commands::cluster::Command),
    /// Draw the graph of a recorded program as DOT, or print it as JSON
    Graph(commands::graph::Args),
    /// Write manual pages, one for each command, from the texts of --help
    Man {
        /// The folder, which is made if need be; `MANPATH` or /usr/local/share/man/man1 is where `man` looks
        folder: std::path::PathBuf,
    },
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// Why a command cannot run on several nodes that a launcher has started; none if it can, or is alone.
    fn refuses_cluster(&self) -> Option<String> {
        match self {
            Command::Train(_) | Command::Eval(_) | Command::Predict(_) => None,
            Command::Cluster(commands::cluster::Command::Check(_)) => None,
            Command::Machine(args) if args.is_of_cluster() => None,
            _ => dahl::tune::refuse_cluster("this command"),
        }
    }
}

fn main() -> std::process::ExitCode {
    // A closed pipe (`dahl … | head`) ends us quietly, as it ends every other Unix tool.
    print::die_with_the_pipe();
    let matches = with_negative_numbers(Cli::command()).get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    if let Some(refusal) = cli.command.refuses_cluster() {
        eprintln!("error: {refusal}");
        return std::process::ExitCode::from(2);
    }
    let result = match dahl::ops::simd::check() {
        Ok(_) => run(cli.command),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            let lost = dahl::node_lost(error.as_ref());
            let code = if lost { dahl::tune::NODE_LOST } else { 1 };
            let code = interrupt::exit_code().unwrap_or(code);
            std::process::ExitCode::from(match error.downcast_ref::<commands::Exit>() {
                Some(exit) => exit.0,
                None => {
                    let here = dahl::runtime::network::launched();
                    let here = here.map_or(String::new(), |l| format!(" on node {}", l.rank));
                    eprintln!("error{here}: {}", dahl::core::text::chain(error.as_ref()));
                    code
                }
            })
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Train(args) => commands::train::run(&args),
        Command::Eval(args) => commands::eval::run(&args),
        Command::Predict(args) => commands::predict::run(&args),
        Command::Data(command) => commands::data::run(&command),
        Command::Models(args) => commands::models::run(&args),
        Command::Memory(args) => commands::memory::run(&args),
        Command::Diff(args) => commands::diff::run(&args),
        Command::Ops(args) => commands::ops::run(&args),
        Command::Machine(args) => commands::machine::run(&args),
        Command::Energy(args) => commands::energy::run(&args),
        Command::Perf(args) => commands::perf::run(&args),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Bench(command) => commands::bench::run(&command),
        Command::Experiment(command) => commands::experiment::run(&command),
        Command::Trace(command) => commands::trace::run(&command),
        Command::Simulate(args) => commands::simulate::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Cluster(command) => commands::cluster::run(&command),
        Command::Graph(args) => commands::graph::run(&args),
        Command::Man { folder } => std::fs::create_dir_all(&folder)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), &folder))
            .with_context(|| format!("cannot write manual pages to {}", folder.display())),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "dahl", &mut std::io::stdout());
            Ok(())
        }
    }
}

/// Lets every option have a negative number, so that the code that knows its range can refuse it.
pub(crate) fn with_negative_numbers(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| match arg.get_action().takes_values() {
            true => arg.allow_negative_numbers(true),
            false => arg,
        })
        .mut_subcommands(with_negative_numbers)
}
