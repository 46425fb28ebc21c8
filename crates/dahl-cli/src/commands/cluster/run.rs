//! `dahl cluster run`: training that outlives the loss of nodes.

use std::time::Duration;

use clap::{CommandFactory, FromArgMatches};
use dahl::nn::checkpoint::FILE;
use dahl::tune::{Mpirun, Supervised, Supervision};

use super::super::Exit;
use super::super::train;
use super::HostArgs;
use crate::{interrupt, print};

/// Arguments of `dahl cluster run`.
#[derive(clap::Args)]
#[command(
    after_help = "Ctrl-C stops all nodes after the step in flight, with a checkpoint; a second one ends them at once.\n\n\
Exit codes: those of `dahl train`; 4 if it was given up."
)]
pub struct Args {
    #[command(flatten)]
    hosts: HostArgs,
    /// Give up after so many restarts without a new checkpoint in between
    #[arg(long, value_name = "N", default_value_t = 5)]
    restarts: u32,
    /// The command: train MODEL --checkpoint DIR …
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// `dahl train` as the words after `--`.
#[derive(clap::Parser)]
#[command(name = "dahl train", no_binary_name = true)]
struct Train {
    #[command(flatten)]
    args: train::Args,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (first, words) = args
        .command
        .split_first()
        .map_or(("", &[][..]), |(f, w)| (f, w));
    if first != "train" {
        anyhow::bail!(
            "{first:?}: only `train` can be supervised, as in -- train MODEL --checkpoint DIR"
        );
    }
    let parser = crate::with_negative_numbers(Train::command());
    let matches = parser
        .try_get_matches_from(words)
        .unwrap_or_else(|e| e.exit());
    let train = Train::from_arg_matches(&matches)
        .unwrap_or_else(|e| e.exit())
        .args;
    let Some(folder) = train.checkpoints() else {
        anyhow::bail!(
            "without checkpoints a lost node costs the whole run: add --checkpoint DIR, on a disk that all hosts share, and \
             --checkpoint-every N to lose less than an epoch"
        );
    };
    if train.is_tuned() {
        anyhow::bail!(
            "--grain tuned may find another grain at every start, and no checkpoint would fit: name the one that \
             `dahl train --grain tuned` printed"
        );
    }
    let hosts = args.hosts.hosts()?;
    let Some(hosts) = hosts else {
        anyhow::bail!("which computers? name them: --hosts a,b,c");
    };
    let go_on = train::going_on(&args.command, &folder.display().to_string(), None);
    let supervised = Supervised {
        hosts,
        mpirun: Mpirun::find(args.hosts.mpirun())?,
        program: std::env::current_exe()?,
        begin: args.command.clone(),
        go_on,
        checkpoint: folder.join(FILE),
        resumes: train.resumes(),
        restarts: args.restarts,
        patience: Duration::from_secs_f64(train.node_timeout()),
        stop: interrupt::stop_each_time(),
    };
    let code = supervised.run(&mut tell)?;
    match (code, interrupt::exit_code()) {
        (0, _) => Ok(()),
        (_, Some(stopped)) => Err(Exit(stopped).into()),
        (code, None) => Err(Exit(u8::try_from(code).unwrap_or(1)).into()),
    }
}

fn tell(event: Supervision<'_>) {
    match event {
        Supervision::Unreachable(host) => print::warning(&host.to_string()),
        Supervision::Start {
            hosts,
            from_checkpoint,
        } => eprintln!(
            "cluster: {} on {}",
            match from_checkpoint {
                true => "going on from the last checkpoint",
                false => "starting",
            },
            hosts.join(", ")
        ),
        Supervision::Lost {
            code,
            restart,
            pause,
        } => eprintln!(
            "cluster: the nodes ended before the work was done (exit code {code}); restart {restart} in {:.0} s",
            pause.as_secs_f64()
        ),
        Supervision::Stopping => eprintln!(
            "cluster: stopping all nodes after the step in flight; once more ends them at once"
        ),
    }
}
