//! What a cluster is made of, before anything is trained: the nodes, what joins them, and what would go wrong.
//!
//! Every node says who it is; the first compares. Differences that a run would refuse are problems, each with its remedy;
//! what only costs speed or bits is a note. Nothing is decided for the user, and nothing is written.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use dahl_core::Seconds;
use dahl_core::hash::Checksum;
use dahl_core::report::{Report, Table};
use dahl_energy::Options;
use dahl_ops::KernelIdentity;
use dahl_runtime::network::{Launched, MeasuredLink, Talk};
use serde::{Deserialize, Serialize};

use super::child;
use super::mpirun::Mpirun;
use super::reach::{Unreachable, answering, unreachable};
use crate::error::TuneError;
use crate::this_machine::ThisMachine;

/// A clock that is further ahead or behind makes merged traces hard to read: seconds.
const CLOCK: f64 = 0.01;

/// Long enough for every energy counter to move, on an idle machine, too.
const COUNTERS: Duration = Duration::from_millis(400);

/// How long a host may take to start a process, besides being silent.
pub(super) const ASKING: Duration = Duration::from_secs(5);

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeFacts {
    /// What it is called.
    pub name: String,
    /// The processor's name.
    pub processor: String,
    /// `x86_64`, `aarch64`…
    pub architecture: String,
    /// Cores that `dahl` may use there.
    pub cores: usize,
    /// Cores that the computer has switched on.
    pub cores_online: usize,
    /// Version of DAHL.
    pub version: String,
    /// A checksum of the program.
    pub build: String,
    /// What its kernels compute with.
    pub kernels: KernelIdentity,
    /// Which data it has, or why it has not; none if nobody asked.
    pub data: Option<Result<String, String>>,
    /// Where joules of a run come from there.
    pub joules: String,
    /// Whether all of them are measured.
    pub joules_measured: bool,
}

/// A cluster, as it was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterReport {
    /// The nodes that answered, by number.
    pub nodes: Vec<NodeFacts>,
    /// What joins them, by pairs.
    pub links: Vec<MeasuredLink>,
    /// Hosts that did not answer.
    pub unreachable: Vec<Unreachable>,
    /// What a run would refuse, with the remedy.
    pub problems: Vec<String>,
    /// What costs speed, or is good to know.
    pub notes: Vec<String>,
}

