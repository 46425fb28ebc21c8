//! Stages on the nodes of a cluster: each on one, or on several that share its samples.

use std::ops::Range;

use dahl_core::graph::partition::place_by_stages;
use dahl_core::{ExecError, Graph};
use dahl_nn::stages::operations;
use dahl_runtime::network::Staged;

use super::{Pipeline, Staging};
use crate::error::TuneError;

impl Pipeline {
    /// The nodes of a device.
    pub(super) fn nodes_of(&self, device: usize, nodes: usize) -> Range<usize> {
        let (devices, replicas) = (self.devices, &self.replicas);
        match replicas.is_empty() {
            true => {
                let begin = device * nodes / devices;
                begin..((device + 1) * nodes / devices).max(begin + 1)
            }
            false => {
                let begin = replicas[..device].iter().sum();
                begin..begin + replicas[device]
            }
        }
    }
}

impl Staging {
    /// For every stage the share that each node has of its samples. Devices have the nodes that replicas were asked for, else as
    /// many as each other as far as nodes go; where there are more devices than nodes, neighbours share one. Within a device
    /// nodes have equal shares, or shares by these numbers, one for each node.
    pub fn shares(&self, nodes: usize, shares: Option<&[f64]>) -> Result<Vec<Vec<f64>>, TuneError> {
        let (devices, replicas) = (self.pipeline.devices, &self.pipeline.replicas);
        let counts = |what: &str, has: usize, wants: usize| {
            TuneError::Option(format!(
                "{what} for {has} of {wants}: give a number for each"
            ))
        };
        if !replicas.is_empty() && replicas.len() != devices {
            return Err(counts("replicas", replicas.len(), devices));
        }
        let all: usize = replicas.iter().sum();
        if !replicas.is_empty() && (all != nodes || replicas.contains(&0)) {
            return Err(TuneError::Option(format!(
                "replicas on {all} nodes together, and there are {nodes}: give each stage at least one, and all of them"
            )));
        }
        if let Some(shares) = shares.filter(|s| s.len() != nodes) {
            return Err(counts("shares", shares.len(), nodes));
        }
        let own = |device: usize| {
            let part = |n: usize| match self.pipeline.nodes_of(device, nodes).contains(&n) {
                true => shares.map_or(1.0, |s| s[n]),
                false => 0.0,
            };
            let row: Vec<f64> = (0..nodes).map(part).collect();
            match row.iter().sum::<f64>() > 0.0 {
                true => Ok(row),
                false => Err(TuneError::Option(format!(
                    "all nodes of stage {device} have a share of 0: give one of them more"
                ))),
            }
        };
        self.device_of.iter().map(|&d| own(d)).collect()
    }

    /// The first device of a node.
    pub(super) fn device_of_node(&self, node: usize, nodes: usize) -> usize {
        let mut devices = 0..self.pipeline.devices;
        let has = |&d: &usize| self.pipeline.nodes_of(d, nodes).contains(&node);
        devices.find(has).unwrap_or(0)
    }

    /// Where the tasks of a graph run if stages have these shares, and in which order.
    pub fn stage(&self, graph: &Graph, shares: &[Vec<f64>]) -> Result<Staged, ExecError> {
        self.stage_row(graph, 1, shares)
    }

    /// The same of a graph of so many steps, one after another.
    pub(crate) fn stage_row(
        &self,
        graph: &Graph,
        steps: usize,
        shares: &[Vec<f64>],
    ) -> Result<Staged, ExecError> {
        let nodes = shares.first().map_or(1, Vec::len);
        let operations = operations(&self.step, graph, &self.firsts);
        let stage_of: Vec<u16> = operations.iter().map(|o| o.stage).collect();
        Ok(Staged {
            placement: place_by_stages(graph, &stage_of, shares)?,
            order: self.order_row(graph, steps, nodes.min(self.pipeline.devices)),
        })
    }
}
