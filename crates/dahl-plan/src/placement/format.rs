//! The text of a placement problem: the JSON of the dnn-partitioning project
//! (github.com/msr-fiddle/dnn-partitioning), checked.
//!
//! What leaves this module is sound: numbers are finite and not negative, edges join nodes that exist,
//! the graph has no cycle and no edge from a backward to a forward node. It reads no file, and it
//! decides nothing: a problem without any solution still passes.

use std::collections::{HashMap, HashSet};

use serde::de::{Deserializer, Error as _, Unexpected};
use serde::{Deserialize, Serialize};

use super::PlacementError;

/// One operation to place.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Node {
    /// What edges and answers call it.
    pub id: i64,
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether an accelerator can run it.
    #[serde(rename = "supportedOnFpga", deserialize_with = "flag")]
    pub on_accelerator: bool,
    /// Time on a CPU.
    #[serde(rename = "cpuLatency")]
    pub cpu_time: f64,
    /// Time on an accelerator.
    #[serde(rename = "fpgaLatency")]
    pub accelerator_time: f64,
    /// Whether it belongs to the backward pass.
    #[serde(rename = "isBackwardNode", deserialize_with = "flag")]
    pub backward: bool,
    /// Nodes of one colour stay together.
    #[serde(
        rename = "colorClass",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub colour: Option<i64>,
    /// Memory that it takes on an accelerator.
    pub size: f64,
}

#[derive(Deserialize)]
struct File {
    #[serde(rename = "maxSizePerFPGA")]
    size_limit: f64,
    #[serde(rename = "maxFPGAs", deserialize_with = "count")]
    accelerators: usize,
    #[serde(rename = "maxCPUs", deserialize_with = "count")]
    cpus: usize,
    nodes: Vec<Node>,
    edges: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    #[serde(rename = "sourceId")]
    source: i64,
    #[serde(rename = "destId")]
    target: i64,
    cost: f64,
}

/// A placement problem that is sound, though not necessarily solvable.
#[derive(Clone, Debug)]
pub struct PlacementProblem {
    /// Memory of one accelerator.
    pub size_limit: f64,
    /// How many accelerators there are.
    pub accelerators: usize,
    /// How many CPUs there are.
    pub cpus: usize,
    /// What to place.
    pub nodes: Vec<Node>,
    /// Who needs whose output: indices of nodes, without repetitions.
    pub edges: Vec<(usize, usize)>,
    /// Time to move each node's output into or out of an accelerator.
    pub output_cost: Vec<f64>,
}

impl PlacementProblem {
    /// Reads a problem.
    ///
    /// # Errors
    /// Names the field, node or edge that is missing or makes no sense.
    pub fn from_json(text: &str) -> Result<PlacementProblem, PlacementError> {
        let file: File = serde_json::from_str(text).map_err(PlacementError::Json)?;
        not_negative(file.size_limit, || "maxSizePerFPGA".into())?;
        let mut index = HashMap::new();
        for (n, node) in file.nodes.iter().enumerate() {
            if index.insert(node.id, n).is_some() {
                return Err(PlacementError::DuplicateNode(node.id));
            }
            let field = |name: &str| format!("{name} of node {}", node.id);
            not_negative(node.cpu_time, || field("cpuLatency"))?;
            not_negative(node.accelerator_time, || field("fpgaLatency"))?;
            not_negative(node.size, || field("size"))?;
        }
        let mut problem = PlacementProblem {
            size_limit: file.size_limit,
            accelerators: file.accelerators,
            cpus: file.cpus,
            output_cost: vec![0.0; file.nodes.len()],
            nodes: file.nodes,
            edges: Vec::with_capacity(file.edges.len()),
        };
        problem.join(&file.edges, &index)?;
        problem.check_totals()?;
        problem.check_cycles()?;
        Ok(problem)
    }

