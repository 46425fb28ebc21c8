//! This computer among others: joins the cluster that a launcher has started, or stays alone.
//!
//! `mpirun` and `srun` start the same command on every node, so nothing has to be said here but how work is shared and
//! when a silent node counts as lost. How messages travel is `dahl-mpi`'s business, who runs what the runtime's.

mod check;
mod child;
mod describe;
mod mpirun;
mod reach;
mod supervise;
#[cfg(feature = "mpi")]
mod watchdog;

use std::sync::Arc;
use std::time::Duration;

use dahl_core::{Executor, Graph, Joules};
use dahl_energy::Energy;
use dahl_ops::KernelIdentity;
use dahl_ops::simd::{self, Level};
use dahl_runtime::network::{Launched, Member, Talk, Transport, launched};
use dahl_runtime::{Builder, RunError};

use crate::error::TuneError;
use crate::run::ResolvedRun;
use crate::units::{Cpus, arithmetic};

pub use check::{ClusterReport, NodeFacts, check_alone, check_cluster, check_hosts};
pub use describe::describe_cluster;
pub(crate) use describe::one_machine;
pub use mpirun::{MpiKind, Mpirun, parse_hosts};
pub use reach::Unreachable;
pub use supervise::{NODE_LOST, Supervised, Supervision};

/// Seconds for measuring what joins the first node and another.
const LINK_SECONDS: f64 = 0.02;

/// Told the shares of all nodes when they change.
pub(crate) type OnShares = Arc<dyn Fn(&[f64]) + Send + Sync>;

/// Told which instruction level all nodes use, where it is not the best of each.
pub(crate) type OnLevel = Arc<dyn Fn(Level) + Send + Sync>;

/// What nodes with different processors do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bits {
    /// All use the best instruction level that every node has: the bits do not depend on who computes what.
    #[default]
    Strict,
    /// Each node uses its best: the bits follow the placement.
    Fast,
}

impl std::str::FromStr for Bits {
    type Err = String;

    fn from_str(text: &str) -> Result<Bits, String> {
        match text {
            "strict" => Ok(Bits::Strict),
            "fast" => Ok(Bits::Fast),
            _ => Err("use strict or fast".into()),
        }
    }
}

/// How nodes work together.
#[derive(Clone)]
pub struct ClusterConfig {
    /// Each node's part of a batch, in any unit; by measured speed unless set.
    pub shares: Option<Vec<f64>>,
    /// How long a node may be silent while it is waited for.
    pub patience: Duration,
    /// Whether bits or speed come first where processors differ.
    pub bits: Bits,
    /// Told when shares change.
    pub on_shares: Option<OnShares>,
    /// Told when a node's level is lowered to that of others.
    pub on_level: Option<OnLevel>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        ClusterConfig {
            shares: None,
            patience: Duration::from_secs(10),
            bits: Bits::Strict,
            on_shares: None,
            on_level: None,
        }
    }
}

impl ClusterConfig {
    /// Shares as text: `auto`, or a number per node, as in `3:1`.
    pub fn parse_shares(text: &str) -> Result<Option<Vec<f64>>, String> {
        if text == "auto" {
            return Ok(None);
        }
        let number = |part: &str| part.trim().parse::<f64>().ok();
        let shares: Option<Vec<f64>> = text.split(':').map(number).collect();
        let usable = |s: &f64| *s >= 0.0 && s.is_finite();
        shares
            .filter(|all| all.iter().all(usable) && all.iter().any(|s| *s > 0.0))
            .map(Some)
            .ok_or_else(|| {
                "use auto, or a number of at least 0 for each node and not 0 for all, as in 3:1"
                    .into()
            })
    }
}

/// What a command that is not meant for several nodes says when it is started on them; none if it is alone.
pub fn refuse_cluster(what: &str) -> Option<String> {
    let Launched { nodes, by, .. } = launched()?;
    Some(format!(
        "{by} started {nodes} processes, and {what} is for one: start it without mpirun or srun"
    ))
}

