//! From a problem to an answer: cheap placements first, then the proof.
//!
//! 1. Everything on one device, then the best division of a few orders of the atoms, taken as chains and
//!    as lattices with a window: an upper bound.
//! 2. If the whole lattice can be listed: searches below a cap that starts a little above the lower
//!    bound. Nothing found raises the lower bound to the cap, and the cap moves on in growing steps;
//!    something found is the optimum, as the search returns the best below its cap. Small caps are
//!    cheap, as little survives below them.
//! 3. If it cannot: windows as wide as memory allows. The answer then keeps its gap.

use super::answer::Placement;
use super::bounds::{Reliefs, lower_bound};
use super::contract::{Atom, Atoms, contract};
use super::error::PlacementError;
use super::format::PlacementProblem;
use super::instance::{Instance, orders};
use super::lattice::{Lattice, NoLattice};
use super::search::{DeviceKind, SearchResult, search};

/// Ideals that a lattice may have: at some 300 bytes each, a few hundred megabytes.
const MANY: usize = 2_000_000;
/// Ideals of the lattices for first answers.
const FEW: usize = 20_000;
/// Parts as atoms of the contracted problem.
type Parts = Vec<(DeviceKind, Vec<usize>)>;

/// Finds a placement with the least largest load, and a bound that no placement beats.
///
/// `go_on` is asked now and then; once it says no, the answer is the best so far.
///
/// # Errors
/// If no placement respects the limits: says which one, and by how much.
pub fn solve(
    problem: &PlacementProblem,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Placement, PlacementError> {
    let atoms = contract(problem);
    if atoms.atoms.is_empty() {
        return Ok(Placement::new(problem, &[], None));
    }
    refuse(problem, &atoms)?;
    let mut state = Progress::new(problem, &atoms);
    let proven = state.run(go_on);
    match (state.best, proven) {
        (Some((_, parts)), proven) => {
            let parts = nodes(problem, &atoms, &parts);
            let instance = &state.instances[0];
            let bound = instance
                .quantum
                .value(state.lower.saturating_sub(instance.rounding()));
            Ok(Placement::new(problem, &parts, (!proven).then_some(bound)))
        }
        (None, true) => Err(least_size(problem, go_on)),
        (None, false) => Err(PlacementError::NothingFound {
            limit: problem.size_limit,
        }),
    }
}

/// The parts as indices of nodes, with those that were set aside.
fn nodes(problem: &PlacementProblem, atoms: &Atoms, parts: &Parts) -> Parts {
    let mut place = vec![0; problem.nodes.len()];
    for (number, (_, part)) in parts.iter().enumerate() {
        for &node in part.iter().flat_map(|&a| &atoms.atoms[a].nodes) {
            place[node] = number;
        }
    }
    // What was set aside last depends on nothing that was set aside before it.
    for aside in atoms.aside.iter().rev() {
        let number = aside.after.iter().map(|&n| place[n]).max().unwrap_or(0);
        for &node in &aside.nodes {
            place[node] = number;
        }
    }
    let mut whole: Parts = parts.iter().map(|(kind, _)| (*kind, Vec::new())).collect();
    for (node, &number) in place.iter().enumerate() {
        whole[number].1.push(node);
    }
    whole
}

/// Limits that can be seen to fail without a search. With a CPU there are none: it can take all.
fn refuse(problem: &PlacementProblem, atoms: &Atoms) -> Result<(), PlacementError> {
    let limit = problem.size_limit;
    if problem.cpus > 0 {
        return Ok(());
    }
    if problem.accelerators == 0 {
        return Err(PlacementError::NoDevice(problem.nodes.len()));
    }
    for atom in &atoms.atoms {
        let ids = |wanted: &dyn Fn(usize) -> bool| {
            let nodes = atom.nodes.iter().filter(|&&n| wanted(n));
            nodes.map(|&n| problem.nodes[n].id).collect()
        };
        if !atom.supported {
            return Err(PlacementError::NeedsCpu {
                nodes: ids(&|_| true),
                unsupported: ids(&|n| !problem.nodes[n].on_accelerator),
            });
        }
        if atom.size > limit {
            let nodes = ids(&|_| true);
            return Err(PlacementError::AtomTooLarge {
                nodes,
                size: atom.size,
                limit,
            });
        }
    }
    let size: f64 = atoms.atoms.iter().map(|a| a.size).sum();
    // Rounding must not refuse what exactly fits.
    if size * (1.0 - 1e-12) > limit * problem.accelerators as f64 {
        let accelerators = problem.accelerators;
        return Err(PlacementError::AllTooLarge {
            size,
            accelerators,
            limit,
        });
    }
    Ok(())
}

/// How much memory accelerators alone would need: the same problem with sizes for times.
fn least_size(problem: &PlacementProblem, go_on: &mut dyn FnMut() -> bool) -> PlacementError {
    let mut sizes = problem.clone();
    for node in &mut sizes.nodes {
        node.accelerator_time = node.size;
        node.size = 0.0;
    }
    sizes.output_cost.fill(0.0);
    match solve(&sizes, go_on) {
        Ok(answer) => PlacementError::PartsTooLarge {
            needed: answer.lower_bound,
            accelerators: problem.accelerators,
            limit: problem.size_limit,
        },
        Err(error) => error,
    }
}

struct Progress<'a> {
    problem: &'a PlacementProblem,
    atoms: &'a Atoms,
    /// The same problem in several orders.
    instances: Vec<Instance>,
    /// Largest load and parts.
    best: Option<(u64, Parts)>,
    lower: u64,
}

