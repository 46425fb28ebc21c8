//! From a graph and a machine to a problem.
//!
//! Arrays are cut into *atoms*: parts that the same tasks touch, in the same order and the same way. Each
//! write of an atom makes a datum; a write that also reads replaces the datum before it in its place.
//! Persistent arrays that the graph writes are taken to be where its last writer left them one step ago,
//! all others to lie in the host's memory. Watts and joules that the machine does not give count nothing.

use std::collections::HashMap;

use dahl_core::graph::cells::Cells;
use dahl_core::{Graph, Machine, UnitId};

use super::problem::{Class, Datum, Group, Link, Memory, Origin, Problem, Shared};
use dahl_sim::Times;

/// A problem, and the machine's units behind its groups.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphProblem {
    /// The problem.
    pub problem: Problem,
    /// The units of each group.
    pub units: Vec<Vec<UnitId>>,
    /// Where in the graph's arrays the data are: the atom that each is a value of.
    pub atoms: Vec<Atom>,
    /// For every datum, its atom.
    pub atom_of: Vec<u32>,
}

/// Parts of an array that the same tasks touch.
#[derive(Clone, Debug, PartialEq)]
pub struct Atom {
    /// The storage, in the graph.
    pub storage: u32,
    pub(super) cells: Vec<u32>,
}

impl GraphProblem {
    /// One step of a graph on a machine, with tasks as long as `times` says.
    pub fn new(graph: &Graph, machine: &Machine, times: &Times) -> GraphProblem {
        let units = groups(graph, machine, times);
        let Data {
            data,
            atoms,
            atom_of,
        } = data(graph);
        let mut problem = Problem {
            base_watts: machine.base().0,
            tasks: graph.tasks.iter().map(|t| t.class).collect(),
            edges: graph.edges().collect(),
            data,
            ..Problem::default()
        };
        for memory in &machine.memories {
            let capacity = memory.capacity.map(|c| c.0);
            problem.memories.push(Memory {
                name: memory.name.clone(),
                capacity,
            });
        }
        let channels = machine.channels();
        let own = machine.links.len();
        problem.shared = channels.all[own..]
            .iter()
            .map(|c| Shared {
                name: c.name.clone(),
                at_once: c.at_once as usize,
            })
            .collect();
        for (link, through) in machine.links.iter().zip(&channels.of_link) {
            problem.links.push(Link {
                from: usize::from(link.from.0),
                to: usize::from(link.to.0),
                bandwidth: link.bandwidth,
                latency: link.latency.0,
                joules_per_byte: link.joules_per_byte.unwrap_or(0.0),
                channels: link.at_once.max(1) as usize,
                shared: through[1..].iter().map(|&c| c as usize - own).collect(),
            });
        }
        for alike in &units {
            let unit = &machine.units[usize::from(alike[0].0)];
            let idle_watts = unit.power.map_or(0.0, |p| p.idle.0);
            let busy = |s: usize| unit.state(s).and_then(|(_, w)| w).map_or(0.0, |w| w.0);
            problem.groups.push(Group {
                name: unit.name.clone(),
                units: alike.len(),
                memory: usize::from(unit.memory.0),
                idle_watts,
                // A state that draws less than waiting does is a mistake that must not be worth money.
                busy_watts: (0..=unit.states.len())
                    .map(|s| busy(s).max(idle_watts))
                    .collect(),
            });
        }
        // Free if it is known to take no time; what is not known is never zero.
        let free = |alike: &Vec<UnitId>| {
            let unit = &machine.units[usize::from(alike[0].0)];
            unit.states.is_empty() || unit.switch_seconds.is_some_and(|s| s.0 == 0.0)
        };
        // Runs set all cores alike: the thread that launches belongs to none of them.
        let mut states = machine.units.iter().flat_map(|u| &u.states);
        problem.alike = states.any(|s| s.hertz.is_some());
        problem.one_state = units.iter().map(|alike| !free(alike)).collect();
        for (c, class) in graph.classes.iter().enumerate() {
            let seconds = units.iter().map(|alike| {
                let unit = &machine.units[usize::from(alike[0].0)];
                let (class, unit_id) = (c as u32, alike[0]);
                if times.get(class, unit_id).is_none() {
                    return Vec::new();
                }
                let speeds = (0..=unit.states.len())
                    .filter_map(|s| unit.state(s))
                    .map(|s| s.0);
                speeds
                    .map(|speed| unit.overhead.0 + times.at_speed(class, unit_id, speed).0)
                    .collect()
            });
            let name = graph.codelets[class.codelet as usize].name.clone();
            problem.classes.push(Class {
                name,
                seconds: seconds.collect(),
            });
        }
        GraphProblem {
            problem,
            units,
            atoms,
            atom_of,
        }
    }
}