impl ResolvedRun {
    /// Builds the runtime, and joins the cluster that a launcher has started, if it has.
    pub fn join(&self, builder: Builder) -> Result<Member, TuneError> {
        let config = self.cluster();
        let Some(launched) = launched() else {
            return match &config.shares {
                Some(shares) if shares.len() > 1 => Err(TuneError::Option(format!(
                    "shares for {} nodes, but this is one: start one process per node with mpirun or srun",
                    shares.len()
                ))),
                _ => Ok(Member::alone(builder.build()?)),
            };
        };
        let mut transport = connect(&launched, config.patience)?;
        let mut talk = Talk::new(&mut *transport, config.patience);
        let links = talk.measure_first_links(LINK_SECONDS);
        let mut links = links.map_err(|lost| RunError::NodeLost(lost.to_string()))?;
        talk.end();
        // What else the computers did in these milliseconds is nothing to expect of the run.
        links.iter_mut().for_each(|l| l.latency = l.clock_error);
        let mut builder = builder.network(transport, config.patience);
        if self.cpus() == Cpus::All && launched.here > 1 {
            builder = builder.share_cores(usize::from(launched.here));
        }
        let notify = config.on_shares.clone();
        let notify = move |shares: &[f64]| {
            if let Some(notify) = &notify {
                notify(shares);
            }
        };
        let shares = config.shares.clone();
        let runtime = builder.build()?;
        let mut member = match self.pipeline() {
            None => Member::with_shares(runtime, shares, Box::new(notify))?,
            Some(staging) => {
                let staging = staging.clone();
                let shares = staging.shares(launched.nodes.into(), shares.as_deref())?;
                let stager = move |graph: &Graph| staging.stage(graph, &shares);
                Member::with_stages(runtime, Box::new(stager))?
            }
        };
        member.note_links(links);
        if config.bits == Bits::Strict {
            same_kernels(&mut member, config)?;
        }
        self.record_together(&mut member)?;
        Ok(member)
    }

    /// Makes sure that all nodes record, or none, and compares their clocks; that itself is no part of the record.
    fn record_together(&self, member: &mut Member) -> Result<(), TuneError> {
        let text = || match self.recorded() {
            None => "none".to_string(),
            Some(tasks) => format!("{tasks} tasks per unit"),
        };
        let compared = member.compare(&mut || vec![("the trace", text())]);
        compared.map_err(TuneError::Execution)?;
        member.compare_clocks().map_err(TuneError::Execution)?;
        member.runtime_mut().take_trace();
        Ok(())
    }
}

/// Lets all nodes compute alike: at the level of the least, before any kernel has run. What else differs is refused.
fn same_kernels(member: &mut Member, config: &ClusterConfig) -> Result<(), TuneError> {
    let own = KernelIdentity::here();
    let text = serde_json::to_vec(&own).map_err(|e| TuneError::Cluster(e.to_string()))?;
    let all = member.gather(&text).map_err(TuneError::Execution)?;
    let read = |bytes: &Vec<u8>| serde_json::from_slice::<KernelIdentity>(bytes);
    let all: Result<Vec<KernelIdentity>, _> = all.iter().map(read).collect();
    let mut all = all.map_err(|e| TuneError::Cluster(format!("another build of DAHL: {e}")))?;
    let lowest = KernelIdentity::lowest(&all).unwrap_or(own.level);
    let best = all.iter().map(|i| i.level).max();
    all.iter_mut().for_each(|i| i.level = lowest);
    for (node, other) in all.iter().enumerate() {
        let differences = all[0].differences(other);
        if !differences.is_empty() {
            return Err(TuneError::Cluster(format!(
                "node 0 and node {node} round otherwise ({}; here is node 0): build the same DAHL on all, or let bits \
                 follow the placement with --bits fast",
                differences.join(", ")
            )));
        }
    }
    if lowest < own.level {
        simd::set_level(lowest).map_err(|e| TuneError::Cluster(e.to_string()))?;
    }
    if let (true, Some(notify)) = (best > Some(lowest), &config.on_level) {
        notify(lowest);
    }
    Ok(())
}

