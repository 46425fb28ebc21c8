//! The best placement among the ideals of a lattice, below a given load.
//!
//! Dynamic programming over ideals, after Tarnawski et al., "Efficient Algorithms for Device Placement
//! of DNN Graph Operators" (NeurIPS 2020), with three differences. Only loads *below a cap* count, so
//! from each ideal only the larger ones within reach are visited. What is left must fit on the devices
//! that are left, else the ideal is dropped; close to the optimum this leaves few. And the load of a
//! part is carried along from one ideal to the next instead of being computed for each pair.
//!
//! From an ideal the larger ones are visited by adding atoms in rising order only. The atoms of a part,
//! sorted, are one way to add them, as the numbering respects the edges; so each is visited exactly once.
//!
//! Compute time and memory of a part only grow with it, so they end a visit. Communication may shrink
//! again; it only decides whether the part, as it is, will do.

use std::collections::HashSet;

use super::bounds::{Relief, Reliefs};
use super::instance::Instance;
use super::lattice::Lattice;

/// What a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// Limited memory; pays for communication.
    Accelerator,
    /// No limit; communication is free.
    Cpu,
}

/// One device's part, as positions of atoms in the instance's order.
pub(super) type Part = (DeviceKind, Vec<u32>);

/// How a search ended.
#[derive(Debug)]
pub(super) enum SearchResult {
    /// The best there is, its largest load, which is below the cap.
    Best(u64, Vec<Part>),
    /// Every placement has a load of at least the cap.
    None,
    /// The caller wanted to stop: nothing is known.
    Stopped,
}

/// A way to place an ideal: devices used, largest load, and where the last part began.
#[derive(Clone, Copy, Debug)]
struct Label {
    load: u64,
    accelerators: u32,
    cpus: u32,
    from: u32,
    from_label: u32,
}

impl Label {
    fn no_worse(&self, other: &Label) -> bool {
        self.load <= other.load
            && self.accelerators <= other.accelerators
            && self.cpus <= other.cpus
    }
}

/// One more device after a label, and what may then be left.
struct Move {
    /// The label to make, but for the load of the part.
    label: Label,
    /// What may be left: work, work and communication, memory.
    room: Relief,
    /// No CPU is left for atoms that need one.
    no_cpu: bool,
}

/// Moves by the kind of the device, those with the most room first.
struct Moves {
    accelerator: Vec<Move>,
    cpu: Vec<Move>,
}

/// Visits between two questions to the caller.
const PATIENCE: u32 = 1 << 16;

/// Finds the placement with the least largest load below `cap`.
pub(super) fn search(
    instance: &Instance,
    lattice: &Lattice,
    reliefs: &Reliefs,
    cap: u64,
    go_on: &mut dyn FnMut() -> bool,
) -> SearchResult {
    if cap == 0 {
        return SearchResult::None;
    }
    let relief = (0..=instance.cpus)
        .map(|c| reliefs.at_most(c, cap - 1))
        .collect();
    let full = lattice.len() - 1;
    let mut search = Search {
        instance,
        lattice,
        cap,
        relief,
        labels: vec![Vec::new(); lattice.len()],
        part: Load::new(instance),
        visits: 0,
    };
    search.labels[0].push(Label {
        load: 0,
        accelerators: 0,
        cpus: 0,
        from: 0,
        from_label: 0,
    });
    for ideal in 0..full as u32 {
        if !search.expand(ideal, go_on) {
            return SearchResult::Stopped;
        }
    }
    let best = (0..search.labels[full].len()).min_by_key(|&l| search.labels[full][l].load);
    match best {
        Some(label) => {
            SearchResult::Best(search.labels[full][label].load, search.parts(full, label))
        }
        None => SearchResult::None,
    }
}

/// The part being visited, and what it costs.
struct Load {
    accelerator: u64,
    cpu: u64,
    size: u64,
    unsupported: u32,
    communication: u64,
    /// Members of each net inside the part.
    inside: Vec<u32>,
}