impl<'a> Progress<'a> {
    fn new(problem: &'a PlacementProblem, atoms: &'a Atoms) -> Progress<'a> {
        let sum = |f: fn(&Atom) -> f64| atoms.atoms.iter().map(f).sum::<f64>();
        let largest = if problem.cpus > 0 {
            sum(|a| a.cpu)
        } else {
            sum(|a| a.accelerator) + atoms.nets.iter().map(|n| n.1).sum::<f64>()
        };
        let mut state = Progress {
            problem,
            atoms,
            instances: Vec::new(),
            best: None,
            lower: 0,
        };
        state.quantise(largest);
        state
    }

    /// Makes the instances, for loads up to `largest`.
    fn quantise(&mut self, largest: f64) {
        let make = |order: &Vec<usize>| Instance::new(self.problem, self.atoms, order, largest);
        self.instances = orders(self.atoms).iter().map(make).collect();
        self.best = None;
        let instance = &self.instances[0];
        self.lower = lower_bound(instance, &Reliefs::new(instance));
        let all: Vec<usize> = (0..instance.len()).collect();
        if instance.cpus > 0 {
            self.best = Some((
                instance.cpu.iter().sum(),
                vec![(DeviceKind::Cpu, all.clone())],
            ));
        }
        let work = instance.accelerator.iter().sum();
        if instance.accelerators > 0
            && instance.supported.iter().all(|&s| s)
            && instance.size.iter().sum::<u64>() <= instance.size_limit
            && self.best.as_ref().is_none_or(|(load, _)| work < *load)
        {
            self.best = Some((work, vec![(DeviceKind::Accelerator, all)]));
        }
    }

    /// Whether the outcome is proven.
    fn run(&mut self, go_on: &mut dyn FnMut() -> bool) -> bool {
        self.chains(go_on);
        // One huge time that nobody needs must not make the others look alike: count more finely.
        for _ in 0..64 {
            let instance = &self.instances[0];
            let coarse = |(load, _): &(u64, Parts)| *load < instance.ceiling >> 10;
            let Some((load, _)) = self.best.as_ref().filter(|best| coarse(best)) else {
                break;
            };
            let largest = instance.quantum.value(load + instance.rounding());
            if largest == 0.0 {
                break;
            }
            self.quantise(largest);
            self.chains(go_on);
        }
        if self.closed() {
            return true;
        }
        let mut lattice = Lattice::new(&self.instances[0], usize::MAX, FEW, go_on);
        if matches!(lattice, Err(NoLattice::TooMany)) {
            for window in [3, 6, 12] {
                self.windows(window, FEW, go_on);
            }
            lattice = Lattice::new(&self.instances[0], usize::MAX, MANY, go_on);
        }
        match lattice {
            Ok(lattice) => self.climb(0, &lattice, true, go_on),
            Err(NoLattice::Stopped) => self.closed(),
            Err(NoLattice::TooMany) => {
                let mut window = 2;
                while self.windows(window, MANY, go_on) && !self.closed() && go_on() {
                    window += 1 + window / 3;
                }
                self.closed()
            }
        }
    }

    fn closed(&self) -> bool {
        self.best
            .as_ref()
            .is_some_and(|(load, _)| *load <= self.lower)
    }

    /// The load that the next answer has to stay below.
    fn cap(&self) -> u64 {
        let instance = &self.instances[0];
        let none = instance.ceiling + instance.rounding() + 1;
        self.best.as_ref().map_or(none, |(load, _)| *load)
    }

    fn chains(&mut self, go_on: &mut dyn FnMut() -> bool) {
        self.windows(1, usize::MAX, go_on);
    }

    /// Searches the lattices of one window; false if none could be listed.
    fn windows(&mut self, window: usize, limit: usize, go_on: &mut dyn FnMut() -> bool) -> bool {
        let mut any = false;
        for i in 0..self.instances.len() {
            let Ok(lattice) = Lattice::new(&self.instances[i], window, limit, go_on) else {
                continue;
            };
            any = true;
            self.climb(i, &lattice, false, go_on);
        }
        any
    }

    /// Keeps a better placement.
    fn keep(&mut self, instance: usize, outcome: SearchResult) {
        if let SearchResult::Best(load, parts) = outcome {
            let origin = &self.instances[instance].origin;
            let atoms = |part: Vec<u32>| part.into_iter().map(|a| origin[a as usize]).collect();
            let parts = parts
                .into_iter()
                .map(|(kind, part)| (kind, atoms(part)))
                .collect();
            self.best = Some((load, parts));
        }
    }

    /// Searches below caps that grow from the lower bound to the best known load. Only the `whole`
    /// lattice proves anything when it holds nothing. False if the caller wants to stop.
    fn climb(
        &mut self,
        instance: usize,
        lattice: &Lattice,
        whole: bool,
        go_on: &mut dyn FnMut() -> bool,
    ) -> bool {
        let reliefs = Reliefs::new(&self.instances[instance]);
        let (top, mut cap) = (self.cap(), self.lower);
        let share = if whole { 256 } else { 32 };
        let mut step = (self.lower / share).max(top >> 12).max(1);
        loop {
            cap = cap.saturating_add(step).min(top);
            step = step.saturating_mul(2);
            match search(&self.instances[instance], lattice, &reliefs, cap, go_on) {
                SearchResult::Stopped => return false,
                SearchResult::None if cap == top => return true,
                SearchResult::None if whole => self.lower = cap,
                SearchResult::None => {}
                best => {
                    self.keep(instance, best);
                    return true;
                }
            }
        }
    }
}