/// What computes on all nodes, as far as it decides on the last bits: the identity of CPU kernels, and which GPUs. The
/// same text on all; all must ask.
pub fn arithmetic_of(member: &mut Member) -> Result<String, TuneError> {
    let own = arithmetic(member.runtime().machine());
    let all = member
        .gather(own.as_bytes())
        .map_err(TuneError::Execution)?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let kinds: std::collections::BTreeSet<String> = all.into_iter().map(text).collect();
    Ok(kinds.into_iter().collect::<Vec<_>>().join("; "))
}

/// Joins the cluster that a launcher has started.
fn connect(launched: &Launched, patience: Duration) -> Result<Box<dyn Transport>, TuneError> {
    #[cfg(feature = "mpi")]
    {
        let _watchdog = watchdog::ends_if_late("the nodes to start", patience, launched.rank);
        dahl_mpi::join(launched).map_err(|e| TuneError::Cluster(e.to_string()))
    }
    #[cfg(not(feature = "mpi"))]
    {
        let _ = patience;
        Err(TuneError::Cluster(without_mpi(launched)))
    }
}

/// What a build without MPI says when it is started on several nodes.
#[cfg(any(test, not(feature = "mpi")))]
fn without_mpi(launched: &Launched) -> String {
    format!(
        "{} started {} processes, but this build of DAHL has no MPI, and each would train the whole model: build it with \
         `cargo build --release --features mpi`",
        launched.by, launched.nodes
    )
}

/// What every node has used, with where the figure comes from, and the sum; nothing for a computer alone. All nodes must
/// ask.
pub fn energy_of_nodes(member: &mut Member, own: &Energy) -> Result<Option<String>, TuneError> {
    if member.nodes() == 1 {
        return Ok(None);
    }
    let joules = own.joules().map_or(f64::NAN, |j| j.0);
    let said = [&joules.to_le_bytes()[..], own.to_string().as_bytes()].concat();
    let all = member.gather(&said).map_err(TuneError::Execution)?;
    let mut total = 0.0;
    let mut lines = Vec::new();
    for (name, said) in member.names().iter().zip(&all) {
        let (joules, text) = said.split_at(8.min(said.len()));
        total += joules.try_into().map_or(f64::NAN, f64::from_le_bytes);
        lines.push(format!("{name}: {}", String::from_utf8_lossy(text)));
    }
    let together = match total.is_nan() {
        true => "not known of all nodes".to_string(),
        false => format!("{} together", Joules(total)),
    };
    Ok(Some(format!("{together}; {}", lines.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read() {
        let read = ClusterConfig::parse_shares;
        assert_eq!(read("auto"), Ok(None));
        assert_eq!(read("3:1"), Ok(Some(vec![3.0, 1.0])));
        assert_eq!(read("0.5: 2:0"), Ok(Some(vec![0.5, 2.0, 0.0])));
        for wrong in ["", ":", "3:", "3:x", "0:0", "-1:2", "inf:1", "nan", "3,1"] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains("3:1"), "{wrong}: {error}");
        }
    }

    #[test]
    fn a_build_without_mpi_says_how_to_build_with_it() {
        let launched = Launched {
            rank: 1,
            nodes: 2,
            here: 1,
            by: "MPICH",
        };
        let text = without_mpi(&launched);
        for part in ["MPICH started 2 processes", "--features mpi"] {
            assert!(text.contains(part), "{text}");
        }
        // What says so stands where everything begins that runs on nodes.
        #[cfg(not(feature = "mpi"))]
        assert!(
            connect(&launched, Duration::ZERO)
                .err()
                .is_some_and(|e| e.to_string() == text)
        );
    }
}
