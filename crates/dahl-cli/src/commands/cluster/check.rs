//! `dahl cluster check`: who is there, what joins them, and what would go wrong.

use std::path::PathBuf;
use std::time::Duration;

use dahl::data::Split;
use dahl::runtime::network::launched;
use dahl::tune::{
    ClusterReport, Mpirun, NodeFacts, ThisMachine, check_alone, check_cluster, check_hosts,
};

use super::super::Exit;
use super::super::data_args::DataOptions;
use super::super::seconds;
use super::super::step_args::model;
use super::HostArgs;
use crate::print;

/// Arguments of `dahl cluster check`.
#[derive(clap::Args)]
#[command(
    after_help = "Exit codes: 0 fine; 1 a host that does not answer, or a difference that a run would refuse."
)]
pub struct Args {
    /// The model that the data is for: a file, or the name of a shipped one [default: a small CNN for 28×28 images]
    model: Option<PathBuf>,
    #[command(flatten)]
    hosts: HostArgs,
    #[command(flatten)]
    data: DataOptions,
    /// How long to measure links, about
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    seconds: f64,
    /// Seconds that a node may be silent while others wait for it
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = seconds)]
    node_timeout: f64,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// This process was started by the command itself
    #[arg(long, hide = true)]
    as_node: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let patience = Duration::from_secs_f64(args.node_timeout);
    let report = match (launched(), args.hosts.hosts()?) {
        (Some(launched), None) => check_cluster(&launched, &args.here()?, args.seconds, patience)?,
        (None, None) if args.as_node => Some(check_alone(args.here()?)),
        (None, Some(hosts)) => {
            let mpirun = Mpirun::find(args.hosts.mpirun())?;
            let program = std::env::current_exe()?;
            let given: Vec<String> = std::env::args().skip(1).collect();
            let mut words =
                super::super::words_without(&given, &["--hosts", "--mpirun"], &["--json"]);
            words.extend(["--json".into(), "--as-node".into()]);
            let found = check_hosts(&mpirun, &hosts, &program, &words, args.seconds, patience)?;
            Some(found)
        }
        (Some(_), Some(_)) => anyhow::bail!(
            "--hosts starts the nodes itself: leave out mpirun or srun, or leave out --hosts"
        ),
        (None, None) => anyhow::bail!(
            "which computers? `dahl cluster check --hosts a,b,c`, or `mpirun -n N dahl cluster check`"
        ),
    };
    // The first node prints, and only it fails: launchers end the other processes when one fails, and those that have
    // nothing to print would end it before it has printed.
    if let Some(report) = &report {
        print::answer(args.json, report, || report.report())?;
    }
    match report.as_ref().is_none_or(ClusterReport::is_fine) {
        true => Ok(()),
        false => Err(Exit(1).into()),
    }
}

impl Args {
    /// This node, with what it has of the data.
    fn here(&self) -> anyhow::Result<NodeFacts> {
        let model = model(self.model.as_deref())?;
        let describe = |split| {
            let set = self.data.open(&model, split)?;
            let (name, count, content) = (set.name().to_string(), set.len(), set.content());
            anyhow::Ok(format!("{name}: {count} images, content {content:016x}"))
        };
        let data = describe(Split::Train).and_then(|train| match self.data.val_limit {
            Some(0) => Ok(train),
            _ => Ok(format!(
                "{train}; {} to validate",
                describe(Split::Validation)?
            )),
        });
        let data = data.map_err(|e| dahl::core::text::chain(e.as_ref()));
        Ok(NodeFacts::here(&ThisMachine::look(), Some(data)))
    }
}
