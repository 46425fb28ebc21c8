//! This computer among others: joins the cluster that a launcher has started, or stays alone.
//!
//! `mpirun` and `srun` start the same command on every node, so nothing has to be said here but how work is shared and
//! when a silent node counts as lost. How messages travel is `dahl-mpi`'s business, who runs what the runtime's.

use std::sync::Arc;
use std::time::Duration;

use dahl_runtime::Builder;
use dahl_runtime::network::{Launched, Member, Transport, launched};

use crate::error::TuneError;
use crate::run::ResolvedRun;
use crate::units::Cpus;

/// Told the shares of all nodes when they change.
pub type OnShares = Arc<dyn Fn(&[f64]) + Send + Sync>;

/// How nodes work together.
#[derive(Clone)]
pub struct ClusterConfig {
    /// Each node's part of a batch, in any unit; by measured speed unless set.
    pub shares: Option<Vec<f64>>,
    /// How long a node may be silent while it is waited for.
    pub patience: Duration,
    /// Told when shares change.
    pub on_shares: Option<OnShares>,
}

impl Default for ClusterConfig {
    fn default() -> Self {
        ClusterConfig {
            shares: None,
            patience: Duration::from_secs(10),
            on_shares: None,
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
            .ok_or_else(|| "use auto, or a number of at least 0 for each node, as in 3:1".into())
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
        let transport = connect(&launched)?;
        let mut builder = builder.network(transport, config.patience);
        if self.cpus() == Cpus::All && launched.here > 1 {
            builder = builder.share_cores(usize::from(launched.here));
        }
        let told = config.on_shares.clone();
        let told = move |shares: &[f64]| {
            if let Some(told) = &told {
                told(shares);
            }
        };
        let shares = config.shares.clone();
        Ok(Member::with_shares(
            builder.build()?,
            shares,
            Box::new(told),
        )?)
    }
}

#[cfg(feature = "mpi")]
fn connect(launched: &Launched) -> Result<Box<dyn Transport>, TuneError> {
    dahl_mpi::join(launched).map_err(|e| TuneError::Cluster(e.to_string()))
}

#[cfg(not(feature = "mpi"))]
fn connect(launched: &Launched) -> Result<Box<dyn Transport>, TuneError> {
    Err(TuneError::Cluster(format!(
        "{} started {} processes, but this build of DAHL has no MPI, and each would train the whole model: build it with \
         `cargo build --release --features mpi`",
        launched.by, launched.nodes
    )))
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
}