/// Units that no task can tell apart.
fn groups(graph: &Graph, machine: &Machine, times: &Times) -> Vec<Vec<UnitId>> {
    let mut groups: Vec<Vec<UnitId>> = Vec::new();
    let alike = |a: UnitId, b: UnitId| {
        let (x, y) = (
            &machine.units[usize::from(a.0)],
            &machine.units[usize::from(b.0)],
        );
        (x.kind, x.memory, x.power, x.overhead) == (y.kind, y.memory, y.power, y.overhead)
            && (&x.states, x.switch_seconds) == (&y.states, y.switch_seconds)
            && (0..graph.classes.len() as u32).all(|c| times.alike(c, a, b))
    };
    for u in (0..machine.units.len() as u16).map(UnitId) {
        match groups.iter_mut().find(|g| alike(g[0], u)) {
            Some(group) => group.push(u),
            None => groups.push(vec![u]),
        }
    }
    groups
}

/// One use of an atom: the task, and whether it reads and writes.
type Use = (u32, bool, bool);

/// The data of a graph, and where they are.
#[derive(Default)]
struct Data {
    data: Vec<Datum>,
    atoms: Vec<Atom>,
    atom_of: Vec<u32>,
}

fn data(graph: &Graph) -> Data {
    let cells = Cells::new(graph);
    let mut uses: Vec<Vec<Use>> = vec![Vec::new(); cells.bytes.len()];
    for t in 0..graph.len() as u32 {
        let first = graph.tasks[t as usize].first_access as usize;
        for (k, access) in graph.accesses_of(t).iter().enumerate() {
            let reads = access.mode.reads() && access.fresh.is_none();
            for &cell in cells.of(first + k) {
                let list = &mut uses[cell as usize];
                match list.last_mut() {
                    Some(last) if last.0 == t => {
                        last.1 |= reads;
                        last.2 |= access.mode.writes();
                    }
                    _ => list.push((t, reads, access.mode.writes())),
                }
            }
        }
    }
    let mut out = Data::default();
    for (s, storage) in graph.storages.iter().enumerate() {
        let mut atoms: HashMap<&[Use], usize> = HashMap::new();
        let mut parts: Vec<(Vec<u32>, &[Use])> = Vec::new();
        for cell in cells.start[s]..cells.start[s + 1] {
            let list = uses[cell as usize].as_slice();
            let at = *atoms.entry(list).or_insert(parts.len());
            if at == parts.len() {
                parts.push((Vec::new(), list));
            }
            parts[at].0.push(cell);
        }
        let lasts = storage.temporary.is_none();
        for (own, uses) in parts {
            let bytes = own.iter().map(|&c| cells.bytes[c as usize]).sum();
            versions(bytes, uses, lasts, &mut out.data);
            out.atom_of.resize(out.data.len(), out.atoms.len() as u32);
            out.atoms.push(Atom {
                storage: s as u32,
                cells: own,
            });
        }
    }
    out
}

/// The data that an atom holds one after another.
fn versions(bytes: u64, uses: &[Use], lasts: bool, data: &mut Vec<Datum>) {
    let first = data.len() as u32;
    let datum = |origin, replaces| Datum {
        bytes,
        origin,
        readers: Vec::new(),
        replaces,
        kept: false,
    };
    // What a step finds, unless it is overwritten unread; settled below.
    let found = uses.first().map_or(lasts, |u| u.1);
    if found {
        data.push(datum(Origin::Memory(0), None));
    }
    for &(task, reads, writes) in uses {
        let current = (data.len() as u32 > first).then(|| data.len() - 1);
        if let (true, Some(current)) = (reads, current) {
            data[current].readers.push(task);
        }
        if writes {
            let replaces = current.filter(|_| reads).map(|c| c as u32);
            data.push(datum(Origin::Task(task), replaces));
        }
    }
    if !lasts || data.len() as u32 == first {
        return;
    }
    let last = data.len() as u32 - 1;
    data[last as usize].kept = true;
    if found && last > first {
        data[first as usize].origin = Origin::LeftBy(last);
    }
}
