//! What every device of a pipeline holds, if each is a node of its own.

use std::sync::Arc;

use dahl_core::Bytes;
use dahl_core::graph::partition::pairwise;
use dahl_core::{Machine, graph::Graph};
use serde::Serialize;

use super::Staging;
use crate::error::TuneError;
use crate::simulate_cluster::placed_parts;

/// Bytes of one device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageMemory {
    /// The first and the last layer of each of its stages.
    pub layers: Vec<[usize; 2]>,
    /// Weights, optimiser state and what comes in from the host, as far as its tasks touch them.
    pub lasting: Bytes,
    /// Temporaries of one step, packed: activations of the micro-batches that it keeps, gradients, messages.
    pub temporaries: Bytes,
}

impl Staging {
    /// What each device holds with one unit each: two steps in flight have temporaries twice.
    ///
    /// # Errors
    /// If the step cannot be lowered or placed.
    pub(crate) fn memory(self: &Arc<Self>) -> Result<Vec<StageMemory>, TuneError> {
        let devices = self.pipeline.devices;
        let (graph, io) = self.step.lower_row()?;
        let shares = self.even_shares(devices);
        let place = |graph: &Graph| {
            let staged = self.stage_row(graph, io.len(), &shares)?;
            Ok((staged.placement, staged.order))
        };
        let (parts, orders) = placed_parts(&io, &pairwise(&graph), devices, place)?;
        let layers = self.step.model.layers.len();
        let ends = self.firsts.iter().skip(1).copied().chain([layers]);
        let stages: Vec<[usize; 2]> = (self.firsts.iter().zip(ends))
            .map(|(&first, end)| [first, end - 1])
            .collect();
        let mut all = Vec::new();
        for (device, (part, order)) in parts.iter().zip(orders).enumerate() {
            let (run, _) = self.follow_part(&part.graph, order, &Machine::cpus(1))?;
            let lasting = run.storages.iter().filter(|s| s.temporary.is_none());
            let own = (0..stages.len()).filter(|&s| self.device_of[s] == device);
            all.push(StageMemory {
                layers: own.map(|s| stages[s]).collect(),
                lasting: Bytes(lasting.map(|s| s.storage.bytes() as u64).sum()),
                temporaries: Bytes(run.memory.bytes),
            });
        }
        Ok(all)
    }

    /// Each device on a node of its own, whatever replicas there are.
    fn even_shares(&self, devices: usize) -> Vec<Vec<f64>> {
        let row = |&device: &usize| {
            let part = |n: usize| f64::from(u8::from(n == device));
            (0..devices).map(part).collect()
        };
        self.device_of.iter().map(row).collect()
    }
}