impl Load {
    fn new(instance: &Instance) -> Load {
        Load {
            accelerator: 0,
            cpu: 0,
            size: 0,
            unsupported: 0,
            communication: 0,
            inside: vec![0; instance.net.len()],
        }
    }

    fn add(&mut self, instance: &Instance, atom: u32) {
        let a = atom as usize;
        self.accelerator += instance.accelerator[a];
        self.cpu += instance.cpu[a];
        self.size += instance.size[a];
        self.unsupported += u32::from(!instance.supported[a]);
        for &net in instance.nets.of(a) {
            let (cost, members) = instance.net[net as usize];
            let inside = &mut self.inside[net as usize];
            *inside += 1;
            if *inside == 1 {
                self.communication += cost;
            } else if *inside == members {
                self.communication -= cost;
            }
        }
    }

    fn remove(&mut self, instance: &Instance, atom: u32) {
        let a = atom as usize;
        self.accelerator -= instance.accelerator[a];
        self.cpu -= instance.cpu[a];
        self.size -= instance.size[a];
        self.unsupported -= u32::from(!instance.supported[a]);
        for &net in instance.nets.of(a) {
            let (cost, members) = instance.net[net as usize];
            let inside = &mut self.inside[net as usize];
            if *inside == 1 {
                self.communication -= cost;
            } else if *inside == members {
                self.communication += cost;
            }
            *inside -= 1;
        }
    }
}

struct Search<'a> {
    instance: &'a Instance,
    lattice: &'a Lattice,
    cap: u64,
    /// What this many CPUs can take off the accelerators.
    relief: Vec<Relief>,
    labels: Vec<Vec<Label>>,
    part: Load,
    visits: u32,
}

