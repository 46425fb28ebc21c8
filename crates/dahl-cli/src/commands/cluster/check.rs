//! `dahl cluster check`: who is there, what joins them, and what would go wrong.

use std::path::PathBuf;
use std::time::Duration;

use dahl::core::Seconds;
use dahl::data::Split;
use dahl::runtime::network::launched;
use dahl::tune::{
    ClusterReport, Mpirun, NodeFacts, ThisMachine, check_alone, check_cluster, check_hosts,
};

use super::super::Exit;
use super::super::data_args::DataOptions;
use super::super::run_args::seconds;
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
    let (report, fine) = match (launched(), args.hosts.hosts()?) {
        (Some(launched), None) => check_cluster(&launched, &args.here()?, args.seconds, patience)?,
        (None, None) if args.as_node => (Some(check_alone(args.here()?)), true),
        (None, Some(hosts)) => {
            let mpirun = Mpirun::find(args.hosts.mpirun())?;
            let program = std::env::current_exe()?;
            let mut words = super::words_without(&["--hosts", "--mpirun"], &["--json"]);
            words.extend(["--json".into(), "--as-node".into()]);
            let found = check_hosts(&mpirun, &hosts, &program, &words, args.seconds, patience)?;
            let fine = found.is_fine();
            (Some(found), fine)
        }
        (Some(_), Some(_)) => anyhow::bail!(
            "--hosts starts the nodes itself: leave out mpirun or srun, or leave out --hosts"
        ),
        (None, None) => anyhow::bail!(
            "which computers? `dahl cluster check --hosts a,b,c`, or `mpirun -n N dahl cluster check`"
        ),
    };
    if let Some(report) = &report {
        match args.json {
            true => print::json(report)?,
            false => show(report),
        }
    }
    match fine && report.as_ref().is_none_or(ClusterReport::is_fine) {
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

fn show(report: &ClusterReport) {
    let mut nodes = print::table(&[
        "node",
        "name",
        "cores",
        "processor",
        "build",
        "kernels",
        "joules",
        "clock",
    ]);
    for (i, node) in report.nodes.iter().enumerate() {
        let clock = match report.clock(i) {
            Some((ahead, error)) => format!("{:+.6} s ± {}", ahead, Seconds(error)),
            None => String::new(),
        };
        nodes.add_row([
            i.to_string(),
            node.name.clone(),
            node.cores.to_string(),
            node.processor.clone(),
            format!("{} {}", node.version, node.build),
            node.kernels.level.to_string(),
            node.joules.clone(),
            clock,
        ]);
    }
    println!("{nodes}\n");
    if let Some(Ok(data)) = report.nodes.first().and_then(|n| n.data.as_ref()) {
        println!("data: {data}\n");
    }
    if !report.links.is_empty() {
        let mut links = print::table(&["link", "latency", "MB/s there", "MB/s back"]);
        for link in &report.links {
            let name = |node: u16| &report.nodes[usize::from(node)].name;
            links.add_row([
                format!(
                    "{} {} – {} {}",
                    link.from,
                    name(link.from),
                    link.to,
                    name(link.to)
                ),
                Seconds(link.latency).to_string(),
                format!("{:.1}", link.bandwidth / 1e6),
                format!("{:.1}", link.bandwidth_back / 1e6),
            ]);
        }
        print::align_right(&mut links, 1..=3);
        println!("{links}\n");
    }
    report
        .notes
        .iter()
        .for_each(|note| println!("note: {note}"));
    report
        .unreachable
        .iter()
        .for_each(|u| println!("problem: {u}"));
    report
        .problems
        .iter()
        .for_each(|p| println!("problem: {p}"));
    if report.is_fine() {
        println!("nothing stands in the way of a run on these nodes");
    }
}
