//! Hosts of a platform: which unit is on which, and where a memory's data comes from and goes to.
//!
//! Equal units are the cores of one host. Where they have frequency states each is a host of its own, because SimGrid
//! sets a state per host. A memory that no unit computes in gets a host that never computes, so that data can get there.

use std::collections::HashSet;

use dahl_core::{Machine, MemoryId, Unit};

/// Units that are the cores of one host.
pub(super) struct UnitHost<'m> {
    pub id: String,
    /// The first of them.
    pub unit: &'m Unit,
    /// Their common name, or the unit's.
    pub name: String,
    /// How many, if they are numbered.
    pub count: Option<usize>,
}

pub(super) struct Names<'m> {
    pub hosts: Vec<UnitHost<'m>>,
    /// Memories without units, and their hosts.
    pub stores: Vec<(MemoryId, String)>,
    taken: HashSet<String>,
}

impl<'m> Names<'m> {
    pub(super) fn new(machine: &'m Machine) -> Names<'m> {
        let mut names = Names {
            hosts: Vec::new(),
            stores: Vec::new(),
            taken: HashSet::new(),
        };
        let mut at = 0;
        for (first, name, count) in machine.groups() {
            let units = &machine.units[at..at + count.unwrap_or(1)];
            at += units.len();
            if first.states.is_empty() {
                let id = names.fresh(&name);
                let unit = first;
                names.hosts.push(UnitHost {
                    id,
                    unit,
                    name,
                    count,
                });
                continue;
            }
            for unit in units {
                let id = names.fresh(&unit.name);
                names.hosts.push(UnitHost {
                    id,
                    unit,
                    name: unit.name.clone(),
                    count: None,
                });
            }
        }
        for (m, memory) in machine.memories.iter().enumerate() {
            let id = MemoryId(m as u16);
            if machine.units.iter().all(|u| u.memory != id) {
                let host = names.fresh(&format!("memory {}", memory.name));
                names.stores.push((id, host));
            }
        }
        names
    }

    /// A name that nothing else in the file has.
    pub(super) fn fresh(&mut self, name: &str) -> String {
        let mut id = name.to_owned();
        while !self.taken.insert(id.clone()) {
            id.push('\'');
        }
        id
    }

    /// The host of every unit.
    pub(super) fn of_units(&self) -> Vec<String> {
        let cores = |h: &UnitHost<'_>| std::iter::repeat_n(h.id.clone(), h.count.unwrap_or(1));
        self.hosts.iter().flat_map(cores).collect()
    }

    /// The hosts that a memory's data can be sent from and to.
    pub(super) fn at(&self, memory: MemoryId) -> impl Iterator<Item = &str> {
        let units = self.hosts.iter().filter(move |h| h.unit.memory == memory);
        let stores = self.stores.iter().filter(move |s| s.0 == memory);
        let stores = stores.map(|s| s.1.as_str());
        units.map(|h| h.id.as_str()).chain(stores)
    }
}