impl Search<'_> {
    /// Tries every part that begins after `ideal`.
    fn expand(&mut self, ideal: u32, go_on: &mut dyn FnMut() -> bool) -> bool {
        let labels = &self.labels[ideal as usize];
        if labels.is_empty() {
            return true;
        }
        let devices = self.instance.accelerators + self.instance.cpus;
        // With one device left there is only one part to try.
        let last = labels
            .iter()
            .all(|l| (l.accelerators + l.cpus) as usize + 1 == devices);
        let moves = Moves {
            accelerator: self.moves(ideal, DeviceKind::Accelerator),
            cpu: self.moves(ideal, DeviceKind::Cpu),
        };
        if last {
            self.finish(ideal, &moves);
            self.ask(go_on)
        } else {
            self.walk(ideal, &moves, go_on)
        }
    }

    /// What one more device of a kind can make of the ways to place `ideal`.
    fn moves(&self, ideal: u32, kind: DeviceKind) -> Vec<Move> {
        let labels = self.labels[ideal as usize].iter().enumerate();
        let one_more = |(number, label): (usize, &Label)| {
            let mut label = Label {
                from: ideal,
                from_label: number as u32,
                ..*label
            };
            match kind {
                DeviceKind::Accelerator => label.accelerators += 1,
                DeviceKind::Cpu => label.cpus += 1,
            }
            let left = |have: usize, used: u32| have.checked_sub(used as usize);
            let accelerators = left(self.instance.accelerators, label.accelerators)? as u64;
            let cpus = left(self.instance.cpus, label.cpus)?;
            let relief = self.relief[cpus];
            let time = accelerators.saturating_mul(self.cap - 1);
            let memory = accelerators.saturating_mul(self.instance.size_limit);
            Some(Move {
                label,
                no_cpu: cpus == 0,
                room: Relief {
                    work: time.saturating_add(relief.work),
                    traffic: time.saturating_add(relief.traffic),
                    size: memory.saturating_add(relief.size),
                },
            })
        };
        let mut moves: Vec<Move> = labels.filter_map(one_more).collect();
        moves.sort_by_key(|m| std::cmp::Reverse(m.room.work));
        moves
    }

    /// Puts all that is left on one device.
    fn finish(&mut self, ideal: u32, moves: &Moves) {
        let mut at = ideal;
        let mut added = Vec::new();
        while let Some(&(atom, next)) = self.lattice.steps(at).first() {
            self.part.add(self.instance, atom);
            added.push(atom);
            at = next;
        }
        self.arrive(at, moves);
        for atom in added.into_iter().rev() {
            self.part.remove(self.instance, atom);
        }
    }

    /// Visits the larger ideals within reach, depth first.
    fn walk(&mut self, ideal: u32, moves: &Moves, go_on: &mut dyn FnMut() -> bool) -> bool {
        let accelerator_left = !moves.accelerator.is_empty();
        let cpu_left = !moves.cpu.is_empty();
        // The ideal, the next step to try from it, and the atom that led to it.
        let mut path: Vec<(u32, u32, u32)> = vec![(ideal, 0, u32::MAX)];
        while let Some((at, cursor, led)) = path.pop() {
            let Some(&(atom, next)) = self.lattice.steps(at).get(cursor as usize) else {
                if led != u32::MAX {
                    self.part.remove(self.instance, led);
                }
                continue;
            };
            path.push((at, cursor + 1, led));
            if led != u32::MAX && atom < led {
                continue;
            }
            if !self.ask(go_on) {
                return false;
            }
            self.part.add(self.instance, atom);
            let on_accelerator = accelerator_left && self.fits_accelerator();
            let on_cpu = cpu_left && self.part.cpu < self.cap;
            if on_accelerator || on_cpu {
                self.arrive(next, moves);
                path.push((next, 0, atom));
            } else {
                self.part.remove(self.instance, atom);
            }
        }
        true
    }

    /// Whether an accelerator could hold the part, and perhaps more.
    fn fits_accelerator(&self) -> bool {
        self.part.unsupported == 0
            && self.part.size <= self.instance.size_limit
            && self.part.accelerator < self.cap
    }

    /// Notes the ways to place `to` by giving the part to one device.
    fn arrive(&mut self, to: u32, moves: &Moves) {
        let accelerator = self.part.accelerator + self.part.communication;
        if self.fits_accelerator() && accelerator < self.cap {
            self.note(to, &moves.accelerator, accelerator);
        }
        if self.part.cpu < self.cap {
            self.note(to, &moves.cpu, self.part.cpu);
        }
    }

    fn note(&mut self, to: u32, moves: &[Move], load: u64) {
        let rest = self.lattice.rest[to as usize];
        for step in moves {
            // What is left must fit on what is left; those with the most room come first.
            if rest.accelerator > step.room.work {
                break;
            }
            if rest.accelerator + rest.cut > step.room.traffic
                || rest.size > step.room.size
                || step.no_cpu && rest.unsupported > 0
            {
                continue;
            }
            let new = Label {
                load: load.max(step.label.load),
                ..step.label
            };
            let list = &mut self.labels[to as usize];
            if list.iter().any(|old| old.no_worse(&new)) {
                continue;
            }
            list.retain(|old| !new.no_worse(old));
            list.push(new);
        }
    }

    fn ask(&mut self, go_on: &mut dyn FnMut() -> bool) -> bool {
        self.visits += 1;
        if self.visits < PATIENCE {
            return true;
        }
        self.visits = 0;
        go_on()
    }

    /// The parts that led to a label, first device first.
    fn parts(&self, ideal: usize, label: usize) -> Vec<Part> {
        let mut parts = Vec::new();
        let (mut ideal, mut at) = (ideal as u32, self.labels[ideal][label]);
        while ideal != 0 {
            let before = self.labels[at.from as usize][at.from_label as usize];
            let kind = if before.cpus == at.cpus {
                DeviceKind::Accelerator
            } else {
                DeviceKind::Cpu
            };
            let mut part = self.lattice.atoms(ideal);
            let earlier: HashSet<u32> = self.lattice.atoms(at.from).into_iter().collect();
            part.retain(|atom| !earlier.contains(atom));
            parts.push((kind, part));
            ideal = at.from;
            at = before;
        }
        parts.reverse();
        parts
    }
}
