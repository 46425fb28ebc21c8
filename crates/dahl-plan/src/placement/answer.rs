//! What a placement costs, from the numbers of the input and nothing else: not from what the search
//! made of them.

use std::time::Duration;

use dahl_core::report::{Report, Table};
use std::collections::HashSet;

use serde::Serialize;

use super::format::PlacementProblem;
use super::search::DeviceKind;

/// One device and what it does.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceLoad {
    /// What it is.
    pub kind: DeviceKind,
    /// Ids of its nodes, rising.
    pub nodes: Vec<i64>,
    /// What counts: compute and, on an accelerator, communication.
    pub load: f64,
    /// Time to compute its nodes.
    pub compute: f64,
    /// Time to move outputs in and out; 0 on a CPU.
    pub communication: f64,
    /// Memory that its nodes would take on an accelerator.
    pub size: f64,
}

/// A placement.
#[derive(Clone, Debug, Serialize)]
pub struct Placement {
    /// Load of the busiest device.
    pub max_load: f64,
    /// No placement has a smaller largest load. Equal to `max_load` if the placement is proven optimal.
    pub lower_bound: f64,
    /// Devices in use, in the order of the chain.
    pub devices: Vec<DeviceLoad>,
}

impl Placement {
    /// The devices and how good the answer is, for people; finding it has taken so long.
    pub fn report(&self, problem: &PlacementProblem, taken: Duration) -> Report {
        let mut out = Report::default();
        let mut table = Table::new("device|kind|>nodes|>load|>compute|>communication|>size");
        for (number, device) in self.devices.iter().enumerate() {
            let kind = match device.kind {
                DeviceKind::Accelerator => "accelerator",
                DeviceKind::Cpu => "cpu",
            };
            table.row([
                number.to_string(),
                kind.to_string(),
                device.nodes.len().to_string(),
                format!("{:.4}", device.load),
                format!("{:.4}", device.compute),
                format!("{:.4}", device.communication),
                device.size.to_string(),
            ]);
        }
        out.table(table);
        out.line(format!(
            "{} nodes on {} of {} devices (accelerators: {}, CPUs: {}), in the order of the chain",
            problem.nodes.len(),
            self.devices.len(),
            problem.accelerators + problem.cpus,
            problem.accelerators,
            problem.cpus
        ));
        let seconds = taken.as_secs_f64();
        if self.is_optimal() {
            out.line(format!(
                "largest load {:.6}, proven optimal in {seconds:.3} s",
                self.max_load
            ));
        } else {
            out.line(format!(
                "largest load {:.6}, lower bound {:.6} (gap {:.2} %) after {seconds:.1} s",
                self.max_load,
                self.lower_bound,
                100.0 * (self.max_load - self.lower_bound) / self.max_load
            ));
        }
        out
    }

    /// Whether no placement is better.
    pub fn is_optimal(&self) -> bool {
        self.lower_bound >= self.max_load
    }

    /// The answer for these parts (indices of nodes); with no bound, it is optimal.
    pub(super) fn new(
        problem: &PlacementProblem,
        parts: &[(DeviceKind, Vec<usize>)],
        bound: Option<f64>,
    ) -> Placement {
        let devices: Vec<DeviceLoad> = parts.iter().map(|p| device(problem, p.0, &p.1)).collect();
        let max_load = devices.iter().map(|d| d.load).fold(0.0, f64::max);
        let lower_bound = bound.unwrap_or(max_load).clamp(0.0, max_load);
        Placement {
            max_load,
            lower_bound,
            devices,
        }
    }
}

fn device(problem: &PlacementProblem, kind: DeviceKind, part: &[usize]) -> DeviceLoad {
    let inside: HashSet<usize> = part.iter().copied().collect();
    let sum = |f: &dyn Fn(usize) -> f64| part.iter().map(|&n| f(n)).sum::<f64>();
    let nodes = &problem.nodes;
    let (compute, communication) = match kind {
        DeviceKind::Cpu => (sum(&|n| nodes[n].cpu_time), 0.0),
        DeviceKind::Accelerator => {
            let crossing = problem
                .edges
                .iter()
                .filter(|e| inside.contains(&e.0) != inside.contains(&e.1));
            let mut movers: Vec<usize> = crossing.map(|e| e.0).collect();
            movers.sort_unstable();
            movers.dedup();
            let moved = movers.iter().map(|&n| problem.output_cost[n]).sum();
            (sum(&|n| nodes[n].accelerator_time), moved)
        }
    };
    let mut ids: Vec<i64> = part.iter().map(|&n| nodes[n].id).collect();
    ids.sort_unstable();
    DeviceLoad {
        kind,
        nodes: ids,
        load: compute + communication,
        compute,
        communication,
        size: sum(&|n| nodes[n].size),
    }
}