impl ClusterReport {
    /// All of it for people.
    pub fn report(&self) -> Report {
        let mut out = Report::default();
        let mut nodes = Table::new("node|name|cores|processor|build|kernels|joules|clock");
        for (i, node) in self.nodes.iter().enumerate() {
            let clock = match self.clock(i) {
                Some((ahead, error)) => format!("{:+.6} s ± {}", ahead, Seconds(error)),
                None => String::new(),
            };
            nodes.row([
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
        if !self.nodes.is_empty() {
            out.paragraph(nodes);
        }
        if let Some(Ok(data)) = self.nodes.first().and_then(|n| n.data.as_ref()) {
            out.line(format!("data: {data}\n"));
        }
        if !self.links.is_empty() {
            let mut links = Table::new("link|>latency|>MB/s there|>MB/s back");
            for link in &self.links {
                let name = |node: u16| &self.nodes[usize::from(node)].name;
                links.row([
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
            out.paragraph(links);
        }
        self.notes
            .iter()
            .for_each(|note| out.line(format!("note: {note}")));
        self.unreachable
            .iter()
            .for_each(|u| out.line(format!("problem: {u}")));
        self.problems
            .iter()
            .for_each(|p| out.line(format!("problem: {p}")));
        if self.is_fine() {
            out.line("nothing stands in the way of a run on these nodes");
        }
        out
    }

    /// Whether nothing stands in the way of a run on all nodes.
    pub fn is_fine(&self) -> bool {
        self.unreachable.is_empty() && self.problems.is_empty()
    }

    /// Seconds that the clock of a node is ahead of the first one's, and the most that this may be off.
    pub fn clock(&self, node: usize) -> Option<(f64, f64)> {
        let to_it = |l: &&MeasuredLink| l.from == 0 && usize::from(l.to) == node;
        let link = self.links.iter().find(to_it)?;
        Some((link.clock_ahead, link.clock_error))
    }
}

impl NodeFacts {
    /// Of this computer; `data` is what it has of the data that was asked for.
    pub fn here(this: &ThisMachine, data: Option<Result<String, String>>) -> NodeFacts {
        let sampler = Options::default().start();
        std::thread::sleep(COUNTERS);
        let energy = sampler.finish().energy;
        let host = this.host();
        let program = std::env::current_exe().and_then(std::fs::read);
        NodeFacts {
            name: dahl_runtime::discover::host_name(),
            processor: this.name().into(),
            architecture: host.architecture.into(),
            cores: this.cores(),
            cores_online: dahl_runtime::discover::cores_online().max(this.cores()),
            version: env!("CARGO_PKG_VERSION").into(),
            build: program.map_or("unknown".into(), |bytes| {
                format!("{:016x}", Checksum::of(&bytes))
            }),
            kernels: KernelIdentity::here(),
            data,
            joules: energy.source(),
            joules_measured: energy.is_measured(),
        }
    }
}

/// Looks at the cluster that a launcher has started, in about so many seconds. The first node gets the report, the
/// others none.
pub fn check_cluster(
    launched: &Launched,
    own: &NodeFacts,
    seconds: f64,
    patience: Duration,
) -> Result<Option<ClusterReport>, TuneError> {
    let mut transport = super::connect(launched, patience)?;
    let mut talk = Talk::new(&mut *transport, patience);
    let lost = |e: dahl_runtime::network::NodeLost| TuneError::Cluster(e.to_string());
    let text = serde_json::to_vec(own).map_err(|e| TuneError::Cluster(e.to_string()))?;
    let told = talk.gather(&text).map_err(lost)?;
    let links = talk.measure_links(seconds).map_err(lost)?;
    let read = |text: &Vec<u8>| serde_json::from_slice::<NodeFacts>(text);
    let nodes: Result<Vec<NodeFacts>, _> = told.iter().map(read).collect();
    let nodes = nodes.map_err(|e| TuneError::Cluster(format!("another build of DAHL: {e}")))?;
    let report = (talk.node() == 0).then(|| report(nodes, links));
    talk.finish().map_err(lost)?;
    Ok(report)
}

/// Looks at hosts from outside: asks which answer, and starts `args` of the program on those, which prints the report as
/// JSON.
pub fn check_hosts(
    mpirun: &Mpirun,
    hosts: &[String],
    program: &Path,
    args: &[String],
    seconds: f64,
    patience: Duration,
) -> Result<ClusterReport, TuneError> {
    let asking = patience + ASKING;
    let missing = unreachable(mpirun, hosts, program, asking);
    let rest = answering(hosts, &missing);
    let mut report = ClusterReport::default();
    if !rest.is_empty() {
        let mut command = mpirun.command(&rest, program, args);
        let at_most = Duration::from_secs_f64(seconds) + 3 * asking;
        let output = child::run(&mut command, at_most)
            .map_err(|e| TuneError::Cluster(format!("{} cannot be started: {e}", mpirun.name())))?;
        let read = |line: &str| serde_json::from_str::<ClusterReport>(line).ok();
        match output.out.lines().find_map(read) {
            Some(found) => report = found,
            None => {
                let said = output.err.trim();
                report.problems.push(format!(
                    "each of {} answers, but they do not come together{}:\n{said}",
                    rest.join(", "),
                    match output.code {
                        Some(code) => format!(" (exit code {code})"),
                        None => format!(" within {:.0} s", at_most.as_secs_f64()),
                    }
                ));
            }
        }
    }
    report.unreachable = missing;
    Ok(report)
}

/// Of this computer alone.
pub fn check_alone(own: NodeFacts) -> ClusterReport {
    report(vec![own], Vec::new())
}

/// Compares what nodes have said.
fn report(nodes: Vec<NodeFacts>, links: Vec<MeasuredLink>) -> ClusterReport {
    let mut report = ClusterReport {
        nodes,
        links,
        ..ClusterReport::default()
    };
    let (mut problems, mut notes) = (Vec::new(), Vec::new());
    let nodes = &report.nodes;
    let name = |i: usize| format!("node {i} ({})", nodes[i].name);
    for (i, node) in nodes.iter().enumerate() {
        let first = &nodes[0];
        let alike = node.architecture == first.architecture;
        if node.version != first.version || (alike && node.build != first.build) {
            problems.push(format!(
                "{} has another build than {} ({} {}, {} {}): install one build on all",
                name(i),
                name(0),
                node.version,
                node.build,
                first.version,
                first.build
            ));
        }
        let mut same_level = node.kernels.clone();
        same_level.level = first.kernels.level;
        let differences = first.kernels.differences(&same_level);
        if !differences.is_empty() {
            problems.push(format!(
                "{} rounds otherwise than {} ({}; here is {}): build the same DAHL on all",
                name(i),
                name(0),
                differences.join(", "),
                name(0)
            ));
        }
        match (&first.data, &node.data) {
            (_, Some(Err(why))) => problems.push(format!("{} lacks the data: {why}", name(i))),
            (Some(Ok(ours)), Some(Ok(theirs))) if ours != theirs => problems.push(format!(
                "{} has other data than {}: {theirs}; {ours}: copy one to all",
                name(i),
                name(0)
            )),
            _ => {}
        }
        if node.cores < node.cores_online {
            notes.push(format!(
                "{} may use {} of {} cores: with Open MPI, `mpirun --bind-to none` lets it use all",
                name(i),
                node.cores,
                node.cores_online
            ));
        }
        if let Some((ahead, error)) = report.clock(i)
            && ahead.abs() > CLOCK + error
        {
            notes.push(format!(
                "the clock of {} is {:+.3} s off that of {}: let both follow a time server (NTP)",
                name(i),
                ahead,
                name(0)
            ));
        }
    }
    let levels: BTreeSet<&str> = nodes.iter().map(|n| n.kernels.level.name()).collect();
    if let (true, Some(lowest)) = (
        levels.len() > 1,
        KernelIdentity::lowest(nodes.iter().map(|n| &n.kernels)),
    ) {
        notes.push(format!(
            "processors differ: all nodes will compute at the level {}; --bits fast lets each use its best",
            lowest.name()
        ));
    }
    (report.problems, report.notes) = (problems, notes);
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeFacts {
        NodeFacts {
            name: name.into(),
            processor: "p".into(),
            architecture: "x86_64".into(),
            cores: 4,
            cores_online: 4,
            version: "1".into(),
            build: "b".into(),
            kernels: KernelIdentity::here(),
            data: Some(Ok("set (1)".into())),
            joules: "modelled".into(),
            joules_measured: false,
        }
    }

    fn link(clock_ahead: f64) -> MeasuredLink {
        MeasuredLink {
            from: 0,
            to: 1,
            latency: 1e-5,
            bandwidth: 1e8,
            bandwidth_back: 1e8,
            clock_ahead,
            clock_error: 1e-5,
        }
    }

    #[test]
    fn equal_nodes_are_fine() {
        let report = report(vec![node("a"), node("b")], vec![link(0.001)]);
        assert!(report.is_fine() && report.notes.is_empty(), "{report:?}");
        let text = serde_json::to_string(&report).unwrap();
        assert_eq!(
            serde_json::from_str::<ClusterReport>(&text).unwrap(),
            report
        );
    }

    #[test]
    fn differences_are_problems_that_name_the_node() {
        type Change = fn(&mut NodeFacts);
        let changes: [(Change, &str); 5] = [
            (|n| n.version = "2".into(), "another build"),
            (|n| n.build = "c".into(), "another build"),
            (|n| n.kernels.slice = 7, "rounds otherwise"),
            (|n| n.data = Some(Ok("set (2)".into())), "other data"),
            (|n| n.data = Some(Err("no folder".into())), "lacks the data"),
        ];
        for (change, says) in changes {
            let mut other = node("b");
            change(&mut other);
            let report = report(vec![node("a"), other], vec![link(0.0)]);
            assert!(!report.is_fine(), "{says}");
            let text = report.problems.join("\n");
            assert!(text.contains(says) && text.contains("node 1 (b)"), "{text}");
        }
    }

    #[test]
    fn other_things_are_notes() {
        let mut other = node("b");
        other.cores = 1;
        let report = report(vec![node("a"), other], vec![link(-2.0)]);
        assert!(report.is_fine());
        let text = report.notes.join("\n");
        assert!(
            text.contains("1 of 4 cores") && text.contains("-2.000 s"),
            "{text}"
        );
    }
}
