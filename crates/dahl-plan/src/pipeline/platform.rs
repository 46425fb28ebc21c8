//! What a pipeline runs on: units with speeds and memories, in nodes, and two bandwidths.
//!
//! A unit here is all that computes in one memory: a GPU, or the cores of a node together. Two levels of network are
//! told apart, inside a node and between nodes; of several links of a level the slowest counts for all.

use dahl_core::{Machine, MemoryId};

use super::PipelineError;

/// One place for a stage or for a replica of one.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineUnit {
    /// What it is called.
    pub name: String,
    /// The number of its node.
    pub node: usize,
    /// Work per second; the profile's seconds are those of speed 1.
    pub speed: f64,
    /// Bytes that it can hold, if limited.
    pub memory: Option<f64>,
}

/// Units and what joins them.
#[derive(Clone, Debug, PartialEq)]
pub struct Platform {
    /// The units, node by node.
    pub units: Vec<PipelineUnit>,
    /// Bytes per second between units of one node.
    pub inside: f64,
    /// Bytes per second between nodes.
    pub between: f64,
}

/// More units than any search here is made for.
const MOST: usize = 4096;

impl Platform {
    /// Equal machines of speed 1, one unit each, joined by equal links.
    ///
    /// # Errors
    /// If there are none or too many, or a number makes no sense.
    pub fn equal(
        count: usize,
        bandwidth: f64,
        memory: Option<f64>,
    ) -> Result<Platform, PipelineError> {
        let units = (0..count).map(|n| PipelineUnit {
            name: format!("node {n}"),
            node: n,
            speed: 1.0,
            memory,
        });
        let platform = Platform {
            // A count beyond the limit is refused, not made.
            units: units.take(MOST + 1).collect(),
            inside: bandwidth,
            between: bandwidth,
        };
        platform.check()?;
        Ok(platform)
    }

    /// The units of a machine; the fastest has speed 1.
    ///
    /// # Errors
    /// If it does not say how fast its units are or how its nodes are joined.
    pub fn of(machine: &Machine, memory: Option<f64>) -> Result<Platform, PipelineError> {
        let refuse = |text: String| Err(PipelineError::Platform(text));
        let unrated = machine.units.iter().find(|u| u.rated.is_none());
        let any_rated = machine.units.iter().any(|u| u.rated.is_some());
        if let (Some(unit), true) = (unrated, any_rated) {
            let name = &unit.name;
            return refuse(format!(
                "unit {name} does not say how fast it is; add `flops` to it in the machine file"
            ));
        }
        let mut units = Vec::new();
        for (m, place) in machine.memories.iter().enumerate() {
            let id = MemoryId(m as u16);
            let of = machine.units.iter().filter(|u| u.memory == id);
            let speed: f64 = of.map(|u| u.rated.map_or(1.0, |r| r.flops)).sum();
            if speed > 0.0 {
                let capacity = place.capacity.map(|b| b.0 as f64);
                units.push(PipelineUnit {
                    name: place.name.clone(),
                    node: usize::from(place.node.0),
                    speed,
                    memory: memory.or(capacity),
                });
            }
        }
        units.sort_by_key(|u| u.node);
        let fastest = units.iter().map(|u| u.speed).fold(0.0, f64::max);
        units.iter_mut().for_each(|u| u.speed /= fastest);
        let node = |id: MemoryId| machine.memories[usize::from(id.0)].node;
        let slowest = |same: bool| {
            let links = machine.links.iter();
            let links = links.filter(|l| (node(l.from) == node(l.to)) == same);
            links.map(|l| l.bandwidth).fold(f64::INFINITY, f64::min)
        };
        let (inside, between) = (slowest(true), slowest(false));
        let several = units.iter().any(|u| u.node != units[0].node);
        if several && between.is_infinite() {
            return refuse(
                "no link joins the nodes of the machine; add [[link]] or [[switch]]".into(),
            );
        }
        let crowded = units.windows(2).any(|u| u[0].node == u[1].node);
        if crowded && inside.is_infinite() {
            return refuse("no link joins the memories inside a node; add [[link]]".into());
        }
        let platform = Platform {
            units,
            inside,
            between: if several { between } else { inside },
        };
        platform.check()?;
        Ok(platform)
    }

    /// Whether every unit is as fast as every other, holds as much, and all links are alike.
    pub(super) fn is_uniform(&self) -> bool {
        let first = &self.units[0];
        let alike = |u: &PipelineUnit| u.speed == first.speed && u.memory == first.memory;
        self.units.iter().all(alike) && self.is_flat()
    }

    /// Whether where units are makes no difference to transfers.
    pub(super) fn is_flat(&self) -> bool {
        let alone = self.units.windows(2).all(|u| u[0].node != u[1].node);
        alone || self.inside == self.between
    }

    /// Speed of all units.
    pub(super) fn speed(&self) -> f64 {
        self.units.iter().map(|u| u.speed).sum()
    }

    fn check(&self) -> Result<(), PipelineError> {
        let refuse = |text: String| Err(PipelineError::Platform(text));
        if self.units.is_empty() {
            return refuse("there is no unit to run a stage; give at least one".into());
        }
        if self.units.len() > MOST {
            return refuse(format!("there are more than {MOST} units; give fewer"));
        }
        for bandwidth in [self.inside, self.between] {
            // Infinite where there is nobody to talk to.
            if bandwidth.is_nan() || bandwidth <= 0.0 {
                return refuse(format!(
                    "a bandwidth of {bandwidth} bytes per second; give one above 0"
                ));
            }
        }
        for unit in &self.units {
            let name = &unit.name;
            if !(unit.speed > 0.0 && unit.speed.is_finite()) {
                let speed = unit.speed;
                return refuse(format!("{name} has speed {speed}; give one above 0"));
            }
            if let Some(memory) = unit.memory.filter(|m| m.is_nan() || *m < 0.0) {
                return refuse(format!(
                    "{name} has {memory} bytes of memory; give 0 or more"
                ));
            }
        }
        Ok(())
    }
}
