//! Plans for several nodes, followed: what each node has of a batch, how layers are cut, and who decides on a node.
//!
//! The nodes of a run are those of the plan that take part, in the plan's order; what they are called is the launcher's
//! business, so names are not compared. A node's frequency state is never set: plans that have one are refused.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use dahl_core::file::read_text;
use dahl_nn::{Registry, Step};
use dahl_runtime::network::launched;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{StepPlan, adopted};
use crate::error::TuneError;
use crate::plan::NodeShare;
use crate::run::RunConfig;
use crate::stages::{Pipeline, Staging};

/// The version of such files that is written, and the only one that is read.
pub(crate) const VERSION: u32 = 1;

/// A plan as a file has it.
#[derive(Clone, Debug)]
pub enum AnyPlan {
    /// For one computer.
    One(Box<StepPlan>),
    /// For several nodes.
    Nodes(Box<NodesPlan>),
}

impl AnyPlan {
    /// Reads a plan of either kind.
    pub fn load(path: &Path) -> Result<AnyPlan, TuneError> {
        AnyPlan::load_with(path, &Registry::default())
    }

    /// Reads one of a step that may have layers, a loss and an optimiser which a program has added to the registry.
    pub fn load_with(path: &Path, registry: &Registry) -> Result<AnyPlan, TuneError> {
        let text = read_text(path).map_err(TuneError::reading(path))?;
        Ok(match is_of_nodes(&text) {
            true => AnyPlan::Nodes(NodesPlan::read(path, &text, registry)?.into()),
            false => AnyPlan::One(StepPlan::read(path, &text, registry)?.into()),
        })
    }
}

/// Whether a text is that of a plan for several nodes.
fn is_of_nodes(text: &str) -> bool {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(rename = "cluster")]
        _cluster: IgnoredAny,
    }
    serde_json::from_str::<Kind>(text).is_ok()
}

/// A plan for several nodes.
#[derive(Clone, Debug)]
pub struct NodesPlan {
    step: Step,
    /// Those that take part.
    nodes: Vec<NodeShare>,
    policy: String,
    pipeline: Option<Pipeline>,
    path: PathBuf,
}

/// What is read of the file; the rest is for people.
#[derive(Deserialize)]
struct File {
    cluster: u32,
    step: serde_json::Value,
    nodes: Vec<NodeShare>,
    policy: String,
    pipeline: Option<Pipeline>,
}

impl NodesPlan {
    fn read(path: &Path, text: &str, registry: &Registry) -> Result<NodesPlan, TuneError> {
        let wrong = |why: String| TuneError::PlanFile {
            path: path.into(),
            why,
        };
        let file: File = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        if file.cluster != VERSION {
            let found = file.cluster;
            return Err(wrong(format!(
                "plan for several nodes of version {found}; this program reads version {VERSION}: plan again"
            )));
        }
        let step = Step::from_json_with(&file.step.to_string(), registry);
        let step = step.map_err(|e| wrong(format!("the step that it is for: {e}")))?;
        for node in &file.nodes {
            let NodeShare { name, share, .. } = node;
            if !(0.0..=1.0).contains(share) {
                return Err(wrong(format!(
                    "nodes: {name} has a share of {share}: it must be a number from 0 to 1"
                )));
            }
        }
        let nodes: Vec<NodeShare> = file.nodes.into_iter().filter(|n| n.share > 0.0).collect();
        if nodes.is_empty() {
            return Err(wrong(
                "nodes: none has a share, so nothing would run".into(),
            ));
        }
        if let Some(node) = nodes.iter().find(|n| n.state > 0) {
            return Err(wrong(format!(
                "{} is to run in frequency state {}, and no run of several nodes sets one: plan without --states",
                node.name, node.state
            )));
        }
        Ok(NodesPlan {
            step,
            nodes,
            policy: file.policy,
            pipeline: file.pipeline,
            path: path.into(),
        })
    }

    /// A step as it runs by the plan: with the plan's grain, micro-batches and implementations. Refuses one that differs
    /// otherwise from what was planned.
    pub fn adopt(&self, step: Step) -> Result<Step, TuneError> {
        adopted(&self.step, &self.path.display(), step)
    }

    /// A run of the plan: with its shares and its policy, or its stages. Refuses a run of another number of nodes, and one
    /// that says itself what the plan decides.
    pub fn apply(&self, config: RunConfig) -> Result<RunConfig, TuneError> {
        let names: Vec<&str> = self.nodes.iter().map(|n| &n.name[..]).collect();
        let (plan, count) = (self.path.display(), names.len());
        let here = launched().map_or(1, |l| usize::from(l.nodes));
        if here != count {
            return Err(TuneError::Plan(format!(
                "{plan} is for {} ({}), and this run has {here}: start it with mpirun -n {count} --host {}",
                dahl_core::several(count, "node"),
                names.join(", "),
                names.join(",")
            )));
        }
        if config.cluster.shares.is_some() || config.policy.is_some() || config.pipeline.is_some() {
            let text = format!(
                "{plan} decides shares, policy and stages: leave out --shares, --policy and --pipeline"
            );
            return Err(TuneError::Option(text));
        }
        let mut config = config;
        match &self.pipeline {
            Some(pipeline) => {
                config.pipeline = Some(Arc::new(Staging::new(pipeline, &self.step)?));
            }
            None => {
                config.policy = Some(self.policy.clone());
                config.cluster.shares = Some(self.nodes.iter().map(|n| n.share).collect());
            }
        }
        Ok(config)
    }
}