    fn join(&mut self, edges: &[Edge], index: &HashMap<i64, usize>) -> Result<(), PlacementError> {
        let mut seen = HashSet::new();
        let mut known = vec![false; self.nodes.len()];
        for edge in edges {
            let name = || format!("edge {} -> {}", edge.source, edge.target);
            let find = |id: i64| {
                let missing = || PlacementError::UnknownNode { edge: name(), id };
                index.get(&id).copied().ok_or_else(missing)
            };
            let (source, target) = (find(edge.source)?, find(edge.target)?);
            not_negative(edge.cost, || format!("cost of {}", name()))?;
            if self.nodes[source].backward && !self.nodes[target].backward {
                return Err(PlacementError::BackwardToForward(edge.source, edge.target));
            }
            // The cost belongs to the node's output, so all its edges must agree, up to what printing
            // a number may lose.
            let cost = &mut self.output_cost[source];
            if known[source] && (*cost - edge.cost).abs() > 1e-6 * edge.cost.max(1.0) {
                return Err(PlacementError::TwoCosts {
                    node: edge.source,
                    costs: [*cost, edge.cost],
                });
            }
            if !std::mem::replace(&mut known[source], true) {
                *cost = edge.cost;
            }
            if seen.insert((source, target)) {
                self.edges.push((source, target));
            }
        }
        Ok(())
    }

    /// Sums must be numbers too.
    fn check_totals(&self) -> Result<(), PlacementError> {
        let sum = |f: fn(&Node) -> f64| self.nodes.iter().map(f).sum::<f64>();
        let totals = [
            ("cpuLatency", sum(|n| n.cpu_time)),
            ("size", sum(|n| n.size)),
            (
                "fpgaLatency and cost",
                sum(|n| n.accelerator_time) + self.output_cost.iter().sum::<f64>(),
            ),
        ];
        match totals.iter().find(|(_, total)| !total.is_finite()) {
            Some((field, _)) => Err(PlacementError::TooLarge(field)),
            None => Ok(()),
        }
    }

    /// Removes nodes that nobody waits for until none is left; what stays lies on or before a cycle.
    fn check_cycles(&self) -> Result<(), PlacementError> {
        let n = self.nodes.len();
        let mut waits = vec![0usize; n];
        let mut sources = vec![Vec::new(); n];
        for &(source, target) in &self.edges {
            waits[source] += 1;
            sources[target].push(source);
        }
        let mut free: Vec<usize> = (0..n).filter(|&v| waits[v] == 0).collect();
        while let Some(v) = free.pop() {
            for &u in &sources[v] {
                waits[u] -= 1;
                if waits[u] == 0 {
                    free.push(u);
                }
            }
        }
        let Some(mut at) = (0..n).find(|&v| waits[v] > 0) else {
            return Ok(());
        };
        // Every node left has a successor that is left: following them must come back to one.
        let mut next = vec![None; n];
        for &(source, target) in &self.edges {
            if waits[target] > 0 {
                next[source] = Some(target);
            }
        }
        let mut place = vec![None; n];
        let mut path = Vec::new();
        loop {
            if let Some(start) = place[at] {
                let ids: Vec<i64> = path[start..]
                    .iter()
                    .map(|&v: &usize| self.nodes[v].id)
                    .collect();
                return Err(PlacementError::Cycle(ids));
            }
            place[at] = Some(path.len());
            path.push(at);
            match next[at] {
                Some(v) => at = v,
                None => return Err(PlacementError::Cycle(vec![self.nodes[at].id])),
            }
        }
    }
}

fn not_negative(value: f64, what: impl Fn() -> String) -> Result<(), PlacementError> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(PlacementError::BadNumber {
        what: what(),
        value,
    })
}

/// `true`, `false`, 1 or 0.
fn flag<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Flag {
        Word(bool),
        Number(f64),
    }
    match Flag::deserialize(from) {
        Ok(Flag::Word(value)) => Ok(value),
        Ok(Flag::Number(0.0)) => Ok(false),
        Ok(Flag::Number(1.0)) => Ok(true),
        _ => Err(D::Error::custom("expected true, false, 1 or 0")),
    }
}

/// A whole number, also when written as `6.0`.
fn count<'de, D: Deserializer<'de>>(from: D) -> Result<usize, D::Error> {
    let number = f64::deserialize(from)?;
    if number < 0.0 || number.fract() != 0.0 || number > u32::MAX as f64 {
        let want = &"a number of devices: 0, 1, 2, …";
        return Err(D::Error::invalid_value(Unexpected::Float(number), want));
    }
    Ok(number as usize)
}
